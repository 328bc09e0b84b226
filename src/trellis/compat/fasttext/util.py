"""fastText's ``util``: scores of predictions, a neighbour by hand, fewer dimensions."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = ["download_model", "find_nearest_neighbor", "reduce_model", "test"]

_ROWS = 100_000  # whose directions are looked at, as in fastText


def test(
    predictions: Iterable[Collection[str]],
    labels: Iterable[Collection[str]],
    k: int = 1,  # noqa: PT028
) -> tuple[float, float]:
    """Precision and recall of predictions with k answers each.

    >>> test([["a"], ["b"]], [["a"], ["a", "b"]])
    (1.0, 0.6666666666666666)
    """
    pairs = list(zip(predictions, labels, strict=False))
    wanted = sum(len(own) for _, own in pairs)
    if not wanted or k < 1:
        raise InputError(
            f"{len(pairs)} predictions with {wanted} labels and k={k}: nothing to count"
        )
    right = sum(answer in own for answers, own in pairs for answer in answers)
    return right / (k * len(pairs)), right / wanted


def find_nearest_neighbor(
    query: NDArray[Any], vectors: NDArray[Any], ban_set: Collection[int], cossims: Any = None
) -> int:
    """The row with the largest product with a vector, of those that are not banned."""
    scores = np.matmul(vectors, query, out=cossims)
    order = np.argsort(-scores, kind="stable")
    found = next((int(row) for row in order if int(row) not in ban_set), None)
    if found is None:
        raise InputError(f"all of the {len(scores)} vectors are banned")
    return found


def reduce_model(ft_model: Any, target_dim: int) -> Any:
    """The model with its rows along the ``target_dim`` directions of largest variance."""
    rows, output = ft_model.get_input_matrix(), ft_model.get_output_matrix()
    if not 1 <= target_dim <= rows.shape[1]:
        raise InputError(f"target_dim is {target_dim}: must be in 1..{rows.shape[1]}")
    some = rows[:_ROWS] - rows[:_ROWS].mean(axis=0)
    _, directions = np.linalg.eigh(some.T @ some)  # ascending
    kept = np.ascontiguousarray(directions[:, ::-1][:, :target_dim])
    ft_model.set_matrices(rows @ kept, output @ kept)
    return ft_model


def download_model(lang_id: str, if_exists: str = "strict", dimension: int | None = None) -> str:
    """Nothing is downloaded here: the error says where fastText has its vectors."""
    raise InputError(
        f"trellis downloads nothing: fetch cc.{lang_id}.300.bin.gz from fasttext.cc and unpack it"
    )
