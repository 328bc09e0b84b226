"""Item 11: what the replacement of python-crfsuite keeps in memory, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from trellis import _core
from trellis.compat.pycrfsuite.data import Dataset, FeatureOptions, Part, select_features
from trellis.models.chain.problem import Problem

USE = """
import sys, tempfile
from trellis.compat import pycrfsuite
trainer = pycrfsuite.Trainer(verbose=False)
trainer.append([["a"], ["b", "c"]], ["X", "Y"])
path = tempfile.mkdtemp() + "/model"
trainer.train(path)
tagger = pycrfsuite.Tagger()
tagger.open(path)
assert tagger.tag([["a"], ["b"]]) == ["X", "Y"]
assert 0 < tagger.probability(["X", "Y"]) < 1
print([name for name in ("sklearn", "scipy", "pandas") if name in sys.modules])
"""


def test_training_and_tagging_do_not_import_scikit_learn() -> None:
    """Its import takes 80 MB, twice the memory of python-crfsuite's whole training."""
    command = [sys.executable, "-c", USE]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def sequences(count: int, values: list[float]) -> list[tuple[list[Any], list[str], int]]:
    """Sequences of 1 to 4 positions with 0 to 3 attributes, in three groups."""
    rng = np.random.default_rng(11)
    drawn = []
    for _ in range(count):
        items = [
            {f"a{rng.integers(50)}": float(rng.choice(values)) for _ in range(rng.integers(4))}
            for _ in range(rng.integers(1, 5))
        ]
        drawn.append((items, [str(rng.choice(["X", "Y"])) for _ in items], int(rng.integers(3))))
    return drawn


def collect(drawn: list[tuple[list[Any], list[str], int]]) -> Dataset:
    data = Dataset()
    for items, labels, group in drawn:
        data.append(items, labels, group)
    return data


def content(data: Dataset, part: Part) -> list[tuple[list[dict[str, float]], list[str]]]:
    """The sequences of a part, with the names of attributes and labels."""
    text, ends = data.attributes.strings()
    names = [text.tobytes()[a:b].decode() for a, b in pairwise(ends)]
    labels = list(data.labels)
    value = np.ones(len(part.attribute)) if part.value is None else part.value
    begin = np.concatenate([[0], np.cumsum(part.entries)])
    rows = [
        {names[part.attribute[i]]: float(value[i]) for i in range(a, b)} for a, b in pairwise(begin)
    ]
    return [(rows[a:b], [labels[y] for y in part.label[a:b]]) for a, b in pairwise(part.row_begin)]


VALUES = {
    "ones": [1.0],
    "small integers": [0.0, 1.0, -7.0],
    "halves": [0.5, 1.0],
    "any": [0.1, 1e300, -0.0],
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("count", [1, 511, 512, 513, 1300])
def test_parts_have_the_sequences_that_were_appended(count: int, values: list[float]) -> None:
    drawn = sequences(count, values)
    data = collect(drawn)
    for holdout in (-1, 0, 2, 7):
        for inside in (True, False):
            expected = [(x, y) for x, y, group in drawn if (group == holdout) == inside]
            assert content(data, data.part(holdout, inside=inside)) == expected


def test_sequences_can_be_added_after_a_part_was_read() -> None:
    drawn = sequences(700, [1.0, 2.5])
    data = collect(drawn[:600])
    assert len(data.part(-1, inside=False).lengths) == 600
    for items, labels, group in drawn[600:]:
        data.append(items, labels, group)
    assert content(data, data.part(-1, inside=False)) == [(x, y) for x, y, _ in drawn]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [("small integers", np.int8), ("halves", np.float32), ("any", np.float64)],
)
def test_values_are_stored_in_the_smallest_exact_type(values: str, dtype: type) -> None:
    part = collect(sequences(600, VALUES[values])).part(-1, inside=False)
    assert part.value is not None
    assert part.value.dtype == dtype


def test_values_of_one_take_no_memory() -> None:
    assert collect(sequences(600, [1.0])).part(-1, inside=False).value is None


def test_all_sequences_are_stored_once() -> None:
    data = collect(sequences(1300, VALUES["halves"]))
    first, second = (data.part(-1, inside=False) for _ in range(2))
    assert np.shares_memory(first.attribute, second.attribute)
    assert first.value is not None
    assert second.value is not None
    assert np.shares_memory(first.value, second.value)


def test_an_empty_dataset() -> None:
    part = Dataset().part(-1, inside=False)
    assert (len(part.lengths), len(part.entries), len(part.attribute), len(part.label)) == (0,) * 4
    assert select_features(part, 0, 0, FeatureOptions(0.0, False, False)).size == 0


def test_the_problem_releases_its_data() -> None:
    """The core has its own copy: two copies of a large corpus may not fit into memory."""
    data = collect(sequences(20, [1.0]))
    part = data.part(-1, inside=False)
    layout = select_features(
        part, len(data.attributes), len(data.labels), FeatureOptions(0.0, False, True)
    )
    core_data = _core.TrainingData(
        layout.native, part.native_rows(), None, part.row_begin, part.label, *[None] * 6
    )
    problem = Problem(core_data, len(part.lengths), False, 0.0, 1.0, 1)
    objective = problem.objective()
    assert problem.data is None
    gradient = np.empty(layout.size)
    # The loss at zero weights: log 2 for each of the positions.
    assert objective(np.zeros(layout.size), gradient) == pytest.approx(
        len(part.label) * np.log(2.0)
    )
