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
    best_path,
    nan_in_new_memory,
    problem,
    torch,
)

from trellis.inference import chain
from trellis.inference.chain.triton import ChainPlan
from trellis.inference.gpu.status import RowStatus

__all__ = ["nan_in_new_memory"]  # a fixture of every test

pytestmark = NEEDED


def expected(p: Problem, *, tagged: bool) -> tuple[np.ndarray, ...]:
    """Compute values and gradients on the CPU, row by row, in float64."""
    values = np.zeros(len(p.lengths))
    gradients = [np.zeros(tuple(part.shape)) for part in p[:4]]
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
        gradients[0][b, : len(unary)] = weight * unary
        if pairs.ndim == 2:
            gradients[1] += weight * pairs
        else:
            gradients[1][b, : len(pairs)] = weight * pairs
        gradients[2] += weight * unary[0]
        gradients[3] += weight * unary[-1]
    return (values, *gradients)


def computed(p: Problem, *, tagged: bool, mask: Any = None) -> tuple[Any, ...]:
    """Compute values and weighted gradients with the kernels."""
    batch = p.batch(tagged=tagged)
    batch = batch if mask is None else (*batch[:4], None, batch[5], mask)
    plan = ChainPlan(batch)
    value, saved = plan.run(batch)
    return (value, *plan.gradients(saved, p.weight))


def values(p: Problem, *, tagged: bool = False) -> Any:
    """Compute values without gradients."""
    batch = p.batch(tagged=tagged)
    return ChainPlan(batch, "value").run(batch)[0]


def require_equal(results: tuple[Any, ...], want: tuple[np.ndarray, ...], tolerance: float) -> None:
    names = ("value", "emissions", "transitions", "start", "end")
    for name, got, right in zip(names, results, want, strict=True):
        assert got.is_contiguous(), name
        np.testing.assert_allclose(
            got.double().cpu().numpy(), right, rtol=tolerance, atol=tolerance, err_msg=name
        )


def require_best(p: Problem, tolerance: float) -> None:
    labels, score = best_path(p)
    assert labels.dtype == torch.int64
    for b, length in enumerate(p.lengths.tolist()):
        want = chain.viterbi(**p.row(b))
        assert labels[b, :length].tolist() == want.labels.tolist()
        assert labels[b, length:].eq(0).all()
        assert float(score[b]) == pytest.approx(want.score, rel=tolerance, abs=tolerance)


def scaled(p: Problem) -> list[bool]:
    """Return which rows were computed with scaled probabilities, not in log space."""
    batch = p.batch(tagged=False)
    plan = ChainPlan(batch)
    _, memory = plan.launch([None if x is None else x.contiguous() for x in batch])
    alpha = plan.views(memory)["alpha"].view(p.emissions.shape)
    assert not any(x[:n].isnan().any() for x, n in zip(alpha, p.lengths, strict=True))
    return (alpha[:, 0].max(1).values > 0).tolist()


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
    """Transitions are not in registers, as with many labels. 70 labels need two tiles."""
    monkeypatch.setattr(ChainPlan, "max_held_bytes", 0)
    p = problem([5, 1, 2], labels, dtype, seed=labels, forbidden=0.2)
    assert not any(scaled(p))
    require_equal(computed(p, tagged=True), expected(p, tagged=True), TOLERANCE[dtype])
    require_best(p, TOLERANCE[dtype])


@pytest.mark.interpreter
def test_several_warps() -> None:
    p = problem([4, 2], 100, torch.float32)
    assert all(scaled(p))
    require_equal(computed(p, tagged=True), expected(p, tagged=True), 1e-5)
    require_best(p, 1e-5)


@pytest.mark.parametrize("labels", [1, 3, 40])
@pytest.mark.parametrize("tagged", [False, True])
def test_position_dependent_transitions(labels: int, tagged: bool) -> None:
    p = problem([4, 1, 5], labels, positional=True, forbidden=0.2)
    require_equal(computed(p, tagged=tagged), expected(p, tagged=tagged), 1e-10)
    require_best(p, 1e-10)


@pytest.mark.interpreter
def test_every_length() -> None:
    """Lengths 1 to 10: all remainders of the loops that are unrolled by four."""
    p = problem(list(range(1, 11)), 3)
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-10)
    require_best(p, 1e-10)


@pytest.mark.interpreter
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
        labelled, score = (x.cpu().numpy() for x in best_path(p))
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


@pytest.mark.interpreter
@pytest.mark.parametrize("log_space", [False, True])
def test_rows_without_a_path(log_space: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if log_space:
        monkeypatch.setattr(ChainPlan, "max_held_bytes", 0)
    p = problem([4, 5, 1], 3, torch.float32)
    p.emissions[0, 2] = -INF
    p.emissions[2, 0] = -INF
    for tagged in (False, True):
        value, *gradients = computed(p, tagged=tagged)
        assert value.isneginf().tolist() == [True, False, True]
        assert torch.equal(values(p, tagged=tagged), value)
        assert not any(part.isnan().any() for part in gradients)
        assert not gradients[0][[0, 2]].any()
        alone = Problem(p.emissions[1:2], *p[1:4], *(part[1:2] for part in p[4:]))
        want = expected(alone, tagged=tagged)[2:]
        for part, right in zip(gradients[1:], want, strict=True):
            np.testing.assert_allclose(part.cpu().numpy(), right, atol=1e-5)
    labels, score = best_path(p)
    assert score.isneginf().tolist() == [True, False, True]
    assert ((labels >= 0) & (labels < 3)).all()


@pytest.mark.interpreter
def test_forbidden_tags() -> None:
    """Other paths exist: the value is -inf, and the gradient still points to the tags."""
    p = problem([3], 2)
    p.transitions[p.tags[0, 0], p.tags[0, 1]] = -INF
    value, *gradients = computed(p, tagged=True)
    assert value.isneginf().all()
    require_equal((torch.zeros(1), *gradients), (np.zeros(1), *expected(p, tagged=True)[1:]), 1e-10)


@pytest.mark.interpreter
def test_unreachable_labels() -> None:
    """Labels forbidden by -1e4, as is common, do not force rows into log space."""
    p = problem([6, 3], 5, torch.float32)
    p.transitions[:, 3] = -1e4
    p.transitions[4] = -1e4
    p.start[3] = p.end[4] = -1e4
    assert all(scaled(p))
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-5)


@pytest.mark.interpreter
def test_constraints_and_known_labels_stay_scaled() -> None:
    """Nothing underflows, so a probability of 0 is exact."""
    p = problem([7, 5], 5, torch.float32, scale=1.0)
    p.transitions[0, 2] = p.transitions[0, 4] = p.transitions[1, 4] = -INF
    p.emissions[0, 3, 1:] = -INF
    assert all(scaled(p))
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-5)


@pytest.mark.interpreter
def test_unlikely_label_that_is_the_only_one_later() -> None:
    """log α of label 1 falls by 40 per step below label 0, which is forbidden at the end."""
    p = problem([6, 6], 2, torch.float32)
    p.emissions[0, :, 1] -= 40.0
    p.transitions[0, 1] = p.transitions[1, 0] = -INF
    p.emissions[0, 5, 0] = -INF
    assert scaled(p) == [False, True]
    require_equal(computed(p, tagged=False), expected(p, tagged=False), 1e-5)


@pytest.mark.interpreter
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_constant_scores(size: float) -> None:
    """A constant added to all labels or transitions does not change the gradient."""
    p = problem([5, 3], 4, torch.float32, scale=1.0)
    want = expected(p, tagged=False)[1:]
    for part in p[:3]:
        part.copy_((part + size) - size)  # round the scores as the large sum does
    rounded = expected(p, tagged=False)[1:]
    for part in p[:3]:
        part += size
    _, *gradients = computed(p, tagged=False)
    assert max(np.abs(a - b).max() for a, b in zip(want, rounded, strict=True)) < 0.01
    require_equal((torch.zeros(1), *gradients), (np.zeros(1), *rounded), 1e-5)


@pytest.mark.interpreter
def test_huge_scores() -> None:
    p = problem([6, 4, 1], 5, torch.float32, scale=1e4)
    value, *gradients = computed(p, tagged=False)
    want, *right = expected(p, tagged=False)
    np.testing.assert_allclose(value.cpu().numpy(), want, rtol=1e-6)
    require_equal((torch.zeros(1), *gradients), (np.zeros(1), *right), 1e-5)
    require_best(p, 1e-6)


@pytest.mark.interpreter
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_float32(dtype: Any) -> None:
    p = problem([5, 3], 9, torch.float32)
    p = p._replace(emissions=p.emissions.to(dtype))
    wide = p._replace(emissions=p.emissions.float())
    narrow, want = computed(p, tagged=True), computed(wide, tagged=True)
    assert narrow[1].dtype == dtype
    torch.testing.assert_close(narrow[1].float(), want[1], rtol=torch.finfo(dtype).eps, atol=1e-7)
    assert all(torch.equal(narrow[k], want[k]) for k in (0, 2, 3, 4))
    for a, b in zip(best_path(p), best_path(wide), strict=True):
        assert torch.equal(a, b)


@pytest.mark.interpreter
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
    for a, b in zip(best_path(turned), best_path(p), strict=True):
        assert torch.equal(a, b)


@pytest.mark.interpreter
def test_ties_go_to_the_first_label() -> None:
    p = problem([5, 2], 7)
    zero = Problem(*(torch.zeros_like(part) for part in p[:4]), *p[4:])
    labels, score = best_path(zero)
    assert not labels.any()
    assert not score.any()
    rounded = Problem(*(part.round() for part in p[:4]), *p[4:])
    require_best(rounded, 0.0)


@pytest.mark.interpreter
def test_invalid_lengths_and_tags_stay_in_bounds() -> None:
    p = problem([3, 3], 2)
    wrong = p._replace(lengths=torch.tensor([0, 99]), tags=torch.full_like(p.tags, 99))
    filled = wrong._replace(emissions=p.emissions.nan_to_num(), lengths=wrong.lengths.to(DEVICE))
    assert not any(part.isnan().any() for part in computed(filled, tagged=True))


@pytest.mark.interpreter
def test_same_bits_again() -> None:
    p = problem([9, 8, 3, 1, 7], 12, torch.float32)
    first, again = computed(p, tagged=True), computed(p, tagged=True)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.interpreter
def test_input_is_not_changed() -> None:
    p = problem([4, 2], 3)
    before = [part.clone() for part in p]
    computed(p, tagged=True)
    best_path(p)
    for part, copy in zip(p, before, strict=True):
        torch.testing.assert_close(part, copy, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.interpreter
@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_long_row(scale: float) -> None:
    """float32: log Z to 1e-6 and marginals to 1e-5; the wide scores are in log space."""
    p = problem([160], 3, torch.float32, scale=scale)._replace(weight=torch.ones(1, device=DEVICE))
    value, *gradients = computed(p, tagged=False)
    want, *right = expected(p, tagged=False)
    assert float(value[0]) == pytest.approx(want[0], rel=1e-6)
    np.testing.assert_allclose(gradients[0].cpu().numpy(), right[0], atol=1e-5)
    np.testing.assert_allclose(gradients[1].cpu().numpy(), right[1], rtol=1e-5, atol=1e-5)


# ---- masks, lengths and tags


def validate(labels: int, tags: Any, lengths: Any = None, mask: Any = None) -> Any:
    """Return the lengths and the status of rows whose scores are 0."""
    zero = torch.zeros(labels, device=DEVICE)
    emissions = zero.expand(*tags.shape, labels)
    batch = (emissions, zero.diag(), zero, zero, lengths, tags, mask)
    status = RowStatus(len(tags), tags.device)
    return ChainPlan(batch, "status").run(batch, status)[0], status.wait()


@pytest.mark.interpreter
@pytest.mark.parametrize("steps", [1, 7, 1500])
def test_lengths_and_status_of_masks(steps: int) -> None:
    rng = np.random.default_rng(steps)
    mask = rng.random((5, steps)) < 0.7
    mask[0], mask[1], mask[2, : steps // 2], mask[2, steps // 2 :] = True, False, True, False
    tags = np.where(mask, rng.integers(6, size=mask.shape), -100)
    tags[4, mask[4]] = 6
    tensors = (torch.from_numpy(x).to(DEVICE) for x in (mask, tags))
    mask_tensor, tag_tensor = tensors
    lengths, status = validate(6, mask=mask_tensor, tags=tag_tensor)
    lengths = lengths.tolist()
    for row in range(5):
        counted = np.flatnonzero(mask[row])
        assert lengths[row] == len(counted)
        hole = counted.tolist() != list(range(len(counted)))
        wrong = (len(counted) == 0, row == 4 and len(counted) > 0)
        assert status[row] == hole + 2 * wrong[0] + 4 * wrong[1]


@pytest.mark.interpreter
def test_status_of_invalid_lengths_and_tags() -> None:
    tags = torch.tensor([[0, 1, 9], [0, 9, 0], [0, 0, 0], [0, 0, 0]], device=DEVICE)
    lengths = torch.tensor([2, 2, 0, 4], device=DEVICE)
    for layout in (tags, tags.t().contiguous().t()):
        same_lengths, status = validate(2, lengths=lengths, tags=layout)
        assert torch.equal(same_lengths, lengths)
        assert status == [0, 4, 2, 2]
    assert validate(2, tags=tags)[1] == [4, 4, 0, 0]


def run_masked(p: Problem, mask: Any) -> tuple[Any, list[int]]:
    """Return the values of masked rows, and their status."""
    batch = (*p[:4], None, p.tags, mask)
    status = RowStatus(len(mask), mask.device)
    value, _ = ChainPlan(batch).run(batch, status)
    return value, status.wait()


@pytest.mark.interpreter
def test_prefix_mask_instead_of_lengths() -> None:
    p = problem([4, 2, 3], 3)
    mask = torch.arange(p.tags.shape[1], device=DEVICE) < p.lengths[:, None]
    right = computed(p, tagged=True)
    for layout in (mask, mask.t().contiguous().t(), mask.to(torch.uint8) * 3):
        value, status = run_masked(p, layout)
        assert torch.equal(value, right[0])
        assert status == [0, 0, 0]
        for got, want in zip(computed(p, tagged=True, mask=layout), right, strict=True):
            assert torch.equal(got, want)
    mask[2, 1] = False
    assert run_masked(p, mask)[1] == [0, 0, 1]
    mask[1] = False
    assert run_masked(p, mask)[1] == [0, 2, 1]


def with_holes(p: Problem, seed: int) -> tuple[Problem, Any]:
    """Insert masked steps of NaN into the chains. Return the new problem and the mask."""
    rng = np.random.default_rng(seed)
    rows, _, labels = p.emissions.shape
    lengths = p.lengths.tolist()
    steps = max(lengths) + 3
    mask = np.zeros((rows, steps), dtype=bool)
    emissions = torch.full((rows, steps, labels), torch.nan, dtype=p.emissions.dtype)
    tags = torch.full((rows, steps), -100)
    positional = p.transitions.dim() > 2
    pairs = torch.full((rows, steps - 1, labels, labels), torch.nan, dtype=p.transitions.dtype)
    for b, length in enumerate(lengths):
        positions = np.sort(rng.choice(steps, length, replace=False))
        if b == 0:
            positions = np.arange(length)  # a row without a hole among the others
        mask[b, positions] = True
        emissions[b, positions] = p.emissions[b, :length].cpu()
        tags[b, positions] = p.tags[b, :length].cpu()
        if positional:
            pairs[b, positions[1:] - 1] = p.transitions[b, : length - 1].cpu()
    transitions = pairs.to(DEVICE) if positional else p.transitions
    tensors = (emissions.to(DEVICE), transitions, p.start, p.end, p.lengths, tags.to(DEVICE))
    return Problem(*tensors, p.weight), torch.from_numpy(mask).to(DEVICE)


@pytest.mark.interpreter
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("log_space", [False, True])
def test_masks_with_holes(
    log_space: bool, tagged: bool, positional: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masked steps are removed: values and gradients are those of the unmasked steps."""
    if log_space:
        monkeypatch.setattr(ChainPlan, "max_held_bytes", 0)
    p = problem([5, 3, 1, 4], 3, dtype, positional=positional, forbidden=0.1)
    right = computed(p, tagged=tagged)
    spread, mask = with_holes(p, seed=5)
    value, unary, pairs, *edges = computed(spread, tagged=tagged, mask=mask)
    want_unary, want_pairs = torch.zeros_like(unary), torch.zeros_like(pairs)
    for b, length in enumerate(p.lengths.tolist()):
        positions = mask[b].nonzero()[:, 0]
        want_unary[b, positions] = right[1][b, :length]
        if positional:
            want_pairs[b, positions[1:] - 1] = right[2][b, : length - 1]
    want_pairs = want_pairs if positional else right[2]
    wanted = (right[0], want_unary, want_pairs, *right[3:])
    for got, want in zip((value, unary, pairs, *edges), wanted, strict=True):
        assert torch.equal(got, want)


def test_masks_with_holes_in_any_layout() -> None:
    """Emissions and tags are strided, expanded and sliced, with many steps."""
    p = problem([70, 66], 5, torch.float64)
    spread, mask = with_holes(p, seed=1)
    right = computed(spread, tagged=True, mask=mask)
    wide = torch.cat([spread.emissions, spread.emissions], 2)[:, :, :5]
    turned = spread.emissions.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    for emissions in (wide, turned):
        tags = torch.stack([spread.tags, spread.tags], 2)[:, :, 0]
        other = spread._replace(emissions=emissions, tags=tags)
        for got, want in zip(computed(other, tagged=True, mask=mask), right, strict=True):
            assert torch.equal(got, want)


@pytest.mark.interpreter
def test_rows_without_an_unmasked_step_stay_in_bounds() -> None:
    p = problem([3, 3], 2)
    filled = p._replace(emissions=p.emissions.nan_to_num(), tags=p.tags.clamp(min=0))
    results = computed(filled, tagged=True, mask=torch.zeros(2, 4, dtype=torch.bool, device=DEVICE))
    assert not any(part.isnan().any() for part in results)
