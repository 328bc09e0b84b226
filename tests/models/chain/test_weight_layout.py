"""The layout of edge weights: which are kept, renumbered and joined."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from labellings import edge_part, random_data, state_part

import trellis
from trellis.errors import InputError
from trellis.models.chain.warm_start import merge
from trellis.models.chain.weights import WeightLayout


def make_layout() -> WeightLayout:
    """Return 2 labels, attributes a0 (x, y), a1 (y), edge attributes e0 (xy), e1 (xx, yx)."""
    return WeightLayout(
        2,
        np.array([0, 2, 3]),
        np.array([0, 1, 1], np.uint16),
        np.array([0, 3], np.int32),
        np.array([0, 1, 3]),
        np.array([1, 0, 2], np.int32),
    )


def test_attributes_of_the_weights() -> None:
    layout = make_layout()
    assert layout.state_attribute.tolist() == [0, 0, 1]
    assert layout.edge_attribute.tolist() == [0, 1, 1]
    assert (layout.states, layout.size) == (3, 8)
    assert [part.tolist() for part in layout.split(np.arange(8))] == [
        *([0, 1, 2], [3, 4], [5, 6, 7]),
        [],
    ]
    assert layout.transition_matrix(np.arange(8.0)).tolist() == [[3.0, 0.0], [0.0, 4.0]]
    plain = WeightLayout(2, layout.state_begin, layout.state_label, layout.bigram)
    assert plain.edge_attribute.tolist() == []
    assert plain.size == 5
    _ = layout.native
    assert pickle.loads(pickle.dumps(layout)).edge_bigram.tolist() == [1, 0, 2]


def test_selected_weights() -> None:
    selected = np.array([0, 1, 0, 0, 1, 0, 0, 1], np.bool_)
    layout, attributes, edge_attributes = make_layout().select(selected)
    assert (attributes.tolist(), edge_attributes.tolist()) == ([0], [1])
    assert (layout.state_begin.tolist(), layout.state_label.tolist()) == ([0, 1], [1])
    assert layout.bigram.tolist() == [3]
    assert (layout.edge_begin.tolist(), layout.edge_bigram.tolist()) == ([0, 1], [2])
    full = make_layout()
    plain = WeightLayout(2, full.state_begin, full.state_label, full.bigram)
    layout, attributes, edge_attributes = plain.select(np.array([0, 0, 1, 0, 0], np.bool_))
    assert (attributes.tolist(), edge_attributes.tolist()) == ([1], [])
    assert layout.edge_begin is None
    assert layout.bigram.tolist() == []


def test_keys_of_the_weights() -> None:
    layout = make_layout()
    keys = layout.keys(np.array([0, 1]), 2)
    assert [k.tolist() for k in keys] == [[0, 1, 3], [0, 3], [1, 4, 6]]
    swapped = layout.keys(np.array([2, 0]), 3)
    assert [k.tolist() for k in swapped] == [[2, 0, 3], [8, 0], [6, 9 + 8, 9 + 2]]
    copy = WeightLayout.from_keys(2, 2, 2, keys)
    for name in ("state_begin", "state_label", "bigram", "edge_begin", "edge_bigram"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(layout, name))
    plain = WeightLayout.from_keys(2, 3, None, keys[:2])
    assert plain.state_begin.tolist() == [0, 2, 3, 3]
    assert plain.edge_begin is None


@pytest.mark.parametrize("min_count", [0.0, 1.0, 1.5, 2.0])
def test_frequent_bigrams(min_count: float) -> None:
    X = [["a", "a", "a"], ["a", "a"]]
    y = [["x", "y", "y"], ["x", "y"]]  # xy twice, yy once
    model = trellis.CRF(transitions="seen", min_count=min_count, max_iter=2).fit(X, y)
    assert model.layout_.bigram.tolist() == ([1, 3] if min_count <= 1 else [1])
    weighted = trellis.CRF(transitions="seen", min_count=min_count, max_iter=2)
    weighted.fit(X, y, sample_weight=[0.5, 3.0])  # xy 3.5, yy 0.5
    assert weighted.layout_.bigram.tolist() == ([1, 3] if min_count <= 0.5 else [1])


def test_warm_start_and_pruning_with_edge_features() -> None:
    X, y = random_data(5, 3, [4, 6, 2, 5], edge_attributes=2)
    options: dict[str, Any] = {"edge_features": edge_part, "l1": 0.3, "warm_start": True}
    model = trellis.CRF(state_part, **options).fit(X, y)
    assert np.all(model.coef_ != 0.0)  # weights of 0 are removed
    probabilities = model.predict_marginals(X)
    again = model.fit(X, y)
    for table, expected in zip(again.predict_marginals(X), probabilities, strict=True):
        np.testing.assert_allclose(table, expected, atol=0.02)


def test_edge_features_in_one_of_two_fits() -> None:
    with_edges = make_layout()
    plain = WeightLayout(2, with_edges.state_begin, with_edges.state_label, with_edges.bigram)
    labels = np.arange(2)
    with pytest.raises(InputError, match=r"in both fits or in none; the earlier fit has them$"):
        merge(with_edges, np.zeros(8), labels, plain)
    with pytest.raises(InputError, match=r"in both fits or in none; the earlier fit has none$"):
        merge(plain, np.zeros(5), labels, with_edges)
    layout, w = merge(with_edges, np.arange(1.0, 9.0), labels, with_edges)
    assert w.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert layout.edge_bigram.tolist() == [1, 0, 2]


def count_weights(min_count: float, *values: float) -> int:
    X = [[{"a": value, "always": 9.0}] for value in values]
    model = trellis.CRF(transitions="none", min_count=min_count, max_iter=1)
    return model.fit(X, [["x"]] * len(values)).layout_.states - 1


def test_the_count_of_a_feature_is_the_sum_of_its_values() -> None:
    assert count_weights(0.0, -1.0) == 1  # 0 means that all pairs have a weight
    assert count_weights(1.0, 0.25, 0.75) == 1
    assert count_weights(1.0, 0.25, 0.5) == 0
    assert count_weights(0.5, 0.25, 0.25) == 1
    assert count_weights(0.5, 0.25, 0.125) == 0
