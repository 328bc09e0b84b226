"""The expected counts are the gradient of log Z, tested by central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import Batch, Case, generate_cases, make_batch

from trellis.errors import InputError
from trellis.inference import chain

STEP = 1e-5
TOLERANCE = 1e-6


def central_difference(f: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """(f(x + h e_i) - f(x - h e_i)) / 2h for each entry i; -inf stays -inf and gives 0."""
    gradient = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[i] += STEP
        down[i] -= STEP
        gradient[i] = (f(up) - f(down)) / (2 * STEP)
    return gradient


def gradient_of_sum(scores: dict[str, Any], name: str) -> np.ndarray:
    """d(sum over the batch of log Z) / d(argument) for an array argument."""

    def total(value: np.ndarray) -> float:
        return float(np.sum(chain.log_partition(**(scores | {name: value}))))

    return central_difference(total, scores[name])


def require_gradients(scores: dict[str, Any], names: tuple[str, ...]) -> None:
    counts = chain.expected_counts(**scores)
    for name in names:
        want = gradient_of_sum(scores, name)
        got = getattr(counts, name)
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE, err_msg=name)


def small_scores(case: Case) -> dict[str, Any]:
    """Replace missing start and end by zeros, so that they have a gradient too."""
    zeros = np.zeros(case.unary.shape[1])
    return {
        "unary": case.unary,
        "transition": case.transition,
        "start": zeros if case.start is None else case.start,
        "end": zeros if case.end is None else case.end,
        "mask": case.mask,
    }


def feasible_cases() -> list[Case]:
    # Huge and wide scores are excluded: central differences are not exact enough for them.
    tame = ("ordinary", "zero", "ties", "forbidden", "left_to_right")
    cases = [c for c in generate_cases(chunk=400, n_cases=150) if c.name.startswith(tame)]
    return [c for c in cases if chain.log_partition(*c.scores, mask=c.mask) > -np.inf]


def test_one_sequence() -> None:
    cases = feasible_cases()
    assert len(cases) > 60
    for case in cases:
        require_gradients(small_scores(case), ("unary", "transition", "start", "end"))


def test_marginals_are_the_gradient() -> None:
    """marginals().pairwise is the gradient for transitions that depend on the position."""
    for case in feasible_cases():
        scores = small_scores(case)
        length, n_labels = case.unary.shape
        steps = np.broadcast_to(case.transition, (length - 1, n_labels, n_labels)).copy()
        scores["transition"] = steps
        p = chain.marginals(**scores)
        for name, got in (("unary", p.unary), ("transition", p.pairwise)):
            want = gradient_of_sum(scores, name)
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE, err_msg=case.name)


def without_labels(scores: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in scores.items() if name != "labels"}


def ragged(positional: bool) -> Batch:
    return make_batch(8, lengths=[3, 1, 5, 2], n_labels=3, positional=positional)


@pytest.mark.parametrize("positional", [False, True])
def test_padded_batch(positional: bool) -> None:
    """Entries in the padding have gradient 0: log Z does not depend on them."""
    scores = without_labels(ragged(positional).padded())
    require_gradients(scores, ("unary", "transition", "start", "end"))


def test_list_batch_shares_its_transitions() -> None:
    scores = without_labels(ragged(positional=False).as_list())
    require_gradients(scores, ("transition", "start", "end"))


def test_list_batch_with_transitions_per_sequence() -> None:
    batch = ragged(positional=True)
    counts = chain.expected_counts(**without_labels(batch.as_list()))
    for b in range(len(batch.unary)):
        one = without_labels(batch.one(b))
        for name in ("unary", "transition"):
            want = gradient_of_sum(one, name)
            got = getattr(counts, name)[b]
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE)


def test_positional_transitions_shared_by_a_padded_batch() -> None:
    scores = without_labels(ragged(positional=False).padded())
    length = scores["unary"].shape[1]
    rng = np.random.default_rng(3)
    scores["transition"] = rng.normal(size=(length - 1, 3, 3))
    require_gradients(scores, ("unary", "transition", "start", "end"))


@pytest.mark.parametrize("scale", [1.0, 400.0], ids=["scaled", "log space"])
@pytest.mark.parametrize("shape", [(4, 4), (4, 4, 4), (3, 4, 4, 4)], ids=str)
def test_weights_multiply_the_counts_of_a_sequence(shape: tuple[int, ...], scale: float) -> None:
    rng = np.random.default_rng(3)
    unary, transition = scale * rng.normal(size=(3, 5, 4)), rng.normal(size=shape)
    lengths, weights = [5, 3, 1], np.array([0.5, 2.0, 3.0])
    counts = chain.expected_counts(unary, transition, lengths=lengths, weights=weights)
    right = [np.zeros_like(np.asarray(part)) for part in counts[:4]]
    for b, w in enumerate(weights):  # compare with a batch of this row only
        matrices = transition[b : b + 1] if transition.ndim == 4 else transition
        part = chain.expected_counts(unary[b : b + 1], matrices, lengths=lengths[b : b + 1])
        right[0][b] = w * np.asarray(part.unary)[0]
        if transition.ndim == 4:
            right[1][b] = w * np.asarray(part.transition)[0]
        else:
            right[1] += w * np.asarray(part.transition)
        right[2] += w * part.start
        right[3] += w * part.end
    for ours, theirs in zip(counts[:4], right, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, atol=1e-12)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 1.0]]])
def test_bad_weights(weights: Any) -> None:
    with pytest.raises(InputError, match="weight"):
        chain.expected_counts(np.zeros((2, 3, 2)), np.zeros((2, 2)), weights=weights)


@pytest.mark.parametrize("positional", [False, True])
def test_labels_give_the_gradient_of_log_prob(positional: bool) -> None:
    rng = np.random.default_rng(positional)
    shape = (3, 4, 3, 3) if positional else (3, 3)
    scores = {
        "unary": rng.normal(size=(3, 5, 3)),
        "transition": rng.normal(size=shape),
        "start": rng.normal(size=3),
        "end": rng.normal(size=3),
    }
    rest = {"lengths": [5, 3, 1], "labels": rng.integers(3, size=(3, 5))}
    weights = np.array([0.5, 2.0, 1.0])
    counts = chain.expected_counts(**scores, **rest, weights=weights)
    np.testing.assert_allclose(counts.log_partition, -chain.log_prob(**scores, **rest), atol=1e-12)
    for name, value in scores.items():

        def loss(x: np.ndarray, name: str = name) -> float:
            return float(-weights @ chain.log_prob(**(scores | {name: x}), **rest))

        want = central_difference(loss, value)
        np.testing.assert_allclose(getattr(counts, name), want, rtol=0, atol=TOLERANCE)


def test_labels_that_are_forbidden_or_wrong() -> None:
    transition = np.array([[0.0, -np.inf], [0.0, 0.0]])
    counts = chain.expected_counts(np.zeros((2, 2)), transition, labels=[0, 1])
    assert counts.log_partition == np.inf
    np.testing.assert_allclose(counts.unary, [[1 / 3 - 1, 2 / 3], [2 / 3, 1 / 3 - 1]])
    with pytest.raises(InputError, match="label of sequence 1, position 0 is 2"):
        chain.expected_counts(np.zeros((2, 1, 2)), np.zeros((2, 2)), labels=[[0], [2]])
