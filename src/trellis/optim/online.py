"""Learning from one sequence at a time: the loop that all online solvers share.

A solver passes over the sequences again and again, each time in a new random order. Its update rule
is in a separate file: sgd.py, perceptron.py, passive_aggressive.py, arow.py. All of them are
deterministic for a fixed seed, and use one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, number_at_least
from trellis.errors import InputError, OptimizationError
from trellis.optim.result import Callback, Progress, Result, Vector, read_only

__all__ = [
    "Epochs",
    "Learner",
    "OnlineState",
    "SgdLearner",
    "UpdateRule",
    "register_state",
    "run_epochs",
]

_MAX_STEPS = 2**53  # a float counts exactly up to here
_MAX_NUMBER = 1e300  # the limit of numbers in a stored state: larger sums could overflow
# Name of a rule -> names of its vectors (one element per weight) and of its numbers.
_STATE_NAMES: dict[str, tuple[set[str], set[str]]] = {}


def register_state(rule: str, vectors: set[str], numbers: set[str]) -> None:
    """Declare the vectors and numbers that a rule stores besides w, to validate its states."""
    _STATE_NAMES[rule] = {"w", *vectors}, numbers


class SgdLearner(Protocol):
    """The model, as gradient descent uses it: `trellis.optim.sgd`.

    ``order``, shape (sequences,), are the indices of the sequences in the order of the updates.
    Vectors have one element per weight and are updated in place.
    """

    def sgd(
        self, order: NDArray[np.int64], lam: float, t0: float, done: int, v: Vector, scale: float
    ) -> tuple[float, float]:
        """Run gradient descent on w = scale · v; return the sum of the losses and the new scale.

        ``lam`` is λ and ``t0`` is t₀ in `sgd`; ``done`` is the number of steps in earlier epochs.
        """


class Learner(SgdLearner, Protocol):
    """The model, as all update rules use it. Each method runs one epoch of one rule."""

    def perceptron(
        self, order: NDArray[np.int64], w: Vector, total: Vector, steps: int
    ) -> tuple[int, int]:
        """Run the perceptron; return the number of wrong labels, and of steps in all epochs."""

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
        """Run passive-aggressive updates; return the total loss, and the steps in all epochs."""

    def arow(self, order: NDArray[np.int64], gamma: float, w: Vector, variance: Vector) -> float:
        """Run AROW; return the sum of the losses."""


@dataclass(eq=False)
class OnlineState:
    """The state of a solver between epochs. A resumed run gives the bits of an unbroken run."""

    vectors: dict[str, Vector]  # "w" and the vectors that the rule registered, each (weights,)
    numbers: dict[str, float]
    epoch: int  # the number of finished epochs
    losses: list[float]  # the loss of each finished epoch
    random: dict[str, Any]  # the state of the bit generator PCG64

    def check(self, rule: str, size: int) -> None:
        """Raise InputError if this is not a state of the rule for ``size`` weights."""
        if (set(self.vectors), set(self.numbers)) != _STATE_NAMES[rule]:
            names = sorted({*self.vectors, *self.numbers})
            raise InputError(f"not a state of {rule}: its arrays are {names}")
        if not 0 <= self.numbers.get("steps", 0) <= _MAX_STEPS:
            raise InputError(f"steps of the state is {self.numbers['steps']}: out of range")
        for name, vector in self.vectors.items():
            if vector.shape != (size,):
                raise InputError(f"{name} of the state has shape {vector.shape}, not {(size,)}")

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as plain arrays, for storage."""
        # The two 128-bit numbers of PCG64 are stored as four 64-bit words.
        pcg64_state = self.random["state"]
        state_words = [
            int(pcg64_state[name]) >> shift & 0xFFFFFFFFFFFFFFFF
            for name in ("state", "inc")
            for shift in (0, 64)
        ]
        counters = [self.random["has_uint32"], self.random["uinteger"], self.epoch]
        arrays: dict[str, NDArray[Any]] = {
            f"vector.{name}": value for name, value in self.vectors.items()
        }
        arrays |= {
            f"number.{name}": np.array([value], dtype=np.float64)
            for name, value in self.numbers.items()
        }
        return arrays | {
            "losses": np.array(self.losses),
            "random": np.array(state_words + counters, dtype=np.uint64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> OnlineState:
        """Return the state from the arrays of `to_arrays`; raise InputError for invalid arrays."""
        try:
            state_low, state_high, inc_low, inc_high, has_uint32, uinteger, epoch = map(
                int, arrays["random"]
            )
            losses = [float(loss) for loss in arrays["losses"]]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not a state of an online learner: {error}") from None
        random = {
            "bit_generator": "PCG64",
            "state": {"state": state_low | state_high << 64, "inc": inc_low | inc_high << 64},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }
        prefixes = {key.split(".", 1)[0] for key in arrays if "." in key}
        if not prefixes <= {"vector", "number"}:
            raise InputError(
                f"not a state of an online learner: unknown prefixes {sorted(prefixes)}"
            )
        for name, array in arrays.items():
            shape = (array.size,) if name.startswith("vector.") else (1,)
            if "." in name and (array.shape != shape or array.dtype != np.float64):
                raise InputError(
                    f"not a state of an online learner: {name} is {array.dtype} of shape "
                    f"{array.shape}"
                )
            if array.dtype == np.float64 and not (np.abs(array) < _MAX_NUMBER).all():
                raise InputError(f"not a state of an online learner: {name} is out of range")
        vectors = {
            key[7:]: np.array(value) for key, value in arrays.items() if key.startswith("vector.")
        }
        numbers = {
            key[7:]: float(value[0]) for key, value in arrays.items() if key.startswith("number.")
        }
        if len(losses) != epoch:
            counts = f"{epoch} epochs and {len(losses)} losses"
            raise InputError(f"not a state of an online learner: {counts}")
        np.random.PCG64().state = cast(Any, random)  # NumPy raises an error for an invalid state
        return cls(vectors, numbers, epoch, losses, random)


class UpdateRule(NamedTuple):
    """The parts of an online solver that differ from those of other solvers."""

    name: str
    start: Callable[[OnlineState], None]
    """Add the rule's first vectors and numbers to a state that has only "w"."""
    epoch: Callable[[OnlineState, NDArray[np.int64]], float]
    """``epoch(state, order) -> loss``: make one pass over the sequences, and update the state."""
    weights: Callable[[OnlineState], Vector]
    """Return the weights of the model in a state: w itself, scaled w, or an average."""


class Epochs(NamedTuple):
    """The settings that all online solvers share."""

    max_iter: int
    period: int
    """Compare the loss with that of ``period`` epochs ago; 0 for no such test."""
    delta: float
    """Stop if (loss ``period`` epochs ago - loss) / loss is below ``delta``."""
    callback: Callback | None
    random_state: Any
    state: OnlineState | None
    """The state of an earlier run, to resume it; None for a new run."""


def run_epochs(
    rule: UpdateRule, sequences: int, w0: Vector, settings: Epochs
) -> Result[OnlineState]:
    """Run epochs of a rule until the loss no longer falls, or ``max_iter`` is reached."""
    max_iter = as_integer(settings.max_iter, "max_iter")
    if max_iter < 1:
        raise InputError(f"max_iter must be at least 1, not {settings.max_iter}")
    number_at_least(settings.delta, 0.0, "delta")
    state = settings.state
    if state is None:
        state = _first_state(w0, settings.random_state)
        rule.start(state)
    state.check(rule.name, len(w0))
    start_time = time.perf_counter()
    bit_generator = np.random.PCG64()
    bit_generator.state = cast(Any, state.random)
    generator = np.random.Generator(bit_generator)
    while (reason := _stop_reason(state, max_iter, settings)) is None:
        order = generator.permutation(sequences).astype(np.int64)
        state.losses.append(rule.epoch(state, order))
        state.epoch += 1
        state.random = dict(bit_generator.state)
        loss, w = state.losses[-1], rule.weights(state)
        if not np.isfinite(loss):
            raise OptimizationError(
                f"the loss is {loss} after epoch {state.epoch}: values or weights are too large"
            )
        if settings.callback is not None and settings.callback(_progress(state, w, start_time)):
            reason = False, "stopped by the callback"
            break
    return Result(rule.weights(state), state.losses[-1], state.epoch, *reason, state, state.epoch)


def _stop_reason(state: OnlineState, max_iter: int, settings: Epochs) -> tuple[bool, str] | None:
    """Return (converged, message) if the run ends here, otherwise None."""
    if state.losses:
        loss, period = state.losses[-1], settings.period
        earlier_loss = state.losses[-1 - period] if len(state.losses) > period > 0 else np.inf
        if loss == 0.0 or (earlier_loss - loss) / loss < settings.delta:
            return True, "the loss no longer falls"
    return None if state.epoch < max_iter else (False, f"{max_iter} epochs")


def _first_state(w0: Vector, random_state: Any) -> OnlineState:
    """Return the state before the first epoch.

    ``rule.start`` then adds the vectors and numbers that the update rule needs.
    """
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    random = np.random.PCG64(random_state).state
    return OnlineState({"w": w0.copy()}, {}, 0, [], dict(random))


def _progress(state: OnlineState, w: Vector, start_time: float) -> Progress:
    return Progress(
        state.epoch,
        state.losses[-1],
        float("nan"),
        int(np.count_nonzero(w)),
        float("nan"),
        state.epoch,
        time.perf_counter() - start_time,
        read_only(w),
        lambda: state,
    )
