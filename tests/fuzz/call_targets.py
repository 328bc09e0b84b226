"""Targets without a file: calls of inference functions and of the compiled module, and commands.

The arguments are arrays with wrong shapes, dtypes, strides and byte orders, indices out of range,
NaN and infinities.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import random
from functools import partial
from pathlib import Path
from typing import Any

import mutations
import numpy as np
from foreign_files import crfsuite_model
from fuzz_targets import Target, no_seed, same
from model_targets import FIXTURES
from text_targets import CONLL, CONLLU, JSONL, MARKUP, npy_seeds

from trellis import _core
from trellis.app.cli.main import run_command
from trellis.errors import TrellisError
from trellis.inference import chain, ctc, graph

# The compiled module validates its arguments with these exceptions; Python wraps them.
CORE_ERRORS = (TrellisError, TypeError, ValueError, IndexError, OverflowError, RuntimeError)
SIZES = (0, 1, 1, 2, 2, 3, 3, 3, 5, 17)


def draw_array(rng: random.Random, shape: tuple[int, ...] | None = None) -> Any:
    """Return an array that is often valid, and often has something wrong."""
    if shape is None:
        shape = tuple(rng.choice(SIZES) for _ in range(rng.choice((0, 1, 1, 2, 2, 3))))
    generator = np.random.default_rng(rng.randrange(2**32))
    array: Any = generator.normal(size=shape)
    if rng.random() < 0.3 and array.size:
        values = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 0.0]
        array.flat[rng.randrange(array.size)] = rng.choice(values)
    kind = rng.randrange(10)
    if kind == 0:
        array = array.astype(np.float32)
    elif kind == 1:
        array = np.asfortranarray(array)
    elif kind == 2 and array.ndim:
        array = np.repeat(array, 2, axis=-1)[..., ::2]
    elif kind == 3 and array.ndim:
        array = array[::-1]
    elif kind == 4:
        array = array.astype(rng.choice([">f8", np.float16, np.complex64, np.bool_, object, "U3"]))
    elif kind == 5:
        array = np.broadcast_to(np.zeros(()), shape)
    return array


def draw_integers(rng: random.Random, size: int, bound: int) -> Any:
    """Return integers of 0 to bound - 1, and sometimes one out of range or of another dtype."""
    values = [rng.randrange(max(bound, 1)) for _ in range(size)]
    if values and rng.random() < 0.3:
        values[rng.randrange(size)] = rng.choice([-1, bound, 2**31, 2**62, -(2**63), 2**63 - 1])
    array: Any = np.array(values, np.int64)
    if rng.random() < 0.15:
        array = array.astype(rng.choice([np.int32, np.uint8, np.float64, ">i8", object]))
    return array


def call_chain(path: Path, rng: random.Random) -> None:
    steps, labels = rng.choice((0, 1, 2, 3, 9)), rng.choice((0, 1, 2, 3, 5, 17))
    batch = rng.choice((None, None, 1, 3))
    shape = (steps, labels) if batch is None else (batch, steps, labels)
    arguments: dict[str, Any] = {
        "unary": draw_array(rng, shape if rng.random() < 0.9 else None),
        "transition": draw_array(rng, (labels, labels) if rng.random() < 0.9 else None),
    }
    for name in ("start", "end"):
        if rng.random() < 0.4:
            arguments[name] = draw_array(rng, (labels,) if rng.random() < 0.9 else None)
    if batch is not None and rng.random() < 0.7:
        arguments["lengths"] = draw_integers(rng, batch, steps + 1)
    if rng.random() < 0.3:
        arguments["n_jobs"] = rng.choice([1, 0, -1, 2, "two", 1.5])
    name = rng.choice([n for n in chain.__all__ if n[0].islower()])
    if name in ("score", "log_prob"):
        arguments["labels"] = draw_integers(rng, steps, labels)
    if name == "kbest":
        # All paths of 9 steps with 5 labels are a valid answer, but it takes 400 MB.
        largest = 5 if labels**steps == 5**9 else 2**40
        arguments["k"] = rng.choice([1, 2, 5, 0, -1, largest, 1.5])
    if name == "sample":
        arguments |= {"size": rng.choice([1, 3, 0, -1]), "random_state": 0}
    function = getattr(chain, name)
    known = inspect.signature(function).parameters
    if "size" in arguments and "size" not in known:
        key = next((k for k in known if k in ("n", "n_samples", "count", "k")), None)
        size = arguments.pop("size")
        if key:
            arguments[key] = size
    function(**arguments)


def call_ctc(path: Path, rng: random.Random) -> None:
    frames, labels = rng.choice((0, 1, 2, 4, 9)), rng.choice((0, 1, 2, 3, 5))
    scores = draw_array(rng, (frames, labels) if rng.random() < 0.9 else None)
    options: dict[str, Any] = {"blank": rng.choice([0, 0, 0, labels - 1, -1, 99])}
    if rng.random() < 0.2:
        options["lengths"] = draw_integers(rng, 1, frames + 1)
    targets = draw_integers(rng, rng.choice((0, 1, 2, 3)), labels)
    name = rng.choice(["loss", "posterior", "align", "greedy", "beam_search"])
    if name in ("loss", "posterior", "align"):
        getattr(ctc, name)(scores, targets, **options)
    elif name == "greedy":
        ctc.greedy(scores, **options)
    else:
        width = rng.choice([1, 2, 10, 0, -1, 300])  # a search takes memory by its width
        ctc.beam_search(scores, beam_width=width, k=rng.choice([1, 2, 0, 50]), **options)


def call_graph(path: Path, rng: random.Random) -> None:
    count = rng.choice((0, 1, 2, 3, 4))
    sizes = [rng.choice((1, 2, 2, 3, 0)) if rng.random() < 0.1 else 2 for _ in range(count)]
    factors = []
    for _ in range(rng.choice((0, 1, 2, 4))):
        scope = draw_integers(rng, rng.choice((1, 1, 2, 2, 3)), count)
        indices = [int(v) for v in scope]
        shape = tuple(sizes[v] if 0 <= v < count else 2 for v in indices)
        factors.append((scope, draw_array(rng, shape if rng.random() < 0.9 else None)))
    model = graph.FactorGraph(sizes, factors)
    methods = ["exact", "bp", "trw", "mean-field", "icm", "cut", "gibbs", "max-product", "nonsense"]
    function = rng.choice([graph.marginals, graph.log_partition, graph.best])
    function(model, rng.choice(methods))


def call_grid(path: Path, rng: random.Random) -> None:
    shape = (rng.choice((0, 1, 2, 4)), rng.choice((1, 2, 3)), rng.choice((1, 2, 3)))
    scores = [draw_array(rng, shape)] + [draw_array(rng, (shape[2],) * 2) for _ in range(2)]
    if rng.random() < 0.1:
        scores[rng.randrange(3)] = draw_array(rng)
    rng.choice([graph.grid_marginals, graph.grid_best])(*scores)


# ---- the compiled module, without the checks of Python

SKIPPED = {
    "embedding_table",  # allocates what its arguments say
    "use_isa",  # changes the process
}


def core_calls() -> list[Any]:
    """Return every function and class of the compiled module."""
    names = [n for n in dir(_core) if n[0] != "_" and n not in SKIPPED]
    return [getattr(_core, n) for n in names if callable(getattr(_core, n))]


def draw_argument(rng: random.Random) -> Any:
    """Return a value that some function of the compiled module takes."""
    kind = rng.randrange(12)
    if kind < 4:
        return draw_array(rng)
    if kind < 6:
        return draw_integers(rng, rng.choice(SIZES), 4)
    if kind == 6:
        array = draw_integers(rng, rng.choice(SIZES), 4)
        dtype = rng.choice([np.int32, np.uint8, np.uint16, np.uint32, np.bool_, np.int8])
        return array.astype(dtype, casting="unsafe") if array.dtype != object else array
    return rng.choice([
        None, True, False, 0, 1, 1, 2, 3, -1, 2**31, 2**63, 0.5, float("nan"), b"", b"a b\n1 2\n",
        "w", [], [[]], ["a", "b"], [b"a"], [np.zeros((2, 2))], [(0, "", 0)], {"a": 1.0}, (),
    ])  # fmt: skip


def call_core(path: Path, rng: random.Random) -> None:
    """Call a function with arguments of random types and as many as its documentation names."""
    function = rng.choice(CORE)
    count = ARGUMENTS.get(function, rng.randrange(8))
    function(*(draw_argument(rng) for _ in range(count)))


def count_arguments(function: Any) -> int | None:
    """Return the number of parameters in the signature that nanobind writes into __doc__."""
    target = function.__init__ if isinstance(function, type) else function
    text = (target.__doc__ or "").partition("\n")[0]
    if "(" not in text:
        return None
    names = [part for part in text.split("(", 1)[1].split(", ") if ":" in part]
    return len(names)


CORE: list[Any] = core_calls()
ARGUMENTS = {f: n for f in CORE if (n := count_arguments(f)) is not None}


def call_core_typed(path: Path, rng: random.Random) -> None:
    """Call functions with arguments of the right dtypes and inconsistent sizes and indices."""
    size = rng.choice(SIZES)

    def doubles(*shape: int) -> Any:
        return np.ascontiguousarray(np.random.default_rng(rng.randrange(99)).normal(size=shape))

    def integers(count: int, bound: int) -> Any:
        values = draw_integers(rng, max(count, 0), bound)
        return np.ascontiguousarray(values.astype(np.int64)) if values.dtype != object else values

    def near(number: int) -> int:
        return max(0, number + rng.choice((0, 0, 0, 0, -1, 1)))

    def rows() -> Any:
        begin = np.cumsum(integers(near(size + 1), 3))
        ids = integers(near(int(begin[-1]) if len(begin) and 0 <= begin[-1] < 99 else 3), 4)
        return _core.SparseRows(begin - (begin[0] if len(begin) else 0), ids.astype(np.int32), None)

    def layout() -> Any:
        begin = np.array([0, 1, 2, 3, near(4)], np.int64)
        return _core.WeightLayout(near(2), begin, integers(near(4), 2).astype(np.uint16),
                                  np.arange(near(4), dtype=np.int32), None, None)  # fmt: skip

    data = np.frombuffer(b"abcabd", np.uint8)
    float32 = np.float32
    calls: list[Any] = [
        lambda: _core.make_cqdb(data, integers(near(3), 7)),
        lambda: _core.repeated(data, integers(near(3), 7), integers(near(3), 4)),
        lambda: _core.split_weights(integers(near(3), 9), doubles(near(3)), integers(near(4), 9),
                                    np.ones(near(3), np.uint8), np.zeros(near(3), np.uint8),
                                    near(2)),
        lambda: _core.WeightReader(True, integers(near(3), 3), doubles(near(3))).feed(b"1=2\n2=x"),
        lambda: _core.Scorer(layout(), doubles(near(8))).scores(rows(), 1, doubles(near(size), 2)),
        lambda: _core.seen(rows(), near(4), near(2), integers(near(size), 2).astype(np.int32), None,
                           None, 0.0),
        lambda: _core.nearest(doubles(4, 3).astype(float32), doubles(near(4)).astype(float32),
                              doubles(near(2), near(3)).astype(float32), 1,
                              np.zeros((2, near(2)), float32), np.zeros((2, near(2)), np.int64)),
        lambda: _core.row_means(doubles(4, 3).astype(float32), integers(near(3), 4),
                                integers(near(4), 4).astype(np.int32),
                                np.zeros((near(2), near(3)), float32), 1),
        lambda: _core.huffman(integers(size, 9)),
        lambda: _core.alias_cells(doubles(size)),
        lambda: _core.subword_ids(["a", "é日"], near(2), near(3), near(5)),
        lambda: _core.vector_rows(b"a 1 2\nb 3 x\n", rng.random() < 0.5,
                                  np.zeros((near(2), near(2)), float32)),
        lambda: _core.largest_windows(integers(near(6), 4), doubles(near(4), 3).astype(float32),
                                      np.zeros((near(2), near(3)), float32),
                                      np.zeros((near(2), near(3)), np.int32)),
        lambda: _core.fill_padding(doubles(2, near(3), 2), integers(near(2), 4), near(1), 0.0, 1),
        lambda: _core.dot(doubles(near(3)), doubles(near(3)), 1),
        lambda: _core.ChainFloat64(doubles(near(4), 2), integers(near(2), 4), integers(near(2), 4),
                                   doubles(2, near(2)), None, None, None, 1)
        .log_partition(np.zeros(near(2)), np.zeros((near(2), 2), np.int64)),
        lambda: _core.Graph(integers(near(3), 3), integers(near(3), 5), integers(near(4), 3),
                            integers(near(2), 9)).plan(1e6),
    ]  # fmt: skip
    rng.choice(calls)()


# ---- commands

COMMANDS: dict[str, list[str]] = {
    "tag": ["tag", "{file}", "{text}"],
    "inspect": ["inspect", "{file}"],
    "eval": ["eval", str(FIXTURES / "crf-window.trellis"), "{file}"],
    "convert": ["convert", "{file}", "{out}"],
    "label": ["tag", str(FIXTURES / "crf-window.trellis"), "{file}", "--jobs", "1"],
    "check": ["check", "{file}"],
    "train": ["train", "{file}", "-o", "{out}", "--max-iter", "2", "--jobs", "1", "-q"],
    "decode": ["ctc", "decode", "{file}", "--labels", "{labels}"],
}


def command_seeds(name: str) -> list[bytes]:
    if name == "decode":
        return npy_seeds()
    if name in ("eval", "label", "check", "train"):
        return [CONLL, CONLLU, JSONL.splitlines(keepends=True)[0] * 2, MARKUP]
    models = ("crf.trellis", "hmm.trellis", "crf-window.trellis")
    return [*((FIXTURES / model).read_bytes() for model in models), crfsuite_model()]


def run_damaged(name: str, path: Path, rng: random.Random) -> None:
    """Run a command: it returns an exit code and prints one line, whatever the file contains."""
    files = {"text": b"the dog\n", "labels": b"\na\n|\n", "out": b""}
    for key, content in files.items():
        path.with_name(key).write_bytes(content)
    paths = {"file": path} | {key: path.with_name(key) for key in files}
    words = [word.format(**paths) for word in COMMANDS[name]]
    output, errors = io.StringIO(), io.StringIO()
    output.buffer = io.BytesIO()  # type: ignore[misc, attr-defined]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            code = run_command(words)
        except SystemExit as exit:  # Typer exits for wrong words
            code = exit.code
    assert code in (0, 1, 2), f"exit code {code}: {errors.getvalue()[-200:]}"


def mutate_command_file(data: bytes, rng: random.Random) -> bytes:
    native = data[8:9] == b"{"
    return (mutations.mutate_native if native else mutations.mutate_text)(data, rng)


def targets() -> list[Target]:
    """Return all targets of this file."""
    commands = [
        Target(f"command {name}", partial(command_seeds, name), mutate_command_file,
               partial(run_damaged, name), cases=8)
        for name in COMMANDS
    ]  # fmt: skip
    return [
        Target("chain calls", no_seed, same, call_chain, cases=150),
        Target("CTC calls", no_seed, same, call_ctc, cases=150),
        Target("graph calls", no_seed, same, call_graph, cases=80),
        Target("grid calls", no_seed, same, call_grid, cases=80),
        Target("core calls", no_seed, same, call_core, allowed=CORE_ERRORS, cases=300),
        Target("core calls, typed", no_seed, same, call_core_typed, allowed=CORE_ERRORS, cases=300),
        *commands,
    ]
