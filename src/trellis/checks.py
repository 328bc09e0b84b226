"""Argument validation, written once: each check returns the validated value or raises InputError.

The messages name the argument and the value. Checks of tensors are in `trellis.nn.steps`, because
they need PyTorch.
"""

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = [
    "MAX_SCORE",
    "as_integer",
    "as_positive",
    "check_not_empty",
    "check_random_state",
    "flag",
    "integer_at_least",
    "integer_in_range",
    "is_not_a_score",
    "is_text",
    "number_at_least",
    "number_in_range",
    "one_of",
    "read_counts",
    "sample_weights",
    "unchanged_on_error",
]

# The largest finite score, as kLargestScore in the core. The sum of 10**7 such scores is finite.
MAX_SCORE = 1e300
MAX_COUNT = 2**53
_MAX_SIZE = 2**62  # the core adds two such sizes in 64 bits without overflow


def as_integer(value: Any, name: str) -> int:
    """Return any integer as a Python int. NumPy integers would overflow in arithmetic.

    >>> as_integer(np.int8(7), "n")
    7
    >>> as_integer(True, "n")
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: n must be an integer, not True
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be an integer, not {value!r}") from None


def as_positive(value: Any, name: str) -> int:
    """Return an integer of at least 1, clipped to 2**62. Use it for sizes that are upper bounds."""
    number = as_integer(value, name)
    if number < 1:
        raise InputError(f"{name} is {number}: must be at least 1")
    return min(number, _MAX_SIZE)


def integer_at_least(value: Any, minimum: int, name: str) -> int:
    """Return an integer of at least ``minimum``: ``integer_at_least(max_iter, 1, "max_iter")``."""
    number = as_integer(value, name)
    if number < minimum:
        raise InputError(f"{name} must be at least {minimum}, not {number}")
    return number


def read_counts(values: Iterable[Any], name: str) -> list[int]:
    """Return the counters of a stored state: integers from 0 to 2**53, which floats store exactly.

    >>> read_counts([3, 2**63 - 1], "counts")
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: counts must be 0 to 2**53, not 9223372036854775807
    """
    numbers = [as_integer(value, name) for value in values]
    for number in numbers:
        if not 0 <= number <= MAX_COUNT:
            raise InputError(f"{name} must be 0 to 2**53, not {number}")
    return numbers


def number_at_least(value: Any, minimum: float, name: str) -> float:
    """Return a finite float of at least ``minimum``: ``number_at_least(tol, 0, "tol")``."""
    try:
        if isinstance(value, str | bytes):  # float("1") would accept it
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, not {value!r}") from None
    if not minimum <= number < np.inf:
        raise InputError(f"{name} must be finite and at least {minimum:g}, not {value!r}")
    return number


def one_of(value: Any, choices: Iterable[str], name: str) -> str:
    """Return the value if it is one of the choices: ``one_of(solver, SOLVERS, "solver")``."""
    choices = tuple(choices)
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return str(value)


def flag(value: Any, name: str) -> bool:
    """Return True or False; 0, 1 and NumPy's Booleans are valid too: ``flag(lower, "lower")``."""
    if not isinstance(value, bool | np.bool_ | int) or value not in (0, 1):
        raise InputError(f"{name} must be True or False, not {value!r:.60}")
    return bool(value)


def check_random_state(value: Any) -> None:
    """Raise InputError unless ``numpy.random.default_rng`` accepts the value.

    >>> check_random_state(-1)
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: random_state must be None, an integer ≥ 0 or a generator, not -1
    """
    try:
        np.random.default_rng(value)
    except (TypeError, ValueError):
        raise InputError(
            f"random_state must be None, an integer ≥ 0 or a generator, not {value!r:.60}"
        ) from None


def is_text(value: Any) -> bool:
    """Return True for a str that can be encoded as UTF-8, so has no unpaired surrogates."""
    try:
        return isinstance(value, str) and bool(value.isascii() or value.encode() is not None)
    except UnicodeEncodeError:
        return False


def is_not_a_score(scores: NDArray[Any]) -> NDArray[np.bool_]:
    """Return True at each NaN, +inf, and finite number beyond ±MAX_SCORE. -inf is a valid score.

    >>> is_not_a_score(np.array([1e300, -np.inf, 1e301, np.nan])).tolist()
    [False, False, True, True]
    """
    if scores.dtype == np.float32:  # all finite values are within the limit
        return ~(scores < np.inf)
    with np.errstate(invalid="ignore"):
        is_valid: NDArray[np.bool_] = (np.abs(scores) <= MAX_SCORE) | (scores == -np.inf)
    return ~is_valid


def check_not_empty(lengths: NDArray[np.int64]) -> None:
    """Raise InputError if there is no sequence, or if a sequence has no positions."""
    if not len(lengths):
        raise InputError("X is empty: at least one sequence is needed")
    empty = np.flatnonzero(lengths == 0)
    if empty.size:
        raise InputError("sequence {sequence} is empty", sequence=int(empty[0]))


def sample_weights(sample_weight: Any, count: int) -> NDArray[np.float64] | None:
    """Return one finite weight of at least 0 for each of ``count`` sequences, or None for None."""
    if sample_weight is None:
        return None
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must be one number for each sequence") from None
    if weights.shape != (count,):
        raise InputError(
            f"sample_weight has shape {weights.shape}: must be ({count},), one number per sequence"
        )
    invalid = ~((weights >= 0) & (weights < np.inf))
    if invalid.any():
        i = int(np.argmax(invalid))
        raise InputError(
            f"sample_weight of sequence {{sequence}} is {weights[i]}: "
            "must be finite and at least 0",
            sequence=i,
        )
    return weights


@contextmanager
def unchanged_on_error(model: Any) -> Iterator[None]:
    """Restore the attributes of a model if fitting raises an error: it stays fitted as before."""
    attributes = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__ = attributes
        raise


def integer_in_range(value: Any, minimum: int, maximum: float, name: str) -> int:
    """Return an integer from ``minimum`` to ``maximum``, which may be infinite.

    >>> integer_in_range(5, 1, 10, "window")
    5
    >>> integer_in_range(0, 1, np.inf, "window")
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: window is 0: must be at least 1
    """
    number = as_integer(value, name)
    _check_range(number, minimum, maximum, name)
    return number


def number_in_range(value: Any, minimum: float, maximum: float, name: str) -> float:
    """Return a finite float from ``minimum`` to ``maximum``, which may be infinite."""
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        raise InputError(f"{name} must be a number, not {value!r}")
    _check_range(value, minimum, maximum, name)
    return float(value)


def _check_range(value: Any, minimum: float, maximum: float, name: str) -> None:
    """Raise InputError unless ``value`` is finite and ``minimum <= value <= maximum``."""
    if not minimum <= value <= maximum or value == np.inf:  # also true for NaN
        allowed_range = f"at least {minimum}" if maximum == np.inf else f"in {minimum}..{maximum}"
        raise InputError(f"{name} is {value}: must be {allowed_range}")
