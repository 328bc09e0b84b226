"""If most label bigrams have no weight, forward-backward visits only those with one.

An empty list of constraints forbids nothing but takes the general code path: both must agree.
"""

import numpy as np
import pytest
from labellings import build_training_problem

from trellis import CRF, _core, native
from trellis.models.chain.problem import Problem


def make_problem(
    labels: int, lengths: list[int], constraints: object, weights: object, seed: int
) -> Problem:
    rng = np.random.default_rng(seed)
    X = [[{f"w{rng.integers(12)}": rng.normal(), "bias": 1.0} for _ in range(n)] for n in lengths]
    # few bigrams: each label is followed by itself or by the next
    y = [list(np.cumsum(rng.integers(0, 2, size=n)) % labels) for n in lengths]
    y[0][:labels] = list(range(labels))[: len(y[0])]
    model = CRF(transitions="seen", constraints=constraints, max_iter=1)
    return build_training_problem(model.fit(X, y, sample_weight=weights), X, y, weights)


def evaluate(
    p: Problem, w: np.ndarray, l2: float, threads: int
) -> tuple[float, np.ndarray, list[float]]:
    loss, gradient = _core.Objective(p.data, False), np.full(len(w), np.nan)
    return loss.evaluate(w, l2, threads, gradient), gradient, loss.log_likelihood


@pytest.mark.parametrize("isa", native.available_isas())
@pytest.mark.parametrize(
    ("labels", "lengths"),
    [(3, [4]), (5, [9, 1, 6, 2, 2, 7, 1, 3, 5]), (17, [40, 3, 25]), (130, [150, 2, 60, 60, 1])],
)
def test_the_sparse_path_gives_the_same_results(isa: str, labels: int, lengths: list[int]) -> None:
    original_isa = native.isa()
    native.use_isa(isa)
    try:
        weights = np.random.default_rng(1).uniform(0.0, 2.0, size=len(lengths))
        sparse = make_problem(labels, lengths, None, weights, 7)
        general = make_problem(labels, lengths, [], weights, 7)
        size = 13 * labels + labels * labels
        for scale in (0.1, 1.0, 4.0):
            w = np.random.default_rng(2).normal(scale=scale, size=size)
            w = w[: _size_of(sparse, w)]
            sparse_result, general_result = (
                evaluate(sparse, w, 0.5, 1),
                evaluate(general, w, 0.5, 1),
            )
            np.testing.assert_allclose(sparse_result[0], general_result[0], rtol=1e-11)
            np.testing.assert_allclose(sparse_result[1], general_result[1], rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(sparse_result[2], general_result[2], rtol=1e-9, atol=1e-10)
            repeated = evaluate(sparse, w, 0.5, 3)
            assert repeated[0] == sparse_result[0]
            np.testing.assert_array_equal(repeated[1], sparse_result[1])
    finally:
        native.use_isa(original_isa)


def _size_of(p: Problem, w: np.ndarray) -> int:
    """Return the number of weights: the core raises for any other length of w."""
    for n in range(1, len(w) + 1):
        try:
            _core.Objective(p.data, False).evaluate(w[:n], 0.0, 1, np.empty(n))
        except ValueError:
            continue
        return n
    raise AssertionError("no size fits")


def test_very_negative_bigrams_take_the_general_path() -> None:
    sparse, general = make_problem(6, [30, 8], None, None, 3), make_problem(6, [30, 8], [], None, 3)
    size = _size_of(sparse, np.zeros(200))
    w = np.random.default_rng(4).normal(size=size)
    w[-5:] = [-13.0, -40.0, -300.0, 5.0, -12.5]
    sparse_result, general_result = evaluate(sparse, w, 0.0, 1), evaluate(general, w, 0.0, 1)
    assert sparse_result[0] == pytest.approx(general_result[0], rel=1e-12)
    np.testing.assert_allclose(sparse_result[1], general_result[1], rtol=1e-9, atol=1e-12)
