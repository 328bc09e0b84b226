"""Σ over shards by a fixed binary tree: the order of additions depends on their number alone.

    S(i, j) = S(i, i + p) + S(i + p, j),  p the largest power of two below j - i

Floating-point addition is not associative, so another order would change the last bits. Blocks of
2ᵍ shards that start at a multiple of 2ᵍ are subtrees. So a task may sum a block of any such size,
and the result does not change.

>>> total = TreeSum(lambda a, b: f"({a}+{b})")
>>> for value in "abcdef":
...     total.push(value)
>>> total.result()
'(((a+b)+(c+d))+(e+f))'
"""

from collections.abc import Callable
from typing import Any

__all__ = ["TreeSum", "block_size", "split"]


class TreeSum:
    """Adds values that come in order; at most log₂ n + 1 of them are in memory."""

    def __init__(self, add: Callable[[Any, Any], Any]) -> None:
        self._add = add
        self._partial: list[tuple[int, Any]] = []  # (number of values, their sum), decreasing

    def push(self, value: Any) -> None:
        """Add the next value."""
        count = 1
        while self._partial and self._partial[-1][0] == count:
            value = self._add(self._partial.pop()[1], value)
            count *= 2
        self._partial.append((count, value))

    def result(self) -> Any:
        """Return the sum; it needs at least one value."""
        _, total = self._partial.pop()
        while self._partial:
            total = self._add(self._partial.pop()[1], total)
        return total


def split(n: int) -> int:
    """Return the number of values of the first of the two sums of n values.

    >>> split(2), split(6), split(8)
    (1, 4, 4)
    """
    return int(1 << ((n - 1).bit_length() - 1))


def block_size(n: int, tasks: int) -> int:
    """Return the largest power of two for which n items make at least ``tasks`` blocks.

    >>> block_size(100, 16), block_size(3, 16)
    (4, 1)
    """
    return int(1 << max(0, (n // max(tasks, 1)).bit_length() - 1))
