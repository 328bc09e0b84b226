"""The GPU kernels of the chain under autograd: gradients are computed together with the values."""

from __future__ import annotations

from typing import Any

import pytest
from prepared_launches import prepare_launches
from triton_problems import (
    DEVICE,
    INTERPRETED,
    NEEDED,
    TOLERANCE,
    Problem,
    nan_in_new_memory,
    problem,
    torch,
)

from trellis.inference.chain import kernels_shared as kernels
from trellis.inference.chain.triton import ChainPlan, find_plan
from trellis.inference.gpu.status import RowStatus
from trellis.nn import chain_ops
from trellis.nn.steps import Batch

__all__ = ["nan_in_new_memory"]  # a fixture of every test

pytestmark = NEEDED


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the GPU engine on CPU tensors, too."""
    monkeypatch.setattr(chain_ops, "_runs_on_gpu", lambda emissions: True)


def log_likelihood(batch: Any, summed: bool = False, validate: bool = False) -> Any:
    return chain_ops.log_likelihood(Batch(*batch), summed, validate, lambda batch: batch)[0]


def plan_of(batch: Any, summed: bool) -> ChainPlan:
    return find_plan(ChainPlan, batch, ("sum" if summed else "rows",))[0]


def row_gradients(p: Problem, weight: Any) -> tuple[Any, ...]:
    """Gradients of Σ_b weight_b log p_b by a plan for single rows."""
    batch = p.batch(tagged=True)
    plan = ChainPlan(batch)
    return tuple(plan.gradients(plan.run(batch)[1], weight))


@pytest.mark.interpreter
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("positional", [False, True])
def test_autograd_function(positional: bool, masked: bool, dtype: Any) -> None:
    p = problem([6, 1, 4], 5, dtype, positional=positional)
    leaves = [x.clone().requires_grad_() for x in p[:4]]
    steps = torch.arange(p.emissions.shape[1], device=DEVICE)
    mask = steps < p.lengths[:, None] if masked else None
    batch = (*leaves, None if masked else p.lengths, p.tags, mask)
    value = log_likelihood(batch, validate=True)
    weight = p.weight.to(value.dtype)
    gradients = torch.autograd.grad(value, leaves, weight, retain_graph=True)
    again = torch.autograd.grad(value, leaves, weight)
    tolerance = TOLERANCE.get(dtype, 2e-2)
    for leaf, got, same, right in zip(
        leaves, gradients, again, row_gradients(p, weight), strict=True
    ):
        assert got.dtype == leaf.dtype
        assert torch.equal(got, same)
        torch.testing.assert_close(got, right, rtol=tolerance, atol=tolerance)
    once = log_likelihood(batch)
    with pytest.raises(RuntimeError, match="CRF cannot be differentiated again"):
        torch.autograd.grad(once, leaves, weight, create_graph=True)
    with torch.no_grad():
        assert torch.equal(log_likelihood(batch, validate=True), value)
        assert not log_likelihood(batch).requires_grad


@pytest.mark.interpreter
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("positional", [False, True])
def test_sums_of_rows(positional: bool, dtype: Any) -> None:
    p = problem([6, 1, 4], 5, dtype, positional=positional)
    leaves = [x.clone().requires_grad_() for x in p[:4]]
    batch = (*leaves, p.lengths, p.tags, None)
    rows, total = log_likelihood(batch), log_likelihood(batch, summed=True)
    torch.testing.assert_close(total, rows.sum())
    tolerance = TOLERANCE.get(dtype, 2e-2)
    right = torch.autograd.grad(3.0 * rows.sum(), leaves)
    gradients = torch.autograd.grad(3.0 * total, leaves)
    for leaf, got, want in zip(leaves, gradients, right, strict=True):
        assert got.dtype == leaf.dtype
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    once = log_likelihood(batch, summed=True)
    with pytest.raises(RuntimeError, match="CRF cannot be differentiated again"):
        torch.autograd.grad(once, leaves, create_graph=True)


@pytest.mark.interpreter
@pytest.mark.skipif(not INTERPRETED, reason="a GPU launches by address anyway")
@pytest.mark.parametrize("masked", ["no", "prefix", "holes"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_prepared_launches(dtype: Any, masked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = prepare_launches(monkeypatch)
    tolerance = TOLERANCE.get(dtype, 2e-2)
    flags = [0, 0, 0]
    for seed in range(3):
        p = problem([6, 1, 4], 5, dtype, seed=seed)
        mask = torch.arange(p.emissions.shape[1]) < p.lengths[:, None]
        batch = (*p.scores, p.tags, None)
        if masked == "holes":  # the same chains, each with a masked step in front
            p = p._replace(emissions=p.emissions.roll(1, 1), tags=p.tags.roll(1, 1))
            mask, flags = mask.roll(1, 1), [1, 1, 1]
        ones = torch.ones(3, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
        reference = ChainPlan(batch)
        value, saved = reference.run(batch)
        right = list(reference.gradients(saved, ones))
        if masked == "holes":
            right[0] = right[0].roll(1, 1)
        if masked != "no":
            batch = (*p[:4], None, p.tags, mask)
        launched_before = len(launched)
        for summed in (False, True):
            plan, status = plan_of(batch, summed), RowStatus(3, p.emissions.device)
            got_value, kept = plan.run(batch, status)
            assert status.wait() == flags
            torch.testing.assert_close(got_value, value.sum() if summed else value)
            gradients = plan.gradients(kept, ones[0] if summed else ones)
            for x, got, want in zip(p[:4], gradients, right, strict=True):
                assert (got.shape, got.dtype) == (x.shape, x.dtype)
                torch.testing.assert_close(got, want.to(x.dtype), rtol=tolerance, atol=tolerance)
        # later batches of the signature are launched by address
        assert len(launched) - launched_before == (5 if seed == 0 else 0)
    wrong, status = p.tags.clone(), RowStatus(3, p.emissions.device)
    wrong[2, 1] = 5
    plan_of(batch, False).run((*batch[:5], wrong, batch[6]), status)
    assert status.wait() == [*flags[:2], flags[2] + 4]
    count = len(launched)
    other = torch.stack([p.emissions] * 2, dim=2)[:, :, 0]  # other strides are another signature
    start = p.start.to(torch.float16 if dtype != torch.float16 else torch.float32)  # so are types
    for unlike in ((other, *batch[1:]), (*batch[:2], start, *batch[3:])):
        again, _ = plan_of(unlike, False).run(unlike)
        torch.testing.assert_close(again, value, rtol=2e-2, atol=2e-2)
    assert len(launched) == count + 4


@pytest.mark.interpreter
def test_any_strides_of_all_tensors() -> None:
    p = problem([6, 1, 4], 5, torch.float64)
    batch = p.batch(tagged=True)
    strided = tuple(None if x is None else torch.stack([x, x], dim=-1)[..., 0] for x in batch)
    for summed in (False, True):
        results = []
        for tensors in (batch, strided):
            plan = plan_of(tensors, summed)
            value, saved = plan.run(tensors)
            results.append((value, *plan.gradients(saved, torch.ones_like(value))))
        for x, y in zip(*results, strict=True):
            assert torch.equal(x, y)


@pytest.mark.parametrize("rows", [1, 31, 70])
@pytest.mark.parametrize("labels", [1, 8])
def test_sum_kernel(rows: int, labels: int) -> None:
    torch.manual_seed(rows)
    width = (labels + 2) * labels + 1
    sums = torch.randn(rows, width, device=DEVICE)
    shapes = ((), (labels,), (labels,), (labels, labels))
    totals = [torch.zeros(shape, device=DEVICE) for shape in shapes]
    kernels.sum_kernel[(2,)](sums, *totals, rows, labels, columns=64, shared=True)
    value, start, end, pairs = totals
    right = sums.double().sum(0).float()
    torch.testing.assert_close(start, right[:labels])
    torch.testing.assert_close(end, right[labels : 2 * labels])
    torch.testing.assert_close(pairs, right[2 * labels : -1].view(labels, labels).t())
    assert value == right[-1]


@pytest.mark.interpreter
def test_a_value_may_be_changed_in_place() -> None:
    p = problem([6, 1, 4], 5, torch.float64)
    leaves = [x.clone().requires_grad_() for x in p[:4]]
    results = []
    for summed in (True, False):
        for changed in (False, True):
            value = log_likelihood((*leaves, p.lengths, p.tags, None), summed)
            if changed:
                value.detach().neg_()
                value *= 1.0
            results.append(torch.autograd.grad(value.sum(), leaves))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.interpreter
@pytest.mark.parametrize("positional", [False, True])
def test_operators_call_the_same_kernels(positional: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `torch.compile` runs on a GPU, here on CPU tensors."""
    p = problem([4, 1, 3], 3, torch.float64, positional=positional)
    plan = ChainPlan(p.batch(tagged=True))
    value, saved = plan.run(p.batch(tagged=True))
    engine = chain_ops._gpu_engine()
    gradients = engine.sum_gradients(*saved, p.weight)
    for got, want in zip(gradients, row_gradients(p, p.weight), strict=True):
        assert torch.equal(got, want)
    assert value.shape == (3,)
