"""Labels as integers: known, unknown, or one of several.

A label is any hashable value. In y, ``None`` is an unknown label, and a set means that one of its
members is the label.

>>> labels = encode([["O", None, {"B", "I"}]], np.array([3]))
>>> labels.classes, labels.label.tolist()
(('B', 'I', 'O'), [2, -1, -1])
>>> labels.allowed.tolist()
[[False, False, True], [True, True, True], [True, True, False]]
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.data import tags
from trellis.errors import InputError

__all__ = [
    "Constraints",
    "EncodedLabels",
    "Label",
    "as_array",
    "constraints_for",
    "encode",
    "encode_for_training",
]

Label: TypeAlias = Hashable
_SETS = (set, frozenset)


@dataclass(frozen=True, eq=False)
class EncodedLabels:
    """The labels of all sequences, concatenated, as indices into ``classes``."""

    classes: tuple[Label, ...]
    label: NDArray[np.int32]
    """(positions,) The index of the class; -1 where the label is not known."""
    allowed: NDArray[np.bool_] | None
    """(positions, classes) True where the label is possible; None if all labels are known."""


def encode(
    y: Any, lengths: NDArray[np.int64], classes: Sequence[Label] | None = None
) -> EncodedLabels:
    """Validate y against the lengths of the sequences, and encode its labels.

    ``classes`` are all allowed labels. With None, they are the sorted distinct labels of y.
    """
    _check_lengths(y, lengths)
    flat = list(chain.from_iterable(row.tolist() if hasattr(row, "tolist") else row for row in y))
    try:
        distinct = set(flat)
        partial = None in distinct or any(isinstance(value, frozenset) for value in distinct)
    except TypeError:  # a set is not hashable
        distinct, partial = set(), True
    if partial:
        distinct = _distinct_labels(flat, y)
    if any(isinstance(label, np.generic) for label in distinct):
        # NumPy scalars become Python values, so that all predicted labels have plain Python types.
        flat = [value.item() if isinstance(value, np.generic) else value for value in flat]
        distinct = {label.item() if isinstance(label, np.generic) else label for label in distinct}
    if any(label != label for label in distinct):  # only NaN differs from itself
        _raise_nan(y)
    if classes is None:
        classes = _sort(distinct)
    index = {label: n for n, label in enumerate(classes)}
    unknown = distinct - index.keys()
    if unknown:
        _raise_unknown(y, unknown, classes)
    if not partial:
        numbers = np.fromiter(map(index.__getitem__, flat), dtype=np.int32, count=len(flat))
        return EncodedLabels(tuple(classes), numbers, None)
    return _encode_partial(flat, index, tuple(classes))


def encode_for_training(
    y: Any, lengths: NDArray[np.int64], earlier_classes: Sequence[Label] = ()
) -> EncodedLabels:
    """Encode y; the classes of an earlier fit come first. Raise InputError if no label is known."""
    labels = encode(y, lengths)
    if earlier_classes:
        classes = dict.fromkeys([*earlier_classes, *labels.classes])
        labels = encode(y, lengths, list(classes))
    if not labels.classes:
        raise InputError("no label is known at any position")
    return labels


def as_array(classes: Sequence[Label]) -> NDArray[Any]:
    """Return labels as an array of objects, shape (labels,).

    ``np.array`` would convert labels to NumPy scalars, and tuples to rows.
    """
    array = np.empty(len(classes), dtype=object)
    array[:] = classes
    return array


def _check_lengths(y: Any, lengths: NDArray[np.int64]) -> None:
    if isinstance(y, str) or not hasattr(y, "__len__"):
        raise InputError(f"y must be a list of label lists, not {type(y).__name__}")
    if len(y) != len(lengths):
        raise InputError(f"X has {len(lengths)} sequences, y has {len(y)}")
    for i, (row, length) in enumerate(zip(y, lengths, strict=True)):
        if isinstance(row, str) or not hasattr(row, "__len__"):
            raise InputError(
                f"labels of sequence {{sequence}} must be a list, not {row!r}", sequence=i
            )
        if len(row) != length:
            raise InputError(
                f"sequence {{sequence}} has {length} positions and {len(row)} labels", sequence=i
            )


def _distinct_labels(flat: Iterable[Any], y: Any) -> set[Any]:
    """Return all labels, including the members of sets."""
    labels: set[Any] = set()
    for value in flat:
        if isinstance(value, _SETS):
            if not value or None in value:
                _raise_at(
                    y,
                    lambda v: isinstance(v, _SETS) and (not v or None in v),
                    f"{value!r} is not a set of labels: a set must not be empty or contain None",
                )
            labels |= value
        elif value is not None:
            try:
                labels.add(value)
            except TypeError:
                _raise_at(
                    y,
                    lambda v, unhashable=value: v is unhashable,
                    f"{value!r} cannot be a label: it is not hashable",
                )
    return labels


def _sort(labels: set[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:  # labels of several types
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))


def _raise_at(y: Any, is_wrong: Callable[..., bool], problem: str) -> NoReturn:
    """Raise an error for the first position of y whose value is wrong."""
    i, t = next((i, t) for i, row in enumerate(y) for t, value in enumerate(row) if is_wrong(value))
    raise InputError(f"sequence {{sequence}}, position {t}: {problem}", sequence=i) from None


def _raise_nan(y: Any) -> NoReturn:
    def has_nan(value: Any) -> bool:
        return any(x != x for x in (value if isinstance(value, _SETS) else (value,)))

    _raise_at(y, has_nan, "nan cannot be a label: use None for an unknown label")


def _raise_unknown(y: Any, unknown: set[Any], classes: Sequence[Label]) -> NoReturn:
    def is_unknown(value: Any) -> bool:
        return bool(unknown & value) if isinstance(value, _SETS) else value in unknown

    value = next(value for row in y for value in row if is_unknown(value))
    _raise_at(y, is_unknown, f"{value!r} is not one of the {len(classes)} labels of the model")


def _encode_partial(
    flat: Sequence[Any], index: dict[Label, int], classes: tuple[Label, ...]
) -> EncodedLabels:
    numbers = np.full(len(flat), -1, dtype=np.int32)
    allowed = np.zeros((len(flat), len(classes)), dtype=np.bool_)
    for n, value in enumerate(flat):
        if value is None:
            allowed[n] = True
        elif isinstance(value, _SETS):
            members = [index[label] for label in value]
            allowed[n, members] = True
            if len(members) == 1:
                numbers[n] = members[0]
        else:
            numbers[n] = index[value]
            allowed[n, numbers[n]] = True
    return EncodedLabels(classes, numbers, allowed)


# ---- constraints on consecutive labels


@dataclass(frozen=True, eq=False)
class Constraints:
    """Forbidden transitions, first labels and last labels."""

    forbidden: NDArray[np.bool_]
    """(labels, labels) True where the label of the column must not follow that of the row."""
    start: NDArray[np.float64]
    """(labels,) 0, or -inf for a label that must not be the first."""
    end: NDArray[np.float64]
    """(labels,) 0, or -inf for a label that must not be the last."""

    def check(self, labels: EncodedLabels, lengths: NDArray[np.int64]) -> None:
        """Raise InputError at the first position where known labels break a constraint."""
        begin = 0
        for i, length in enumerate(lengths.tolist()):
            numbers = labels.label[begin : begin + length]
            if length:
                self._check_sequence(i, numbers, labels.classes)
            begin += length

    def _check_sequence(self, i: int, numbers: NDArray[np.int32], classes: Sequence[Label]) -> None:
        first, last = numbers[0], numbers[-1]
        if first >= 0 and np.isinf(self.start[first]):
            _raise_forbidden(i, 0, f"{classes[first]!r} must not be the first label")
        if last >= 0 and np.isinf(self.end[last]):
            _raise_forbidden(i, len(numbers) - 1, f"{classes[last]!r} must not be the last label")
        before, after = numbers[:-1], numbers[1:]
        is_broken = (before >= 0) & (after >= 0) & self.forbidden[before, after]
        if is_broken.any():
            t = int(np.argmax(is_broken))
            pair = f"{classes[after[t]]!r} must not follow {classes[before[t]]!r}"
            _raise_forbidden(i, t + 1, pair)


def _raise_forbidden(i: int, t: int, rule: str) -> NoReturn:
    raise InputError(
        f"sequence {{sequence}}, position {t}: {rule} under the constraints of the model",
        sequence=i,
    )


def constraints_for(rules: Any, classes: Sequence[Label]) -> Constraints | None:
    """Return the constraints of a tagging scheme ("BIO", "BILOU", …) or of forbidden label pairs.

    A pair is (label, label that must not follow it).

    >>> bio = constraints_for("BIO", ["B-X", "I-X", "O"])
    >>> bio.forbidden.tolist()[2], bio.start.tolist()  # I-X must not follow O, nor be first
    ([False, True, False], [0.0, -inf, 0.0])
    """
    if rules is None:
        return None
    count = len(classes)
    forbidden = np.zeros((count, count), dtype=np.bool_)
    start, end = np.zeros(count), np.zeros(count)
    if isinstance(rules, str):
        allowed = tags.allowed_transitions([str(label) for label in classes], rules)
        forbidden |= ~allowed.matrix
        start[~allowed.start], end[~allowed.end] = -np.inf, -np.inf
        return Constraints(forbidden, start, end)
    index = {label: n for n, label in enumerate(classes)}
    for pair in rules if isinstance(rules, Iterable) else [rules]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(
                "constraints must be a tagging scheme or a list of pairs (label, next label): "
                f"{pair!r} is not a pair"
            )
        if (
            pair[0] in index and pair[1] in index
        ):  # a label that does not occur in training needs no rule
            forbidden[index[pair[0]], index[pair[1]]] = True
    return Constraints(forbidden, start, end)
