"""Check the layers on a GPU: equal to the CPU and to peers, half precision, invalid input."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from gpu_timing import graph
from torch import Tensor, nn

from trellis.errors import InputError
from trellis.nn import CRF, ctc_loss

GPU = "cuda"
CTC_SIZES = ((1, 1, 2, 0), (9, 3, 5, 4), (40, 33, 33, 17), (150, 5, 1030, 70), (300, 2, 20, 140))
SIZES = (
    (1, 1, 2), (3, 2, 5), (5, 17, 9), (4, 33, 33), (3, 64, 64), (2, 65, 127), (2, 40, 128),
    (2, 40, 129), (2, 30, 300), (2, 4096, 9), (1, 4096, 40),
)  # fmt: skip


class Case(NamedTuple):
    """A batch in float64 on the CPU."""

    layer: CRF
    emissions: Tensor
    tags: Tensor
    mask: Tensor


def cases() -> Iterator[Case]:
    """Yield batches of odd sizes, with two kinds of masks and with forbidden transitions."""
    for rows, steps, labels in SIZES:
        for kind in ("lengths", "any"):
            torch.manual_seed(rows * steps + labels)
            forbidden = [(a, a + 1) for a in range(0, labels - 1, 3)] if labels > 2 else []
            layer = CRF(labels, batch_first=True, constraints=forbidden).double()
            for part in layer.parameters():
                nn.init.normal_(part)
            if kind == "any":
                mask = torch.rand(rows, steps) < 0.7
                mask[torch.arange(rows), torch.randint(steps, (rows,))] = True
            else:
                ends = torch.randint((steps + 1) // 2, steps + 1, (rows, 1))
                mask = torch.arange(steps) < ends
            tags = torch.where(mask, torch.zeros(rows, steps, dtype=torch.long), -100)
            yield Case(layer, torch.randn(rows, steps, labels).double(), tags, mask)


def compute_results(case: Case, device: str, dtype: torch.dtype) -> list[Tensor]:
    """Return likelihood, gradients, scores of best paths and marginals, in float64 on the CPU."""
    layer = CRF(case.layer.num_tags, batch_first=True).to(device, dtype)
    layer.load_state_dict(case.layer.state_dict())
    for name in ("_no_pairs", "_no_starts", "_no_ends"):
        setattr(layer, name, getattr(case.layer, name).to(device))
    emissions = case.emissions.to(device, dtype).requires_grad_()
    tags, mask = case.tags.to(device), case.mask.to(device)
    value = layer(emissions, tags, mask, reduction="none")
    inputs = [emissions, *layer.parameters()]
    gradients = torch.autograd.grad(value.sum(), inputs)
    total = layer(emissions, tags, mask)
    sums = torch.autograd.grad(total, inputs)
    best = layer.decode(emissions, mask, padded=0)
    best_scores = layer(emissions, best, mask, reduction="none").detach()
    marginals = layer.marginals(emissions, mask)
    parts = [value.detach(), total.detach(), *gradients, *sums, best_scores, marginals]
    return [part.double().cpu() for part in parts]


def distance(result: Tensor, reference: Tensor) -> float:
    """Return the largest difference, relative to the largest number; inf if one is not finite."""
    if not (result.isfinite().all() and reference.isfinite().all()):
        return float("inf")
    return float((result - reference).abs().max()) / max(1.0, float(reference.abs().max()))


def equal_to_the_cpu() -> str:
    """Check the CRF against the CPU: float32 to 1e-5 of the largest number, float64 to 1e-9."""
    worst = dict.fromkeys((torch.float32, torch.float64), 0.0)
    count = 0
    for case in cases():
        references = compute_results(case, "cpu", torch.float64)
        for dtype in worst:
            for result, reference in zip(
                compute_results(case, GPU, dtype), references, strict=True
            ):
                worst[dtype] = max(worst[dtype], distance(result, reference))
        count += 1
    if worst[torch.float32] > 1e-5 or worst[torch.float64] > 1e-9:
        raise AssertionError(f"off by {worst}")
    return f"{count} batches, off by {worst[torch.float32]:.0e} and {worst[torch.float64]:.0e}"


def ctc_equal_to_torch() -> str:
    """Check CTC against PyTorch to 1e-9: all reductions, ragged rows, empty targets."""
    worst, count = 0.0, 0
    for frames, rows, classes, labels in CTC_SIZES:
        torch.manual_seed(frames)
        x = torch.randn(frames, rows, classes, dtype=torch.float64, requires_grad=True)
        targets = torch.randint(1, classes, (rows, labels))
        ends = torch.randint(2 * labels, frames + 1, (rows,))
        sizes = torch.randint(0, labels + 1, (rows,))
        batch = [part.to(GPU) for part in (targets, ends, sizes)]
        for reduction in ("none", "sum", "mean"):
            log_probs = x.log_softmax(-1)
            expected = nn.functional.ctc_loss(log_probs, targets, ends, sizes, reduction=reduction)
            right = torch.autograd.grad(expected.sum(), x)[0]
            # zero_infinity is applied after the kernels; the third call uses a cached signature
            for zero in (False, True, False):
                on_gpu = x.detach().to(GPU).requires_grad_()
                options = {"reduction": reduction, "zero_infinity": zero, "from_logits": True}
                loss = ctc_loss(on_gpu, *batch, **options)
                gradient = torch.autograd.grad(loss.sum(), on_gpu)[0].cpu()
                compared = ((loss.detach().cpu(), expected.detach()), (gradient, right))
                worst = max(worst, *(distance(result, reference) for result, reference in compared))
                count += 1
    if not worst < 1e-9:
        raise AssertionError(f"off by {worst}")
    return f"{count} batches, off by {worst:.0e}"


def cuda_graphs() -> str:
    """Check the layers in CUDA graphs, which never validate, replayed with other values."""
    torch.manual_seed(3)
    layer = CRF(5, batch_first=True).to(GPU)
    e = torch.randn(3, 7, 5, device=GPU, requires_grad=True)
    x = torch.randn(9, 3, 6, device=GPU, requires_grad=True)
    tags = torch.randint(5, (3, 7), device=GPU)
    front = torch.arange(7, device=GPU) < torch.tensor([[7], [4], [6]], device=GPU)
    holes = front & (torch.arange(7, device=GPU) != 2)
    masks = {"no mask": None, "lengths": front, "holes": holes}
    rows = (
        torch.randint(1, 6, (3, 3), device=GPU),
        *torch.tensor([[9, 8, 9], [3, 2, 0]]).to(GPU),
    )
    steps: dict[str, Callable[[], Any]] = {
        name: lambda mask=mask: torch.autograd.grad(layer(e, tags, mask), (e, layer.transitions))
        for name, mask in masks.items()
    }
    steps["CTC"] = lambda: torch.autograd.grad(ctc_loss(x, *rows, from_logits=True), x)
    for name, step in steps.items():
        replay = graph(step)
        with torch.no_grad():
            e.normal_()
            x.normal_()
        for result, reference in zip(replay(), step(), strict=True):
            if not torch.allclose(result, reference, rtol=1e-5, atol=1e-5):
                raise AssertionError(f"{name}: the CUDA graph gives different numbers")
    return ", ".join(steps)


def half_precision() -> str:
    """Check the log-likelihood in half precision at (4, 512, 20), and scores of size 1e4."""
    torch.manual_seed(0)
    layer = CRF(20, batch_first=True).to(GPU)
    emissions = torch.randn(4, 512, 20, device=GPU)
    tags = torch.randint(20, (4, 512), device=GPU)
    exact = layer.double()(emissions.double(), tags).item()
    layer.float()
    errors = {}
    for dtype in (torch.float16, torch.bfloat16):
        # both layers get the rounded emissions, because rounding them is not an error of the layer
        rounded = emissions.to(dtype)
        reference = layer.double()(rounded.double(), tags).item()
        result = layer.float()(rounded, tags).item()
        errors[str(dtype)[6:]] = abs(result - reference)
        huge = (1e4 * rounded).clamp(-6e4, 6e4).requires_grad_()
        layer(huge, tags).backward()
        if not (huge.grad is not None and huge.grad.isfinite().all()):
            raise AssertionError(f"{dtype}: scores of size 1e4 have no finite gradient")
    if max(errors.values()) > 0.1:
        raise AssertionError(f"log-likelihood off by {errors}")
    return f"log-likelihood {exact:.0f}, off by " + ", ".join(
        f"{error:.1e} ({name})" for name, error in errors.items()
    )


def trained_loss(dtype: torch.dtype | None) -> float:
    """Return the loss after 60 steps of a small network, with autocast if a dtype is given."""
    torch.manual_seed(1)
    words = torch.randint(200, (64, 30), device=GPU)
    tags = (words * 7 + words.roll(1, 1) * 3) % 9
    network = nn.Sequential(nn.Embedding(200, 64), nn.Linear(64, 9)).to(GPU)
    layer = CRF(9, batch_first=True).to(GPU)
    optimiser = torch.optim.Adam([*network.parameters(), *layer.parameters()], lr=0.02)
    value = torch.zeros(())
    for _ in range(60):
        optimiser.zero_grad()
        with torch.autocast(GPU, dtype or torch.float32, enabled=dtype is not None):
            value = -layer(network(words), tags, reduction="token_mean")
        value.backward()
        optimiser.step()
    return value.item()


def autocast() -> str:
    """Check that training in half precision reaches the same loss within 1e-2."""
    right = trained_loss(None)
    losses = {str(d)[6:]: trained_loss(d) for d in (torch.float16, torch.bfloat16)}
    for name, value in losses.items():
        if not abs(value - right) < 1e-2 * abs(right):
            raise AssertionError(f"{name} trains to {value}, float32 to {right}")
    return f"float32 {right:.4f}, " + ", ".join(f"{n} {v:.4f}" for n, v in losses.items())


def wrong_input() -> str:
    """Check that each invalid input raises an error that names the row of the batch."""
    layer = CRF(3, batch_first=True).to(GPU)
    e = torch.zeros(2, 4, 3, device=GPU)
    tags = torch.zeros(2, 4, dtype=torch.long, device=GPU)
    empty = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]], device=GPU).bool()
    bad = tags.clone()
    bad[1, 2] = 3
    x, ends = torch.zeros(5, 2, 4, device=GPU), torch.tensor([5, 5], device=GPU)
    targets, sizes = torch.ones(2, 3, dtype=torch.long, device=GPU), torch.tensor([3, 3]).to(GPU)
    leaf, y = e.clone().requires_grad_(), x.clone().requires_grad_()
    for _ in range(2):  # afterwards these signatures are in the cache
        layer(leaf, tags, torch.ones_like(empty))
        layer(leaf, tags, lengths=sizes + 1)
        ctc_loss(y, targets, ends, sizes)
    blank, wide = targets.clone(), targets.clone()
    blank[1, 1], wide[1, 0] = 0, 4
    mistakes: dict[str, tuple[Callable[[], Any], str]] = {
        "no steps": (lambda: layer(e, tags, empty), "row 1 "),
        "no steps, decoding": (lambda: layer.decode(e, empty), "row 1 "),
        "no steps, training": (lambda: layer(leaf, tags, empty), "row 1 "),
        "tag, training": (lambda: layer(leaf, bad, torch.ones_like(empty)), "row 1 .*step 2"),
        "length, training": (lambda: layer(leaf, tags, lengths=sizes + 2), "row 0 "),
        "CTC blank, training": (lambda: ctc_loss(y, blank, ends, sizes), "row 1, position 1"),
        "CTC label, training": (lambda: ctc_loss(y, wide, ends, sizes), "row 1, position 0"),
        "CTC length, training": (lambda: ctc_loss(y, targets, ends, sizes + 1), "row 0"),
        "length over": (lambda: layer(e, tags, lengths=[4, 5]), "row 1 "),
        "tag out of range": (lambda: layer(e, bad), "row 1 .*step 2"),
        "CPU tags": (lambda: layer(e, tags.cpu()), "tags on cpu"),
        "CPU mask": (lambda: layer(e, tags, empty.cpu()), "mask on cpu"),
        "empty batch": (lambda: layer(e[:0], tags[:0]), "empty"),
        "CTC blank in a target": (lambda: ctc_loss(x, blank, ends, sizes), "row 1, position 1"),
        "CTC label out of range": (lambda: ctc_loss(x, wide, ends, sizes), "row 1, position 0"),
        "CTC length over": (lambda: ctc_loss(x, targets, ends + 1, sizes), "row 0"),
        "CTC CPU targets": (lambda: ctc_loss(x, targets.cpu(), ends, sizes), "targets are on cpu"),
        "CTC empty batch": (lambda: ctc_loss(x[:, :0], targets[:0], ends[:0], sizes[:0]), "empty"),
    }
    for name, (call, words) in mistakes.items():
        try:
            call()
        except InputError as error:
            if not re.search(words, str(error)):
                raise AssertionError(f"{name}: {error}") from None
        else:
            raise AssertionError(f"{name}: no error")
    too_long = ctc_loss(x[:2], targets, ends - 3, sizes, reduction="none")
    if not too_long.isposinf().all():
        raise AssertionError("a target longer than its input has a loss that is not inf")
    return f"{len(mistakes)} mistakes named; a target too long for its frames: inf"


def main() -> None:
    """Run all checks. Stop at the first that fails."""
    checks = (
        equal_to_the_cpu,
        ctc_equal_to_torch,
        cuda_graphs,
        half_precision,
        autocast,
        wrong_input,
    )
    for check in checks:
        print(f"{check.__name__.replace('_', ' ')}: {check()}", flush=True)


if __name__ == "__main__":
    main()
