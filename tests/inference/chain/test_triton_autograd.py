"""The GPU kernels of the chain under autograd: gradients that are made with the values."""

from __future__ import annotations

from typing import Any

import pytest
from prepared_launches import remember
from triton_problems import (
    DEVICE,
    INTERPRETED,
    NEEDED,
    TOLERANCE,
    nan_in_new_memory,
    problem,
    torch,
)

from trellis.inference.chain import kernels_shared as kernels
from trellis.inference.chain import triton as engine
from trellis.inference.chain import triton_layer as layer
from trellis.inference.gpu.status import Marks
from trellis.nn import chain_ops

__all__ = ["nan_in_new_memory"]  # a fixture of every test

pytestmark = NEEDED


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize(("labels", "scale"), [(1, 2.0), (3, 2.0), (20, 2.0), (5, 300.0)])
def test_gradients_whose_weights_come_later(labels: int, scale: float, dtype: Any) -> None:
    p = problem([6, 1, 4], labels, dtype, seed=labels, scale=scale, forbidden=0.1)
    value, alpha = engine.forward(*p.scores, p.tags)
    given = (*p.scores, p.tags, None)
    step = layer.step_of(given, summed=False)
    values, kept = step(given)
    assert torch.equal(values, value)
    found = step.weigh(kept, p.weight)
    due = engine.backward(*p.scores, p.tags, alpha, p.weight)
    for got, right in zip(found, due, strict=True):
        torch.testing.assert_close(got, right, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    assert not torch.isnan(value).any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_as_a_function_of_autograd(masked: bool, dtype: Any) -> None:
    p = problem([6, 1, 4], 5, dtype)
    leaves = [x.clone().requires_grad_() for x in p[:4]]
    steps = torch.arange(p.emissions.shape[1], device=DEVICE)
    mask = steps < p.lengths[:, None] if masked else None
    lengths = None if masked else p.lengths
    marks = Marks(3, p.emissions.device)
    value = chain_ops.on_card(*leaves, lengths, p.tags, mask, False, marks)
    assert marks.wait() == [0, 0, 0]
    weight = p.weight.to(value.dtype)
    gradients = torch.autograd.grad(value, leaves, weight, retain_graph=True)
    again = torch.autograd.grad(value, leaves, weight)
    due = engine.backward(*p.scores, p.tags, engine.forward(*p.scores, p.tags).alpha, weight)
    tolerance = TOLERANCE.get(dtype, 2e-2)
    for leaf, got, same, right in zip(leaves, gradients, again, due, strict=True):
        assert got.dtype == leaf.dtype
        assert torch.equal(got, same)
        torch.testing.assert_close(got, right, rtol=tolerance, atol=tolerance)
    once = chain_ops.on_card(*leaves, lengths, p.tags, mask, False)
    with pytest.raises(RuntimeError, match="differentiated once more"):
        torch.autograd.grad(once, leaves, weight, create_graph=True)
    with torch.no_grad():
        marks = Marks(3, p.emissions.device)
        chain_ops.on_card(*leaves, lengths, p.tags, mask, False, marks)
        assert marks.wait() == [0, 0, 0]
        assert not chain_ops.on_card(*leaves, lengths, p.tags, mask, False).requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_sums_of_rows(dtype: Any) -> None:
    p = problem([6, 1, 4], 5, dtype)
    leaves = [x.clone().requires_grad_() for x in p[:4]]
    rest = (p.lengths, p.tags, None)
    rows = chain_ops.on_card(*leaves, *rest, False)
    total = chain_ops.on_card(*leaves, *rest, True)
    torch.testing.assert_close(total, rows.sum())
    tolerance = TOLERANCE.get(dtype, 2e-2)
    due = torch.autograd.grad(3.0 * rows.sum(), leaves)
    for leaf, got, right in zip(leaves, torch.autograd.grad(3.0 * total, leaves), due, strict=True):
        assert got.dtype == leaf.dtype
        torch.testing.assert_close(got, right, rtol=tolerance, atol=tolerance)
    again = chain_ops.on_card(*leaves, *rest, True)
    with pytest.raises(RuntimeError, match="differentiated once more"):
        torch.autograd.grad(again, leaves, create_graph=True)


@pytest.mark.skipif(not INTERPRETED, reason="a card launches by address anyway")
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_prepared_launches(dtype: Any, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = remember(layer, monkeypatch)
    tolerance = TOLERANCE.get(dtype, 2e-2)
    for seed in range(3):
        p = problem([6, 1, 4], 5, dtype, seed=seed)
        steps = torch.arange(p.emissions.shape[1])
        mask = steps < p.lengths[:, None] if masked else None
        given = (*p[:4], None if masked else p.lengths, p.tags, mask)
        value, alpha = engine.forward(*p.scores, p.tags)
        ones = torch.ones_like(value)
        due = engine.backward(*p.scores, p.tags, alpha, ones)
        for summed in (False, True):
            step, marks = layer.step_of(given, summed), Marks(3, p.emissions.device)
            found, kept = step(given, marks)
            assert marks.wait() == [0, 0, 0]
            torch.testing.assert_close(found, value.sum() if summed else value)
            gradients = step.weigh(kept, ones[0] if summed else ones)
            for x, got, right in zip(p[:4], gradients, due, strict=True):
                assert (got.shape, got.dtype) == (x.shape, x.dtype)
                torch.testing.assert_close(got, right.to(x.dtype), rtol=tolerance, atol=tolerance)
    assert len(made) == 5  # later batches of the kind are launched again
    wrong, marks = p.tags.clone(), Marks(3, p.emissions.device)
    wrong[2, 1] = 5
    layer.step_of(given, False)((*given[:5], wrong, mask), marks)
    assert marks.wait() == [0, 0, 4]
    other = torch.stack([p.emissions] * 2, dim=2)[:, :, 0]  # other strides need another form
    start = p.start.to(torch.float16 if dtype != torch.float16 else torch.float32)  # and types
    for unlike in ((other, *given[1:]), (*given[:2], start, *given[3:])):
        again, _ = layer.step_of(unlike, False)(unlike)
        torch.testing.assert_close(again, value, rtol=2e-2, atol=2e-2)
    assert len(made) == 9


def test_scores_that_are_parts_of_others() -> None:
    """They are made dense, as the kernels take them; emissions, tags and mask are not."""
    p = problem([6, 1, 4], 5, torch.float64)
    given = (*p[:4], p.lengths, p.tags, None)
    apart = tuple(None if x is None else torch.stack([x, x], dim=-1)[..., 0] for x in given)
    for summed in (False, True):
        ways = []
        for own in (given, apart):
            step = layer.step_of(own, summed)
            value, kept = step(own)
            ways.append((value, *step.weigh(kept, torch.ones_like(value))))
        for x, y in zip(*ways, strict=True):
            assert torch.equal(x, y)


@pytest.mark.parametrize("rows", [1, 31, 70])
@pytest.mark.parametrize("labels", [1, 8])
def test_sums_of_many_rows(rows: int, labels: int) -> None:
    torch.manual_seed(rows)
    width = (labels + 1) ** 2
    sums = torch.randn(rows, width, device=DEVICE)
    total, value = torch.zeros(width - 1, device=DEVICE), torch.zeros((), device=DEVICE)
    kernels.sum_kernel[(2,)](sums, total, value, rows, labels, block=64)
    due = sums.double().sum(0).float()
    torch.testing.assert_close(total[: 2 * labels], due[: 2 * labels])
    square = due[2 * labels : -1].view(labels, labels)
    torch.testing.assert_close(total[2 * labels :].view(labels, labels), square.t())
    assert value == due[-1]


def test_a_value_may_be_changed_in_place() -> None:
    p = problem([6, 1, 4], 5, torch.float64)
    leaves = [x.clone().requires_grad_() for x in p[:4]]
    found = []
    for summed in (True, False):
        for changed in (False, True):
            value = chain_ops.on_card(*leaves, p.lengths, p.tags, None, summed)
            if changed:
                value.detach().neg_()
                value *= 1.0
            found.append(torch.autograd.grad(value.sum(), leaves))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b)
