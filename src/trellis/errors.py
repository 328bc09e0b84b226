"""Every exception of trellis. The messages name the sequence, the position and the value.

A function that works on a slice of the caller's sequences counts them from 0. So an error carries
the number of its sequence as a field, and the caller renumbers it with `TrellisError.renumbered`:

>>> error = InputError("sequence {sequence} is empty", sequence=2)
>>> print(error.renumbered(1002))
sequence 1002 is empty
"""

from typing import Self

__all__ = [
    "FormatError",
    "InfeasibleError",
    "InputError",
    "OptimizationError",
    "TrellisError",
    "UnknownWordError",
]

_FIELD = "{sequence}"


class TrellisError(Exception):
    """Base class of all exceptions that trellis raises on purpose.

    ``sequence`` is the index of the sequence that is wrong, or None. The text ``{sequence}`` in the
    message stands for it.
    """

    def __init__(self, message: str = "", *, sequence: int | None = None) -> None:
        self.template = message
        self.sequence = sequence
        # One replacement: values of the user that follow in the message are left alone.
        super().__init__(message if sequence is None else message.replace(_FIELD, str(sequence), 1))

    def renumbered(self, sequence: int) -> Self:
        """The same error for another index of the sequence."""
        return type(self)(self.template, sequence=sequence)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.template, self.sequence)


def _rebuild(cls: type[TrellisError], template: str, sequence: int | None) -> TrellisError:
    """Rebuild a pickled error: pickle alone would drop the keyword argument."""
    return cls(template, sequence=sequence)


class InputError(TrellisError, ValueError):
    """An argument has a wrong shape, type or value."""


class InfeasibleError(TrellisError, ValueError):
    """Every labelling of a sequence contains a forbidden label or transition."""


class FormatError(TrellisError, ValueError):
    """A file is damaged or of another format; the message names the file and the problem."""


class OptimizationError(TrellisError, RuntimeError):
    """Training cannot continue: the loss is not a number, or no step reduces it."""


class UnknownWordError(InputError, KeyError):
    """A word has no vector."""

    __str__ = Exception.__str__  # KeyError would put quotes around the sentence
