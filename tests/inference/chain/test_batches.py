"""A chain gives the same result for all layouts, threads, dtypes and sizes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest
from cases import Batch, make_batch, run_all

from trellis.inference import chain
from trellis.inference.chain import reference

LENGTHS = [4, 1, 9, 2, 9, 6, 3]
# Values of a padded result after the end of a sequence, or for missing paths.
FILL = {"viterbi.labels": -1, "kbest.labels": -1, "sample": -1}
FILL |= {"max_marginals": -np.inf, "kbest.score": -np.inf, "viterbi_table.back_pointer": -1}
FILL |= dict.fromkeys(["forward.alpha", "backward.beta", "viterbi_table.score"], -np.inf)
TOTALS = ("expected_counts.start", "expected_counts.end")


def same_bits(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_bits, a, b))
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def require_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    different = [name for name in want if not same_bits(got[name], want[name])]
    assert not different, f"not the same to the bit: {different}"


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def run_one_by_one(batch: Batch) -> list[dict[str, Any]]:
    one_stream = rng()  # a batch uses the random numbers of its sequences in order
    return [run_all(chain, batch.one(b), one_stream) for b in range(len(batch.unary))]


def is_total(name: str, batch: Batch) -> bool:
    shared = isinstance(batch.transition, np.ndarray)
    return name in TOTALS or (shared and name == "expected_counts.transition")


def grow(one: Any, shape: tuple[int, ...], fill: float) -> np.ndarray:
    """Pad the result of one sequence to the shape of the batch."""
    one = np.asarray(one)
    padded = np.full(shape, fill, dtype=one.dtype)
    padded[tuple(slice(n) for n in one.shape)] = one
    return padded


@pytest.mark.parametrize("positional", [False, True])
def test_list_padded_and_single_agree(positional: bool, isa: str) -> None:
    batch = make_batch(1, LENGTHS, n_labels=5, positional=positional)
    singles = run_one_by_one(batch)
    listed = run_all(chain, batch.as_list(), rng())
    padded = run_all(chain, batch.padded(), rng())
    for name in listed:
        if is_total(name, batch):
            assert same_bits(listed[name], padded[name]), name
            total = np.sum([one[name] for one in singles], axis=0)
            np.testing.assert_allclose(listed[name], total, rtol=1e-12, atol=1e-14, err_msg=name)
            continue
        for b, one in enumerate(singles):
            assert same_bits(listed[name][b], one[name]), f"{name}, sequence {b} of the list"
            want = grow(one[name], np.shape(padded[name][b]), FILL.get(name, 0))
            assert same_bits(padded[name][b], want), f"{name}, padded sequence {b}"


def test_result_layouts() -> None:
    """Results have the documented shapes and types."""
    batch = make_batch(2, LENGTHS, n_labels=5, positional=True)
    n, longest = len(LENGTHS), max(LENGTHS) + 2
    padded = run_all(chain, batch.padded(), rng(), k=4, n=3)
    shapes = {
        "score": (n,),
        "log_partition": (n,),
        "log_prob": (n,),
        "entropy": (n,),
        "sample": (n, 3, longest),
        "max_marginals": (n, longest, 5),
        "marginals.unary": (n, longest, 5),
        "marginals.pairwise": (n, longest - 1, 5, 5),
        "marginals.log_partition": (n,),
        "expected_counts.unary": (n, longest, 5),
        "expected_counts.transition": (n, longest - 1, 5, 5),
        "expected_counts.start": (5,),
        "expected_counts.end": (5,),
        "viterbi.labels": (n, longest),
        "viterbi.score": (n,),
        "kbest.labels": (n, 4, longest),
        "kbest.score": (n, 4),
        "forward.alpha": (n, longest, 5),
        "forward.log_partition": (n,),
        "backward.beta": (n, longest, 5),
        "backward.log_partition": (n,),
        "viterbi_table.score": (n, longest, 5),
        "viterbi_table.back_pointer": (n, longest, 5),
    }
    for name, shape in shapes.items():
        assert padded[name].shape == shape, name
        is_labels = name == "sample" or name.endswith(("labels", "back_pointer"))
        assert padded[name].dtype == (np.int64 if is_labels else np.float64), name
    one = run_all(chain, batch.one(0), rng())
    for name in ("score", "log_partition", "log_prob", "entropy", "viterbi.score"):
        assert isinstance(one[name], float), name
    for name in ("forward.log_partition", "backward.log_partition"):
        assert isinstance(one[name], float), name
    listed = run_all(chain, batch.as_list(), rng())
    for name in ("marginals.unary", "marginals.pairwise", "viterbi.labels", "kbest.labels"):
        assert isinstance(listed[name], list), name


def test_default_lengths_and_tuples() -> None:
    batch = make_batch(3, [6, 6, 6], n_labels=4)
    listed = run_all(chain, batch.as_list(), rng())
    padded = batch.padded(extra=0)
    del padded["lengths"]
    stacked = run_all(chain, padded, rng())
    tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in batch.as_list().items()}
    tupled = run_all(chain, tuples, rng())
    for name, want in listed.items():
        assert same_bits(list(tupled[name]), list(want)), name
        assert same_bits(list(stacked[name]), list(want)), name


def test_positional_transitions_shared_by_a_padded_batch() -> None:
    batch = make_batch(4, LENGTHS, n_labels=4)
    padded = batch.padded()
    longest = padded["unary"].shape[1]
    shared = np.random.default_rng(0).normal(size=(longest - 1, 4, 4))
    once = run_all(chain, padded | {"transition": shared}, rng())
    copies = np.broadcast_to(shared, (len(LENGTHS), *shared.shape))
    copied = run_all(chain, padded | {"transition": copies}, rng())
    total = copied.pop("expected_counts.transition").sum(0)
    np.testing.assert_allclose(once["expected_counts.transition"], total, rtol=1e-12, atol=1e-14)
    require_same(once, copied)


def test_integer_labels_of_any_width() -> None:
    batch = make_batch(5, [7], n_labels=5).one(0)
    want = chain.score(**batch)
    for dtype in (np.int8, np.uint8, np.int32, np.int64):
        assert chain.score(**(batch | {"labels": batch["labels"].astype(dtype)})) == want


@pytest.mark.parametrize("positional", [False, True])
def test_same_bits_for_every_n_jobs(positional: bool) -> None:
    lengths = np.random.default_rng(6).integers(1, 30, size=300).tolist()
    n_labels = 8 if positional else 22
    scores = make_batch(6, lengths, n_labels, positional=positional).as_list()
    alone = run_all(chain, scores | {"n_jobs": 1}, rng())
    for n_jobs in (2, 3, -1, -2, None):
        require_same(run_all(chain, scores | {"n_jobs": n_jobs}, rng()), alone)


def test_same_seed_same_samples() -> None:
    scores = make_batch(7, LENGTHS, n_labels=5).as_list()
    del scores["labels"]
    first = chain.sample(**scores, n=50, random_state=3)
    assert same_bits(chain.sample(**scores, n=50, random_state=3), first)
    assert not same_bits(chain.sample(**scores, n=50, random_state=4), first)
    assert not same_bits(chain.sample(**scores, n=50), chain.sample(**scores, n=50))


def to_float32(value: Any) -> Any:
    if isinstance(value, list):
        return [to_float32(item) for item in value]
    is_float = isinstance(value, np.ndarray) and value.dtype == np.float64
    return value.astype(np.float32) if is_float else value


def to_float64(value: Any) -> Any:
    if isinstance(value, list):
        return [to_float64(item) for item in value]
    is_float = isinstance(value, np.ndarray) and value.dtype == np.float32
    return value.astype(np.float64) if is_float else value


@pytest.mark.parametrize("positional", [False, True])
def test_float32(positional: bool, isa: str) -> None:
    batch = make_batch(9, [30, 12, 1, 25], n_labels=7, positional=positional).as_list()
    single = {name: to_float32(value) for name, value in batch.items()}
    double = {name: to_float64(value) for name, value in single.items()}
    got, want = run_all(chain, single, rng()), run_all(chain, double, rng())
    for name in ("marginals.unary", "marginals.pairwise", "expected_counts.unary"):
        for narrow, wide in zip(got[name], want[name], strict=True):
            assert narrow.dtype == np.float32, name
            np.testing.assert_allclose(narrow, wide, rtol=1e-6, atol=1e-6, err_msg=name)
    for name in ("forward.alpha", "backward.beta", "viterbi_table.score"):
        for narrow, wide in zip(got[name], want[name], strict=True):
            assert narrow.dtype == np.float64, name
            np.testing.assert_allclose(narrow, wide, rtol=1e-12, atol=1e-12, err_msg=name)
    for name in ("score", "log_partition", "log_prob", "entropy", "viterbi.score"):
        assert got[name].dtype == np.float64, name
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-5, err_msg=name)
    mixed = chain.marginals(single["unary"][0], np.zeros((7, 7)))
    assert mixed.unary.dtype == np.float32


def arrays_in(value: Any) -> list[np.ndarray]:
    if isinstance(value, dict):
        return arrays_in(list(value.values()))
    if isinstance(value, list):
        return [array for item in value for array in arrays_in(item)]
    return [value] if isinstance(value, np.ndarray) else []


@pytest.mark.parametrize("layout", ["one", "list", "padded"])
def test_inputs_are_neither_changed_nor_aliased(layout: str) -> None:
    batch = make_batch(10, LENGTHS, n_labels=5, positional=True)
    scores = {"one": batch.one(2), "list": batch.as_list(), "padded": batch.padded()}[layout]
    before = [array.copy() for array in arrays_in(scores)]
    results = run_all(chain, scores, rng())
    again = run_all(chain, scores, rng())
    for array in arrays_in(results):
        assert not any(np.shares_memory(array, argument) for argument in arrays_in(scores))
        array[...] = 99  # changing a result must not change anything else
    assert same_bits(arrays_in(scores), before)
    require_same(run_all(chain, scores, rng()), again)


def strided(array: np.ndarray) -> np.ndarray:
    """Return the same values in every second slot of a larger array."""
    roomy = np.full([2 * n for n in array.shape], 0, dtype=array.dtype)
    view = roomy[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def reversed_strides(array: np.ndarray) -> np.ndarray:
    flip = tuple(slice(None, None, -1) for _ in array.shape)
    return array[flip].copy()[flip]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.empty(array.nbytes + 1, dtype=np.uint8)
    shifted = np.frombuffer(raw.data, dtype=array.dtype, count=array.size, offset=1)
    shifted = shifted.reshape(array.shape)
    shifted[...] = array
    return shifted


@pytest.mark.parametrize(
    "view", [strided, reversed_strides, np.asfortranarray, read_only, unaligned]
)
@pytest.mark.parametrize("layout", ["one", "list", "padded"])
def test_memory_order_does_not_matter(view: Any, layout: str) -> None:
    batch = make_batch(12, LENGTHS, n_labels=5, positional=True)
    scores = {"one": batch.one(2), "list": batch.as_list(), "padded": batch.padded()}[layout]
    viewed = {
        k: [view(a) for a in v] if isinstance(v, list) else view(v) for k, v in scores.items()
    }
    require_same(run_all(chain, viewed, rng()), run_all(chain, scores, rng()))


@cache
def reference_results(n_labels: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compute the reference once for all instruction sets, because it is slow."""
    scores = make_batch(13, [7], n_labels).one(0)
    return scores, run_all(reference, scores, rng())


@pytest.mark.parametrize("n_labels", [1, 2, 7, 8, 9, 16, 17, 33, 64, 130, 257, 300])
def test_many_labels_against_the_reference(n_labels: int, isa: str) -> None:
    """The numbers of labels are around and above the widths of registers and cache blocks."""
    scores, want = reference_results(n_labels)
    got = run_all(chain, scores, rng())
    for name, value in want.items():
        if name in ("viterbi.labels", "kbest.labels", "sample", "viterbi_table.back_pointer"):
            continue  # ties and random numbers may differ; the scores are compared
        np.testing.assert_allclose(got[name], value, rtol=1e-10, atol=1e-10, err_msg=name)
    unlabelled = {k: v for k, v in scores.items() if k != "labels"}
    path = got["viterbi.labels"]
    assert chain.score(**unlabelled, labels=path) == pytest.approx(got["viterbi.score"], rel=1e-12)
    for path, score in zip(got["kbest.labels"], got["kbest.score"], strict=True):
        assert chain.score(**unlabelled, labels=path) == pytest.approx(score, rel=1e-10)
    assert all(np.isfinite(chain.score(**unlabelled, labels=path)) for path in got["sample"])


def test_long_sequence_against_the_reference(isa: str) -> None:
    scores = make_batch(14, [20_000], n_labels=3).one(0)
    del scores["labels"]
    got, want = chain.marginals(**scores), reference.marginals(**scores)
    assert got.log_partition == pytest.approx(want.log_partition, rel=1e-12)
    # In log space each step rounds at the size of log Z, so the tolerance is above 1e-10.
    np.testing.assert_allclose(got.unary, want.unary, atol=1e-8)
    np.testing.assert_allclose(got.pairwise, want.pairwise, atol=1e-8)
    assert chain.entropy(**scores) == pytest.approx(reference.entropy(**scores), rel=1e-9)
    assert chain.viterbi(**scores).score == pytest.approx(reference.viterbi(**scores).score)


def test_long_sequence_whose_only_paths_underflow(isa: str) -> None:
    """Label 0 is 10 nats better in every step but a dead end; 1 -> 2 must happen exactly once.

    T - 1 paths of score -10 T remain: log Z, marginals and entropy in closed form.
    """
    length, forbidden = 20_000, -np.inf
    unary = np.tile([0.0, -10.0, -10.0], (length, 1))
    transition = np.array(
        [[0.0, forbidden, forbidden], [forbidden, 0.0, 0.0], [forbidden, forbidden, 0.0]]
    )
    start, end = np.array([0.0, 0.0, forbidden]), np.array([forbidden, forbidden, 0.0])
    scores = (unary, transition, start, end)
    n_paths = length - 1
    p = chain.marginals(*scores)
    assert p.log_partition == pytest.approx(-10.0 * length + np.log(n_paths), rel=1e-13)
    before_switch = (n_paths - np.arange(length)) / n_paths
    want = np.stack([np.zeros(length), before_switch, 1.0 - before_switch], axis=1)
    np.testing.assert_allclose(p.unary, want, rtol=0, atol=1e-8)
    np.testing.assert_allclose(p.pairwise[:, 1, 2], 1.0 / n_paths, rtol=0, atol=1e-8)
    assert chain.entropy(*scores) == pytest.approx(np.log(n_paths), rel=1e-8)
    assert chain.viterbi(*scores).score == -10.0 * length
    np.testing.assert_array_equal(chain.kbest(*scores, k=3).score, np.full(3, -10.0 * length))
    switches = np.diff(chain.sample(*scores, n=20, random_state=1), axis=1)
    assert (switches.sum(1) == 1).all()
    assert (switches >= 0).all()


def test_threads_agree() -> None:
    batches = [make_batch(20 + i, [5, 40, 1, 17] * 5, n_labels=6).as_list() for i in range(6)]
    alone = [run_all(chain, scores, rng()) for scores in batches]
    with ThreadPoolExecutor(6) as threads:
        jobs = [threads.submit(run_all, chain, scores, rng()) for scores in batches * 4]
        for i, job in enumerate(jobs):
            require_same(job.result(timeout=300), alone[i % len(batches)])


def send_result(connection: Connection, scores: dict[str, Any]) -> None:
    connection.send(run_all(chain, scores, rng()))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_forked_child() -> None:
    """A forked child does not have the threads of its parent, and must not wait for them."""
    scores = make_batch(30, [40] * 200, n_labels=12).as_list() | {"n_jobs": 3}
    alone = run_all(chain, scores, rng())  # start the parent's thread pool
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=send_result, args=(sender, scores))
    child.start()
    sender.close()
    try:
        assert receiver.poll(60), "the child hangs"
        require_same(receiver.recv(), alone)
    finally:
        child.kill()
        child.join()
    require_same(run_all(chain, scores, rng()), alone)
