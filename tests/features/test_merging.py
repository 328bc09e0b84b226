"""Feature maps of parts of the data merge into the map of a single pass."""

from __future__ import annotations

import copy
from functools import reduce
from typing import Any

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.features import Window
from trellis.features.arrays import ArrayFeatures
from trellis.features.merging import attributes_of, merge, restore
from trellis.features.ready import ReadyFeatures
from trellis.features.vectorizer import choose

WORDS = ["Ann", "sings", "New", "York", "ann", "3", "-", "Ærø", "x-ray"]


def words(seed: int, n: int) -> list[list[tuple[str, str]]]:
    random = np.random.default_rng(seed)
    return [
        [(str(random.choice(WORDS)), str(random.choice(["NN", "DT", "VB"]))) for _ in range(size)]
        for size in random.integers(1, 6, n)
    ]


def edges(x: Any) -> list[list[str]]:
    return [[f"e{word[0][0]}", "e"] for word in x]


CASES: dict[str, tuple[Any, Any]] = {
    "default": (None, None),
    "window": (Window(words=1), None),
    "function": (lambda x: [{"w": word, "n": 2} for word, _ in x], None),
    "edge function": (None, edges),
    "edge window": (None, Window(words=1)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("parts", [1, 2, 5, 9])
def test_merged_parts_equal_a_single_pass(name: str, parts: int) -> None:
    X = words(parts, 30)
    prototype = choose(*CASES[name], X)
    single = copy.deepcopy(prototype)
    batch = single.learn(X)
    pieces = []
    for part in np.array_split(np.arange(len(X)), parts):
        features = copy.deepcopy(prototype)
        features.learn([X[i] for i in part])
        pieces.append(attributes_of(features))
    # the order of the merges does not matter, only that of the parts
    half = len(pieces) // 2
    trees = [reduce(merge, pieces)]
    if half:
        trees.append(merge(reduce(merge, pieces[:half]), reduce(merge, pieces[half:])))
    for attributes in trees:
        merged = restore(prototype, attributes)
        assert merged.names() == single.names()
        assert merged.names(edge=True) == single.names(edge=True)
        for mine, theirs in zip(merged.find(X).arrays(), batch.arrays(), strict=True):
            np.testing.assert_array_equal(mine, theirs)
        expected = single.to_parts()
        assert merged.to_parts()[0] == expected[0]
        for tensor, array in merged.to_parts()[1].items():
            np.testing.assert_array_equal(array, expected[1][tensor])


@pytest.mark.parametrize("name", CASES)
def test_an_earlier_fit_keeps_its_numbers(name: str) -> None:
    earlier, X = words(1, 10), words(2, 20)
    prototype = choose(*CASES[name], earlier)
    prototype.learn(earlier)
    single = copy.deepcopy(prototype)
    single.learn(X)
    pieces = []
    for part in (X[:7], X[7:11], X[11:]):
        features = copy.deepcopy(prototype)
        features.learn(part)
        pieces.append(attributes_of(features))
    merged = restore(prototype, reduce(merge, pieces))
    assert merged.names() == single.names()
    assert merged.names(edge=True) == single.names(edge=True)


def test_arrays() -> None:
    X = [np.arange(6.0).reshape(2, 3), np.ones((1, 3))]
    pieces = []
    for x in X:
        features = ArrayFeatures()
        features.learn([x])
        pieces.append(attributes_of(features))
    merged = restore(ArrayFeatures(), merge(*pieces))
    assert merged.names() == ["0", "1", "2"]
    other = ArrayFeatures()
    other.learn([np.ones((1, 4))])
    with pytest.raises(InputError, match="3 and 4 columns"):
        merge(pieces[0], attributes_of(other))


def test_kinds_do_not_mix() -> None:
    named, arrays = ReadyFeatures(), ArrayFeatures()
    named.learn([[["a"]]])
    arrays.learn([np.ones((1, 2))])
    with pytest.raises(InputError, match="different kinds"):
        merge(attributes_of(named), attributes_of(arrays))
