"""The errors that trellis raises: all say which sequence, position and value is wrong."""

__all__ = ["InfeasibleError", "InputError", "TrellisError"]


class TrellisError(Exception):
    """Any error that trellis raises on purpose."""


class InputError(TrellisError, ValueError):
    """An argument has a wrong shape, type or value."""


class InfeasibleError(TrellisError, ValueError):
    """No path is allowed: every labelling of a sequence meets a forbidden label or transition."""
