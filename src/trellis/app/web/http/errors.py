"""`RequestError`: a request that is refused, with its HTTP status."""

__all__ = ["RequestError"]


class RequestError(Exception):
    """A request that is refused. The message is one sentence for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
