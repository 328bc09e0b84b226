"""The order in which CRFsuite's online algorithms read the sequences.

CRFsuite shuffles with C's ``rand()`` and never sets a seed. This module computes the numbers of
glibc's ``rand()`` (a lagged Fibonacci generator, xₙ = xₙ₋₃ + xₙ₋₃₁) and restarts them in every
training. So each training gives the model of CRFsuite in a new process.

>>> random = CRand()
>>> [next(random), next(random)]
[1804289383, 846930886]
"""

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["CRand", "Order"]


class CRand(Iterator[int]):
    """Yields the numbers of ``rand()`` after ``srand(1)``."""

    def __init__(self) -> None:
        state = [1]
        for _ in range(30):
            state.append(16807 * state[-1] % (2**31 - 1))
        self._last = deque(state, maxlen=31)
        for _ in range(3):
            self._last.append(self._last[0])
        for _ in range(310):  # glibc discards the first 310 numbers too
            next(self)

    def __next__(self) -> int:
        value = (self._last[0] + self._last[-3]) & 0xFFFFFFFF
        self._last.append(value)
        return value >> 1


class Order:
    """A permutation. Each call of `shuffled` continues from the last order, as in CRFsuite."""

    def __init__(self, count: int) -> None:
        self._random = CRand()
        self._order = list(range(count))

    def shuffled(self) -> NDArray[np.int64]:
        """Swap every element with a random one; return the permutation, (count,)."""
        order, count = self._order, len(self._order)
        for i in range(count):
            j = next(self._random) % count
            order[i], order[j] = order[j], order[i]
        return np.array(order, np.int64)
