"""Compare CTC loss and gradient from logits with log_softmax and ctc_loss of PyTorch, on the CPU.

    python benchmarks/ctc.py
    python benchmarks/ctc.py --quick --markdown

Ours is `trellis.nn.ctc_loss` with validation; "forward" and "backward" are the functions of the
native engine that it calls. Both use two threads, float32, full lengths. Every shape is checked
before it is timed: torch in float64 against ours in float64 and in float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from sections import run_sections
from timing import Case, Table, check_close, milliseconds, ratio, time_alternating

from trellis.inference.ctc import cpu
from trellis.nn import ctc_loss

SHAPES = ((200, 32, 32, 40), (1000, 16, 80, 150), (1500, 8, 5000, 200))  # (T, B, V, S)
THREADS = 2
COLUMNS = ("T, B, V, S", "torch", "ours", "forward", "backward", "torch / ours", "at minima")


class Problem(NamedTuple):
    """Tensors of one shape."""

    logits: torch.Tensor  # (T, B, V)
    targets: torch.Tensor
    input_lengths: torch.Tensor
    target_lengths: torch.Tensor

    def arrays(self) -> tuple[Any, ...]:
        """Return the arguments of our engine: views of the same memory."""
        return (*(tensor.detach().numpy() for tensor in self), 0, True)


def make_problem(shape: tuple[int, int, int, int], dtype: torch.dtype) -> Problem:
    """Return normal logits and uniform labels."""
    frames, rows, vocabulary, labels = shape
    generator = torch.Generator().manual_seed(frames)
    return Problem(
        torch.randn(frames, rows, vocabulary, generator=generator).to(dtype).requires_grad_(),
        torch.randint(1, vocabulary, (rows, labels), generator=generator),
        torch.full((rows,), frames),
        torch.full((rows,), labels),
    )


def torch_step(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the losses of PyTorch and the gradient of their sum."""
    logits, *arguments = problem
    loss = torch.nn.functional.ctc_loss(logits.log_softmax(2), *arguments, reduction="none")
    return loss.detach(), torch.autograd.grad(loss.sum(), logits)[0]


def ours_step(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the losses of trellis and the gradient of their sum."""
    loss = ctc_loss(*problem, reduction="none", from_logits=True)
    return loss.detach(), torch.autograd.grad(loss.sum(), problem.logits)[0]


def engine_forward(problem: Problem) -> tuple[np.ndarray, ...]:
    """Return the losses, and the arrays for the backward pass."""
    return cpu.forward(*problem.arrays(), n_jobs=THREADS)


def engine_backward(problem: Problem, forward: tuple[np.ndarray, ...]) -> np.ndarray:
    """Return the gradient of the sum of the losses."""
    loss, log_norm, saved = forward
    arrays, weight = problem.arrays(), np.ones_like(loss)
    return cpu.backward(*arrays, log_norm, saved, loss, weight, n_jobs=THREADS)


def check(shape: tuple[int, int, int, int]) -> None:
    """Raise unless our results are correct in both precisions."""
    problem = make_problem(shape, torch.float64)
    exact = [part.numpy() for part in torch_step(problem)]
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-5)):
        converted = Problem(problem.logits.detach().to(dtype).requires_grad_(), *problem[1:])
        for name, ours, expected in zip(
            ("loss", "gradient"), ours_step(converted), exact, strict=True
        ):
            check_close(f"{name} of {shape} in {dtype}", ours.numpy(), expected, tolerance)


def ctc_section(quick: bool) -> list[Table]:
    """Time forward and backward at every shape."""
    torch.set_num_threads(THREADS)
    table = Table(f"CTC from logits, forward and backward, {THREADS} threads, float32, ms", COLUMNS)
    table.notes = ["torch: log_softmax, ctc_loss and backward; forward, backward: only the engine"]
    for shape in SHAPES:
        check(shape)
        problem = make_problem(shape, torch.float32)
        forward = engine_forward(problem)
        cases = [
            Case("torch", lambda problem=problem: torch_step(problem)),
            Case("ours", lambda problem=problem: ours_step(problem)),
            Case("forward", lambda problem=problem: engine_forward(problem)),
            Case("backward", lambda problem=problem, f=forward: engine_backward(problem, f)),
        ]
        times = time_alternating(cases, 5 if quick else 15, pause=0.02)
        table.keep(str(shape), times)
        table.add(
            ", ".join(map(str, shape)),
            *(milliseconds(times[case.name]) for case in cases),
            ratio(times["torch"], times["ours"]),
            ratio(times["torch"], times["ours"], "minimum"),
        )
    return [table]


if __name__ == "__main__":
    run_sections(__doc__, ("trellis", "numpy", "torch"), {"ctc": ctc_section})
