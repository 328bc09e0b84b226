"""Compare CTC from logits on a GPU with the kernels of PyTorch, cuDNN and FlagGems.

    python benchmarks/gpu_ctc.py

The script checks the results, measures, and prints tables, in about two minutes. It times forward +
backward from logits, in turns; for the peers this includes log_softmax of PyTorch. FlagGems is
skipped if it is not installed. Its releases up to 5.0.2 have no CTC, but its main branch has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import torch
from gpu_timing import attempt, graph, in_turns, kernel_times, on_one_thread
from timing import Table
from torch import Tensor
from torch.nn import functional

BANDWIDTH = 4.3e12  # bytes/s of a copy on an H200
STEP = 0.15e-6  # seconds per step with 256 lanes, estimated from the machine code
PEERS = ("native", "cuDNN", "FlagGems")


class Shape(NamedTuple):
    """Frames, batch rows, classes, labels of a target."""

    T: int
    B: int
    V: int
    S: int

    def __str__(self) -> str:
        return f"{self.T}, {self.B}, {self.V}, {self.S}"


# shape -> goal for forward + backward, in ms
SHAPES = {
    Shape(200, 32, 32, 40): 0.43,
    Shape(1000, 16, 80, 150): 1.3,
    Shape(1500, 8, 5000, 200): 2.2,
    Shape(1500, 64, 5000, 200): 5.3,
    Shape(3000, 32, 128, 400): 4.3,
}


class Batch(NamedTuple):
    """Logits and targets on the GPU. All rows have full length."""

    logits: Tensor
    targets: Tensor
    ends: Tensor
    sizes: Tensor

    def first_rows(self, rows: int) -> Batch:
        """Return the first rows in float64."""
        logits = self.logits[:, :rows].detach().double().requires_grad_()
        return Batch(logits, self.targets[:rows], self.ends[:rows], self.sizes[:rows])


def make(shape: Shape) -> Batch:
    """Return random logits and labels."""
    torch.manual_seed(sum(shape))
    logits = torch.randn(shape.T, shape.B, shape.V, device="cuda", requires_grad=True)
    targets = torch.randint(1, shape.V, (shape.B, shape.S), device="cuda")
    ends = torch.full((shape.B,), shape.T, device="cuda")
    return Batch(logits, targets, ends, torch.full_like(ends, shape.S))


def load_ours() -> ModuleType:
    """Return trellis.nn.ctc. If the native core is not built, only its GPU part works."""
    try:
        import trellis._core  # noqa: F401
    except ImportError:
        core = ModuleType("trellis._core")
        core.__getattr__ = lambda name: object  # type: ignore[method-assign]
        sys.modules["trellis._core"] = core
        print("the native core is not built: the results are not compared with the CPU")
    from trellis.nn import ctc

    return ctc


Step = Callable[[], tuple[Tensor, Tensor]]


def ours(ctc: ModuleType, x: Batch, **options: Any) -> Step:
    """Return a step: loss and gradient by trellis."""

    def step() -> tuple[Tensor, Tensor]:
        loss = ctc.ctc_loss(*x, reduction="sum", from_logits=True, **options)
        return loss, torch.autograd.grad(loss, x.logits)[0]

    return step


def native(x: Batch) -> Step:
    """Return a step: loss and gradient by the kernels of PyTorch."""

    def step() -> tuple[Tensor, Tensor]:
        with torch.backends.cudnn.flags(enabled=False):
            loss = functional.ctc_loss(x.logits.log_softmax(-1), *x[1:], reduction="sum")
            return loss, torch.autograd.grad(loss, x.logits)[0]

    return step


def cudnn(x: Batch) -> Step:
    """Return a step: loss and gradient by cuDNN, which needs int32 targets on the CPU."""
    if int(x.sizes.max()) > 256:
        raise RuntimeError("cuDNN does not support targets with more than 256 labels")
    targets = x.targets.flatten().int().cpu()
    lengths = (x.ends.int().cpu(), x.sizes.int().cpu())

    def step() -> tuple[Tensor, Tensor]:
        with torch.backends.cudnn.flags(enabled=True):
            log_probs = x.logits.log_softmax(-1)
            loss = functional.ctc_loss(log_probs, targets, *lengths, reduction="sum")
            return loss, torch.autograd.grad(loss, x.logits)[0]

    return step


def flag_gems(x: Batch) -> Step:
    """Return a step: loss and gradient by the Triton kernels of FlagGems."""
    ctc_loss = import_module("flag_gems.ops.ctc_loss").ctc_loss

    def step() -> tuple[Tensor, Tensor]:
        loss = ctc_loss(x.logits.log_softmax(-1), *x[1:], reduction="sum")
        return loss, torch.autograd.grad(loss, x.logits)[0]

    return step


def check(ctc: ModuleType, x: Batch) -> tuple[float, float, float]:
    """Return the errors of loss (relative) and gradient in float32, and the error in float64.

    Raise if an error is too large, or if two runs give different bits.
    """
    part = x.first_rows(min(4, x.logits.shape[1]))
    single = Batch(part.logits.detach().float().requires_grad_(), *part[1:])
    loss, gradient = (x.detach() for x in native(part)())
    loss32, gradient32 = (x.detach() for x in ours(ctc, single)())
    loss64, gradient64 = (x.detach() for x in ours(ctc, part)())
    wrong = (loss64 - loss).abs() / loss
    exact = float(max((gradient64 - gradient).abs().max(), wrong))
    rough = float((gradient32 - gradient).abs().max())
    relative = float((loss32 - loss).abs() / loss)
    again = ours(ctc, single)()
    if exact > 1e-9 or rough > 1e-5 or relative > 1e-6:
        raise AssertionError(
            f"float64 is off by {exact:.1e}, float32 by {rough:.1e}, {relative:.1e}"
        )
    if not (torch.equal(again[0], loss32) and torch.equal(again[1], gradient32)):
        raise AssertionError("two runs gave different bits")
    return relative, rough, exact


def peak(step: Step) -> float:
    """Return the MiB that a step allocates, including its result."""
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = step()
    torch.cuda.synchronize()
    del result
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def expected(shape: Shape) -> dict[str, float]:
    """Return the expected microseconds of each kernel: bytes / bandwidth, or steps * step time."""
    frames = shape.T * shape.B
    logits, states = 4 * frames * shape.V, 4 * frames * 2 * (shape.S + 1)
    lanes = max(shape.S + 1, 256) / 256
    walk = shape.T / 2 * STEP * lanes
    return {
        "score_frames": (logits + states / 2) / BANDWIDTH * 1e6,
        "walk_in": max(walk, (states / 2 + 2 * states) / BANDWIDTH) * 1e6,
        "walk_out": max(1.3 * walk, (states / 2 + 3 * states) / BANDWIDTH) * 1e6,
        "write_gradient": (2 * logits + states) / BANDWIDTH * 1e6,
    }


def print_kernels(shape: Shape, step: Step) -> None:
    """Print the measured and the expected time of each kernel."""
    expected_times = expected(shape)
    for name, microseconds in sorted(kernel_times(step).items(), key=lambda pair: -pair[1])[:8]:
        limit = expected_times.get(name)
        print(
            f"    {microseconds:9.1f} us  {name[:60]}"
            + (f"  (expected {limit:.0f})" if limit else "")
        )


def speed_up(times: dict[str, float | None], way: str) -> float | None:
    """Return how many times ours is faster than the best peer. `way` is the suffix of columns."""
    peer_times = [t for name in PEERS if (t := times[name + way]) is not None]
    our_time = times["ours" + way]
    return min(peer_times) / our_time if our_time and peer_times else None


def measure(ctc: ModuleType, shape: Shape, times: Table, memory: Table) -> None:
    """Check and time one shape. Skip peers that fail."""
    x = make(shape)
    print(f"({shape}) errors of loss, gradient, float64:", *(f"{e:.1e}" for e in check(ctc, x)))
    steps: dict[str, Callable[[], Step]] = {
        "ours": lambda: ours(ctc, x),
        "ours 1": lambda: on_one_thread(ours(ctc, x)),
        "unchecked": lambda: ours(ctc, x, validate=False),
        "graph": lambda: graph(ours(ctc, x, validate=False)),
    }
    right = ours(ctc, x)()[1]
    for name, build in zip(PEERS, (native, cudnn, flag_gems), strict=True):
        wrong = attempt(name, lambda build=build: float((build(x)()[1] - right).abs().max()))  # type: ignore[misc]
        if wrong is not None:
            print(f"  {name}: its gradient differs from ours by {wrong:.1e}")
        steps[name] = partial(build, x)
        steps[name + " 1"] = partial(lambda build: on_one_thread(build(x)), build)
    milliseconds = in_turns(steps)
    times.add(
        str(shape),
        *milliseconds.values(),
        speed_up(milliseconds, ""),
        speed_up(milliseconds, " 1"),
        SHAPES[shape],
    )
    sizes = [attempt(n, lambda n=n: peak(steps[n]())) for n in ("ours", *PEERS)]  # type: ignore[misc]
    memory.add(str(shape), *sizes)
    try:
        print_kernels(shape, ours(ctc, x, validate=False))
    except Exception as error:
        print(f"  profiler: {error}")


def main() -> list[Table]:
    """Check and time all shapes, print the tables and return them."""
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA GPU")
    ctc = load_ours()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    columns = (
        *("T, B, V, S", "ours", "ours 1", "unchecked", "graph"),
        *(name + way for name in PEERS for way in ("", " 1")),
        *("best / ours", "1", "goal"),
    )
    title = "CTC from logits, forward + backward, ms (1: backward on the calling thread)"
    times = Table(title, columns)
    memory = Table("peak memory of a step, MiB", ("T, B, V, S", "ours", *PEERS))
    for shape in SHAPES:
        try:
            measure(ctc, shape, times, memory)
        except Exception as error:
            print(f"({shape}): {type(error).__name__}: {error}")
        torch.cuda.empty_cache()
    print(times.text())
    print(memory.text())
    return [times, memory]


if __name__ == "__main__":
    main()
