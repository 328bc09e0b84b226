"""`fit(Corpus)`: the model of the same data in memory, with the same bits on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from small_corpora import WORDS, Rows, make_corpus, make_data

from trellis import CRF, MEMM, native
from trellis.data import Corpus
from trellis.engines import Local, storage
from trellis.engines.storage import Shared
from trellis.errors import FormatError, InputError, UnseenLabelWarning
from trellis.features import Window
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.labels import constraints_for
from trellis.models.sharded.encoding import Encoder, Part, ShardData, encode_shard


def hide(y: list[list[Any]]) -> list[list[Any]]:
    """Make labels unknown, or one of two, in the second half of the data only."""
    random = np.random.default_rng(7)
    hidden = [list(labels) for labels in y]
    for labels in hidden[len(y) // 2 :]:
        for t in range(len(labels)):
            kind = random.integers(4)
            if kind == 0:
                labels[t] = None
            elif kind == 1:
                labels[t] = {labels[t], "O"}
    return hidden


def first_letters(x: Any) -> list[list[str]]:
    return [[f"first={word[0]}"] for word in x]


CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "l1": {"l1": 0.2},
    "constraints": {"constraints": "BIO"},
    "min_count": {"min_count": 3, "transitions": "seen"},
    "all": {"states": "all", "min_count": 2},
    "none": {"transitions": "none", "features": Window(words=1)},
    "edges": {"edge_features": first_letters, "min_count": 2, "transitions": "seen"},
    "edges of templates": {"edge_features": Window(words=1), "transitions": "all"},
    "costs": {"label_weight": {"O": 0.5, "B-Q": 3.0}},
    "function": {"features": first_letters},
    "gradient": {"solver": "gradient", "max_iter": 10, "l2": 0.5},
}
MODELS = {"crf": CRF, "memm": MEMM}


def assert_same_model(model: Any, expected: Any, exact: bool) -> None:
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.l2_ == expected.l2_
    assert model.features_.names() == expected.features_.names()
    assert model.features_.names(edge=True) == expected.features_.names(edge=True)
    for name, tensor in expected.layout_.to_tensors().items():
        np.testing.assert_array_equal(model.layout_.to_tensors()[name], tensor)
    if exact:
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.objective_ == expected.objective_
        assert model.losses_ == expected.losses_
    else:
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=0, atol=1e-7)
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-12)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_partial", [False, True])
def test_equals_fit_in_memory(name: str, kind: str, is_partial: bool) -> None:
    X, y = make_data()
    y = hide(y) if is_partial else y
    # Few iterations: the solver would amplify the difference of the last bits.
    settings = {"max_iter": 8, **CASES[name]}
    expected = MODELS[kind](**settings).fit(X, y)
    assert_same_model(MODELS[kind](**settings).fit(make_corpus(X, y, 1)), expected, exact=True)
    models = [
        MODELS[kind](**settings).fit(make_corpus(X, y, 7), engine=engine)
        for engine in (Local(1), Local(2), Local(3))
    ]
    for model in models:
        assert_same_model(model, expected, exact=False)
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        assert model.losses_ == models[0].losses_


PARAMETERS: dict[str, Any] = {
    "features": Window(words=1),
    "edge_features": first_letters,
    "joint": None,  # refused, in test_bad_arguments
    "order": None,  # refused, in test_bad_arguments
    "l2": 3.0,
    "l1": 0.5,
    "solver": "gradient",
    "solver_options": {"memory": 2},
    "max_iter": 3,
    "states": "all",
    "transitions": "none",
    "min_count": 4,
    "constraints": [("O", "I-P")],
    "label_weight": {"O": 0.2},
    "scoring": "sequence_accuracy",
    "early_stopping": 1,
    "warm_start": None,  # test_warm_start_with_new_labels_and_words
    "n_jobs": None,  # the same bits for each number, in test_equals_fit_in_memory
    "random_state": None,  # only online solvers use it
    "verbose": None,  # only progress
}


def test_every_parameter_has_its_effect() -> None:
    """A parameter that training on a Corpus ignored would give the model of the defaults."""
    X, y = make_data()
    dev = make_data(9, 20)
    assert PARAMETERS.keys() == CRF().get_params().keys()
    for name, value in PARAMETERS.items():
        if value is None:
            continue
        settings = {"max_iter": 8, "l2": 0.01, name: value}
        monitored = {"dev": dev} if name in ("scoring", "early_stopping") else {}
        models = [
            CRF(**settings).fit(*data, **monitored) for data in ((X, y), (make_corpus(X, y, 1),))
        ]
        assert_same_model(models[1], models[0], exact=True)
        default = CRF(max_iter=8, l2=0.01).fit(X, y, **monitored)
        results = [(m.coef_.tolist(), m.dev_scores_, m.n_iter_) for m in (models[1], default)]
        assert results[0] != results[1], name


def test_objective_and_gradient_at_random_weights() -> None:
    """The loss and gradient of the shards, at the same weights, to the rounding of the sum."""
    X, y = make_data(3)
    results: list[tuple[float, Any]] = []
    for data in ((X, y), (make_corpus(X, y, 9),)):
        losses: list[Any] = []
        model = CRF(l2=0.3, max_iter=2, solver="gradient", solver_options={"step": 0.01})
        model.fit(*data, callback=lambda progress, losses=losses: losses.append(progress.loss))
        results.append((losses[-1], model.coef_))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["array", "sparse", "dict"])
def test_features_that_are_ready(kind: str) -> None:
    random = np.random.default_rng(0)
    _, y = make_data()
    arrays = [random.normal(size=(len(labels), 4)) for labels in y]
    X: list[Any] = {
        "array": arrays,
        "sparse": [sparse.csr_matrix(x) for x in arrays],
        "dict": [[{f"f{n}": v for n, v in enumerate(row)} for row in x.tolist()] for x in arrays],
    }[kind]
    expected = CRF(max_iter=6).fit(X, y)
    assert_same_model(CRF(max_iter=6).fit(make_corpus(X, y, 1)), expected, exact=True)
    assert_same_model(CRF(max_iter=6).fit(make_corpus(X, y, 5)), expected, exact=False)


def test_converged_models_agree() -> None:
    X, y = make_data(1)
    settings = {"l2": 0.1, "solver_options": {"epsilon": 1e-9, "period": 0}}
    expected = CRF(**settings).fit(X, y)
    model = CRF(**settings).fit(make_corpus(X, y, 5))
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-12)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-6)


def test_sample_weights() -> None:
    X, y = make_data()
    weights = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    settings = {"max_iter": 8, "min_count": 4, "transitions": "seen"}
    expected = CRF(**settings).fit(X, y, weights)
    assert_same_model(CRF(**settings).fit(make_corpus(X, y, 6), None, weights), expected, False)
    with pytest.raises(InputError, match=r"sample_weight has shape \(3,\)"):
        CRF().fit(make_corpus(X, y, 6), sample_weight=[1, 1, 1])


def test_warm_start_with_new_labels_and_words() -> None:
    X, y = make_data()
    other_words = [[*x, "new"] for x in X[:20]]
    other_labels = [[*labels, "B-R"] for labels in y[:20]]
    models = []
    for second in ((other_words, other_labels), (make_corpus(other_words, other_labels, 4),)):
        model = CRF(max_iter=5, warm_start=True).fit(X, y)
        models.append(model.fit(*second))
    assert_same_model(models[1], models[0], exact=False)


def test_dev_scores_and_early_stopping() -> None:
    X, y = make_data(0, 80)
    dev = make_data(9, 20)
    settings = {"l2": 0.001, "early_stopping": 2, "scoring": "span_f1"}
    expected = CRF(**settings).fit(X, y, dev=dev)
    model = CRF(**settings).fit(make_corpus(X, y, 5), dev=dev)
    assert model.dev_scores_ == expected.dev_scores_
    assert model.n_iter_ == expected.n_iter_
    by_corpus = CRF(**settings).fit(make_corpus(X, y, 5), dev=make_corpus(*dev, 3))
    with pytest.warns(UnseenLabelWarning, match="dev: ") as warned:
        CRF(max_iter=1).fit(make_corpus(X, y, 5), dev=([["a"]], [["new"]]))
    assert warned[0].filename == __file__  # the line that calls fit
    np.testing.assert_array_equal(by_corpus.coef_, model.coef_)


def test_resume_has_the_same_bits(tmp_path: Path) -> None:
    X, y = make_data()
    shards = make_corpus(X, y, 5)
    expected = CRF(max_iter=12).fit(shards)
    for stop in (1, 3, 7):
        folder = tmp_path / str(stop)
        CRF().fit(shards, checkpoint=folder, callback=lambda p, stop=stop: p.iteration > stop)
        saved = Checkpoint(folder / "trellis.checkpoint", every=1, resume=True)
        model = CRF(max_iter=12).fit(shards, checkpoint=saved, engine=Local(2))
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.losses_ == expected.losses_
    X[59] = ["changed", *X[59][1:]]
    with pytest.raises(InputError, match="different training data"):
        CRF().fit(make_corpus(X, y, 5), checkpoint=tmp_path / "7")


def test_the_checkpoint_of_a_corpus_may_be_a_folder(tmp_path: Path) -> None:
    corpus = Corpus.dataset(Rows(*make_data()), shard=9)
    CRF(max_iter=3).fit(corpus, checkpoint=str(tmp_path / "run"))
    assert (tmp_path / "run" / "trellis.checkpoint").exists()


def test_shards_without_sequences() -> None:
    X, y = make_data(0, 10)

    class Gaps(Rows):
        def __getitem__(self, part: slice) -> dict[str, list[Any]]:
            kept = slice(0, 0) if part.start % 4 == 0 else part
            return super().__getitem__(kept)

    kept = [n for n in range(10) if n % 4 not in (0, 1)]
    shards = Corpus.dataset(Gaps(X, y), shard=2)
    expected = CRF(max_iter=5, edge_features=first_letters).fit(
        [X[n] for n in kept], [y[n] for n in kept]
    )
    model = CRF(max_iter=5, edge_features=first_letters).fit(shards)
    assert_same_model(model, expected, exact=False)
    empty = Corpus.dataset(Gaps(X[:2], y[:2]), shard=2)
    with pytest.raises(InputError, match="the corpus is empty"):
        CRF().fit(empty)


class Interrupted(BaseException):
    """As Ctrl-C, which no except clause of the library catches."""


@pytest.mark.parametrize("processes", [False, True])
def test_nothing_is_left_on_the_engine(tmp_path: Path, processes: bool) -> None:
    X, y = make_data()
    shards = make_corpus(X, y, 4)
    engine = Local(2, folder=tmp_path / "new" / "folder", processes=processes)

    def interrupt(progress: Any) -> None:
        raise Interrupted

    try:
        model = CRF(max_iter=2).fit(shards, engine=engine)
        assert not list(Path(engine.folder).iterdir())
        with pytest.raises(Interrupted):
            CRF().fit(shards, engine=engine, callback=interrupt)
        assert not list(Path(engine.folder).iterdir())
        assert not storage._prepared
        assert storage._prepared_bytes == 0
        model.predict(shards, engine=engine)
        assert not list(Path(engine.folder).iterdir())
    finally:
        engine.close()


# ---- errors


@pytest.fixture
def broken(tmp_path: Path) -> tuple[Path, list[str]]:
    lines = [line for n in range(300) for line in (f"w{n} B-P", "v O", "")]
    path = tmp_path / "a.conll"
    path.write_text("\n".join(lines))
    return path, lines


def test_a_broken_line_in_shard_17(broken: tuple[Path, list[str]]) -> None:
    path, lines = broken
    lines[3 * 212] = "w212"
    path.write_text("\n".join(lines))
    shards = Corpus.text(path, shard=160)
    number = next(n for n, s in enumerate(shards.shards) if s.end > path.read_text().index("w212"))
    assert number >= 17
    model = CRF().fit(*make_data())
    before = model.coef_
    for engine in (Local(1), Local(3)):
        message = rf"shard {number} \(.*a\.conll, bytes \d+ to \d+\): .*a\.conll, line 637: the row"
        with pytest.raises(FormatError, match=message):
            model.fit(shards, engine=engine)
        assert not list(Path(engine.folder).glob(".shard-*"))
        engine.close()
    assert model.coef_ is before or np.array_equal(model.coef_, before)


def test_a_forbidden_label_names_shard_and_line(broken: tuple[Path, list[str]]) -> None:
    path, lines = broken
    lines[3 * 150 + 1] = "v I-Q"
    path.write_text("\n".join(lines))
    shards = Corpus.text(path, shard=160)
    message = r"shard \d+ \(.*a\.conll, bytes \d+ to \d+, line 451\): sequence \d+, position 1: "
    with pytest.raises(InputError, match=message):
        CRF(constraints="BIO").fit(shards)


def test_an_error_of_a_function_names_its_shard() -> None:
    X, y = make_data(0, 30)
    X[22] = ["unknown"]
    y[22] = ["O"]
    lengths = dict.fromkeys(WORDS, 1)

    def look_up(x: list[str]) -> list[dict[str, float]]:
        return [{"length": lengths[word]} for word in x]

    with pytest.raises(KeyError, match="unknown") as raised:
        CRF(features=look_up).fit(make_corpus(X, y, 5))
    assert raised.value.__notes__ == ["in shard 3 (dataset, rows 18 to 24)"]


def test_an_impossible_sequence_names_its_shard() -> None:
    X, y = make_data(0, 30)
    X[22], y[22] = ["a", "b"], [{"O", "B-Q"}, "I-P"]  # neither may precede I-P
    message = r"shard 3 \(dataset, rows 18 to 24\): sequence 4: no labelling agrees"
    with pytest.raises(InputError, match=message):
        CRF(constraints=[("O", "I-P"), ("B-Q", "I-P")]).fit(make_corpus(X, y, 5))


def test_bad_arguments() -> None:
    X, y = make_data(0, 10)
    shards = make_corpus(X, y, 2)
    unlabelled = Corpus.dataset(Rows(X, y), labels=None)
    calls: list[tuple[Any, dict[str, Any], str]] = [
        (CRF(), {"X": shards, "y": y}, "y must be None if X is a Corpus"),
        (CRF(), {"X": X, "y": y, "engine": Local(1)}, "engine needs a trellis.data.Corpus"),
        (
            CRF(),
            {"X": shards, "engine": "dask"},
            "must be a trellis.engines.Local or Dask, not str",
        ),
        (CRF(solver="sgd"), {"X": shards}, "'sgd' needs all sequences in memory"),
        (CRF(joint=lambda x, i, p, t: []), {"X": shards}, "joint features cannot be used"),
        (CRF(order=2), {"X": shards}, r"order=2 cannot be used with a Corpus: use fit\(\*corpus"),
        (CRF(), {"X": unlabelled}, "the corpus has no labels"),
    ]
    for model, arguments, message in calls:
        with pytest.raises(InputError, match=message):
            model.fit(**arguments)


def test_the_instruction_set_is_recorded() -> None:
    X, y = make_data(0, 10)
    before = native.isa()
    try:
        for name in native.available_isas():
            native.use_isa(name)
            assert CRF(max_iter=2).fit(make_corpus(X, y, 2)).isa_ == name
    finally:
        native.use_isa(before)


def test_numbers_of_a_shard_are_mapped(tmp_path: Path) -> None:
    X, y = make_data(0, 200)
    model = CRF(max_iter=1).fit(X, y)
    shards = make_corpus(X, y, 1)
    encoder = Shared(Encoder(model.features_, tuple(model.classes_), False, None))
    engine = Local(1, folder=str(tmp_path))
    part = Part(shards.shards[0], np.ones(len(X)))
    placed = engine.place(encode_shard, [part], encoder)
    assert engine.sum(lambda p: len(ShardData.read(p).batch.rows.id), placed) > 0
    data = ShardData.read(placed[0].with_arguments((encoder,)))
    assert isinstance(data.batch.rows.id, np.memmap)
    assert constraints_for(None, model.classes_) is None
