"""Files of gensim are read without calling pickle."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_files import keyed_vectors, some_rows, some_words

from trellis.errors import FormatError
from trellis.formats import gensim


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.kv"


def some_vectors(rows: int = 200, columns: int = 7) -> Any:
    vectors = keyed_vectors()(columns)
    vectors.add_vectors(some_words(rows), some_rows(rows, columns))
    return vectors


@pytest.mark.parametrize("beside", [False, True])
def test_keyed_vectors(beside: bool, path: Path) -> None:
    saved = some_vectors()
    saved.save(str(path), sep_limit=10 if beside else 10**9)
    assert Path(f"{path}.vectors.npy").exists() == beside
    words, matrix = gensim.read(path)
    assert words == saved.index_to_key
    assert np.array_equal(matrix, saved.vectors)


TEXT = [["one", "two", "three", "four"] * 3] * 5


@pytest.mark.parametrize("beside", [False, True])
def test_whole_models(beside: bool, path: Path) -> None:
    keyed_vectors()
    from gensim.models import Word2Vec

    model = Word2Vec(TEXT, vector_size=5, min_count=1, workers=1, seed=1)
    model.save(str(path), sep_limit=10 if beside else 10**9)
    words, matrix = gensim.read(path)
    assert words == model.wv.index_to_key
    assert np.array_equal(matrix, model.wv.vectors)


def test_fasttext_of_gensim(path: Path) -> None:
    keyed_vectors()
    from gensim.models import FastText

    model = FastText(TEXT, vector_size=5, min_count=1, bucket=50, workers=1)
    model.save(str(path))
    with pytest.raises(FormatError, match="save_facebook_model"):
        gensim.read(path)


class Evil:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return (Path.touch, (self.target,))


class Holder:
    """As gensim's class: attributes in a dictionary."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_is_called(protocol: int, path: Path, tmp_path: Path) -> None:
    target = tmp_path / "called"
    state = Holder(index_to_key=["a", "b"], vectors=some_rows(2, 3), more=Evil(target))
    path.write_bytes(pickle.dumps(state, protocol))
    if protocol < 5:  # which has arrays of another kind
        assert gensim.read(path).words == ["a", "b"]
    assert not target.exists()
    pickle.loads(path.read_bytes())
    assert target.exists()  # the trap is one


@pytest.mark.parametrize(
    ("attributes", "match"),
    [
        ({}, "not a KeyedVectors"),
        ({"index_to_key": ["a", 3], "vectors": some_rows(2, 3)}, "values that are not strings"),
        ({"index_to_key": ["a"], "vectors": some_rows(2, 3)}, "2 vectors for 1 words"),
        ({"index_to_key": ["a", "a"], "vectors": some_rows(2, 3)}, "a word occurs twice"),
        ({"index_to_key": ["a", "b"], "vectors": None}, "cannot be read"),
        ({"index_to_key": ["a", "b"], "vectors": np.arange(2)}, "cannot be read"),
        ({"index_to_key": ["a", "b"], "vectors": np.arange(2.0)}, "of shape"),
        ({"index_to_key": ["a", "b"], "vectors": some_rows(2, 3) * np.nan}, "nan at"),
        ({"index_to_key": ["a", "b"], "__numpys": ["vectors"]}, "is missing"),
    ],
)
def test_wrong_files(attributes: dict[str, Any], match: str, path: Path) -> None:
    path.write_bytes(pickle.dumps(Holder(**attributes), 4))
    with pytest.raises(FormatError, match=match) as caught:
        gensim.read(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_invalid_array_files(path: Path) -> None:
    path.write_bytes(pickle.dumps(Holder(index_to_key=["a"], __numpys=["vectors"]), 4))
    beside = Path(f"{path}.vectors.npy")
    for data in (b"", b"garbage", b"\x93NUMPY\x01\x00"):
        beside.write_bytes(data)
        with pytest.raises(FormatError, match="is not an array"):
            gensim.read(path)
    np.save(beside, np.array([{}]), allow_pickle=True)
    with pytest.raises(FormatError, match="is not an array"):
        gensim.read(path)


def test_other_pickles(path: Path) -> None:
    for data in (
        pickle.dumps([1, 2], 4),
        pickle.dumps({"index_to_key": []}, 4),
        b"\x80\x04",
        b"\x80\x04.",
        b"\x80\x04]h\x05.",  # a memo that is not there
        b"\x80\x04e.",
        b"\x80\x04P\n.",  # a persistent id
        b"\x80\x04" + b"}" * 200_000 + b".",
        b"\x80\x04\x8e" + b"\xff" * 8 + b".",  # bytes of a giant size
    ):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="pickle"):
            gensim.read(path)
