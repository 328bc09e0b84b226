"""Damaged, foreign and forged files: loading them raises FormatError."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.errors import FormatError, TrellisError
from trellis.features import named
from trellis.formats import native

NAME = r"model\.trellis: "
WORDS = [["the", "dog", "barks"], ["a", "cat"], ["Ærø", "", "日本"]]
TAGS = [["D", "N", "V"], ["D", "N"], ["N", "V", "N"]]
ROWS = [np.arange(12.0).reshape(4, 3) % 5, np.ones((2, 3))]
ROW_TAGS = [["P", "Q", "R", "P"], ["Q", "P"]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.trellis"


# ---- files with a valid checksum and invalid contents


def forged(path: Path, model: Any, change: Callable[[Any, Any], Any]) -> None:
    """Save a model, then write it again with changed contents and a valid checksum."""
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
    "bigrams fall": lambda meta, tensors: tensors.update(bigram=tensors["bigram"][::-1].copy()),
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


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_crf(forgery: str, path: Path) -> None:
    model = trellis.CRF(named(["w[0]", "bias"], edges=["w[0]"]), max_iter=2).fit(WORDS, TAGS)
    forged(path, model, FORGERIES[forgery])
    with pytest.raises(FormatError, match=NAME):
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
    with pytest.raises(FormatError, match=NAME):
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
    with pytest.raises(FormatError, match=NAME):
        trellis.load(path)


def test_a_name_twice_in_a_vocabulary(path: Path) -> None:
    def change(meta: Any, tensors: Any) -> None:
        data, ends = native.pack_strings(["b", "b"])
        tensors |= {"features.names.bytes": data, "features.names.ends": ends}

    forged(path, trellis.CRF().fit([[["a"], ["b"]]], [["P", "Q"]]), change)
    with pytest.raises(FormatError, match=NAME):
        trellis.load(path)


def test_an_unknown_kind_of_model(path: Path) -> None:
    native.write(path, "oracle", {}, {})
    with pytest.raises(FormatError, match=r"model.trellis.*oracle"):
        trellis.load(path)


@pytest.mark.parametrize(("kind", "other"), [("crf", "hmm"), ("hmm", "crf"), ("hmm", "memm")])
def test_one_kind_of_model_stored_as_another(kind: str, other: str, path: Path) -> None:
    make = {"crf": trellis.CRF, "hmm": trellis.HMM}[kind]
    make().fit(WORDS, TAGS).save(path)
    contents = native.read(path)
    native.write(path, other, contents.meta, {k: v.copy() for k, v in contents.tensors.items()})
    with pytest.raises(FormatError, match=NAME):
        trellis.load(path)


# ---- damage


def mutants(data: bytes, count: int, seed: int) -> Any:
    """Yield damaged copies: bits flipped, bytes removed, doubled and replaced, ends cut off."""
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
    mutant_count = 0
    for mutant in mutants(data, count, seed=count):
        path.write_bytes(mutant)
        with pytest.raises(FormatError, match=NAME):
            trellis.load(path)
        mutant_count += 1
    assert mutant_count > 0.99 * count


@pytest.mark.slow
def test_random_bytes_under_a_valid_checksum(path: Path) -> None:
    """With random bytes in a tensor, load raises FormatError or the model still predicts."""
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
        with suppress(TrellisError):
            labels = trellis.load(path).predict(WORDS)
            assert list(map(len, labels)) == list(map(len, WORDS))
