"""fastText's ``util`` module: scores of predictions, the nearest neighbour, reducing dimensions."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["download_model", "find_nearest_neighbor", "reduce_model", "test"]

_ROWS = 100_000  # as in fastText, principal components are computed from the first 100,000 rows


def test(
    predictions: Iterable[Collection[str]],
    labels: Iterable[Collection[str]],
    k: int = 1,  # noqa: PT028
) -> tuple[float, float]:
    """Return precision and recall of predictions with k labels each.

    >>> test([["a"], ["b"]], [["a"], ["a", "b"]])
    (1.0, 0.6666666666666666)
    """
    pairs = list(zip(predictions, labels, strict=False))
    n_labels = sum(len(gold) for _, gold in pairs)
    if not n_labels or k < 1:
        raise InputError(
            f"there are {len(pairs)} predictions and {n_labels} labels, and k is {k}: "
            "all must be at least 1"
        )
    n_correct = sum(label in gold for predicted, gold in pairs for label in predicted)
    return n_correct / (k * len(pairs)), n_correct / n_labels


def find_nearest_neighbor(
    query: NDArray[Any], vectors: NDArray[Any], ban_set: Collection[int], cossims: Any = None
) -> int:
    """Return the row with the largest dot product with the query; skip rows in ``ban_set``."""
    scores = np.matmul(vectors, query, out=cossims)
    order = np.argsort(-scores, kind="stable")
    nearest_row = next((int(row) for row in order if int(row) not in ban_set), None)
    if nearest_row is None:
        raise InputError(f"all {len(scores)} vectors are in ban_set")
    return nearest_row


def reduce_model(ft_model: Any, target_dim: int) -> Any:
    """Project the model's rows to their ``target_dim`` principal components; return the model."""
    rows, output = ft_model.get_input_matrix(), ft_model.get_output_matrix()
    if not 1 <= target_dim <= rows.shape[1]:
        raise InputError(f"target_dim is {target_dim}: must be in 1..{rows.shape[1]}")
    centred_rows = rows[:_ROWS] - rows[:_ROWS].mean(axis=0)
    _, directions = np.linalg.eigh(centred_rows.T @ centred_rows)  # columns, by ascending variance
    components = np.ascontiguousarray(directions[:, ::-1][:, :target_dim])
    ft_model.set_matrices(rows @ components, output @ components)
    return ft_model


def download_model(lang_id: str, if_exists: str = "strict", dimension: int | None = None) -> str:
    """Raise an InputError that names the file to download: trellis downloads nothing."""
    raise InputError(
        f"trellis downloads nothing: fetch cc.{lang_id}.300.bin.gz from fasttext.cc and unpack it"
    )
