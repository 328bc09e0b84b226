"""The errors that trellis raises: all say which sequence, position and value is wrong."""

__all__ = [
    "FormatError",
    "InfeasibleError",
    "InputError",
    "OptimizationError",
    "TrellisError",
    "UnknownWordError",
]


class TrellisError(Exception):
    """Any error that trellis raises on purpose."""


class InputError(TrellisError, ValueError):
    """An argument has a wrong shape, type or value."""


class InfeasibleError(TrellisError, ValueError):
    """No path is allowed: every labelling of a sequence meets a forbidden label or transition."""


class FormatError(TrellisError, ValueError):
    """A file is not what it should be: the message names the file and what is wrong."""


class OptimizationError(TrellisError, RuntimeError):
    """Training cannot go on: the loss is not a number, or no step makes it smaller."""


class UnknownWordError(InputError, KeyError):
    """A word has no vector."""

    __str__ = Exception.__str__  # a KeyError would put quotes around the sentence
