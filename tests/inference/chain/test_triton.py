"""The GPU kernels of the chain in Triton's interpreter: small odd sizes, NaN in new memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from brute import enumerate_chain
from cases import REGIMES, make_case
from triton_problems import (
    DEVICE,
    INF,
    NEEDED,
    TOLERANCE,
    Problem,
    nan_in_new_memory,
    problem,
    torch,
)

from trellis.inference import chain
from trellis.inference.chain import triton as engine
from trellis.inference.gpu.status import Marks

__all__ = ["nan_in_new_memory"]  # a fixture of every test

pytestmark = NEEDED


def expected(p: Problem, *, tagged: bool) -> tuple[np.ndarray, ...]:
    """Values and gradients by the engine of the CPU, row by row, in float64."""
    values = np.zeros(len(p.lengths))
    found = [np.zeros(tuple(part.shape)) for part in p[:4]]
    for b in range(len(values)):
        row, weight = p.row(b), float(p.weight[b])
        counts = chain.expected_counts(**row)
        values[b] = counts.log_partition
        unary, pairs = np.array(counts.unary), np.array(counts.transition)
        if tagged:
            tags = p.tags[b, : len(unary)].cpu().numpy()
            values[b] -= chain.score(**row, labels=tags)
            unary[np.arange(len(tags)), tags] -= 1.0
            for t, pair in enumerate(pairwise(tags)):
                pairs[pair if pairs.ndim == 2 else (t, *pair)] -= 1.0
            values[b], unary, pairs = -values[b], -unary, -pairs
        found[0][b, : len(unary)] = weight * unary
        if pairs.ndim == 2:
            found[1] += weight * pairs
        else:
            found[1][b, : len(pairs)] = weight * pairs
        found[2] += weight * unary[0]
        found[3] += weight * unary[-1]
    return (values, *found)


def computed(p: Problem, *, tagged: bool) -> tuple[Any, ...]:
    tags = p.tags if tagged else None
    value, alpha = engine.forward(*p.scores, tags)
    assert alpha.shape == p.emissions.shape
    assert not alpha.isnan().any()
    return (value, *engine.backward(*p.scores, tags, alpha, p.weight))


def require_equal(found: tuple[Any, ...], want: tuple[np.ndarray, ...], tolerance: float) -> None:
    names = ("value", "emissions", "transitions", "start", "end")
    for name, got, right in zip(names, found, want, strict=True):
        assert got.is_contiguous(), name
        np.testing.assert_allclose(
            got.double().cpu().numpy(), right, rtol=tolerance, atol=tolerance, err_msg=name
        )


def require_best(p: Problem, tolerance: float) -> None:
    labels, score = engine.viterbi(*p.scores)
    assert labels.dtype == torch.int64
    for b, length in enumerate(p.lengths.tolist()):
        want = chain.viterbi(**p.row(b))
        assert labels[b, :length].tolist() == want.labels.tolist()
        assert labels[b, length:].eq(0).all()
        assert float(score[b]) == pytest.approx(want.score, rel=tolerance, abs=tolerance)


def scaled(p: Problem) -> list[bool]:
    """Which rows did without log space."""
    return (engine.forward(*p.scores).alpha[:, 0].max(1).values > 0).tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("labels", [1, 2, 3, 9, 20, 33, 50])
def test_equal_to_the_cpu(labels: int, dtype: Any) -> None:
    p = problem([6, 1, 4], labels, dtype, seed=labels)
    require_equal(computed(p, tagged=True), expected(p, tagged=True), TOLERANCE[dtype])
    require_best(p, TOLERANCE[dtype])
    assert all(scaled(p))


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [(2, torch.float64), (17, torch.float32), (70, torch.float64), (130, torch.float32)],
    ids=str,
)
def test_in_log_space(labels: int, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept in registers, as with more labels; 70 are two tiles, 130 three."""
    monkeypatch.setattr(engine, "BYTES", 0)
    p = problem([5, 1, 2], labels, dtype, seed=labels, forbidden=0.2)
    assert not any(scaled(p))
    require_equal(computed(p, tagged=True), expected(p, tagged=True), TOLERANCE[dtype])
    require_best(p, TOLERANCE[dtype])


def test_a_block_of_several_warps() -> None:
    p = problem([4, 2], 100, torch.float32)
    assert all(scaled(p))
    require_equal(computed(p, tagged=True), expected(p, tagged=True), 1e-5)
    require_best(p, 1e-5)


@pytest.mark.parametrize("labels", [1, 3, 40])
@pytest.mark.parametrize("tagged", [False, True])
def test_transitions_of_each_position(labels: int, tagged: bool) -> None:
    p = problem([4, 1, 5], labels, positional=True, forbidden=0.2)
    require_equal(computed(p, tagged=tagged), expected(p, tagged=tagged), 1e-10)
    require_best(p, 1e-10)


def test_every_length() -> None:
    """1 to 10: all remainders of the loops that take four steps at once."""
    p = problem(list(range(1, 11)), 3)
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-10)
    require_best(p, 1e-10)


@pytest.mark.parametrize("regime", REGIMES)
def test_equal_to_enumeration(regime: str) -> None:
    rng = np.random.default_rng(REGIMES.index(regime))
    for number in range(4):
        case = make_case(rng, regime, f"{regime} {number}")
        unary = case.unary if case.mask is None else np.where(case.mask, case.unary, -INF)
        length, labels = unary.shape
        none = np.zeros(labels)
        start, end = (none if x is None else x for x in (case.start, case.end))
        truth = enumerate_chain(unary, case.transition, start, end)
        transition = case.transition if case.transition.ndim == 2 else case.transition[None]
        parts = [unary[None], transition, start, end, np.array([length]), case.labels[None]]
        p = Problem(*(torch.from_numpy(x).to(DEVICE) for x in parts), torch.ones(1).to(DEVICE))
        value, unaries, pairs, first, last = (x.cpu().numpy() for x in computed(p, tagged=False))
        labelled, score = (x.cpu().numpy() for x in engine.viterbi(*p.scores))
        np.testing.assert_allclose(value, truth.log_partition, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(score, truth.best_score, rtol=1e-10, atol=1e-10)
        if truth.feasible:
            want, both = truth.unary_marginals(), truth.pairwise_marginals()
            np.testing.assert_allclose(truth.score(labelled[0]), truth.best_score, rtol=1e-12)
            np.testing.assert_allclose(unaries[0], want, atol=1e-10)
            np.testing.assert_allclose(first, want[0], atol=1e-10)
            np.testing.assert_allclose(last, want[-1], atol=1e-10)
            both = both.sum(0) if pairs.ndim == 2 else both[None]
            np.testing.assert_allclose(pairs, both, atol=1e-10)
        else:
            assert not any(x.any() for x in (unaries, pairs, first, last))


@pytest.mark.parametrize("log_space", [False, True])
def test_rows_without_a_path(log_space: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if log_space:
        monkeypatch.setattr(engine, "BYTES", 0)
    p = problem([4, 5, 1], 3, torch.float32)
    p.emissions[0, 2] = -INF
    p.emissions[2, 0] = -INF
    value, alpha = engine.forward(*p.scores)
    assert value.isneginf().tolist() == [True, False, True]
    assert engine.forward(*p.scores, p.tags)[0].isneginf().tolist() == [True, False, True]
    for tags in (None, p.tags):
        found = engine.backward(*p.scores, tags, alpha, p.weight)
        assert not any(part.isnan().any() for part in found)
        assert not found[0][[0, 2]].any()
        alone = Problem(p.emissions[1:2], *p[1:4], *(part[1:2] for part in p[4:]))
        want = expected(alone, tagged=tags is not None)[2:]
        for part, right in zip(found[1:], want, strict=True):
            np.testing.assert_allclose(part.cpu().numpy(), right, atol=1e-5)
    labels, score = engine.viterbi(*p.scores)
    assert score.isneginf().tolist() == [True, False, True]
    assert ((labels >= 0) & (labels < 3)).all()


def test_forbidden_tags() -> None:
    """The path of the tags does not exist, but others do: -inf, and a gradient that leads there."""
    p = problem([3], 2)
    p.transitions[p.tags[0, 0], p.tags[0, 1]] = -INF
    value, *found = computed(p, tagged=True)
    assert value.isneginf().all()
    require_equal((torch.zeros(1), *found), (np.zeros(1), *expected(p, tagged=True)[1:]), 1e-10)


def test_labels_that_are_never_entered() -> None:
    """Forbidden by -1e4, as many do: no row is slower for it, and the numbers are right."""
    p = problem([6, 3], 5, torch.float32)
    p.transitions[:, 3] = -1e4
    p.transitions[4] = -1e4
    p.start[3] = p.end[4] = -1e4
    assert all(scaled(p))
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-5)


def test_constraints_and_known_labels_stay_scaled() -> None:
    """Nothing underflows, so a probability of 0 is known to be one."""
    p = problem([7, 5], 5, torch.float32, scale=1.0)
    p.transitions[0, 2] = p.transitions[0, 4] = p.transitions[1, 4] = -INF
    p.emissions[0, 3, 1:] = -INF
    assert all(scaled(p))
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-5)


def test_a_hopeless_label_that_is_the_only_one_later() -> None:
    """α of label 1 falls behind by 40 a step, until label 0 is forbidden."""
    p = problem([6, 6], 2, torch.float32)
    p.emissions[0, :, 1] -= 40.0
    p.transitions[0, 1] = p.transitions[1, 0] = -INF
    p.emissions[0, 5, 0] = -INF
    assert scaled(p) == [False, True]
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-5)


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_scores_that_do_not_matter(size: float) -> None:
    """The same number on all labels or all transitions: no digit of the gradient is lost."""
    p = problem([5, 3], 4, torch.float32, scale=1.0)
    want = expected(p, tagged=False)[1:]
    for part in p[:3]:
        part.copy_((part + size) - size)  # what is left when the sum has been rounded
    rounded = expected(p, tagged=False)[1:]
    for part in p[:3]:
        part += size
    _, *found = computed(p, tagged=False)
    assert max(np.abs(a - b).max() for a, b in zip(want, rounded, strict=True)) < 0.01
    require_equal((torch.zeros(1), *found), (np.zeros(1), *rounded), 1e-5)


def test_huge_scores() -> None:
    p = problem([6, 4, 1], 5, torch.float32, scale=1e4)
    value, *found = computed(p, tagged=False)
    want, *gradients = expected(p, tagged=False)
    np.testing.assert_allclose(value.cpu().numpy(), want, rtol=1e-6)
    require_equal((torch.zeros(1), *found), (np.zeros(1), *gradients), 1e-5)
    require_best(p, 1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_float32(dtype: Any) -> None:
    p = problem([5, 3], 9, torch.float32)
    p = p._replace(emissions=p.emissions.to(dtype))
    wide = p._replace(emissions=p.emissions.float())
    found, want = computed(p, tagged=True), computed(wide, tagged=True)
    assert found[1].dtype == dtype
    # the interpreter cuts bfloat16 off where a card rounds
    torch.testing.assert_close(found[1].float(), want[1], rtol=torch.finfo(dtype).eps, atol=1e-7)
    assert all(torch.equal(found[k], want[k]) for k in (0, 2, 3, 4))
    for a, b in zip(engine.viterbi(*p.scores), engine.viterbi(*wide.scores), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("positional", [False, True])
def test_any_strides(positional: bool) -> None:
    p = problem([4, 2], 3, positional=positional)
    turned = p._replace(
        emissions=p.emissions.permute(2, 1, 0).contiguous().permute(2, 1, 0),
        transitions=p.transitions.mT.contiguous().mT,
        start=torch.stack([p.start, p.end], 1)[:, 0],
        end=torch.stack([p.start, p.end], 1)[:, 1],
        lengths=torch.stack([p.lengths, p.lengths], 1)[:, 0],
        tags=p.tags.t().contiguous().t(),
        weight=p.weight[:1].expand(2),
    )
    assert not any(part.is_contiguous() for part in turned)
    p = p._replace(weight=turned.weight.clone())
    for a, b in zip(computed(turned, tagged=True), computed(p, tagged=True), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(engine.viterbi(*turned.scores), engine.viterbi(*p.scores), strict=True):
        assert torch.equal(a, b)


def test_ties_go_to_the_first_label() -> None:
    p = problem([5, 2], 7)
    zero = Problem(*(torch.zeros_like(part) for part in p[:4]), *p[4:])
    labels, score = engine.viterbi(*zero.scores)
    assert not labels.any()
    assert not score.any()
    whole = Problem(*(part.round() for part in p[:4]), *p[4:])
    require_best(whole, 0.0)


def test_wrong_lengths_and_tags_touch_nothing_else() -> None:
    p = problem([3, 3], 2)
    wrong = p._replace(lengths=torch.tensor([0, 99]), tags=torch.full_like(p.tags, 99))
    whole = wrong._replace(emissions=p.emissions.nan_to_num(), lengths=wrong.lengths.to(DEVICE))
    assert not any(part.isnan().any() for part in computed(whole, tagged=True))


def test_the_same_bits_again() -> None:
    p = problem([9, 8, 3, 1, 7], 12, torch.float32)
    first, again = computed(p, tagged=True), computed(p, tagged=True)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_input_is_left_as_it_was() -> None:
    p = problem([4, 2], 3)
    before = [part.clone() for part in p]
    computed(p, tagged=True)
    engine.viterbi(*p.scores)
    for part, kept in zip(p, before, strict=True):
        torch.testing.assert_close(part, kept, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_long_row(scale: float) -> None:
    """log Z to 1e-6 and marginals to 1e-5 in float32; with scores so wide, in log space."""
    p = problem([160], 3, torch.float32, scale=scale)._replace(weight=torch.ones(1, device=DEVICE))
    value, *found = computed(p, tagged=False)
    want, *gradients = expected(p, tagged=False)
    assert float(value[0]) == pytest.approx(want[0], rel=1e-6)
    np.testing.assert_allclose(found[0].cpu().numpy(), gradients[0], atol=1e-5)
    np.testing.assert_allclose(found[1].cpu().numpy(), gradients[1], rtol=1e-5, atol=1e-5)


# ---- masks, lengths and tags


@pytest.mark.parametrize("steps", [1, 7, 1500])
def test_steps_that_count(steps: int) -> None:
    rng = np.random.default_rng(steps)
    mask = rng.random((5, steps)) < 0.7
    mask[0], mask[1], mask[2, : steps // 2], mask[2, steps // 2 :] = True, False, True, False
    tags = np.where(mask, rng.integers(6, size=mask.shape), -100)
    tags[4, mask[4]] = 6
    given, own = (torch.from_numpy(x).to(DEVICE) for x in (mask, tags))
    found = engine.look(torch.zeros(5, steps, 6), given, None, own)
    lengths, status = (x.tolist() for x in found)
    for row in range(5):
        counted = np.flatnonzero(mask[row])
        assert lengths[row] == len(counted)
        gaps = counted.tolist() != list(range(len(counted)))
        wrong = (len(counted) == 0, row == 4 and len(counted) > 0)
        assert status[row] == gaps + 2 * wrong[0] + 4 * wrong[1]


def test_lengths_and_tags_that_are_wrong() -> None:
    tags = torch.tensor([[0, 1, 9], [0, 9, 0], [0, 0, 0], [0, 0, 0]], device=DEVICE)
    lengths = torch.tensor([2, 2, 0, 4], device=DEVICE)
    scores = torch.zeros(4, 3, 2, device=DEVICE)
    for own in (tags, tags.t().contiguous().t()):
        found, marks = engine.look(scores, None, lengths, own)
        assert torch.equal(found, lengths)
        assert marks.tolist() == [0, 4, 2, 2]


def test_a_mask_in_place_of_lengths() -> None:
    """The same values, and a mark where steps between others do not count."""
    p = problem([4, 2, 3], 3)
    mask = torch.arange(p.tags.shape[1], device=DEVICE) < p.lengths[:, None]
    right = engine.forward(*p.scores, p.tags)
    marks = Marks(3, mask.device)
    found = engine.forward(*p[:4], None, p.tags, mask.t().contiguous().t(), marks)
    assert torch.equal(found.value, right.value)
    assert marks.wait() == [0, 0, 0]
    mask[2, 1] = False
    marks = Marks(3, mask.device)
    engine.forward(*p[:4], None, p.tags, mask, marks)
    assert marks.wait() == [0, 0, 1]
