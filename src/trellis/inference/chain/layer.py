"""The chain as a layer of a network on the CPU: padded batches of arrays, one native call each.

For a small batch the validation in `cpu` takes longer than the computation. The functions here
raise no errors about values. They return None if a value is invalid or a result is not finite. The
caller then calls `cpu`, which raises the error.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core, native
from trellis.inference.chain.layout import Array, Integers

__all__ = ["ChainCounts", "ValidSteps", "best_paths", "expected_counts", "find_steps"]

_INVALID = 2  # from the enum Steps in cpp/bindings/chain/layer.cpp


class ValidSteps(NamedTuple):
    """The unmasked steps of a valid batch."""

    lengths: Integers  # (B,)
    prefix: bool  # True if the unmasked steps of each row are its first ones


def find_steps(
    mask: NDArray[np.bool_] | None,
    lengths: Integers | None,
    tags: Integers | None,
    shape: tuple[int, int, int],
) -> ValidSteps | None:
    """Return the steps of a batch from a mask (B, T) or lengths (B,); None for invalid values.

    ``shape`` is (B, T, L). Valid tags (B, T) are 0 … L-1 at unmasked steps.

    >>> find_steps(np.array([[True, True], [False, True]]), None, None, (2, 2, 3))
    ValidSteps(lengths=array([2, 1]), prefix=False)
    """
    n_rows, width, n_labels = shape
    row_lengths = np.empty(n_rows, dtype=np.int64)
    steps_kind = _core.look_at_steps(mask, lengths, tags, width, n_labels, row_lengths)
    return None if steps_kind == _INVALID else ValidSteps(row_lengths, steps_kind == 0)


class ChainCounts(NamedTuple):
    """log Z and its gradients, or -log p of tags and its gradients."""

    value: NDArray[np.float64]  # (B,)
    unary: Array  # (B, T, L)
    pairs: NDArray[np.float64]  # (L, L), summed over the batch


def expected_counts(
    scores: tuple[Array, Array, Array, Array], lengths: Integers, tags: Integers | None
) -> ChainCounts | None:
    """Compute log Z and expected counts; with tags, -log p and expected minus tag counts.

    ``scores`` are emissions (B, T, L), transitions (L, L), start (L,) and end (L,).

    >>> zeros = np.zeros(2)
    >>> scores = (np.zeros((1, 3, 2)), np.zeros((2, 2)), zeros, zeros)
    >>> expected_counts(scores, np.array([3]), None).pairs
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    emissions, transition, start, end = scores
    emissions = np.ascontiguousarray(emissions)
    counts = ChainCounts(
        np.empty(len(emissions)), np.empty_like(emissions), np.empty((len(start), len(start)))
    )
    threads = native.resolve_jobs(None)
    is_valid = _core.layer_counts(
        emissions, transition, start, end, lengths, tags, *counts, threads
    )
    return counts if is_valid else None


def best_paths(
    scores: tuple[Array, Array, Array, Array], lengths: Integers
) -> tuple[Integers, NDArray[np.float64]] | None:
    """Return the best labels (B, T), 0 after the length of a row, and their scores (B,).

    >>> zeros = np.zeros(2)
    >>> scores = (np.array([[[0.0, 1.0], [2.0, 0.0]]]), np.zeros((2, 2)), zeros, zeros)
    >>> best_paths(scores, np.array([1]))
    (array([[1, 0]]), array([1.]))
    """
    emissions, transition, start, end = scores
    emissions = np.ascontiguousarray(emissions)
    labels = np.empty(emissions.shape[:2], dtype=np.int64)
    score = np.empty(len(emissions))
    threads = native.resolve_jobs(None)
    is_valid = _core.layer_best(emissions, transition, start, end, lengths, labels, score, threads)
    return (labels, score) if is_valid else None
