"""Every exception of trellis. The messages name the sequence, the position and the value.

A function that gets a slice of the caller's sequences counts them from 0. So an error stores the
index of its sequence, and the caller replaces the index with `TrellisError.renumbered`:

>>> error = InputError("sequence {sequence} is empty", sequence=2)
>>> print(error.renumbered(1002))
sequence 1002 is empty
"""

from typing import Self

__all__ = [
    "EngineError",
    "FormatError",
    "InfeasibleError",
    "InputError",
    "OptimizationError",
    "TrainingWarning",
    "TrellisError",
    "UnknownWordError",
    "UnseenLabelWarning",
]

_FIELD = "{sequence}"


class TrellisError(Exception):
    """Base class of all exceptions that trellis raises on purpose.

    ``sequence`` is the index of the invalid sequence, or None. It replaces the text ``{sequence}``
    in the message.
    """

    def __init__(self, message: str = "", *, sequence: int | None = None) -> None:
        self.template = message
        self.sequence = sequence
        # Only the first {sequence} is replaced: later ones are part of the user's values.
        super().__init__(message if sequence is None else message.replace(_FIELD, str(sequence), 1))

    def renumbered(self, sequence: int) -> Self:
        """Return the same error with another index of the sequence."""
        return type(self)(self.template, sequence=sequence)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.template, self.sequence)


def _rebuild(cls: type[TrellisError], template: str, sequence: int | None) -> TrellisError:
    """Rebuild a pickled error. Pickle by itself would lose the keyword argument ``sequence``."""
    return cls(template, sequence=sequence)


class InputError(TrellisError, ValueError):
    """An argument has a wrong shape, type or value."""


class InfeasibleError(TrellisError, ValueError):
    """Every labelling of a sequence contains a forbidden label or transition."""


class FormatError(TrellisError, ValueError):
    """A file is damaged or has another format. The message names the file and the problem."""


class OptimizationError(TrellisError, RuntimeError):
    """Training cannot continue: the loss is not a number, or no step reduces it."""


class EngineError(TrellisError, RuntimeError):
    """Work on several machines cannot continue. The message names the worker or the scheduler."""


class UnknownWordError(InputError, KeyError):
    """A word has no vector."""

    __str__ = Exception.__str__  # KeyError would put quotes around the sentence


class UnseenLabelWarning(UserWarning):
    """Development data have labels that do not occur in the training data: they count as errors."""


class TrainingWarning(UserWarning):
    """Training learnt nothing, or its loss is not a number. The message says what to change."""
