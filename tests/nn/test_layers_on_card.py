"""The way of the layers on a card, in Triton's interpreter: the same numbers as on the CPU."""

from __future__ import annotations

import os
import warnings
from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined
pytest.importorskip("triton", reason="Triton is not installed")

from prepared_launches import remember  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from trellis.errors import InputError  # noqa: E402
from trellis.inference.chain import triton_layer as chain_layer  # noqa: E402
from trellis.inference.ctc import triton_layer as ctc_layer  # noqa: E402
from trellis.inference.gpu import status as triton_marks  # noqa: E402
from trellis.nn import CRF, ctc, ctc_batch, ctc_loss  # noqa: E402
from trellis.nn import crf as crf_module  # noqa: E402

pytestmark = [
    pytest.mark.skipif(
        "Interpreted" not in type(ctc_layer.walk_in).__name__,
        reason="Triton was loaded without its interpreter",
    ),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # NumPy's, of inf - inf in unused lanes
]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches by address, and nothing remembered from other tests."""
    for layer in (chain_layer, ctc_layer):
        remember(layer, monkeypatch)
    for module in (crf_module, ctc_batch):
        monkeypatch.setattr(module, "_fitting", {})
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)


# ---- the CRF


KINDS = ["all", "lengths", "list", "int32", "column", "mask", "numbers", "turned"]


def given(kind: str, rows: int, steps: int) -> dict[str, Any]:
    """Which steps count, said in one of many ways."""
    lengths = torch.randint(1, steps + 1, (rows,))
    mask = torch.arange(steps) < lengths[:, None]
    ways: dict[str, dict[str, Any]] = {
        "all": {},
        "lengths": {"lengths": lengths},
        "list": {"lengths": lengths.tolist()},
        "int32": {"lengths": lengths.int()},
        "column": {"lengths": torch.stack([lengths, lengths], 1)[:, 0]},
        "mask": {"mask": mask},
        "numbers": {"mask": mask.to(torch.uint8) * 3},
        "turned": {"mask": mask.t().contiguous().t()},
    }
    return ways[kind]


@pytest.mark.parametrize(
    ("kind", "reduction"),
    [
        *product(KINDS, ["none", "sum"]),
        *product(["all", "lengths", "mask"], ["mean", "token_mean"]),
    ],
)
def test_crf(kind: str, reduction: str, known: None) -> None:
    torch.manual_seed(7)
    rows_first = reduction in ("none", "mean")
    layer = CRF(3, batch_first=rows_first, constraints=[(0, 1)]).double()
    wanted = list(layer.parameters())
    for _ in range(2):  # the second is of a known kind
        e = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
        tags = torch.randint(3, (2, 3)) * 2 % 3
        way = given(kind, 2, 3)
        if not rows_first:
            way = {k: v.t() if k == "mask" else v for k, v in way.items()}
        x, y = (e, tags) if rows_first else (e.transpose(0, 1), tags.t())
        due = layer(x, y, reduction=reduction, **way)
        found = layer._on_card(x, way.get("mask"), way.get("lengths"), y, reduction, True)
        assert isinstance(found, torch.Tensor)
        torch.testing.assert_close(found, due)
        weight = torch.rand_like(due)
        if due.isfinite().all():
            got = torch.autograd.grad(found, [e, *wanted], weight)
            for a, b in zip(got, torch.autograd.grad(due, [e, *wanted], weight), strict=True):
                torch.testing.assert_close(a, b)
    remembered = kind not in ("list", "int32")
    assert bool(crf_module._fitting) == remembered


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_gradients_are_apart(reduction: str, known: None) -> None:
    """They are made in one piece of memory, but to change one changes no other."""
    layer = CRF(3, batch_first=True)
    e, tags = torch.randn(2, 4, 3, requires_grad=True), torch.ones(2, 4, dtype=torch.int64)
    mask = torch.ones(2, 4, dtype=torch.bool)
    wanted = [e, *layer.parameters()]
    due = torch.autograd.grad(layer(e, tags, mask), wanted)
    for _ in range(2):
        value = layer._on_card(e, mask, None, tags, reduction, True)
        assert isinstance(value, torch.Tensor)
        value.sum().backward(retain_graph=True)
    rate = torch.tensor(2.0, requires_grad=True)
    found = torch.autograd.grad(value.sum(), wanted)
    for n, (x, got, once) in enumerate(zip(wanted, found, due, strict=True)):
        assert x.grad is not None
        torch.testing.assert_close(x.grad, (n + 1) * 2 * once)
        assert got.is_contiguous()
        used = (rate * x.grad).sum()
        for other in wanted[n + 1 :]:
            assert other.grad is not None
            other.grad.add_(other.grad / (n + 1))  # n + 1 times becomes n + 2 times
        used.backward()  # what it needs has not changed
        torch.testing.assert_close(got.mul_(rate), 2 * once)  # with a graph


def test_negative_views_are_what_they_say(known: None) -> None:
    """The imaginary part of a conjugate: the sign is not in memory."""
    layer = CRF(3, batch_first=True)
    e = torch.randn(2, 4, 3, dtype=torch.complex64).conj().imag.requires_grad_()
    assert e.is_neg()
    tags = torch.ones(2, 4, dtype=torch.int64)
    plain = (e + 0.0).detach().requires_grad_()
    torch.testing.assert_close(layer(e, tags), layer(plain, tags))
    assert layer.decode(e) == layer.decode(plain)
    rows = (tags[:, :2], torch.full((4,), 2), torch.full((4,), 2))
    torch.testing.assert_close(
        ctc_loss(e, rows[0].repeat(2, 1), *rows[1:]),
        ctc_loss(plain, rows[0].repeat(2, 1), *rows[1:]),
    )


def test_crf_with_holes_and_mistakes(known: None) -> None:
    layer = CRF(3, batch_first=True)
    e, tags = torch.randn(2, 4, 3, requires_grad=True), torch.zeros(2, 4, dtype=torch.int64)
    mask = torch.ones(2, 4, dtype=torch.bool)
    assert isinstance(layer._on_card(e, mask, None, tags, "sum", True), torch.Tensor)
    holes, bad, none = mask.clone(), tags.clone(), mask.clone()
    holes[0, 1], bad[1, 2], none[1] = False, 3, False
    steps = layer._on_card(e, holes, None, tags, "sum", True)
    assert isinstance(steps, crf_module.Steps)
    assert steps.lengths.tolist() == [3, 4]
    with pytest.raises(InputError, match="row 1 of the batch, step 2: tag 3"):
        layer._on_card(e, mask, None, bad, "sum", True)
    with pytest.raises(InputError, match="row 1 of the batch has no step left"):
        layer._on_card(e, none, None, tags, "sum", True)
    with pytest.raises(InputError, match="row 0 of the batch has length 5"):
        layer._on_card(e, None, torch.tensor([5, 4]), tags, "sum", True)
    with pytest.raises(InputError, match="tags of shape"):
        layer._on_card(e, mask, None, tags[:, :3], "sum", True)
    with pytest.raises(InputError, match="emissions have 2 tags"):
        layer._on_card(e[:, :, :2], mask, None, tags, "sum", True)


# ---- CTC


@pytest.fixture
def on_card(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Switch ctc_loss to the way of a small batch on a card, and back."""
    small = ctc.small_on_card

    def switch(on: bool) -> None:
        monkeypatch.setattr(ctc, "small_on_card", (lambda x, targets: True) if on else small)

    return switch


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("labels", [0, 2])
def test_ctc(labels: int, reduction: str, from_logits: bool, known: None, on_card: Any) -> None:
    torch.manual_seed(5)
    others: tuple[dict[str, Any], ...] = ({"entropy": 0.3},)
    if reduction == "mean":
        others = ({"zero_infinity": True}, {"label_smoothing": 0.1}, {"entropy": 0.3})
    for options in ({}, *(others if labels else ()), {}):
        x = torch.randn(5, 2, 4, dtype=torch.float64)
        x = (x if from_logits else x.log_softmax(-1)).requires_grad_()
        rows = (torch.randint(1, 4, (2, labels)), torch.tensor([5, 4]), torch.tensor([labels, 0]))
        results = []
        for on in (False, True):
            on_card(on)
            loss = ctc_loss(x, *rows, reduction=reduction, from_logits=from_logits, **options)
            weight = torch.arange(1.0, loss.numel() + 1).double().view(loss.shape)
            results.append((loss.detach(), *torch.autograd.grad(loss, x, weight)))
        for right, found in zip(*results, strict=True):
            torch.testing.assert_close(found, right)
    assert len(ctc_batch._fitting) == 1


def test_ctc_mistakes_in_a_known_kind(known: None, on_card: Any) -> None:
    on_card(True)
    x = torch.zeros(5, 2, 4, requires_grad=True)
    targets, ends, sizes = torch.ones(2, 3).long(), torch.tensor([5, 5]), torch.tensor([3, 3])
    for _ in range(2):
        ctc_loss(x, targets, ends, sizes)
    blank, wide = targets.clone(), targets.clone()
    blank[1, 1], wide[1, 0] = 0, 4
    with pytest.raises(InputError, match="row 1, position 1 is the blank"):
        ctc_loss(x, blank, ends, sizes)
    with pytest.raises(InputError, match="row 1, position 0 is 4"):
        ctc_loss(x, wide, ends, sizes)
    with pytest.raises(InputError, match="input length of batch row 0 is 6"):
        ctc_loss(x, targets, ends + 1, sizes)
    with pytest.raises(InputError, match="targets have shape"):
        ctc_loss(x, targets[:1], ends, sizes)
    assert ctc_loss(x, blank, ends, sizes, validate=False).isfinite()


def test_lists_after_a_batch_without_strides() -> None:
    """What has no kind is not remembered as one."""
    x, targets = torch.zeros(3, 1, 2), torch.tensor([[1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's, of such tensors
        odd = (x + 9).to_sparse_csr()
    with pytest.raises(InputError, match="must be a dense tensor, not sparse_csr"):
        ctc_loss(odd, targets, torch.tensor([3]), torch.tensor([1]))
    assert ctc_loss(x, targets, [3], [1]).isfinite()


def test_a_step_that_is_made_again(
    known: None, on_card: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints stop it before anyone waits for its marks: they are nobody else's then."""
    on_card(True)
    x = torch.randn(5, 2, 4, requires_grad=True)
    rows = (torch.ones(2, 1).long(), torch.tensor([5, 5]), torch.tensor([1, 1]))
    monkeypatch.setattr(triton_marks, "_free", {})
    triton_marks._late.clear()
    loss = checkpoint(lambda x: ctc_loss(2 * x, *rows, from_logits=True), x, use_reentrant=False)
    loss.backward()
    assert len(triton_marks._late) == 1
    due = torch.autograd.grad(ctc_loss(2 * x, *rows, from_logits=True), x)[0]
    torch.testing.assert_close(x.grad, due)
