"""`RequestError`: a request that is refused, with its HTTP status."""

import logging

from trellis.errors import TrellisError

__all__ = ["RequestError", "explain_error"]


class RequestError(Exception):
    """A request that is refused. The message is one sentence for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def explain_error(error: Exception) -> RequestError:
    """Return the error for the client. An unexpected error is logged, not shown."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, TrellisError):
        return RequestError(422, str(error))
    if isinstance(error, MemoryError):
        return RequestError(503, "not enough memory for this request")
    logging.getLogger("trellis.serve.errors").error("unexpected error", exc_info=error)
    return RequestError(500, "unexpected error: see the log of trellis serve")
