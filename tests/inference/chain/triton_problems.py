"""Padded batches for tests of the GPU kernels of the chain, which run in Triton's interpreter.

With TRITON_INTERPRET=0 the same tests run on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a kernel is defined
triton = pytest.importorskip("triton", reason="Triton is not installed")

from trellis.inference.chain.triton import ChainPlan  # noqa: E402

INTERPRETED = triton.knobs.runtime.interpret
NEEDED = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="needs Triton's interpreter or a GPU"
)
DEVICE = "cpu" if INTERPRETED else "cuda"
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
INF = float("inf")


@pytest.fixture(autouse=True)
def nan_in_new_memory() -> Iterator[None]:
    """New memory is NaN, or a huge integer, so that reading it too early shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


class Problem(NamedTuple):
    """A padded batch; values after the lengths must not matter."""

    emissions: Any
    transitions: Any
    start: Any
    end: Any
    lengths: Any
    tags: Any
    weight: Any

    @property
    def scores(self) -> tuple[Any, ...]:
        return self[:5]

    def batch(self, *, tagged: bool) -> tuple[Any, ...]:
        """What a ChainPlan takes."""
        return (*self.scores, self.tags if tagged else None, None)

    def row(self, b: int) -> dict[str, np.ndarray]:
        """One sequence for the engine of the CPU, in float64."""
        length = int(self.lengths[b])
        positional = self.transitions.dim() > 2
        parts = {
            "unary": self.emissions[b, :length],
            "transition": self.transitions[b, : length - 1] if positional else self.transitions,
            "start": self.start,
            "end": self.end,
        }
        return {name: part.double().cpu().numpy() for name, part in parts.items()}


def best_path(p: Problem) -> tuple[Any, Any]:
    """Return the best labels (B, T) of the kernels, and their scores (B,)."""
    batch = p.batch(tagged=False)
    score, (labels,) = ChainPlan(batch, "path").run(batch)
    return labels, score


def problem(
    lengths: list[int],
    labels: int,
    dtype: Any = torch.float64,
    *,
    seed: int = 0,
    scale: float = 2.0,
    positional: bool = False,
    forbidden: float = 0.0,
) -> Problem:
    """Normal scores, NaN after the lengths; the path of label 0 is always allowed."""
    rng = np.random.default_rng(seed)
    rows, steps = len(lengths), max(lengths) + 1

    def draw(*shape: int) -> np.ndarray:
        x = rng.normal(0.0, scale, shape)
        x[rng.random(shape) < forbidden] = -INF
        x[..., 0] = np.where(x[..., 0] == -INF, 0.0, x[..., 0])
        return x

    outside = np.arange(steps) >= np.array(lengths)[:, None]
    emissions = draw(rows, steps, labels)
    emissions[outside] = np.nan
    transitions = draw(*((rows, steps - 1) if positional else ()), labels, labels)
    if positional:
        transitions[outside[:, 1:]] = np.nan
    tags = np.where(outside, -100, rng.integers(labels, size=(rows, steps)))
    parts = [emissions, transitions, draw(labels), draw(labels)]
    tensors = [torch.from_numpy(part).to(DEVICE, dtype) for part in parts]
    integers = [torch.tensor(x, device=DEVICE) for x in (lengths, tags)]
    weight = torch.from_numpy(rng.normal(size=rows)).to(DEVICE, dtype)
    return Problem(*tensors, *integers, weight)
