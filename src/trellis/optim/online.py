"""Learning from one sequence at a time: SGD, averaged perceptron, passive-aggressive, AROW.

Each goes over the sequences again and again, in an order of its own each time, and is told after
each epoch how it went. All are deterministic for a given seed, and use one thread.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, number_at_least
from trellis.errors import InputError, OptimizationError
from trellis.optim.result import Callback, Progress, Result, Vector, read_only

__all__ = ["Learner", "OnlineState", "run_epochs"]

_LARGEST = 1e300
# what each rule keeps between epochs: vectors of as many elements as there are weights, and numbers
_KEPT: dict[str, tuple[set[str], set[str]]] = {
    "sgd": ({"w"}, {"t0", "scale"}),
    "perceptron": ({"w", "total"}, {"steps"}),
    "passive-aggressive": ({"w", "total"}, {"steps"}),
    "arow": ({"w", "variance"}, set()),
}


class Learner(Protocol):
    """What the update rules need of a model: one epoch over sequences in a given order."""

    def sgd(
        self, order: NDArray[np.int64], lam: float, t0: float, done: int, v: Vector, scale: float
    ) -> tuple[float, float]:
        """Steps of stochastic gradient descent; the sum of the losses, and the scale of v."""

    def perceptron(
        self, order: NDArray[np.int64], w: Vector, total: Vector, steps: int
    ) -> tuple[int, int]:
        """Steps of the perceptron; the wrong labels, and the steps so far."""

    def passive_aggressive(
        self,
        order: NDArray[np.int64],
        variant: int,
        aggressiveness: float,
        count_errors: bool,
        w: Vector,
        total: Vector,
        steps: int,
    ) -> tuple[float, int]:
        """Passive-aggressive steps; the sum of the losses, and the steps so far."""

    def arow(self, order: NDArray[np.int64], gamma: float, w: Vector, variance: Vector) -> float:
        """Steps of AROW; the sum of the losses."""


@dataclass(eq=False)
class OnlineState:
    """What a rule keeps between epochs; going on from it gives the same bits as never stopping."""

    vectors: dict[str, Vector]
    numbers: dict[str, float]
    epoch: int
    losses: list[float]
    random: dict[str, Any]

    def check(self, rule: str, size: int) -> None:
        """Raise if it is not a state of this rule for so many weights."""
        if (set(self.vectors), set(self.numbers)) != _KEPT[rule]:
            raise InputError(f"not a state of {rule}: {sorted({*self.vectors, *self.numbers})}")
        for name, vector in self.vectors.items():
            if vector.shape != (size,):
                raise InputError(f"{name} of the state has shape {vector.shape}, not {(size,)}")

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Plain arrays, to be stored."""
        words = self.random["state"]
        bits = [int(words[k]) >> s & 0xFFFFFFFFFFFFFFFF for k in ("state", "inc") for s in (0, 64)]
        rest = [self.random["has_uint32"], self.random["uinteger"], self.epoch]
        arrays: dict[str, NDArray[Any]] = {f"vector.{k}": v for k, v in self.vectors.items()}
        arrays |= {f"number.{k}": np.array([v], dtype=np.float64) for k, v in self.numbers.items()}
        return arrays | {
            "losses": np.array(self.losses),
            "random": np.array(bits + rest, dtype=np.uint64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "OnlineState":
        """The state that `to_arrays` was called on."""
        try:
            low, high, inc_low, inc_high, has, value, epoch = map(int, arrays["random"])
            losses = [float(x) for x in arrays["losses"]]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a state of an online learner: {error}") from None
        random = {
            "bit_generator": "PCG64",
            "state": {"state": low | high << 64, "inc": inc_low | inc_high << 64},
            "has_uint32": has,
            "uinteger": value,
        }
        kinds = {k.split(".", 1)[0] for k in arrays if "." in k}
        if not kinds <= {"vector", "number"}:
            raise InputError(f"not a state of an online learner: {sorted(kinds)}")
        for name, array in arrays.items():
            wanted = (array.size,) if name.startswith("vector.") else (1,)
            if "." in name and (array.shape != wanted or array.dtype != np.float64):
                raise InputError(f"not a state of an online learner: {name} is no such array")
            if array.dtype == np.float64 and not (np.abs(array) < _LARGEST).all():
                raise InputError(f"not a state of an online learner: {name} is out of range")
        vectors = {k[7:]: np.array(v) for k, v in arrays.items() if k.startswith("vector.")}
        numbers = {k[7:]: float(v[0]) for k, v in arrays.items() if k.startswith("number.")}
        if len(losses) != epoch:
            what = f"{epoch} epochs and {len(losses)} losses"
            raise InputError(f"not a state of an online learner: {what}")
        np.random.PCG64().state = cast(Any, random)  # raises if it is none
        return cls(vectors, numbers, epoch, losses, random)


def run_epochs(
    epoch: Callable[[OnlineState, NDArray[np.int64]], float],
    weights: Callable[[OnlineState], Vector],
    sequences: int,
    start: OnlineState,
    *,
    max_iter: int,
    period: int,
    delta: float,
    callback: Callback | None,
) -> Result[OnlineState]:
    """Epochs until the loss stands still: (loss ``period`` epochs ago - loss) / loss < ``delta``.

    ``epoch(state, order)`` does one and returns its loss; ``weights(state)`` are the model's then.
    """
    most = as_integer(max_iter, "max_iter")
    if most < 1:
        raise InputError(f"max_iter must be at least 1, not {max_iter}")
    number_at_least(delta, 0.0, "delta")
    state, began = start, time.perf_counter()
    bits = np.random.PCG64()
    bits.state = cast(Any, state.random)
    random = np.random.Generator(bits)
    while (reason := _reason(state, most, period, delta)) is None:
        order = random.permutation(sequences).astype(np.int64)
        state.losses.append(epoch(state, order))
        state.epoch += 1
        state.random = dict(bits.state)
        loss, w = state.losses[-1], weights(state)
        if not np.isfinite(loss):
            raise OptimizationError(f"the loss is {loss} after epoch {state.epoch}")
        if callback is not None and callback(_progress(state, w, began)):
            reason = False, "stopped by the callback"
            break
    loss = state.losses[-1] if state.losses else np.nan
    return Result(weights(state), loss, state.epoch, *reason, state, state.epoch)


def _reason(state: OnlineState, most: int, period: int, delta: float) -> tuple[bool, str] | None:
    """Whether the run has converged and why it ends; None if it goes on."""
    if state.losses:
        loss = state.losses[-1]
        before = state.losses[-1 - period] if len(state.losses) > period > 0 else np.inf
        if loss == 0.0 or (before - loss) / loss < delta:
            return True, "the loss stands still"
    return None if state.epoch < most else (False, f"{most} epochs")


def first_state(w0: Vector, random_state: Any, **vectors: Vector) -> OnlineState:
    """Before the first epoch."""
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    random = np.random.PCG64(random_state).state
    return OnlineState({"w": w0.copy(), **vectors}, {}, 0, [], dict(random))


def _progress(state: OnlineState, w: Vector, began: float) -> Progress:
    return Progress(
        state.epoch,
        state.losses[-1],
        float("nan"),
        int(np.count_nonzero(w)),
        float("nan"),
        state.epoch,
        time.perf_counter() - began,
        read_only(w),
        lambda: state,
    )
