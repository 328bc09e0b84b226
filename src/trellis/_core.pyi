from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Integers: TypeAlias = NDArray[np.int64]
_Doubles: TypeAlias = NDArray[np.float64]

def isa() -> str: ...
def available_isas() -> list[str]: ...
def use_isa(name: str) -> bool: ...
def fill_padding(
    rows: NDArray[Any], lengths: _Integers, slot: int, value: float, threads: int
) -> None: ...
def split_rows(flat: NDArray[Any], lengths: _Integers) -> list[NDArray[Any]]: ...
def scan_arrays(arrays: list[NDArray[Any]], lengths: _Integers) -> int: ...

class ChainFloat64:
    def __init__(
        self,
        unary: NDArray[Any] | list[NDArray[Any]],
        starts: _Integers,
        lengths: _Integers,
        transition: _Doubles | None,
        transitions: list[NDArray[Any]] | None,
        start: _Doubles | None,
        end: _Doubles | None,
        threads: int,
    ) -> None: ...
    def log_partition(self, log_z: _Doubles, outcomes: _Integers) -> None: ...
    def marginals(
        self,
        unary: NDArray[Any],
        pairwise: NDArray[Any] | None,
        pairwise_starts: _Integers | None,
        counts: _Doubles | None,
        log_z: _Doubles,
        outcomes: _Integers,
    ) -> list[NDArray[Any]] | None: ...
    def viterbi(
        self, labels: _Integers, score: _Doubles, outcomes: _Integers
    ) -> list[NDArray[Any]] | None: ...
    def max_marginals(
        self, out: NDArray[Any], outcomes: _Integers
    ) -> list[NDArray[Any]] | None: ...
    def entropy(self, result: _Doubles, outcomes: _Integers) -> None: ...
    def sample(
        self, rows_before: _Integers, uniforms: _Doubles, labels: _Integers, outcomes: _Integers
    ) -> None: ...
    def kbest(
        self, k: int, rows_before: _Integers, labels: _Integers, scores: _Doubles, found: _Integers
    ) -> None: ...
    def score(self, labels: _Integers, scores: _Doubles, outcomes: _Integers) -> None: ...

class ChainFloat32(ChainFloat64): ...

# optim
