"""The threshold for spans that a development set chooses agrees with a search over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis import metrics
from trellis.data import tags
from trellis.errors import InputError


def threshold_counts(y: Any, spans: Any, limit: float) -> tuple[float, float]:
    """Return precision and recall of the spans with at least this probability."""
    true = [set(map(tuple, tags.spans(labels))) for labels in y]
    kept = [[span[:3] for span in row if span[3] >= limit] for row in spans]
    n_correct = sum(s in t for t, row in zip(true, kept, strict=True) for s in row)
    n_predicted, n_true = sum(map(len, kept)), sum(map(len, true))
    return (n_correct / n_predicted if n_predicted else 0.0), n_correct / max(n_true, 1)


def test_thresholds_by_enumeration() -> None:
    rng = np.random.default_rng(3)
    for trial in range(30):
        y = [["B-X" if p < 0.4 else "O" for p in row] for row in rng.random((4, 5))]
        spans = [
            [("X", t, t + 1, float(p)) for t, p in enumerate(row) if p > 0.3]
            for row in rng.integers(0, 10, (4, 5)) / 10  # many equal probabilities
        ]
        all_p = sorted({s[3] for row in spans for s in row})
        rates = [threshold_counts(y, spans, p) for p in all_p]
        for beta in (0.0, 0.5, 1.0, 2.0):
            chosen = metrics.choose_threshold(y, spans, beta=beta)
            best = max(
                (1 + beta**2) * p * r / (beta**2 * p + r) if p * r else 0.0 for p, r in rates
            )
            p, r = threshold_counts(y, spans, chosen.min_probability)
            assert (chosen.precision, chosen.recall) == pytest.approx((p, r))
            assert chosen.f1 == pytest.approx(2 * p * r / (p + r) if p * r else 0.0)
            value = (1 + beta**2) * p * r / (beta**2 * p + r) if p * r else 0.0
            assert value == pytest.approx(best), trial
            # Between two probabilities, or the smallest one.
            limit = chosen.min_probability
            assert limit == all_p[0] or limit not in all_p
        target = sorted(p for p, _ in rates)[len(rates) // 2]
        chosen = metrics.choose_threshold(y, spans, min_precision=target)
        assert chosen.precision >= target
        assert chosen.recall == pytest.approx(max(r for p, r in rates if p >= target))
        highest = max(p for p, _ in rates)
        if highest < 1.0:
            message = rf"no threshold has a precision of 1: the highest is {highest:.4f}, with min_"
            with pytest.raises(InputError, match=message):
                metrics.choose_threshold(y, spans, min_precision=1.0)


def test_the_threshold_lies_halfway() -> None:
    y = [["B-X", "O", "B-X", "O"]]
    spans = [[("X", 0, 1, 0.9), ("X", 1, 2, 0.4), ("X", 2, 3, 0.3), ("X", 3, 4, 0.2)]]
    assert metrics.choose_threshold(y, spans, min_precision=1.0).min_probability == 0.65
    assert metrics.choose_threshold(y, spans).min_probability == 0.25
    assert metrics.choose_threshold(y, spans, min_precision=0.5).min_probability == 0.25
    last = metrics.choose_threshold(y, [[("X", 2, 3, 0.3)]])
    assert last == (0.3, 1.0, 0.5, 2 / 3)
    outside = metrics.choose_threshold([["O"]], [[("X", 0, 1, 0.5)]])
    assert outside == (0.5, 0.0, 0.0, 0.0)


def test_wrong_arguments_of_a_threshold() -> None:
    spans = [[("X", 0, 1, 0.9)]]
    with pytest.raises(InputError, match="y_true has 2 sequences, spans has 1"):
        metrics.choose_threshold([["O"], ["O"]], spans)
    with pytest.raises(InputError, match="spans has no span: a threshold cannot be chosen"):
        metrics.choose_threshold([["O"]], [[]])
    for p in (float("nan"), -0.1, 1.1):
        with pytest.raises(
            InputError, match=r"spans of sequence 1: \('X', 0, 1, .*has no probabil"
        ):
            metrics.choose_threshold([["O"], ["O"]], [[], [("X", 0, 1, p)]])
    for p in (0.0, 1.0):
        assert metrics.choose_threshold([["B-X"]], [[("X", 0, 1, p)]]).f1 == 1.0
    with pytest.raises(InputError, match="beta must be finite and at least 0, not -1"):
        metrics.choose_threshold([["B-X"]], spans, beta=-1)
    with pytest.raises(InputError, match=r"min_precision is 1\.5"):
        metrics.choose_threshold([["B-X"]], spans, min_precision=1.5)
    with pytest.raises(InputError, match="scheme 'x' is not one of"):
        metrics.choose_threshold([["B-X"]], spans, scheme="x")
    with pytest.raises(InputError, match="y_true, sequence 1, position 0: 'X' is not a tag"):
        metrics.choose_threshold([["O"], ["X"]], [*spans, []])
    scheme = metrics.choose_threshold([["X", "X"]], [[("X", 0, 2, 0.9)]], scheme="plain")
    assert scheme.f1 == 1.0
