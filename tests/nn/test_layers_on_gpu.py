"""The GPU path of the layers in Triton's interpreter: the same numbers as on the CPU."""

from __future__ import annotations

import os
import warnings
from itertools import product
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when a kernel is defined
pytest.importorskip("triton", reason="Triton is not installed")

from prepared_launches import prepare_launches  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from trellis.errors import InputError  # noqa: E402
from trellis.inference.ctc.kernels_walks import walk_in  # noqa: E402
from trellis.inference.gpu import status as status_module  # noqa: E402
from trellis.nn import CRF, chain_ops, ctc_loss, ctc_ops  # noqa: E402

pytestmark = [
    pytest.mark.skipif(
        "Interpreted" not in type(walk_in).__name__,
        reason="Triton was loaded without its interpreter",
    ),
    # NumPy warns about inf - inf in unused lanes.
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list of kernel launches, which are by address; the cache of plans is empty."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return prepare_launches(monkeypatch)


@pytest.fixture
def use_gpu_engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that switches the layers to the GPU engines, or back."""
    modules = {module: module._runs_on_gpu for module in (chain_ops, ctc_ops)}

    def switch(on: bool) -> None:
        for module, original in modules.items():
            monkeypatch.setattr(module, "_runs_on_gpu", (lambda x: True) if on else original)

    return switch


# ---- the CRF


STEPS = ["all", "lengths", "list", "int32", "column", "mask", "integers", "transposed", "holes"]


def steps_arguments(kind: str, rows: int, steps: int) -> dict[str, Any]:
    """Return a mask or lengths in one of the forms of `STEPS`, as keyword arguments."""
    lengths = torch.randint(1, steps + 1, (rows,))
    mask = torch.arange(steps) < lengths[:, None]
    holes = torch.rand(rows, steps) < 0.6
    holes[torch.arange(rows), torch.randint(steps, (rows,))] = True
    forms: dict[str, dict[str, Any]] = {
        "all": {},
        "lengths": {"lengths": lengths},
        "list": {"lengths": lengths.tolist()},
        "int32": {"lengths": lengths.int()},
        "column": {"lengths": torch.stack([lengths, lengths], 1)[:, 0]},
        "mask": {"mask": mask},
        "integers": {"mask": mask.to(torch.uint8) * 3},
        "transposed": {"mask": mask.t().contiguous().t()},
        "holes": {"mask": holes},
    }
    return forms[kind]


@pytest.mark.interpreter
@pytest.mark.parametrize("positional", [False, True])
@pytest.mark.parametrize(
    ("kind", "reduction"),
    [
        *product(STEPS, ["none", "sum"]),
        *product(["all", "lengths", "mask", "holes"], ["mean", "token_mean"]),
    ],
)
def test_crf(
    kind: str, reduction: str, positional: bool, launched: list[Any], use_gpu_engine: Any
) -> None:
    torch.manual_seed(7)
    rows_first = reduction in ("none", "mean")
    layer = CRF(3, batch_first=rows_first, constraints=[(0, 1)]).double()
    layer.validate = kind != "transposed"  # without validation, the launches are the same
    parameters = list(layer.parameters())
    for repetition in range(2):  # the second batch has a known signature
        e = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
        extra = torch.randn(2, 2, 3, 3, dtype=torch.float64, requires_grad=True)
        tags = torch.randint(3, (2, 3)) * 2 % 3
        options = steps_arguments(kind, 2, 3)
        if not rows_first:
            options = {k: v.t() if k == "mask" else v for k, v in options.items()}
        x, y = (e, tags) if rows_first else (e.transpose(0, 1), tags.t())
        leaves = [e, *parameters]
        if positional:
            options["transitions"] = extra
            leaves.append(extra)
        results = []
        for on in (False, True):
            use_gpu_engine(on)
            value = layer(x, y, reduction=reduction, **options)
            weight = torch.arange(1.0, value.numel() + 1).double().view(value.shape)
            results.append([value.detach()])
            if value.isfinite().all():
                results[-1] += torch.autograd.grad(value, leaves, weight)
            if repetition == 0 and on:
                count = len(launched)
        for expected, actual in zip(*results, strict=True):
            torch.testing.assert_close(actual, expected)
    assert len(launched) == count == (2 if reduction == "none" else 3)
    with torch.no_grad():
        torch.testing.assert_close(layer(x, y, reduction=reduction, **options), value)


@pytest.mark.interpreter
@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_gradients_share_no_memory(
    reduction: str, launched: list[Any], use_gpu_engine: Any
) -> None:
    """Gradients are computed in one allocation, but changing one does not change another."""
    layer = CRF(3, batch_first=True)
    e, tags = torch.randn(2, 4, 3, requires_grad=True), torch.ones(2, 4, dtype=torch.int64)
    mask = torch.ones(2, 4, dtype=torch.bool)
    leaves = [e, *layer.parameters()]
    expected = torch.autograd.grad(layer(e, tags, mask), leaves)
    use_gpu_engine(True)
    for _ in range(2):
        value = layer(e, tags, mask, reduction)
        value.sum().backward(retain_graph=True)
    rate = torch.tensor(2.0, requires_grad=True)
    gradients = torch.autograd.grad(value.sum(), leaves)
    for n, (x, actual, once) in enumerate(zip(leaves, gradients, expected, strict=True)):
        assert x.grad is not None
        torch.testing.assert_close(x.grad, (n + 1) * 2 * once)
        assert actual.is_contiguous()
        product_ = (rate * x.grad).sum()
        for later in leaves[n + 1 :]:
            assert later.grad is not None
            later.grad.add_(later.grad / (n + 1))  # the factor n + 1 becomes n + 2
        product_.backward()  # this raises if x.grad has changed
        torch.testing.assert_close(actual.mul_(rate), 2 * once)  # autograd records this product


def test_negative_views(launched: list[Any]) -> None:
    """The imaginary part of a conjugate is a negative view: its sign is not in memory."""
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


def test_crf_with_invalid_values(launched: list[Any], use_gpu_engine: Any) -> None:
    use_gpu_engine(True)
    layer = CRF(3, batch_first=True)
    e, tags = torch.randn(2, 4, 3, requires_grad=True), torch.zeros(2, 4, dtype=torch.int64)
    mask = torch.ones(2, 4, dtype=torch.bool)
    assert layer(e, tags, mask).isfinite()
    holes, bad, empty = mask.clone(), tags.clone(), mask.clone()
    holes[0, 1], bad[1, 2], empty[1] = False, 3, False
    assert layer(e, tags, holes).isfinite()
    for valid_mask in (mask, holes, None):
        with pytest.raises(InputError, match="row 1 of the batch, step 2: tag 3"):
            layer(e, bad, valid_mask)
    with pytest.raises(InputError, match="row 1 of the batch has no steps"):
        layer(e, tags, empty)
    for _ in range(2):
        with pytest.raises(InputError, match="row 0 of the batch has length 5") as caught:
            layer(e, tags, lengths=torch.tensor([5, 4]))
    assert caught.value.sequence == 0
    with pytest.raises(InputError, match="tags of shape"):
        layer(e, tags[:, :3], mask)
    with pytest.raises(InputError, match="emissions have 2 tags"):
        layer(e[:, :, :2], tags, mask)
    with pytest.raises(InputError, match="mask must be a tensor"):
        layer(e, tags, [[1]])


# ---- CTC


@pytest.mark.interpreter
@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("labels", [0, 2])
def test_ctc(
    labels: int, reduction: str, from_logits: bool, launched: list[Any], use_gpu_engine: Any
) -> None:
    torch.manual_seed(5)
    more_options: tuple[dict[str, Any], ...] = ({"entropy": 0.3},)
    if reduction == "mean":
        more_options = ({"zero_infinity": True}, {"label_smoothing": 0.1}, {"entropy": 0.3})
    for options in ({}, *(more_options if labels else ()), {}):
        x = torch.randn(5, 2, 4, dtype=torch.float64)
        x = (x if from_logits else x.log_softmax(-1)).requires_grad_()
        rows = (torch.randint(1, 4, (2, labels)), torch.tensor([5, 4]), torch.tensor([labels, 0]))
        results = []
        for on in (False, True):
            use_gpu_engine(on)
            loss = ctc_loss(x, *rows, reduction=reduction, from_logits=from_logits, **options)
            weight = torch.arange(1.0, loss.numel() + 1).double().view(loss.shape)
            results.append((loss.detach(), *torch.autograd.grad(loss, x, weight)))
        for expected, actual in zip(*results, strict=True):
            torch.testing.assert_close(actual, expected)


@pytest.mark.interpreter
def test_ctc_with_invalid_values(launched: list[Any], use_gpu_engine: Any) -> None:
    use_gpu_engine(True)
    x = torch.zeros(5, 2, 4, requires_grad=True)
    targets, ends, sizes = torch.ones(2, 3).long(), torch.tensor([5, 5]), torch.tensor([3, 3])
    for _ in range(2):
        ctc_loss(x, targets, ends, sizes)
    with_blank, too_large = targets.clone(), targets.clone()
    with_blank[1, 1], too_large[1, 0] = 0, 4
    with pytest.raises(InputError, match="row 1, position 1 is the blank"):
        ctc_loss(x, with_blank, ends, sizes)
    with pytest.raises(InputError, match="row 1, position 0 is 4"):
        ctc_loss(x, too_large, ends, sizes)
    with pytest.raises(InputError, match="input length of batch row 0 is 6"):
        ctc_loss(x, targets, ends + 1, sizes)
    with pytest.raises(InputError, match="targets have shape"):
        ctc_loss(x, targets[:1], ends, sizes)
    assert ctc_loss(x, with_blank, ends, sizes, validate=False).isfinite()


@pytest.mark.interpreter
def test_lists_after_a_batch_without_strides() -> None:
    """Arguments without a signature are not stored in the cache."""
    x, targets = torch.zeros(3, 1, 2), torch.tensor([[1]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns about such tensors
        sparse = (x + 9).to_sparse_csr()
    with pytest.raises(InputError, match="must be a dense tensor, not sparse_csr"):
        ctc_loss(sparse, targets, torch.tensor([3]), torch.tensor([1]))
    assert ctc_loss(x, targets, [3], [1]).isfinite()


@pytest.mark.interpreter
def test_checkpointed_step(
    launched: list[Any], use_gpu_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint stops the second forward pass before wait(), when a kernel may still write."""
    use_gpu_engine(True)
    x = torch.randn(5, 2, 4, requires_grad=True)
    rows = (torch.ones(2, 1).long(), torch.tensor([5, 5]), torch.tensor([1, 1]))
    monkeypatch.setattr(status_module, "_buffers", {})
    loss = checkpoint(lambda x: ctc_loss(2 * x, *rows, from_logits=True), x, use_reentrant=False)
    loss.backward()
    (buffers,) = status_module._buffers.values()
    assert len(buffers) == 1
    expected = torch.autograd.grad(ctc_loss(2 * x, *rows, from_logits=True), x)[0]
    torch.testing.assert_close(x.grad, expected)
