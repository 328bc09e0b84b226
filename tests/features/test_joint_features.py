"""Joint features as arrays: the parts, blocks, and groups of equal columns."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.features import joint as joint_module
from trellis.features.cells.entries import Entries, mark_changes
from trellis.features.joint import JointFeatures, NoFeatures, joint_functions
from trellis.models.chain.joint import group_columns

LABELS = ["A", "B", "C"]


def make(*functions: Any) -> JointFeatures:
    features = JointFeatures(NoFeatures(), joint_functions(list(functions)))
    features.classes = LABELS
    return features


def table(entries: Entries, names: list[str]) -> list[tuple[int, int, str, float]]:
    fields = (entries.row, entries.cell, entries.id, entries.value)
    rows = zip(*(field.tolist() for field in fields), strict=True)
    return [(row, cell, names[id], value) for row, cell, id, value in rows]


def of_all(x: Any, i: int, previous: Any, label: str) -> dict[str, float]:
    return {
        x[i] + label: 1.0,
        f"{previous}{label}": 2.0,
        "late": float(i > 5) if (previous, label) == ("A", "B") else 0.0,
        "not late": float(i < 5) if (previous, label) == ("A", "C") else 0.0,
        "length": len(x) if (previous, label) == ("B", "B") else 0.0,
    }


def test_the_three_parts() -> None:
    features = make(of_all)
    cells = features.learn_joint([["x", "y"], ["x", "y", "z"]], None)
    names = features.joint_names()
    pairs = list(product(LABELS, LABELS))
    expected = [(0, k, f"{a}{b}", 2.0) for k, (a, b) in enumerate(pairs)]
    assert sorted(table(cells.constant, names)) == sorted([*expected, (0, 2, "not late", 1.0)])
    assert table(cells.pairs, names) == [
        (r, 4, "length", v) for r, v in ((1, 2.0), (3, 3.0), (4, 3.0))
    ]
    state = table(cells.state, names)
    words = [(r, k, word + b) for r, word in enumerate("xyxyz") for k, b in enumerate(LABELS)]
    first = [(r, k, f"None{b}") for r in (0, 2) for k, b in enumerate(LABELS)]
    assert {entry[:3]: entry[3] for entry in state} == dict.fromkeys(words, 1.0) | dict.fromkeys(
        first, 2.0
    )
    assert state == sorted(state, key=lambda e: (e[0], e[1], names.index(e[2])))
    assert len(cells.arrays()) == 12


@pytest.mark.parametrize("size", [1, 9, 27, 40, 100, 1 << 16])
def test_blocks_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Constants of the first blocks that differ later become pairs of all positions."""
    rng = np.random.default_rng(0)
    X = [["xyz"[k] for k in rng.integers(3, size=n)] for n in (1, 3, 1, 2, 5, 8, 1, 7, 2)]
    functions = (of_all, lambda a, b: [f"{a}>{b}"], lambda x, i, b: {f"{x[i]}.{b}": 0.5})
    reference = make(*functions)
    expected = reference.learn_joint(X, None)
    monkeypatch.setattr(joint_module, "_BLOCK_CELLS", size)
    features = make(*functions)
    cells = features.learn_joint(X, None)
    assert sorted(features.joint_names()) == sorted(reference.joint_names())
    for part in ("state", "pairs", "constant"):
        entries = [
            sorted(table(getattr(cells, part), f.joint_names()))
            for cells, f in ((cells, features), (expected, reference))
        ]
        assert entries[0] == entries[1]
    joint = features.find(X).joint
    assert joint is not None
    assert all(map(np.array_equal, joint.arrays(), features.find(X).joint.arrays()))  # type: ignore[union-attr]


def test_scores_are_sums_of_weights() -> None:
    features = make(of_all)
    X = [["x"], ["x", "y", "z"]]
    features.learn_joint(X, None)
    w = np.random.default_rng(0).normal(size=features.joint_count)
    X.append(["x", "y"])
    cells = features.find(X).joint
    assert cells is not None
    unary, matrices = cells.add_scores(w, np.ones((6, 3)), np.full((1, 3, 3), 2.0))
    assert matrices.shape == (6, 3, 3)
    index = {name: n for n, name in enumerate(features.joint_names())}

    def score(x: Any, i: int, a: Any, b: str) -> float:
        return sum(v * w[index[n]] for n, v in of_all(x, i, a, b).items() if n in index)

    rows = [(x, i) for x in X for i in range(len(x))]
    for r, (x, i) in enumerate(rows):
        for b, label in enumerate(LABELS):
            if i == 0:
                assert unary[r, b] == pytest.approx(1.0 + score(x, 0, None, label))
                continue
            for a, previous in enumerate(LABELS):
                expected = 3.0 + score(x, i, previous, label)
                assert unary[r, b] + matrices[r, a, b] == pytest.approx(expected)


def test_one_matrix_if_pairs_do_not_depend_on_the_position() -> None:
    features = make(lambda x, i, a, b: [f"{a}{b}", x[i] + b])
    cells = features.learn_joint([["x", "y", "z"]], None)
    assert len(cells.pairs) == 0
    _, matrices = cells.add_scores(
        np.ones(features.joint_count), np.zeros((3, 3)), np.zeros((1, 3, 3))
    )
    assert matrices.tolist() == [[[1.0] * 3] * 3]


def test_unknown_features_are_ignored() -> None:
    features = make(lambda x, i, b: [x[i] + b])
    features.learn_joint([["x"]], np.array([[True, False, False]]))
    assert features.joint_names() == ["xA"]
    cells = features.find([["x", "y"]]).joint
    assert cells is not None
    assert table(cells.state, ["xA"]) == [(0, 0, "xA", 1.0)]
    assert features.features_at(["x"], 0, None, 0) == {0: 1.0}
    assert features.features_at(["x"], 0, None, 1) == {}


def test_functions_by_their_arguments() -> None:
    class Callable:
        def __call__(self, x: Any, i: int, label: Any, scale: float = 1.0) -> list[str]:
            return []

    functions = [of_all, Callable(), lambda a, b: [], lambda *arguments: [], max]
    assert [f.arguments for f in joint_functions(functions)] == [4, 3, 2, 4, 4]
    assert [f.arguments for f in joint_functions((of_all,))] == [4]
    with pytest.raises(InputError, match="takes 1"):
        joint_functions(lambda x, *, label: [])


def test_no_features() -> None:
    features = NoFeatures()
    batch = features.learn([["a", "b"], "cde"])
    assert batch.lengths.tolist() == [2, 3]
    assert batch.rows.begin.tolist() == [0] * 6
    assert (len(features), features.edges, features.names(), features.has_edges) == (
        0,
        0,
        [],
        False,
    )


def test_entries_are_sorted_and_added() -> None:
    parts = [Entries(*map(np.array, ([1, 0, 1], [2, 1, 2], [0, 0, 0], [1.0, 2.0, 0.5])))]
    parts += [Entries(*map(np.array, ([1, 0], [0, 1], [3, 0], [4.0, -2.0])))]
    joined = Entries.join(parts)
    assert table(joined, list("abcd")) == [(1, 0, "d", 4.0), (1, 2, "a", 1.5)]
    assert len(Entries.join([])) == 0
    assert mark_changes(np.zeros(0)).tolist() == []


def test_equal_columns_are_one_group() -> None:
    # columns (cell, id) -> {row: value}
    columns = {
        (0, 0): {3: 1.0, 5: 2.0},
        (1, 1): {3: 1.0, 5: 2.0},
        (1, 2): {3: 1.0, 5: 1.0},
        (2, 0): {1: 1.0},
        (2, 4): {3: 1.0, 5: 2.0, 6: 1.0},
    }
    entries = Entries.join(
        [
            Entries(*(np.array([v]) for v in (row, cell, id, value)))
            for (cell, id), rows in columns.items()
            for row, value in rows.items()
        ]
    )
    pairs, group, members = group_columns(entries, 5)
    assert list(zip(pairs.cell.tolist(), pairs.id.tolist(), strict=True)) == list(columns)
    # numbered by the first row: (2, 0) is the first
    assert group[3] == 0
    assert group[0] == group[1]
    assert sorted(set(group.tolist())) == [0, 1, 2, 3]
    expected = {int(group[k]): rows for k, rows in enumerate(columns.values())}
    assert {
        g: dict(
            zip(members.row[members.id == g].tolist(), members.value[members.id == g], strict=True)
        )
        for g in range(4)
    } == expected
    none, no_group, no_members = group_columns(Entries.join([]), 5)
    assert (len(none), len(no_group), len(no_members)) == (0, 0, 0)
