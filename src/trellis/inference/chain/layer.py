"""The chain as a layer of a network: padded batches of plain arrays, one native call each.

A small batch takes less time than the checks and messages of `cpu`. Here nothing is explained: None
says that something about the batch is unusual, and the caller then takes the longer way.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core, native
from trellis.inference.chain.layout import Array, Integers

__all__ = ["Counted", "Seen", "best", "counts", "look"]

_WRONG = 2  # Steps in cpp/bindings/chain/layer.cpp


class Seen(NamedTuple):
    """What a look at a mask or lengths, and tags, has found."""

    lengths: Integers
    in_front: bool
    """Whether the steps that count come first in each row."""


def look(
    mask: NDArray[np.bool_] | None,
    lengths: Integers | None,
    tags: Integers | None,
    shape: tuple[int, int, int],
) -> Seen | None:
    """How many steps of each row count, for emissions of a shape; None if something is wrong.

    >>> look(np.array([[True, True], [False, True]]), None, None, (2, 2, 3))
    Seen(lengths=array([2, 1]), in_front=False)
    """
    rows, width, labels = shape
    found = np.empty(rows, dtype=np.int64)
    code = _core.look_at_steps(mask, lengths, tags, width, labels, found)
    return None if code == _WRONG else Seen(found, code == 0)


class Counted(NamedTuple):
    """Log Z and its gradient, or -log p of tags and its gradient."""

    value: NDArray[np.float64]
    unary: Array
    pairs: NDArray[np.float64]


def counts(
    emissions: Array,
    transition: Array,
    start: Array,
    end: Array,
    lengths: Integers,
    tags: Integers | None,
) -> Counted | None:
    """Log Z of each row with the expected counts; with tags -log p, less what these use.

    >>> zeros = np.zeros(2)
    >>> counts(np.zeros((1, 3, 2)), np.zeros((2, 2)), zeros, zeros, np.array([3]), None).pairs
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    emissions = np.ascontiguousarray(emissions)
    found = Counted(
        np.empty(len(emissions)), np.empty_like(emissions), np.empty((len(start), len(start)))
    )
    threads = native.resolve_jobs(None)
    fine = _core.layer_counts(emissions, transition, start, end, lengths, tags, *found, threads)
    return found if fine else None


def best(
    emissions: Array, transition: Array, start: Array, end: Array, lengths: Integers
) -> tuple[Integers, NDArray[np.float64]] | None:
    """The best labels of each row, 0 behind its length, and their score.

    >>> zeros = np.zeros(2)
    >>> best(np.array([[[0.0, 1.0], [2.0, 0.0]]]), np.zeros((2, 2)), zeros, zeros, np.array([1]))
    (array([[1, 0]]), array([1.]))
    """
    emissions = np.ascontiguousarray(emissions)
    labels = np.empty(emissions.shape[:2], dtype=np.int64)
    score = np.empty(len(emissions))
    threads = native.resolve_jobs(None)
    fine = _core.layer_best(emissions, transition, start, end, lengths, labels, score, threads)
    return (labels, score) if fine else None
