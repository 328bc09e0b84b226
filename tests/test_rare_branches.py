"""Branches that no test of a module runs: texts of errors, empty inputs, other systems."""

from __future__ import annotations

import dataclasses
import os
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import trellis
from trellis import native
from trellis.app import streams
from trellis.app.cli.words.embed import _save
from trellis.compat.gensim.keyed import Keyed
from trellis.compat.gensim.models.fasttext import load_facebook_vectors
from trellis.compat.pycrfsuite.task import Task
from trellis.compat.pycrfsuite.trainer import BaseTrainer, CRFSuiteError
from trellis.compat.pycrfsuite.training import _ROUNDING, _end_message
from trellis.compat.sklearn_crfsuite.trainer import LinePerIterationTrainer
from trellis.data import atomic, compressed
from trellis.data.atomic import replacing
from trellis.embeddings.model import EmbeddingModel
from trellis.errors import FormatError, InputError
from trellis.estimator import LightEstimator
from trellis.features import names
from trellis.formats import gensim, native_header
from trellis.formats.fasttext import Args, FastTextFile
from trellis.formats.fasttext import write as write_fasttext
from trellis.inference.chain import expected_counts
from trellis.inference.graph.flow import minimum_cut
from trellis.models import crfsuite as crfsuite_weights
from trellis.models.regression.softmax import SoftmaxRegression
from trellis.optim.gradient import GradientState
from trellis.plots.shapes import estimate_width
from trellis.sequences import _as_sequence, sequences


@pytest.mark.parametrize(("cores", "expected"), [(None, 1), (7, 7)])
def test_cores_where_the_system_does_not_tell(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, expected: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert native._count_usable_cores() == expected


def test_a_closed_stream_whose_number_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(streams.sys, "stdin", None)
    monkeypatch.setattr(streams, "_closed", [])
    monkeypatch.setattr(
        streams,
        "os",
        SimpleNamespace(
            devnull=os.devnull,
            open=lambda *arguments: 77,
            dup2=lambda *numbers: calls.append(("dup2", *numbers)),
            close=lambda *numbers: calls.append(("close", *numbers)),
        ),
    )
    streams.reopen_closed()
    assert calls == [("dup2", 77, 0), ("close", 77)]
    assert streams._closed == ["standard input"]
    assert streams.sys.stdin is not None


def test_memory_errors_of_a_decompressor_stay() -> None:
    stream = compressed._Streams.__new__(compressed._Streams)

    def fail(data: bytes, size: int) -> bytes:
        raise MemoryError

    stream._stream = SimpleNamespace(eof=False, needs_input=False, decompress=fail)
    with pytest.raises(MemoryError):
        stream.read(1)


def test_all_splits_of_a_name() -> None:
    assert names.cut("a=b", ("x", "")) == []
    assert names.cut("a=b", ("a=b",)) == [()]
    assert names.cut("a=bc", ("a=b",)) == []
    assert names.cut("a=b=c", ("", "=", "")) == [("a", "b=c"), ("a=b", "c")]
    assert names.cut("ab", ("a", "b")) == [("",)]
    assert names.cut("a", ("a", "a")) == []


@pytest.mark.parametrize("length", [200, 201])
def test_names_of_temporary_files(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("x" * length)
    prefix = atomic._make_prefix(path)
    assert (prefix == f".{path.name}.") is (length == 200)
    assert len(prefix) == (202 if length == 200 else 66)
    with replacing(path) as file:
        file.write(b"1")
        (temporary,) = tmp_path.iterdir()
        assert temporary.name.startswith(prefix)
    assert [*tmp_path.iterdir()] == [path]


def test_arrays_of_gensim_that_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(FormatError, match="not a regular file \\(a pipe, a device or a folder\\)"):
        gensim._map_array(str(tmp_path / "x.npy"))


def test_tensors_with_many_axes() -> None:
    max_axes = native_header._MAX_AXES
    arrays = {"x": np.zeros((1,) * max_axes)}
    assert native_header.lay_out(arrays) == arrays
    with pytest.raises(InputError, match=f"tensor 'x' has {max_axes + 1} axes: at most {max_axes}"):
        native_header.lay_out({"x": np.zeros((1,) * (max_axes + 1))})


def test_weights_that_are_not_numbers() -> None:
    with pytest.raises(InputError, match="weights must be numbers, not 'heavy'"):
        expected_counts(np.zeros((1, 2, 2)), np.zeros((2, 2)), weights="heavy")


def test_a_crfsuite_model_without_labels() -> None:
    with pytest.raises(FormatError, match="the model has no labels"):
        crfsuite_weights.read_weights(SimpleNamespace(labels=[]))


def test_a_softmax_regression_has_two_classes() -> None:
    assert SoftmaxRegression._coef_rows(2) == 2
    with pytest.raises(InputError, match="classes has one label: a SoftmaxRegression needs two"):
        SoftmaxRegression._coef_rows(1)


@pytest.mark.parametrize("step", [np.nan, np.inf])
def test_states_with_an_infinite_step(step: float) -> None:
    arrays = {"w": np.zeros(2), "step": np.array([step]), "counts": np.array([1, 1])}
    with pytest.raises(InputError, match=f"gradient descent: the step is {step}"):
        GradientState.from_arrays(arrays)


def test_combining_characters_have_no_width() -> None:
    assert estimate_width("e\u0301", 10) == estimate_width("e", 10) == pytest.approx(5.7)
    assert estimate_width("日", 10) == 10.0


def test_nothing_to_cut() -> None:
    labels = minimum_cut(np.zeros(0), np.zeros((0, 2), np.int64), np.zeros(0))
    assert (labels.tolist(), labels.dtype) == ([], np.int64)


def test_open_files_are_not_sequences(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with open(tmp_path / "x") as file, pytest.raises(InputError, match="X is an open file: must"):
        sequences(file)


def test_vocabularies_of_gensim_are_refused() -> None:
    with pytest.raises(InputError, match="fvocab is not supported here: use KeyedVectors of"):
        Keyed.load_word2vec_format("x", fvocab="y")


def test_parts_of_vectors() -> None:
    vectors = trellis.Vectors(["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]], np.float32))
    _, tensors = vectors.to_parts()
    assert any(np.array_equal(array, vectors.matrix) for array in tensors.values())


def test_models_of_embeddings_have_a_table() -> None:
    with pytest.raises(NotImplementedError):
        EmbeddingModel._make_row_table(SimpleNamespace())  # type: ignore[arg-type]


@dataclasses.dataclass
class Saved:
    calls: list[Any]

    def quantize(self) -> Saved:
        self.calls.append("quantize")
        return self

    def save_fasttext(self, path: Path) -> None:
        self.calls.append(path)


def test_small_files_are_quantized() -> None:
    model = Saved([])
    _save(model, Path("m.ftz"))
    assert model.calls == ["quantize", Path("m.ftz")]


# ---- CRFsuite


def test_messages_of_crfsuite(capsys: pytest.CaptureFixture[str]) -> None:
    error = CRFSuiteError(7)
    assert (error.code, str(error)) == (7, "Unexpected error 7")
    BaseTrainer(verbose=True).message("a\n")
    BaseTrainer(verbose=False).message("b\n")
    assert capsys.readouterr().out == "a\n"
    trainer = LinePerIterationTrainer(verbose=False)
    trainer.on_prepare_error("log\n")
    assert capsys.readouterr().out == "log\n"
    info: dict[str, Any] = {"num": 3, "time": 0.5, "loss": 1.25, "active_features": 9}
    info |= {"feature_norm": 2.5}
    info |= {"avg_precision": 0.1, "avg_recall": 0.2, "avg_f1": 0.3}
    info |= {"item_accuracy_float": 0.4, "instance_accuracy_float": 0.6}
    trainer.on_iteration("", info)
    assert capsys.readouterr().out == (
        "Iter 3   time=0.50  loss=1.25     active=9     precision=0.100  recall=0.200  F1=0.300  "
        "Acc(item/seq)=0.400 0.600  feature_norm=2.50\n"
    )
    trainer.on_iteration("", {"num": 10, "time": 1.0})
    assert capsys.readouterr().out == "Iter 10  time=1.00  loss=nan\n"


@pytest.mark.parametrize(
    ("converged", "gradient", "limit", "message"),
    [
        (True, 0.5, 0, "resulted in convergence"),
        (True, 0.6, 0, "terminated with the stopping criteria"),
        (False, 0.5, 3, "terminated with the maximum number of iterations"),
        (False, 0.5, 4, f"terminated with error code ({_ROUNDING})"),
        (False, 0.5, 0, f"terminated with error code ({_ROUNDING})"),
    ],
)
def test_ends_of_lbfgs(converged: bool, gradient: float, limit: int, message: str) -> None:
    task: Any = SimpleNamespace(parameters={"epsilon": 0.5, "max_iterations": limit})
    result: Any = SimpleNamespace(converged=converged, n_iter=3)
    assert _end_message(result, gradient, task) == message


def test_a_holdout_without_sequences() -> None:
    for holdout in (None, SimpleNamespace(lengths=[])):
        task: Any = SimpleNamespace(holdout=holdout)
        labels = Task.tag(task, np.zeros(0))
        assert (labels.tolist(), labels.dtype) == ([], np.int64)


def test_inner_parameters() -> None:
    class Inner(LightEstimator):
        def __init__(self, a: int = 1) -> None:
            self.a = a

    class Outer(LightEstimator):
        def __init__(self, inner: Any = None, b: int = 2) -> None:
            self.inner, self.b = inner, b

    outer = Outer(Inner())
    assert outer.set_params(inner__a=5, b=3) is outer
    assert (outer.inner.a, outer.b) == (5, 3)
    assert outer.get_params(deep=True)["inner__a"] == 5
    assert "inner__a" not in outer.get_params(deep=False)
    with pytest.raises(InputError, match="'x' is not a parameter of Outer: must be one of b,"):
        outer.set_params(x__a=1)


def test_functions_in_solver_options_are_not_stored(tmp_path: Path) -> None:
    options = {"linesearch": "backtracking", "memory": 3}
    model = trellis.CRF(solver_options=options, max_iter=1).fit([["a"]], [["x"]])
    model.solver_options = {**options, "callback": print}
    model.save(tmp_path / "m.trellis")
    assert trellis.load(tmp_path / "m.trellis").solver_options == options


def test_words_of_fasttext_that_are_not_utf8(tmp_path: Path) -> None:
    args = Args(dim=1, bucket=0, maxn=0, model="sg")
    matrix = np.ones((2, 1), np.float32)
    file = FastTextFile(
        args, [b"a", b"\xff"], np.array([2, 1]), [], np.zeros(0, np.int64), 3, matrix, matrix
    )
    write_fasttext(tmp_path / "m.bin", file)
    with pytest.raises(FormatError, match=r"word 1 is b'\\xff', which is not UTF-8: pass errors="):
        trellis.Vectors.load(tmp_path / "m.bin")
    assert trellis.Vectors.load(tmp_path / "m.bin", errors="replace").words == ["a", "\ufffd"]
    assert trellis.Vectors.load(tmp_path / "m.bin", limit=1).words == ["a"]


# ---- decompression, vectors of fastText


def test_zstd_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"zstd files need a package: pip install zstandard$"):
        compressed._new_zstd()
    module: Any = types.ModuleType("compression")
    module.zstd = SimpleNamespace(ZstdDecompressor=lambda: "a decompressor")
    monkeypatch.setitem(sys.modules, "compression", module)
    assert compressed._new_zstd() == "a decompressor"


def test_vectors_of_a_fasttext_file(tmp_path: Path) -> None:
    matrix = np.array([[1.0], [2.0]], np.float32)
    counts, no_counts = np.array([2, 1]), np.zeros(0, np.int64)
    args = Args(dim=1, bucket=0, maxn=0)
    file = FastTextFile(args, [b"a", b"b"], counts, [], no_counts, 3, matrix, matrix)
    write_fasttext(tmp_path / "m.bin", file)
    vectors = load_facebook_vectors(tmp_path / "m.bin")
    assert vectors["b"].tolist() == [2.0]
    with pytest.raises(InputError, match="encoding is 'latin1': must be utf-8, as in fastText's"):
        load_facebook_vectors(tmp_path / "m.bin", encoding="latin1")
    args = Args(dim=1, bucket=1, minn=1, maxn=1)  # the sum of a word's two rows overflows
    rows = np.full((3, 1), 3e38, np.float32)
    file = FastTextFile(args, [b"a", b"b"], counts, [], no_counts, 3, rows, matrix)
    write_fasttext(tmp_path / "m.bin", file)
    with pytest.raises(FormatError, match=r"m.bin: the mean of a word's rows is inf"):
        trellis.Vectors.load(tmp_path / "m.bin")


def test_sequences_of_several_types() -> None:
    numbers = np.zeros((2, 1))
    X = sequences([["a"], ("b", "c"), iter(["d"]), numbers])
    assert X[:3] == [["a"], ("b", "c"), ["d"]]
    assert X[3] is numbers
    assert _as_sequence(["a"], 0, []) == ["a"]
