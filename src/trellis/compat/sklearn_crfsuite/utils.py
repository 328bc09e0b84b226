"""sklearn-crfsuite's function that flattens lists."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

__all__ = ["flatten"]


def flatten(y: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the items of all lists as one list.

    >>> flatten([[1, 2], [3, 4]])
    [1, 2, 3, 4]
    """
    return list(chain.from_iterable(y))
