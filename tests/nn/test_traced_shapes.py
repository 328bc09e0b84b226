"""The operators for compiled programs: shapes and types that are computed without running them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from trellis.errors import InputError
from trellis.nn.chain_ops import chain_gradient, chain_value, chain_viterbi
from trellis.nn.crf import _reduce
from trellis.nn.ctc import _reduce as reduce_ctc
from trellis.nn.ctc import ctc_posterior
from trellis.nn.ctc_ops import ctc_gradient, ctc_value
from trellis.nn.once import refuse_second_derivative
from trellis.nn.steps import Batch, _check_grid
from trellis.nn.tagger.settings import choose_device


def compare(operator: Any, *arguments: Any) -> Any:
    """Run an operator and its traced twin: their results have equal shapes and types."""
    results = operator(*arguments)
    with FakeTensorMode() as mode:
        traced = operator(
            *(mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in arguments)
        )
    if isinstance(results, torch.Tensor):
        pairs = [(results, traced)]
    else:
        pairs = [*zip(results, traced, strict=True)]
    for result, expected in pairs:
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    return results


DTYPES = [torch.float32, torch.float64, torch.bfloat16]


@pytest.mark.parametrize(
    ("dtype", "is_shared", "with_tags"), [*product(DTYPES, [True, False], [True, False])]
)
def test_operators_of_chains(dtype: torch.dtype, is_shared: bool, with_tags: bool) -> None:
    torch.manual_seed(0)
    emissions = torch.randn(2, 4, 3, dtype=dtype)
    transitions = torch.randn((3, 3) if is_shared else (2, 3, 3, 3), dtype=dtype)
    start, end = torch.randn(2, 3, dtype=dtype)
    lengths = torch.tensor([4, 2])
    tags = torch.randint(3, (2, 4)) if with_tags else None
    scores = (emissions, transitions, start, end, lengths)
    compare(chain_viterbi, *scores)
    for gradient in (True, False):
        compare(chain_value, *scores, tags, gradient)


@pytest.mark.parametrize(("dtype", "logits"), [*product(DTYPES, [True, False])])
def test_operators_of_ctc(dtype: torch.dtype, logits: bool) -> None:
    frames = torch.randn(5, 2, 4).log_softmax(-1).to(dtype)
    targets = torch.tensor([[1, 2], [3, 0]])
    lengths, sizes = torch.tensor([5, 4]), torch.tensor([2, 1])
    for gradient in (True, False):
        results = compare(ctc_value, frames, targets, lengths, sizes, 0, logits, gradient, 0.0)
    saved = (frames, targets, lengths, sizes, *results)
    compare(ctc_gradient, *saved, torch.ones_like(results[0]), 0, logits)


def test_reductions_of_values_of_rows() -> None:
    values, emissions = torch.tensor([1.0, 2.0, 6.0]), torch.zeros(3, 4, 2)
    scores = (torch.zeros(2, 2), torch.zeros(2), torch.zeros(2))
    batch = Batch(emissions, *scores, None, None, None)
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 1, 0]])
    assert _reduce(values, "none", batch) is values
    for divisor, reduction, changes in (
        (1, "sum", {}),
        (3, "mean", {}),
        (12, "token_mean", {}),
        (8, "token_mean", {"mask": mask}),
        (6, "token_mean", {"lengths": torch.tensor([1, 2, 3])}),
        (8, "token_mean", {"mask": mask, "lengths": torch.tensor([1, 2, 3])}),
    ):
        changed = batch._replace(**changes)
        torch.testing.assert_close(_reduce(values, reduction, changed), torch.tensor(9.0 / divisor))
        torch.testing.assert_close(
            _reduce(values.sum(), reduction, changed), torch.tensor(9.0 / divisor)
        )


def test_reductions_of_ctc() -> None:
    losses, sizes = torch.tensor([2.0, 3.0]), torch.tensor([0, 3])
    for reduction, expected in (("sum", 5.0), ("mean", 1.5)):
        assert reduce_ctc(losses, reduction, sizes, False).item() == expected
    assert reduce_ctc(losses, "none", sizes, False) is losses
    assert reduce_ctc(losses[:1], "none", sizes[:1], True).shape == ()
    assert reduce_ctc(losses.sum(), "mean", sizes, False).item() == 5.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.nan, "batch row 1, frame 2, class 3 are nan: must be finite or -inf"),
        (torch.inf, "batch row 1, frame 2, class 3 are inf: must be finite or -inf"),
        (-1e308, "batch row 1 overflow: the largest absolute value is 1e\\+308"),
    ],
)
def test_posterior_of_invalid_numbers(value: float, message: str) -> None:
    frames = torch.zeros(5, 2, 4, dtype=torch.float64)
    frames[2, 1, 3] = value
    if value == -1e308:
        frames[2, 1] = value
    targets, sizes = torch.tensor([[1], [3]]), torch.tensor([1, 1])
    with pytest.raises(InputError, match=message):
        ctc_posterior(frames, targets, torch.tensor([5, 5]), sizes)


def test_second_derivatives_in_compiled_operators() -> None:
    frames = torch.randn(5, 1, 3, dtype=torch.float64, requires_grad=True)
    arguments = (torch.tensor([[1]]), torch.tensor([5]), torch.tensor([1]), 0, True, True, 0.0)
    loss = ctc_value(frames, *arguments)[0]
    (gradient,) = torch.autograd.grad(loss.sum(), frames, create_graph=True)
    with pytest.raises(RuntimeError, match="CTC loss cannot be differentiated again"):
        gradient.sum().backward()


# ---- devices: "meta" stands for any other device


def test_tensors_on_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    emissions = torch.zeros(2, 3, 4)
    with pytest.raises(InputError, match=r"mask on meta: must be on cpu, as the emissions are"):
        _check_grid(torch.ones(2, 3, device="meta"), "mask", emissions)
    with pytest.raises(InputError, match=r"mask of shape \(2,\): .*; pass the lengths of rows as"):
        _check_grid(torch.ones(2), "mask", emissions)
    targets = torch.ones(1, 2, dtype=torch.int64, device="meta")
    with pytest.raises(InputError, match="targets are on meta, but log_probs are on cpu"):
        ctc_posterior(emissions, targets, torch.tensor([2] * 3), torch.tensor([2] * 3))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="device is 'cuda:0', but PyTorch finds no GPU"):
        choose_device("cuda:0")
    assert choose_device(None) == torch.device("cpu")


def test_gradients_that_depend_on_no_input() -> None:
    with pytest.raises(RuntimeError, match="the gradient of a trellis CRF cannot be differ"):
        refuse_second_derivative([torch.ones(1)], [None, torch.ones(1)], "CRF")


def test_second_derivatives_of_compiled_chains() -> None:
    scores = [torch.randn(1, 3, 2, requires_grad=True), torch.randn(2, 2), torch.randn(2)]
    value = chain_value(*scores, torch.randn(2), torch.tensor([3]), None, True)[0]
    (gradient,) = torch.autograd.grad(value.sum(), scores[0], create_graph=True)
    with pytest.raises(RuntimeError, match="trellis CRF cannot be differentiated again"):
        gradient.sum().backward()
    steps = torch.randn(2, 2, 2, 2, dtype=torch.float64)
    weight = torch.tensor([1.0, -2.0], dtype=torch.float64)
    e = torch.randn(2, 3, 2, dtype=torch.float64)
    ends, lengths = torch.zeros(2, 2, dtype=torch.float64), torch.tensor([3, 3])
    saved = chain_value(e, steps, *ends, lengths, None, True)
    mixed = chain_gradient(e, steps, *ends, lengths, None, *saved[1:], weight)
    for row in range(2):
        one = torch.zeros_like(weight)
        one[row] = 1.0
        alone = chain_gradient(e, steps, *ends, lengths, None, *saved[1:], one)
        for i in (0, 1):
            torch.testing.assert_close(mixed[i][row], weight[row] * alone[i][row])
