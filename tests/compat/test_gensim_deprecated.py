"""gensim's names on `trellis.Vectors` work as in 0.1.0, with a DeprecationWarning."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
from test_gensim_replacement import CALLS, ROWS, WORDS, A, agree

from trellis import Vectors
from trellis.compat.gensim.keyed import Keyed
from trellis.compat.gensim.models import KeyedVectors

CLASS_METHOD = "load_word2vec_format"
GENSIM_NAMES = [name for name in vars(Keyed) if name[0] != "_" and name != CLASS_METHOD]


@pytest.fixture
def old() -> Vectors:
    return Vectors(WORDS, ROWS)


@pytest.fixture
def v() -> KeyedVectors:
    vectors = KeyedVectors(7)
    vectors.add_vectors(WORDS, ROWS)
    return vectors


@pytest.mark.parametrize("name", GENSIM_NAMES)
def test_every_gensim_name_still_works_on_vectors(old: Vectors, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"Vectors\.{name} is deprecated: use "):
        getattr(old, name)


@pytest.mark.filterwarnings("ignore:Call to deprecated")
@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_deprecated_names_give_the_same_results(
    old: Vectors, v: KeyedVectors, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        result = getattr(old, name)(*args, **kwargs)
    agree(result, getattr(v, name)(*args, **kwargs))


def test_deprecated_names_warn_once_at_the_line_of_the_user(old: Vectors) -> None:
    with pytest.warns(DeprecationWarning, match=r"use Vectors\.nearest") as caught:
        old.most_similar(A)
    assert [warning.filename for warning in caught] == [__file__]


def test_deprecated_names_share_the_cached_search_data(old: Vectors) -> None:
    with pytest.warns(DeprecationWarning, match="most_similar"):
        old.most_similar(A)
    assert old._search._scaled is not None


def test_deprecated_class_method_loads_files(old: Vectors, tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"use Vectors\.save"):
        old.save_word2vec_format(tmp_path / "v", binary=True)
    with pytest.warns(DeprecationWarning, match=r"use Vectors\.load") as caught:
        loaded = Vectors.load_word2vec_format(tmp_path / "v", binary=True)
    assert [warning.filename for warning in caught] == [__file__]
    assert isinstance(loaded, Vectors)
    assert loaded.words == WORDS


def test_other_names_are_attribute_errors(old: Vectors, v: KeyedVectors) -> None:
    for vectors in (old, v):
        for name in ("no_such_name", "_no_such_name"):
            with pytest.raises(AttributeError, match=name):
                getattr(vectors, name)
    assert copy.deepcopy(old).words == WORDS
    assert pickle.loads(pickle.dumps(v)).words == WORDS
