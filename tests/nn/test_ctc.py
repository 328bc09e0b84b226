"""CTC for PyTorch against torch's ctc_loss and against enumeration of all paths."""

import itertools
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from torch import Tensor
from torch.nn import functional

from trellis.errors import InputError
from trellis.nn.ctc import CTCLoss, ctc_loss, ctc_posterior
from trellis.nn.ctc_ops import ctc_gradient, ctc_value

# (T, B, V, S): odd sizes, one frame, one row, no labels, two classes, a target over 256 labels
SHAPES = [(7, 3, 5, 3), (1, 2, 3, 1), (13, 4, 33, 6), (9, 1, 2, 4), (5, 2, 4, 0), (600, 1, 3, 280)]
GPU = pytest.param(
    "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
)


def draw_case(
    shape: tuple[int, int, int, int], blank: int = 0, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Draw logits, padded targets with repeated labels, and lengths. Some targets have no path."""
    frames, rows, classes, labels = shape
    generator = torch.Generator().manual_seed(sum(shape))
    logits = 2.0 * torch.randn(frames, rows, classes, generator=generator, dtype=dtype)
    targets = torch.randint(0, min(classes - 1, 4), (rows, labels), generator=generator)
    targets += targets >= blank
    ends = torch.randint(frames // 2, frames + 1, (rows,), generator=generator)
    sizes = torch.randint(0, labels + 1, (rows,), generator=generator)
    ends[0], sizes[0] = frames, labels
    return logits.requires_grad_(), targets, ends, sizes


def concatenate_targets(targets: Tensor, sizes: Tensor) -> Tensor:
    return torch.cat([row[:size] for row, size in zip(targets, sizes.tolist(), strict=True)])


def gradient(loss: Tensor, input: Tensor, **options: Any) -> Tensor:
    return torch.autograd.grad(loss, input, **options)[0]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("blank", [0, 1])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_equals_torch(shape: tuple[int, int, int, int], blank: int, reduction: str) -> None:
    logits, targets, ends, sizes = draw_case(shape, blank)
    args = (targets, ends, sizes, blank, reduction, True)
    log_probs = logits.log_softmax(-1)
    theirs = functional.ctc_loss(log_probs, *args)
    weight = torch.rand_like(theirs) + 0.5
    expected = gradient((theirs * weight).sum(), logits, retain_graph=True)
    for ours in (
        ctc_loss(log_probs, *args),
        ctc_loss(logits, *args, from_logits=True),
        ctc_loss(log_probs, concatenate_targets(targets, sizes), *args[1:]),
        CTCLoss(blank, reduction, True)(log_probs, *args[:3]),
    ):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
        actual = gradient((ours * weight).sum(), logits, retain_graph=True)
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def test_float32_equals_float64_of_torch() -> None:
    logits, targets, ends, sizes = draw_case((300, 3, 9, 40))
    expected = functional.ctc_loss(logits.log_softmax(-1), targets, ends, sizes, reduction="none")
    single = logits.detach().float().requires_grad_()
    ours = ctc_loss(single, targets, ends, sizes, reduction="none", from_logits=True)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=1e-6)
    actual = gradient(ours.sum(), single).double()
    torch.testing.assert_close(actual, gradient(expected.sum(), logits), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, tuple, list])
def test_all_integer_types(dtype: Any) -> None:
    logits, targets, ends, sizes = draw_case((7, 3, 5, 3))
    expected = ctc_loss(logits, targets, ends, sizes, from_logits=True)
    if isinstance(dtype, torch.dtype):
        rows = (targets.to(dtype), ends.to(dtype), sizes.to(dtype))
    else:
        rows = (targets, dtype(ends.tolist()), dtype(sizes.tolist()))
    assert torch.equal(ctc_loss(logits, *rows, from_logits=True), expected)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_single_sequence(reduction: str) -> None:
    log_probs = draw_case((7, 1, 5, 3))[0].log_softmax(-1)[:, 0]
    target = torch.tensor([1, 3, 3])
    lengths = (torch.tensor(6), torch.tensor(3))
    expected = functional.ctc_loss(log_probs, target, *lengths, reduction=reduction)
    for sizes in (lengths, ((6,), (3,)), (6, 3)):
        ours = ctc_loss(log_probs, target, *sizes, reduction=reduction)
        assert ours.shape == ()
        torch.testing.assert_close(ours, expected)
    share = ctc_posterior(log_probs, target, 6, 3)
    assert share.shape == (7, 5)
    torch.testing.assert_close(share.sum(-1), torch.tensor([1.0] * 6 + [0.0], dtype=share.dtype))


# ---- impossible targets, empty targets, no frames


def test_rows_without_a_path() -> None:
    """The target (1, 1) needs three frames. Without frames, only the empty target has a path."""
    log_probs = torch.full((5, 4, 3), 1 / 3).log().requires_grad_()
    targets = torch.tensor([[1, 1], [1, 2], [1, 2], [0, 0]])
    lengths = ((2, 2, 0, 0), (2, 2, 1, 0))
    ours = ctc_loss(log_probs, targets, *lengths, reduction="none")
    torch.testing.assert_close(
        ours, torch.tensor([torch.inf, 2 * torch.tensor(3.0).log(), torch.inf, 0.0])
    )
    actual = gradient(ours.sum(), log_probs)
    assert actual.isfinite().all()
    assert actual[:, [0, 2, 3]].eq(0).all()
    torch.testing.assert_close(actual[:2, 1], -torch.eye(3)[1:])
    zeroed = ctc_loss(log_probs, targets, *lengths, reduction="sum", zero_infinity=True)
    torch.testing.assert_close(zeroed, ours[1])
    assert torch.equal(gradient(zeroed, log_probs), actual)
    for options in ({"entropy": 0.5}, {"label_smoothing": 0.2}, {"from_logits": True}):
        for zero in (False, True):
            loss = ctc_loss(
                log_probs, targets, *lengths, reduction="none", zero_infinity=zero, **options
            )
            assert loss.isinf().tolist() == [not zero, False, not zero, False]
            assert gradient(loss.sum(), log_probs).isfinite().all()


def test_empty_targets() -> None:
    logits, _, ends, _ = draw_case((5, 3, 4, 0))
    log_probs = logits.log_softmax(-1)
    inside = torch.arange(5)[:, None] < ends
    expected = -(log_probs[:, :, 2] * inside).sum(0)
    for targets in (torch.zeros(3, 0, dtype=torch.long), torch.tensor([[7], [0], [-3]])):
        ours = ctc_loss(log_probs, targets, ends, (0, 0, 0), blank=2, reduction="none")
        torch.testing.assert_close(ours, expected)
    ours = ctc_loss(log_probs, torch.zeros(0, dtype=torch.long), ends, (0, 0, 0), 2, "none")
    torch.testing.assert_close(ours, expected)


def test_forbidden_and_huge_scores() -> None:
    """-inf is probability zero; scores of ±1e4 neither overflow nor lose digits."""
    logits = torch.tensor([[0.0, -torch.inf, 0.0], [1e4, 0.0, -1e4], [0.0, 0.0, -torch.inf]])
    logits = logits[:, None].requires_grad_()
    loss = ctc_loss(logits, torch.tensor([[2, 1]]), (3,), (2,), from_logits=True)
    # Label 2 must be at frame 0, because it costs 2e4 nats at frame 1. Label 1 is at frame 1 or 2.
    torch.testing.assert_close(loss, (torch.tensor(2.0).log() * 2) / 2)
    expected = torch.tensor([[0.5, 0.0, -0.5], [0.0, 0.0, 0.0], [0.5, -0.5, 0.0]])[:, None]
    torch.testing.assert_close(gradient(loss * 2, logits), expected)
    only = ctc_loss(logits, torch.tensor([[2]]), (2,), (1,), from_logits=True)
    assert only.isfinite()


def test_values_after_a_length_have_no_effect() -> None:
    logits, targets, ends, sizes = draw_case((7, 3, 5, 3))
    expected = ctc_loss(logits, targets, ends, sizes, from_logits=True, label_smoothing=0.1)
    with torch.no_grad():
        changed = logits.clone()
        for row, end in enumerate(ends.tolist()):
            changed[end:, row] = torch.nan
        targets = targets.masked_fill(torch.arange(3) >= sizes[:, None], -100)
    changed.requires_grad_()
    for options in ({}, {"entropy": 0.3}):
        args = (targets, ends, sizes)
        ours = ctc_loss(changed, *args, from_logits=True, label_smoothing=0.1, **options)
        assert options or torch.equal(ours, expected)
        actual = gradient(ours, changed)
        assert actual.isfinite().all()
        assert actual[ends[1] :, 1].eq(0).all()


# ---- enumeration of all paths


def target_of(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    merged = [label for label, _ in itertools.groupby(path)]
    return tuple(label for label in merged if label != blank)


def enumerate_paths(frames: int, classes: int, blank: int) -> dict[tuple[int, ...], Tensor]:
    """Return all paths by their target, as one-hot frames (paths, frames, classes)."""
    by_target: dict[tuple[int, ...], list[Tensor]] = {}
    for path in itertools.product(range(classes), repeat=frames):
        hot = functional.one_hot(torch.tensor(path), classes).double()
        by_target.setdefault(target_of(path, blank), []).append(hot)
    return {target: torch.stack(hots) for target, hots in by_target.items()}


def entropy_of(scores: Tensor) -> Tensor:
    log_share = scores.log_softmax(0)
    return -(log_share.exp() * log_share).sum()


@pytest.mark.parametrize("blank", [0, 2])
def test_against_enumeration(blank: int) -> None:
    """Loss, posteriors and entropy of every possible target are correct. Their p sums to 1."""
    frames, classes = 5, 3
    log_probs = (
        draw_case((frames, 1, classes, 1))[0].log_softmax(-1)[:, 0].detach().requires_grad_()
    )
    total = 0.0
    for target, hot in enumerate_paths(frames, classes, blank).items():
        scores = (hot * log_probs).sum((1, 2))
        args = (log_probs, torch.tensor(target, dtype=torch.long), frames, len(target), blank)
        loss = ctc_loss(*args, reduction="sum")
        torch.testing.assert_close(loss, -scores.logsumexp(0))
        share = (scores.softmax(0)[:, None, None] * hot).sum(0)
        torch.testing.assert_close(ctc_posterior(*args), share.detach())
        torch.testing.assert_close(gradient(loss, log_probs, retain_graph=True), -share.detach())
        regularised = ctc_loss(*args, reduction="sum", entropy=0.7)
        expected = loss - 0.7 * entropy_of(scores)
        torch.testing.assert_close(regularised, expected)
        torch.testing.assert_close(
            gradient(regularised, log_probs), gradient(expected, log_probs, retain_graph=True)
        )
        total += (-loss).exp().item()
    assert total == pytest.approx(1.0)


def test_posterior_of_logits_and_halves() -> None:
    logits, targets, ends, sizes = draw_case((13, 4, 33, 6))
    share = ctc_posterior(logits.log_softmax(-1), targets, ends, sizes)
    assert not share.requires_grad
    torch.testing.assert_close(ctc_posterior(logits, targets, ends, sizes), share)
    halves = ctc_posterior(logits.bfloat16(), targets, ends, sizes)
    assert halves.dtype == torch.float32
    assert halves.sum(-1).max() == pytest.approx(1.0, abs=1e-5)


@given(st.integers(1, 9), st.lists(st.integers(1, 3), max_size=6), st.integers(0, 2**32))
@settings(max_examples=examples(50), deadline=None)
def test_reversed_frames_and_target(frames: int, target: list[int], seed: int) -> None:
    """A reversed target on reversed frames has the same loss, and reversed posteriors."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(frames, 4, generator=generator, dtype=torch.float64)
    labels, reverse = (torch.tensor(t, dtype=torch.long) for t in (target, target[::-1]))
    lengths = (frames, len(target))
    ours = ctc_loss(logits, labels, *lengths, reduction="none", from_logits=True)
    reversed_loss = ctc_loss(logits.flip(0), reverse, *lengths, reduction="none", from_logits=True)
    torch.testing.assert_close(ours, reversed_loss, rtol=1e-12, atol=1e-12)
    share = ctc_posterior(logits, labels, *lengths)
    torch.testing.assert_close(ctc_posterior(logits.flip(0), reverse, *lengths).flip(0), share)
    repeats = sum(a == b for a, b in itertools.pairwise(target))
    assert bool(ours.isinf()) == (len(target) + repeats > frames)
    expected = 0.0 if ours.isinf() else 1.0
    torch.testing.assert_close(share.sum(-1), torch.full((frames,), expected, dtype=share.dtype))


# ---- autograd, compilers, half precision


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"from_logits": True},
        {"reduction": "sum", "from_logits": True, "label_smoothing": 0.1},
        {"label_smoothing": 0.3},
        {"entropy": 0.3, "from_logits": True},
        {"entropy": -0.3, "reduction": "sum"},
    ],
)
def test_gradcheck(options: dict[str, Any]) -> None:
    """The gradient is exact for logits, and also for log-probabilities."""
    logits, targets, _, _ = draw_case((6, 2, 4, 3))
    lengths = (torch.tensor([6, 5]), torch.tensor([3, 2]))
    scores = (logits if options.get("from_logits") else logits.log_softmax(-1)).detach()
    assert torch.autograd.gradcheck(
        lambda x: ctc_loss(x, targets, *lengths, **options), scores.requires_grad_()
    )


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize(
    ("dtype", "from_logits"), [(torch.float64, True), (torch.float32, False), (torch.float16, True)]
)
def test_operators(device: str, dtype: torch.dtype, from_logits: bool) -> None:
    logits, *rows = (x.detach().to(device) for x in draw_case((6, 2, 4, 3)))
    x = logits.to(dtype).requires_grad_()
    torch.library.opcheck(ctc_value, (x, *rows, 0, from_logits, True, 0.0))
    x = x.detach()
    loss, *saved = ctc_value(x, *rows, 0, from_logits, True, 0.0)
    arguments = (loss, *saved, torch.rand_like(loss), 0, from_logits)
    torch.library.opcheck(ctc_gradient, (x, *rows, *arguments))


def test_second_derivative_is_refused() -> None:
    logits, targets, ends, sizes = draw_case((6, 2, 4, 3))
    first = gradient(ctc_loss(logits, targets, ends, sizes), logits, create_graph=True)
    with pytest.raises(RuntimeError, match="CTC loss cannot be differentiated again"):
        gradient(first.sum(), logits)


@pytest.mark.parametrize("from_logits", [True, False])
def test_compile(from_logits: bool) -> None:
    logits, targets, ends, sizes = draw_case((6, 3, 4, 3))
    criterion = CTCLoss(from_logits=from_logits, zero_infinity=True)
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    expected = criterion(logits, targets, ends, sizes)
    for labels in (targets, concatenate_targets(targets, sizes)):
        ours = compiled(logits, labels, ends, sizes)
        assert torch.equal(ours, expected)
        assert torch.equal(gradient(ours, logits), gradient(expected, logits, retain_graph=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("from_logits", [True, False])
def test_half_precision(dtype: torch.dtype, from_logits: bool) -> None:
    """Only the input is rounded: everything else is computed in float32."""
    logits, targets, ends, sizes = draw_case((40, 3, 9, 8))
    half = (logits if from_logits else logits.log_softmax(-1)).detach().to(dtype).requires_grad_()
    exact = half.detach().double().requires_grad_()
    args = (targets, ends, sizes)
    ours = ctc_loss(half, *args, from_logits=from_logits)
    expected = ctc_loss(exact, *args, from_logits=from_logits)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=0)
    actual = gradient(ours, half)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), gradient(expected, exact), rtol=8e-3, atol=1e-5)


def test_autocast_trains() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(8, 5)
    frames = torch.randn(20, 4, 8)
    rows = (torch.randint(1, 5, (4, 6)), (20, 20, 18, 15), (6, 5, 4, 3))
    losses = []
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = layer(frames)
            loss = ctc_loss(logits, *rows, from_logits=True)
        assert logits.dtype == torch.bfloat16
        assert loss.dtype == torch.float32
        layer.zero_grad()
        loss.backward()
        exact = ctc_loss(layer(frames), *rows, from_logits=True)
        assert loss.item() == pytest.approx(exact.item(), rel=1e-2)
        losses.append(loss.item())
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter -= parameter.grad  # type: ignore[operator]
    assert losses[2] < losses[1] < losses[0]


def test_strides_and_bits() -> None:
    logits, targets, ends, sizes = draw_case((13, 4, 33, 6))
    expected = ctc_loss(logits, targets, ends, sizes, from_logits=True)
    first = gradient(expected, logits)
    assert torch.equal(
        gradient(ctc_loss(logits, targets, ends, sizes, from_logits=True), logits), first
    )
    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        strided = logits.detach().permute(order).contiguous().permute(*_invert(order))
        strided.requires_grad_()
        ours = ctc_loss(strided, targets.t().contiguous().t(), ends, sizes, from_logits=True)
        assert torch.equal(ours, expected)
        assert torch.equal(gradient(ours, strided), first)


def _invert(order: tuple[int, ...]) -> list[int]:
    return [order.index(axis) for axis in range(len(order))]


# ---- options that torch does not have


def test_label_smoothing() -> None:
    """Label smoothing adds the KL term of the docstring, only for frames inside the length."""
    logits, targets, ends, sizes = draw_case((13, 4, 33, 6))
    log_probs = logits.log_softmax(-1)
    inside = torch.arange(13)[:, None] < ends
    uniform = torch.full_like(log_probs, 1 / 33)
    divergence = functional.kl_div(log_probs, uniform, reduction="none").sum(-1)
    args = (targets, ends, sizes, 0, "none")
    plain = ctc_loss(log_probs, *args)
    expected = 0.9 * plain + 0.1 * (divergence * inside).sum(0)
    for ours in (
        ctc_loss(log_probs, *args, label_smoothing=0.1),
        ctc_loss(logits, *args, label_smoothing=0.1, from_logits=True),
    ):
        torch.testing.assert_close(ours, expected)
        pair = (gradient(loss.sum(), logits, retain_graph=True) for loss in (ours, expected))
        torch.testing.assert_close(*pair)


def test_entropy_pulls_towards_more_alignments() -> None:
    """A gradient step on the regularised loss leaves more entropy than one on the plain loss."""
    logits, targets, _, _ = draw_case((8, 1, 4, 2))
    args = (targets, (8,), (2,))

    def entropy_after(weight: float) -> float:
        loss = ctc_loss(logits, *args, from_logits=True, reduction="sum", entropy=weight)
        moved = logits.detach() - 0.1 * gradient(loss, logits)
        plain, regularised = (
            ctc_loss(moved, *args, from_logits=True, reduction="sum", entropy=e) for e in (0.0, 1.0)
        )
        return (plain - regularised).item()

    assert entropy_after(1.0) > entropy_after(0.0) > entropy_after(-1.0)


def test_module_is_pickled_with_its_settings() -> None:
    criterion = CTCLoss(2, "sum", True, label_smoothing=0.1, entropy=0.2, validate=False)
    loaded = pickle.loads(pickle.dumps(criterion))
    assert repr(loaded) == (
        "CTCLoss(blank=2, reduction='sum', zero_infinity=True, from_logits=False, "
        "label_smoothing=0.1, entropy=0.2)"
    )
    assert not loaded.validate
    assert not list(criterion.parameters())


# ---- the GPU, if there is one; its kernels are tested in inference/ctc/test_ctc_triton.py


@pytest.mark.parametrize("device", [GPU])
@pytest.mark.parametrize("shape", [*SHAPES, (200, 5, 5000, 30)])
def test_gpu_equals_cpu(device: str, shape: tuple[int, int, int, int]) -> None:
    logits, targets, ends, sizes = draw_case(shape)
    for dtype, digits in ((torch.float64, 1e-10), (torch.float32, 1e-5), (torch.bfloat16, 1e-5)):
        for options in ({}, {"entropy": 0.2}, {"label_smoothing": 0.1}):
            on_cpu = logits.detach().to(dtype).requires_grad_()
            on_gpu = on_cpu.detach().to(device).requires_grad_()
            args = {"reduction": "sum", "zero_infinity": True, "from_logits": True, **options}
            expected = ctc_loss(on_cpu.to(torch.float64), targets, ends, sizes, **args)
            ours = ctc_loss(on_gpu, targets.to(device), ends, sizes.to(device), **args)
            torch.testing.assert_close(ours.cpu().double(), expected, rtol=digits, atol=digits)
            actual = gradient(ours, on_gpu).cpu().double()
            relative = 8e-3 if dtype == torch.bfloat16 else 0.0
            torch.testing.assert_close(
                actual, gradient(expected, on_cpu).double(), rtol=relative, atol=digits
            )


@pytest.mark.parametrize("device", [GPU])
def test_gpu_does_not_wait_without_validation(device: str) -> None:
    logits, targets, ends, sizes = (x.detach().to(device) for x in draw_case((7, 3, 5, 3)))
    with pytest.raises(InputError, match="targets are on cpu, but log_probs are on cuda"):
        ctc_loss(logits, targets.cpu(), ends, sizes)
    torch.cuda.set_sync_debug_mode("error")
    try:
        ctc_loss(logits, targets, ends, sizes, validate=False)
    finally:
        torch.cuda.set_sync_debug_mode("default")
