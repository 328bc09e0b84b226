"""What a call is remembered by: all that is known of its tensors but their numbers.

Checks and preparations in Python take longer than a small batch takes on a card. They depend on
shapes and types alone, so that what they have found holds for the next batch of the kind.
"""

from collections.abc import Callable
from typing import Any

__all__ = ["kinds_of", "remembered"]

_MOST = 4096  # kinds are few where batches are padded to the same size; else they are forgotten


def kinds_of(call: Any, *given: Any) -> Any:
    """What else counts of a call, and all of each tensor but its numbers, None for one not there.

    None altogether if something is no tensor.

    >>> kinds_of("sum", [1, 2]) is None
    True
    """
    try:
        return (
            call,
            *[
                None if x is None else (type(x), x.shape, x.stride(), x.dtype, x.layout, x.device)
                for x in given
            ],
        )
    except (AttributeError, RuntimeError):  # no tensor, or one without strides
        return None


def remembered(found: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """What was made for a key, made now if it is new; of very many keys all are forgotten."""
    step = found.get(key)
    if step is None:
        if len(found) >= _MOST:
            found.clear()
        step = found[key] = make()
    return step
