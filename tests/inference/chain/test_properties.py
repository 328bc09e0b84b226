"""Properties of every chain. Hypothesis searches for scores that violate one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scale import examples

from trellis.inference import chain

checked = settings(max_examples=examples(80), deadline=None)
FINITE = st.floats(-30.0, 30.0, allow_subnormal=False)


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain with every argument present."""

    unary: np.ndarray
    transition: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @property
    def scores(self) -> tuple[np.ndarray, ...]:
        return self.unary, self.transition, self.start, self.end

    @property
    def log_partition(self) -> float:
        return chain.log_partition(*self.scores)


@st.composite
def any_chains(draw: st.DrawFn, forbid: bool = True) -> Chain:
    """Draw a chain: T in 1..8, L in 1..9, shared or positional transitions, some scores -inf."""
    length, n_labels = draw(st.integers(1, 8)), draw(st.integers(1, 9))
    positional = draw(st.booleans())
    score = FINITE
    if forbid and draw(st.booleans()):
        score = st.one_of(FINITE, FINITE, FINITE, st.just(-np.inf))

    def block(*shape: int) -> np.ndarray:
        return draw(arrays(np.float64, shape, elements=score, fill=score))

    square = (length - 1, n_labels, n_labels) if positional else (n_labels, n_labels)
    return Chain(block(length, n_labels), block(*square), block(n_labels), block(n_labels))


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Draw a chain with at least one allowed path."""
    drawn = draw(any_chains())
    assume(drawn.log_partition > -np.inf)
    return drawn


def near(got: Any, want: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@checked
@given(any_chains(), st.data())
def test_a_constant_in_a_row_moves_log_z_and_nothing_else(c: Chain, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(c.unary) - 1))
    constant = data.draw(st.floats(-1e4, 1e4))
    shifted = c.unary.copy()
    shifted[position] += constant
    moved = replace(c, unary=shifted)
    near(moved.log_partition, c.log_partition + constant)
    assume(c.log_partition > -np.inf)
    # The shift rounds the scores at the size of the constant, so the tolerance is above 1e-10.
    near(chain.marginals(*moved.scores).unary, chain.marginals(*c.scores).unary, 1e-9)
    near(chain.entropy(*moved.scores), chain.entropy(*c.scores), 1e-8)


@checked
@given(chains())
def test_marginals_are_consistent_distributions(c: Chain) -> None:
    p = chain.marginals(*c.scores)
    assert (p.unary >= 0).all()
    assert (p.pairwise >= 0).all()
    near(p.unary.sum(1), 1.0)
    near(p.pairwise.sum(2), p.unary[:-1])
    near(p.pairwise.sum(1), p.unary[1:])


@checked
@given(any_chains(), st.data())
def test_a_mask_never_adds_paths(c: Chain, data: st.DataObject) -> None:
    mask = data.draw(arrays(np.bool_, c.unary.shape))
    masked = chain.log_partition(*c.scores, mask=mask)
    assert masked <= c.log_partition + 1e-10 * (1 + abs(np.nan_to_num(c.log_partition)))
    forbidden = replace(c, unary=np.where(mask, c.unary, -np.inf))
    assert masked == forbidden.log_partition


@checked
@given(any_chains(), st.data())
def test_masked_to_one_path(c: Chain, data: st.DataObject) -> None:
    length, n_labels = c.unary.shape
    labels = data.draw(arrays(np.int64, length, elements=st.integers(0, n_labels - 1)))
    mask = np.arange(n_labels) == labels[:, None]
    score = chain.score(*c.scores, labels=labels)
    near(chain.log_partition(*c.scores, mask=mask), score)
    assume(score > -np.inf)
    np.testing.assert_array_equal(chain.viterbi(*c.scores, mask=mask).labels, labels)
    near(chain.marginals(*c.scores, mask=mask).unary, mask)
    near(chain.entropy(*c.scores, mask=mask), 0.0)


@checked
@given(chains(), st.integers(1, 6))
def test_best_paths(c: Chain, k: int) -> None:
    length, n_labels = c.unary.shape
    best = chain.viterbi(*c.scores)
    slack = 1e-10 * (1 + abs(best.score))
    assert best.score <= c.log_partition + slack
    assert c.log_partition <= best.score + length * np.log(n_labels) + slack
    near(chain.score(*c.scores, labels=best.labels), best.score)
    several = chain.kbest(*c.scores, k=k)
    near(several.score[0], best.score)
    assert (np.diff(several.score) <= 0).all()
    assert len(np.unique(several.labels, axis=0)) == len(several.labels) <= k
    near([chain.score(*c.scores, labels=path) for path in several.labels], several.score)


@checked
@given(chains())
def test_max_marginals_peak_at_the_best_score(c: Chain) -> None:
    through = chain.max_marginals(*c.scores)
    best = chain.viterbi(*c.scores)
    near(through.max(1), best.score)
    near(through[np.arange(len(through)), best.labels], best.score)
    np.testing.assert_array_equal(through > -np.inf, _reachable(c))


def _reachable(c: Chain) -> np.ndarray:
    """Return where an allowed path has each label, (T, L), without sums of scores."""
    length, n_labels = c.unary.shape
    steps = np.broadcast_to(c.transition, (length - 1, n_labels, n_labels)) > -np.inf
    allowed = c.unary > -np.inf
    forward, backward = allowed.copy(), allowed.copy()
    forward[0] &= c.start > -np.inf
    backward[-1] &= c.end > -np.inf
    for t in range(1, length):
        forward[t] &= (forward[t - 1][:, None] & steps[t - 1]).any(0)
        backward[-1 - t] &= (steps[-t] & backward[-t]).any(1)
    return forward & backward


@checked
@given(chains())
def test_reversed_chain_has_the_same_log_z(c: Chain) -> None:
    """Reverse positions, transpose transitions, swap start and end: log Z does not change."""
    transition = np.swapaxes(c.transition, -1, -2)
    transition = transition[::-1] if transition.ndim == 3 else transition
    back = Chain(c.unary[::-1], transition, c.end, c.start)
    near(back.log_partition, c.log_partition)
    near(chain.entropy(*back.scores), chain.entropy(*c.scores))
    near(chain.viterbi(*back.scores).score, chain.viterbi(*c.scores).score)
    near(chain.max_marginals(*back.scores)[::-1], chain.max_marginals(*c.scores))
    reversed_p, here = chain.marginals(*back.scores), chain.marginals(*c.scores)
    near(reversed_p.unary[::-1], here.unary)
    near(np.swapaxes(reversed_p.pairwise[::-1], 1, 2), here.pairwise)


@checked
@given(chains(), st.data())
def test_renamed_labels(c: Chain, data: st.DataObject) -> None:
    order = np.array(data.draw(st.permutations(range(c.unary.shape[1]))))
    transition = c.transition[..., order, :][..., order]
    renamed = Chain(c.unary[:, order], transition, c.start[order], c.end[order])
    near(renamed.log_partition, c.log_partition)
    near(chain.entropy(*renamed.scores), chain.entropy(*c.scores))
    near(chain.max_marginals(*renamed.scores), chain.max_marginals(*c.scores)[:, order])
    new, old = chain.expected_counts(*renamed.scores), chain.expected_counts(*c.scores)
    near(new.unary, old.unary[:, order])
    near(new.transition, old.transition[..., order, :][..., order])
    near(new.start, old.start[order])
    near(new.end, old.end[order])


@checked
@given(chains())
def test_entropy_has_bounds(c: Chain) -> None:
    length, n_labels = c.unary.shape
    entropy = chain.entropy(*c.scores)
    assert 0.0 <= entropy <= length * np.log(n_labels) + 1e-10
    unary = chain.marginals(*c.scores).unary
    sum_of_entropies = -np.sum(unary * np.log(np.where(unary > 0, unary, 1.0)))
    assert entropy <= sum_of_entropies + 1e-10 * (
        1 + sum_of_entropies
    )  # the joint entropy is at most the sum of the entropies


@checked
@given(any_chains(), st.data())
def test_an_independent_position_multiplies_z(c: Chain, data: st.DataObject) -> None:
    """Append a position with transitions of zero: the log Z of both parts are added."""
    length, n_labels = c.unary.shape
    extra = data.draw(arrays(np.float64, (1, n_labels), elements=FINITE))
    steps = np.broadcast_to(c.transition, (length - 1, n_labels, n_labels))
    joined_steps = np.concatenate([steps, np.zeros((1, n_labels, n_labels))])
    ended = c.unary.copy()
    ended[-1] += c.end
    joined = (np.concatenate([ended, extra]), joined_steps, c.start)
    alone = chain.log_partition(extra, np.zeros((n_labels, n_labels)))
    near(chain.log_partition(*joined), c.log_partition + alone)
    assume(c.log_partition > -np.inf)
    both = chain.entropy(extra, np.zeros((n_labels, n_labels))) + chain.entropy(*c.scores)
    near(chain.entropy(*joined), both)


@checked
@given(chains(), st.integers(0, 2**32 - 1))
def test_samples_are_allowed_paths(c: Chain, seed: int) -> None:
    paths = chain.sample(*c.scores, n=5, random_state=seed)
    assert all(chain.score(*c.scores, labels=path) > -np.inf for path in paths)
