"""Models as files: what comes back is what went in, and nothing else is taken for a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from labellings import edge_part, random_data, state_part
from scipy import sparse
from sklearn.exceptions import NotFittedError

import trellis
from trellis.errors import FormatError, InputError, TrellisError
from trellis.features import Window, named
from trellis.formats import native
from trellis.models.training import SOLVERS

WORDS = [["the", "dog", "barks"], ["a", "cat"], ["Ærø", "", "日本"]]
TAGS = [["D", "N", "V"], ["D", "N"], ["N", "V", "N"]]
ROWS = [np.arange(12.0).reshape(4, 3) % 5, np.ones((2, 3))]
ROW_TAGS = [["P", "Q", "R", "P"], ["Q", "P"]]


def lengths(x: Any) -> Any:
    return [{"length": len(word)} for word in x]


def pairs(x: Any) -> Any:
    return [[f"before={a}"] for a in ["", *x[:-1]]]


KINDS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "words": ({}, WORDS, TAGS),
    "window": ({"features": Window(gazetteers={"city": ["Paris"]})}, WORDS, TAGS),
    "edges": ({"features": named(["w[0]"], edges=["w[0]", "w[-1]|w[0]"])}, WORDS, TAGS),
    "tuples": ({}, [[(w, w[:1]) for w in x] for x in WORDS], TAGS),
    "dicts": ({}, [[{"w": w, "n": len(w), "yes": True} for w in x] for x in WORDS], TAGS),
    "lists": ({}, [[["b", f"w={w}"] for w in x] for x in WORDS], TAGS),
    "arrays": ({}, ROWS, ROW_TAGS),
    "sparse": ({}, [sparse.csr_matrix(x) for x in ROWS], ROW_TAGS),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.trellis"


def assert_same(ours: Any, theirs: Any, X: Any, y: Any) -> None:
    assert type(ours) is type(theirs)
    assert ours.classes_.tolist() == theirs.classes_.tolist()
    assert ours.predict(X) == theirs.predict(X)
    assert np.array_equal(ours.log_likelihood(X, y), theirs.log_likelihood(X, y))
    for a, b in zip(ours.predict_marginals(X), theirs.predict_marginals(X), strict=True):
        assert np.array_equal(a, b)
    assert ours.features_.names() == theirs.features_.names()


# ---- there and back


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_round_trip(make: Any, kind: str, path: Path) -> None:
    parameters, X, y = KINDS[kind]
    model = make(**parameters).fit(X, y)
    model.save(path)
    loaded = trellis.load(path)
    assert_same(loaded, model, X, y)
    again = path.with_name("again.trellis")
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("solver", SOLVERS)
def test_round_trip_of_each_solver(solver: str, path: Path) -> None:
    model = trellis.CRF(solver=solver, random_state=0, max_iter=3).fit(WORDS, TAGS)
    model.save(path)
    loaded = trellis.load(path)
    assert_same(loaded, model, WORDS, TAGS)
    assert loaded.get_params() == model.get_params()
    assert (loaded.n_iter_, loaded.objective_) == (model.n_iter_, model.objective_)


@pytest.mark.parametrize(
    "parameters",
    [
        {"constraints": [("N", "D"), ("V", "V")]},
        {"label_weight": {"N": 2.0}},
        {"solver_options": {"epsilon": 1e-3}, "l2": np.float64(0.5), "max_iter": np.int64(3)},
        {"l1": 0.3},
        {"random_state": np.random.default_rng(0)},
        {"random_state": 7, "n_jobs": 2, "warm_start": True},
        {"states": "all", "transitions": "none"},
    ],
    ids=str,
)
def test_parameters_come_back(parameters: dict[str, Any], path: Path) -> None:
    model = trellis.CRF(**parameters).fit(WORDS, TAGS)
    model.save(path)
    loaded = trellis.load(path)
    assert_same(loaded, model, WORDS, TAGS)
    for name, value in parameters.items():
        if not isinstance(value, np.random.Generator):
            assert getattr(loaded, name) == value


def test_functions_are_given_again(path: Path) -> None:
    model = trellis.CRF(lengths, edge_features=pairs).fit(WORDS, TAGS)
    model.save(path)
    assert_same(trellis.load(path, features=lengths, edge_features=pairs), model, WORDS, TAGS)
    with pytest.raises(InputError, match=r"trellis.load\(path, features=function\)"):
        trellis.load(path).predict(WORDS)
    with pytest.raises(InputError, match="edge_features=function"):
        trellis.load(path, features=lengths).predict(WORDS)


@pytest.mark.parametrize("labels", [[3, 1, 2], [True, False, True], [0.5, -1.0, 2.0]])
def test_labels_that_are_numbers(labels: list[Any], path: Path) -> None:
    X, y = [["a", "b", "c"]] * 3, [labels] * 3
    model = trellis.CRF(l2=0.01).fit(X, y)
    model.save(path)
    predicted = trellis.load(path).predict(X)
    assert predicted == y
    assert type(predicted[0][0]) is type(labels[0])


def test_labels_that_no_file_can_hold(path: Path) -> None:
    model = trellis.CRF().fit([["a", "b"]], [[("N", 1), ("V", 2)]])
    with pytest.raises(InputError, match="labels"):
        model.save(path)
    assert not path.exists()


@pytest.mark.parametrize("make", [trellis.CRF, trellis.MEMM, trellis.HMM])
def test_only_fitted_models_are_saved(make: Any, path: Path) -> None:
    with pytest.raises(NotFittedError):
        make().save(path)
    assert not path.exists()


def test_a_class_of_ones_own_has_no_file_format(path: Path) -> None:
    class Mine(trellis.CRF):
        pass

    with pytest.raises(InputError, match="Mine"):
        trellis.models.files.save(Mine().fit(WORDS, TAGS), path)


def test_a_missing_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trellis.load(path)


def test_weights_of_zero_are_not_stored(path: Path) -> None:
    X, y = random_data(0, 3, [5] * 20, attributes=40)
    X = [state_part(x) for x in X]
    small = trellis.CRF(l1=3.0).fit(X, y)
    small.save(path)
    stored = native.read(path).tensors
    assert np.count_nonzero(stored["weights"]) == len(stored["weights"])
    trellis.CRF(l2=0.1).fit(X, y).save(path.with_name("large"))
    assert path.stat().st_size < path.with_name("large").stat().st_size / 2


# ---- files that are whole, and wrong


def forged(path: Path, model: Any, change: Callable[[Any, Any], Any]) -> None:
    """Save a model, then write it again with other contents and a right checksum."""
    model.save(path)
    contents = native.read(path)
    meta, tensors = contents.meta, {k: v.copy() for k, v in contents.tensors.items()}
    change(meta, tensors)
    native.write(path, contents.kind, meta, tensors)


def put(name: str, index: Any, value: Any) -> Callable[[Any, Any], None]:
    def change(meta: Any, tensors: Any) -> None:
        tensors[name][index] = value

    return change


def cast(name: str, dtype: Any) -> Callable[[Any, Any], None]:
    def change(meta: Any, tensors: Any) -> None:
        tensors[name] = tensors[name].astype(dtype)

    return change


def grow(name: str) -> Callable[[Any, Any], None]:
    def change(meta: Any, tensors: Any) -> None:
        tensors[name] = np.concatenate([tensors[name], tensors[name][-1:]])

    return change


def drop(name: str) -> Callable[[Any, Any], None]:
    def change(meta: Any, tensors: Any) -> None:
        del tensors[name]

    return change


def setting(*keys: str, value: Any) -> Callable[[Any, Any], None]:
    def change(meta: Any, tensors: Any) -> None:
        for key in keys[:-1]:
            meta = meta[key]
        meta[keys[-1]] = value

    return change


def without(*keys: str) -> Callable[[Any, Any], None]:
    def change(meta: Any, tensors: Any) -> None:
        for key in keys[:-1]:
            meta = meta[key]
        del meta[keys[-1]]

    return change


def twice_the_same_label(meta: Any, tensors: Any) -> None:
    begin, label = tensors["state_begin"], tensors["state_label"]
    a = int(np.argmax(np.diff(begin) > 1))
    label[begin[a] + 1] = label[begin[a]]


def falling_labels(meta: Any, tensors: Any) -> None:
    begin, label = tensors["state_begin"], tensors["state_label"]
    a = int(np.argmax(np.diff(begin) > 1))
    label[begin[a] : begin[a + 1]] = label[begin[a] : begin[a + 1]][::-1].copy()


TENSORS = ("weights", "state_begin", "state_label", "bigram", "edge_begin", "edge_bigram")
META = ("parameters", "classes", "features", "training")
FORGERIES: dict[str, Callable[[Any, Any], None]] = {
    **{f"no {name}": drop(name) for name in TENSORS},
    **{f"larger {name}": grow(name) for name in TENSORS},
    **{f"float32 {name}": cast(name, np.float32) for name in TENSORS},
    **{f"no {name}": without(name) for name in META},
    **{f"{name} is a number": setting(name, value=7) for name in META},
    "nan": put("weights", 0, np.nan),
    "inf": put("weights", -1, np.inf),
    "label out of range": put("state_label", 0, 4),
    "label far out of range": put("state_label", -1, 65535),
    "label twice": twice_the_same_label,
    "labels fall": falling_labels,
    "begin falls": put("state_begin", 1, 10**6),
    "begin is negative": put("state_begin", 1, -1),
    "begin is not 0": put("state_begin", 0, 1),
    "bigram out of range": put("bigram", -1, 16),
    "bigram negative": put("bigram", 0, -1),
    "bigrams fall": put("bigram", slice(None), slice(None)),
    "edge bigram out of range": put("edge_bigram", 0, 2**31 - 1),
    "edge bigram negative": put("edge_bigram", 0, -5),
    "edge begin falls": put("edge_begin", 1, 10**9),
    "classes empty": setting("classes", value=[]),
    "classes fewer": setting("classes", value=["D", "N"]),
    "classes twice": setting("classes", value=["D", "D", "N"]),
    "classes lists": setting("classes", value=[["D"], ["N"], ["V"]]),
    "classes null": setting("classes", value=[None, "N", "V"]),
    "unknown parameter": setting("parameters", "colour", value="red"),
    "a scheme that does not exist": setting("parameters", "constraints", value="nonsense"),
    "constraints of three": setting("parameters", "constraints", value=[["D", "N", "V"]]),
    "constraints of text": setting("parameters", "constraints", value=[7]),
    "label weights of text": setting("parameters", "label_weight", value="heavy"),
    "threads of text": setting("parameters", "n_jobs", value="two"),
    "iterations of text": setting("training", "iterations", value="many"),
    "no objective": without("training", "objective"),
    "features of no kind": setting("features", "kind", value="tea leaves"),
    "features without kind": without("features", "kind"),
    "features without spec": without("features", "spec"),
    "a spec of text": setting("features", "spec", value="w[0]"),
    "fewer keys": lambda meta, tensors: tensors.update({"features.keys": np.zeros(0, np.uint32)}),
    "keys out of range": put("features.keys", -1, 2**32 - 2),
    "template out of range": put("features.keys", 0, 1000),
    "no words": drop("features.values.bytes"),
    "words that are not text": put("features.values.bytes", 0, 255),
    "ends that fall": put("features.values.ends", 1, 10**6),
}
FORGERIES["bigrams fall"] = lambda meta, tensors: tensors.update(bigram=tensors["bigram"][::-1].copy())


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_crf(forgery: str, path: Path) -> None:
    model = trellis.CRF(named(["w[0]", "bias"], edges=["w[0]"]), max_iter=2).fit(WORDS, TAGS)
    forged(path, model, FORGERIES[forgery])
    with pytest.raises(FormatError, match="model.trellis"):
        trellis.load(path)


HMM_FORGERIES: dict[str, Callable[[Any, Any], None]] = {
    **{f"no {name}": drop(name) for name in ("start", "transitions", "emissions")},
    **{f"larger {name}": grow(name) for name in ("start", "transitions", "emissions")},
    **{f"float32 {name}": cast(name, np.float32) for name in ("start", "transitions", "emissions")},
    "nan start": put("start", 0, np.nan),
    "negative start": put("start", 0, -0.5),
    "negative transition": put("transitions", (0, 0), -0.5),
    "transitions above 1": put("transitions", (0, 0), 3.0),
    "inf transition": put("transitions", (0, 1), np.inf),
    "nan emission": put("emissions", (0, 0), np.nan),
    "emission above 1": put("emissions", (0, 0), 0.5),
    "fewer classes": setting("classes", value=["D", "N"]),
    "unknown parameter": setting("parameters", "l2", value=1.0),
}


@pytest.mark.parametrize("forgery", HMM_FORGERIES)
def test_forged_hmm(forgery: str, path: Path) -> None:
    forged(path, trellis.HMM().fit(WORDS, TAGS), HMM_FORGERIES[forgery])
    with pytest.raises(FormatError, match="model.trellis"):
        trellis.load(path)


ARRAY_FORGERIES: dict[str, Callable[[Any, Any], None]] = {
    "column out of range": put("features.kept", -1, 3),
    "column negative": put("features.kept", 0, -1),
    "column twice": put("features.kept", 0, 1),
    "no columns": drop("features.kept"),
    "columns of text": setting("features", "columns", value="three"),
    "more kept": grow("features.kept"),
    "kept as floats": cast("features.kept", np.float64),
}


@pytest.mark.parametrize("forgery", ARRAY_FORGERIES)
def test_forged_arrays(forgery: str, path: Path) -> None:
    forged(path, trellis.CRF(states="all").fit(ROWS, ROW_TAGS), ARRAY_FORGERIES[forgery])
    with pytest.raises(FormatError, match="model.trellis"):
        trellis.load(path)


def test_a_name_twice_in_a_vocabulary(path: Path) -> None:
    def change(meta: Any, tensors: Any) -> None:
        data, ends = native.pack_strings(["b", "b"])
        tensors |= {"features.names.bytes": data, "features.names.ends": ends}

    forged(path, trellis.CRF().fit([[["a"], ["b"]]], [["P", "Q"]]), change)
    with pytest.raises(FormatError, match="model.trellis"):
        trellis.load(path)


def test_an_unknown_kind_of_model(path: Path) -> None:
    native.write(path, "oracle", {}, {})
    with pytest.raises(FormatError, match=r"model.trellis.*oracle"):
        trellis.load(path)


@pytest.mark.parametrize(("kind", "other"), [("crf", "hmm"), ("hmm", "crf"), ("hmm", "memm")])
def test_one_model_under_the_name_of_another(kind: str, other: str, path: Path) -> None:
    make = {"crf": trellis.CRF, "hmm": trellis.HMM}[kind]
    make().fit(WORDS, TAGS).save(path)
    contents = native.read(path)
    native.write(path, other, contents.meta, {k: v.copy() for k, v in contents.tensors.items()})
    with pytest.raises(FormatError, match="model.trellis"):
        trellis.load(path)


# ---- damage


def mutants(data: bytes, count: int, seed: int) -> Any:
    """Bits flipped, bytes lost, doubled and swapped, ends cut off."""
    rng = np.random.default_rng(seed)
    for n in range(count):
        at, to = (int(v) for v in np.sort(rng.integers(0, len(data), size=2)))
        change = bytearray(data)
        if n % 5 == 0:
            change[at] ^= 1 << int(rng.integers(8))
        elif n % 5 == 1:
            change = change[:at]
        elif n % 5 == 2:
            del change[at : min(to, at + 16) + 1]
        elif n % 5 == 3:
            change[at:at] = change[at : at + 8]
        else:
            change[at : at + 4] = rng.bytes(4)
        if bytes(change) != data:
            yield bytes(change)


@pytest.mark.parametrize(
    "count", [200, pytest.param(10_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_mutants_are_never_accepted(count: int, path: Path) -> None:
    trellis.CRF(named(["w[0]", "bias"], edges=["w[0]"]), max_iter=2).fit(WORDS, TAGS).save(path)
    data = path.read_bytes()
    tried = 0
    for mutant in mutants(data, count, seed=count):
        path.write_bytes(mutant)
        with pytest.raises(FormatError, match="model.trellis"):
            trellis.load(path)
        tried += 1
    assert tried > 0.99 * count


@pytest.mark.slow
def test_payloads_at_random_under_a_right_checksum(path: Path) -> None:
    """Tensors of noise: FormatError, or a model that predicts without a crash."""
    model = trellis.CRF(named(["w[0]", "bias"], edges=["w[0]"]), max_iter=2).fit(WORDS, TAGS)
    model.save(path)
    contents = native.read(path)
    original = {k: v.copy() for k, v in contents.tensors.items()}
    rng = np.random.default_rng(0)
    names = sorted(original)
    for _ in range(400):
        tensors = {k: v.copy() for k, v in original.items()}
        name = names[rng.integers(len(names))]
        flat = tensors[name].reshape(-1).view(np.uint8)
        if not flat.size:
            continue
        flat[rng.integers(flat.size)] = rng.integers(256)
        native.write(path, "crf", contents.meta, tensors)
        try:
            loaded = trellis.load(path)
        except FormatError as error:
            assert "model.trellis" in str(error)
            continue
        try:
            assert all(len(p) == len(x) for p, x in zip(loaded.predict(WORDS), WORDS, strict=True))
        except TrellisError:
            pass


def test_edge_models_with_functions_keep_their_weights(path: Path) -> None:
    X, y = random_data(3, 3, [4, 5, 2], edge_attributes=3)
    model = trellis.CRF(state_part, edge_features=edge_part).fit(X, y)
    model.save(path)
    loaded = trellis.load(path, features=state_part, edge_features=edge_part)
    assert np.array_equal(loaded.coef_, model.coef_)
    assert_same(loaded, model, X, y)
