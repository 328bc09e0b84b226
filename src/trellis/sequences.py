"""The arguments X and y of sequence models as lists: one item for each sequence.

X is a list of sequences, and y a list of label lists. Other types are converted if they can be read
in only one way: generators, arrays of strings, and the Series and DataFrames of pandas, which are
recognised by their attributes because pandas is not a dependency. For anything else, the error says
what to write instead.

>>> sequences(np.array([["a", "b"], ["c", "d"]]))
[['a', 'b'], ['c', 'd']]
>>> sequences(["Ann", "sings"])  # doctest: +NORMALIZE_WHITESPACE
Traceback (most recent call last):
    ...
trellis.errors.InputError: X is one sequence, not a list of sequences: for a single sequence, write
[X], and [y] for its labels
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least
from trellis.errors import InputError

__all__ = ["count_positions", "label_lists", "sequences", "split_sequences"]

_TEXT_KINDS = "OUT"  # dtype kinds of arrays of strings
_TOKENS = (str, bytes, Mapping, int, float, np.generic)  # types of one token, not of a sequence


def sequences(X: Any, *, any_type: bool = False) -> list[Any]:
    """Return X as a list of sequences: lists of tokens, or numeric arrays (length, features).

    With ``any_type``, the sequences are not converted: they are objects of any type, from which a
    function of the user computes the features.
    """
    items = _as_list(X, "X", "sequences")
    if any_type or {*map(type, items)} <= {list, tuple}:  # nearly always: nothing to convert
        return items
    shape = getattr(X, "shape", ())
    if len(shape) == 2 and not _is_text_array(X):
        raise InputError(
            f"X is one array of shape {tuple(shape)}, not a list of sequences: for a single "
            "sequence, write [X]"
        )
    return [_as_sequence(x, i, items) for i, x in enumerate(items)]


def split_sequences(X: Any, lengths: Any, name: str = "X") -> Any:
    """Return the positions of all sequences as a list of sequences; X itself without lengths.

    >>> split_sequences([1, 6, 6], [1, 2])
    [[1], [6, 6]]
    >>> split_sequences([1, 6, 6], [1, 1])
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: lengths sum to 2, but X has 3 positions
    """
    if lengths is None:
        return X
    counts = [integer_at_least(length, 1, "a length") for length in lengths]
    n_positions = X.shape[0] if hasattr(X, "shape") else len(X)
    if sum(counts) != n_positions:
        raise InputError(f"lengths sum to {sum(counts)}, but {name} has {n_positions} positions")
    ends = np.cumsum(counts).tolist()
    return [X[end - count : end] for end, count in zip(ends, counts, strict=True)]


def label_lists(y: Any, name: str = "y") -> list[Any]:
    """Return y as a list with the labels of each sequence.

    >>> label_lists(labels for labels in [("A", "B"), iter("AB")])
    [('A', 'B'), ['A', 'B']]
    >>> label_lists(["A", "B"])  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    trellis.errors.InputError: labels of sequence 0 must be a list, not 'A': y must have
    a list of labels for each sequence; for a single sequence, write [X] and [y]
    """
    items = _as_list(y, name, "label lists")
    if {*map(type, items)} <= {list, tuple}:
        return items
    for i, labels in enumerate(items):
        is_text = isinstance(labels, str | bytes)
        if is_text or not (isinstance(labels, Iterable) or hasattr(labels, "__len__")):
            raise InputError(
                f"labels of sequence {{sequence}} must be a list, not {labels!r:.60}: {name} must "
                "have a list of labels for each sequence; for a single sequence, write [X] and "
                f"[{name}]",
                sequence=i,
            )
        if isinstance(labels, Mapping | Set):
            raise InputError(
                f"labels of sequence {{sequence}} must be a list, not {type(labels).__name__}",
                sequence=i,
            )
    if all(hasattr(labels, "__len__") for labels in items):
        return items
    return [labels if hasattr(labels, "__len__") else list(labels) for labels in items]


def count_positions(X: list[Any]) -> NDArray[np.int64]:
    """Return the number of positions of each sequence. X is validated later, by the feature map."""
    if {*map(type, X)} <= {list, tuple}:
        return np.fromiter(map(len, X), dtype=np.int64, count=len(X))
    # The shape is read first, because len() of a sparse matrix raises an error.
    lengths = (
        x.shape[0] if hasattr(x, "shape") else len(x) if hasattr(x, "__len__") else 1 for x in X
    )
    return np.fromiter(lengths, dtype=np.int64, count=len(X))


def _as_list(X: Any, name: str, content: str) -> list[Any]:
    """Return the items of X or y; raise InputError for a type such as str, set, or DataFrame."""
    if isinstance(X, list):
        return X
    if _is_frame(X):
        columns = ", ".join(map(str, X.columns))
        raise InputError(
            f"{name} is a DataFrame with the columns {columns}: must be a list of {content}. If a "
            "column numbers the sequences, group by it: [rows['word'].tolist() for _, rows in "
            "frame.groupby('sequence', sort=False)]"
        )
    if hasattr(X, "ngroups"):
        raise InputError(
            f"{name} is a GroupBy of pandas, whose items are pairs of a key and a frame: write "
            "[rows['word'].tolist() for _, rows in groups]"
        )
    if hasattr(X, "shards"):
        raise InputError(
            f"{name} is a Corpus, which only fit of CRF and MEMM and predict of CRF, MEMM and HMM "
            "read: write X, y = corpus.load()"
        )
    if hasattr(X, "read"):
        raise InputError(
            f"{name} is an open file: must be a list of {content}; trellis.data.conll.read returns "
            "(X, y) of a file of columns"
        )
    if isinstance(X, str | bytes | Mapping | Set) or not isinstance(X, Iterable):
        tokens = "trellis.data.text.tokenize(X)" if name == "X" else f"{name}.split()"
        hint = f"; for a text, write [{tokens}]" if isinstance(X, str) else ""
        raise InputError(f"{name} must be a list of {content}, not {type(X).__name__}{hint}")
    return list(X)


def _as_sequence(x: Any, i: int, X: list[Any]) -> Any:
    """Return sequence i as a list of tokens, or x itself if it is a numeric array or matrix."""
    if isinstance(x, list | tuple):
        return x
    if isinstance(x, _TOKENS):
        _refuse_token(x, i, X)
    if isinstance(x, Set):
        raise InputError(
            "sequence {sequence} must be a list of tokens, not a set, which has no order",
            sequence=i,
        )
    if _is_frame(x):
        return _read_frame(x, i)
    if hasattr(x, "iloc"):  # a Series
        return x.tolist()
    if hasattr(x, "shape"):
        return _join_columns(x) if _is_text_array(x) else x
    if not isinstance(x, Iterable):
        raise InputError(
            f"sequence {{sequence}} must be a list of tokens, not {type(x).__name__}", sequence=i
        )
    return list(x)


def _refuse_token(x: Any, i: int, X: list[Any]) -> NoReturn:
    """Raise the error for an X whose item i is a text, or a token instead of a sequence."""
    if not all(isinstance(item, _TOKENS) for item in X):
        raise InputError(
            f"sequence {{sequence}} must be a list of tokens, not {type(x).__name__}: {x!r:.60}",
            sequence=i,
        )
    if any(isinstance(item, str) and len(item.split()) > 1 for item in X):
        raise InputError(
            "X is a list of texts: must be a list of token lists; write "
            "[trellis.data.text.tokenize(text) for text in X], or [text.split() for text in X]"
        )
    raise InputError(
        "X is one sequence, not a list of sequences: for a single sequence, write [X], and [y] for "
        "its labels"
    )


def _is_frame(x: Any) -> bool:
    """Return True for a DataFrame of pandas."""
    return hasattr(x, "iloc") and hasattr(x, "columns")


def _read_frame(frame: Any, i: int) -> Any:
    """Return the rows of a DataFrame as tokens, or as an array if all columns are numbers."""
    columns = [frame.iloc[:, n].tolist() for n in range(len(frame.columns))]
    is_text = [all(isinstance(value, str) for value in column) for column in columns]
    if columns and all(is_text):
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    values = frame.to_numpy()
    if values.dtype.kind in "biuf":
        return values
    raise InputError(
        "sequence {sequence} is a DataFrame with columns of text and of other values: choose "
        "columns of text, or write frame.to_dict('records') for ready features",
        sequence=i,
    )


def _is_text_array(x: Any) -> bool:
    """Return True for a NumPy array of strings, or of objects that are not numbers."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in _TEXT_KINDS or x.ndim == 0:
        return False
    return x.dtype.kind != "O" or not x.size or not isinstance(x.flat[0], int | float | np.number)


def _join_columns(x: Any) -> list[Any]:
    """Return an array of strings, (length,) or (length, columns), as a list of tokens."""
    tokens: list[Any] = x.tolist()
    return tokens if x.ndim == 1 else [tuple(columns) for columns in tokens]
