"""Labels as integers: known, unknown, or one of several.

A label is any hashable value. In y, ``None`` is an unknown label, and a set means that one of its
members is the label.

>>> labels = encode([["O", None, {"B", "I"}]], np.array([3]))
>>> labels.classes, labels.label.tolist()
(('B', 'I', 'O'), [2, -1, -1])
>>> labels.allowed.tolist()
[[False, False, True], [True, True, True], [True, True, False]]
"""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.data import tags
from trellis.errors import InputError
from trellis.sequences import label_lists

__all__ = [
    "LIMIT_VARIABLE",
    "MANY_LABELS",
    "MAX_LABELS",
    "Constraints",
    "EncodedLabels",
    "Label",
    "UnseenLabels",
    "as_array",
    "complete_tags",
    "constraints_for",
    "count_known",
    "count_unseen",
    "encode",
    "encode_for_training",
    "read_label_limit",
]

Label: TypeAlias = Hashable
_SETS = (set, frozenset)
MANY_LABELS = 1_000  # training with more labels gives a warning
# Training with more labels is refused: the four L × L matrices of the core would take 0.8 GB.
MAX_LABELS = 5_000
_MAX_UNSEEN = 5  # labels that a warning names
LIMIT_VARIABLE = "TRELLIS_MAX_LABELS"  # the environment variable that replaces MAX_LABELS


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
    y = label_lists(y)
    _check_lengths(y, lengths)
    flat_labels = list(
        chain.from_iterable(row.tolist() if hasattr(row, "tolist") else row for row in y)
    )
    try:
        distinct_labels = set(flat_labels)
        is_partial = None in distinct_labels or any(
            isinstance(value, frozenset) for value in distinct_labels
        )
    except TypeError:  # a set is not hashable
        distinct_labels, is_partial = set(), True
    if is_partial:
        distinct_labels = _distinct_labels(flat_labels, y)
    if any(isinstance(label, np.generic) for label in distinct_labels):
        # NumPy scalars become Python values, so that all predicted labels have plain Python types.
        flat_labels = [
            value.item() if isinstance(value, np.generic) else value for value in flat_labels
        ]
        distinct_labels = {
            label.item() if isinstance(label, np.generic) else label for label in distinct_labels
        }
    if any(label != label for label in distinct_labels):  # only NaN differs from itself
        _raise_nan(y)
    if classes is None:
        _check_count(distinct_labels)
        classes = _sort(distinct_labels)
    index = {label: n for n, label in enumerate(classes)}
    unknown_labels = distinct_labels - index.keys()
    if unknown_labels:
        _raise_unknown(y, unknown_labels, classes)
    if not is_partial:
        numbers = np.fromiter(
            map(index.__getitem__, flat_labels), dtype=np.int32, count=len(flat_labels)
        )
        return EncodedLabels(tuple(classes), numbers, None)
    return _encode_partial(flat_labels, index, tuple(classes))


def encode_for_training(
    y: Any,
    lengths: NDArray[np.int64],
    earlier_classes: Sequence[Label] = (),
    constraints: Any = None,
) -> EncodedLabels:
    """Encode y; the classes of an earlier fit come first. Raise InputError if no label is known.

    If labels are unknown and ``constraints`` is a tagging scheme, the classes are all tags of the
    scheme: an unknown label before I-X may be the only B-X of the data.
    """
    labels = encode(y, lengths)
    if not labels.classes:
        raise InputError("no label is known at any position")
    classes = list(labels.classes)
    if labels.allowed is not None and isinstance(constraints, str):
        classes = complete_tags(classes, constraints)
    classes = list(dict.fromkeys([*earlier_classes, *classes]))
    return labels if classes == list(labels.classes) else encode(y, lengths, classes)


def count_known(
    labels: EncodedLabels, lengths: NDArray[np.int64], sample_weight: NDArray[np.float64] | None
) -> float:
    """Return the number of positions that restrict their label, each times its sample weight."""
    is_known = labels.label >= 0
    if labels.allowed is not None:
        is_known = is_known | ~labels.allowed.all(axis=1)
    if sample_weight is None:
        return float(np.count_nonzero(is_known))
    return float(np.repeat(sample_weight, lengths) @ is_known)


def complete_tags(tags_in_data: Sequence[Label], scheme: str) -> list[Label]:
    """Return the tags, and all other tags that the scheme has for the same labels, sorted.

    >>> complete_tags(["I-X", "B-Y"], "BIO")
    ['B-X', 'B-Y', 'I-X', 'I-Y', 'O']
    """
    names = {str(tag).partition("-")[2] for tag in tags_in_data if tag != "O"}
    if scheme == "plain" or not all(isinstance(tag, str) for tag in tags_in_data):
        return list(tags_in_data)
    tags_of_scheme = {"O"}
    for name in names:
        # A span of three positions, followed at once by two spans of one position, has every tag of
        # every scheme.
        tags_of_scheme |= {*tags.from_spans([(name, 0, 3), (name, 3, 4), (name, 4, 5)], 5, scheme)}
    return _sort(tags_of_scheme | {*tags_in_data})


def as_array(classes: Sequence[Label]) -> NDArray[Any]:
    """Return labels as an array of objects, shape (labels,).

    ``np.array`` would convert labels to NumPy scalars, and tuples to rows.
    """
    array = np.empty(len(classes), dtype=object)
    array[:] = classes
    return array


def _check_count(labels: set[Any]) -> None:
    """Warn about many labels, and refuse more than the limit, before any L × L matrix exists.

    Memory and time grow with the square of the number of labels. Usually, the reason for many
    labels is that the wrong column was read as the label.
    """
    count = len(labels)
    if count <= MANY_LABELS:
        return
    examples = ", ".join(f"{label!r:.40}" for label in islice(labels, 3))
    problem = f"y has {count} different labels, such as {examples}"
    hint = "check that the right column is read as the label (--label)"
    limit = read_label_limit()
    if count > limit:
        raise InputError(
            f"{problem}: at most {limit} are allowed, because memory grows with their square; "
            f"{hint}, or set the environment variable {LIMIT_VARIABLE} to allow more"
        )
    warnings.warn(f"{problem}: training may need much memory; {hint}", stacklevel=5)  # fit's caller


def read_label_limit() -> int:
    """Return the largest number of labels of a model: `MAX_LABELS` or the environment variable."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    if not text:
        return MAX_LABELS
    if not text.isascii() or not text.isdigit():
        raise InputError(f"{LIMIT_VARIABLE} is {text!r}: must be a number of labels")
    return int(text)


def _check_lengths(y: Any, lengths: NDArray[np.int64]) -> None:
    if len(y) != len(lengths):
        raise InputError(f"X has {len(lengths)} sequences, y has {len(y)}")
    for i, (label_list, length) in enumerate(zip(y, lengths, strict=True)):
        if len(label_list) != length:
            raise InputError(
                f"sequence {{sequence}} has {length} positions and {len(label_list)} labels",
                sequence=i,
            )


def _distinct_labels(flat_labels: Iterable[Any], y: Any) -> set[Any]:
    """Return all labels, including the members of sets."""
    labels: set[Any] = set()
    for value in flat_labels:
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
        return any(label != label for label in (value if isinstance(value, _SETS) else (value,)))

    _raise_at(y, has_nan, "nan cannot be a label: use None for an unknown label")


def _raise_unknown(y: Any, unknown: set[Any], classes: Sequence[Label]) -> NoReturn:
    def is_unknown(value: Any) -> bool:
        return bool(unknown & value) if isinstance(value, _SETS) else value in unknown

    value = next(value for row in y for value in row if is_unknown(value))
    _raise_at(y, is_unknown, f"{value!r} is not one of the {len(classes)} labels of the model")


def _encode_partial(
    flat_labels: Sequence[Any], index: dict[Label, int], classes: tuple[Label, ...]
) -> EncodedLabels:
    numbers = np.full(len(flat_labels), -1, dtype=np.int32)
    allowed = np.zeros((len(flat_labels), len(classes)), dtype=np.bool_)
    for position, value in enumerate(flat_labels):
        if value is None:
            allowed[position] = True
        elif isinstance(value, _SETS):
            members = [index[label] for label in value]
            allowed[position, members] = True
            if len(members) == 1:
                numbers[position] = members[0]
        else:
            numbers[position] = index[value]
            allowed[position, numbers[position]] = True
    return EncodedLabels(classes, numbers, allowed)


# ---- labels of other data


class UnseenLabels(NamedTuple):
    """The labels of some data that a model does not have, for a warning.

    >>> print(count_unseen([["O", "B-X", None], ["B-X", "I-X"]], ["O"]))
    3 of 4 labels do not occur in the training data and count as errors: 'B-X' (2), 'I-X' (1)
    """

    counts: Counter[Label]
    total: int
    """The number of all labels, except unknown ones."""

    def __str__(self) -> str:
        common = self.counts.most_common(_MAX_UNSEEN)
        names = ", ".join(f"{label!r:.40} ({count:,})" for label, count in common)
        n_hidden = len(self.counts) - len(common)
        return (
            f"{self.counts.total():,} of {self.total:,} labels do not occur in the training data "
            f"and count as errors: {names}{f' and {n_hidden} more' if n_hidden else ''}"
        )


def count_unseen(y: Iterable[Iterable[Label]], classes: Iterable[Label]) -> UnseenLabels:
    """Count the labels of y that are not among the classes. Unknown labels are not counted."""
    known = Counter(
        label for row in y for label in row if label is not None and not isinstance(label, _SETS)
    )
    trained = set(classes)
    counts = Counter({label: n for label, n in known.items() if label not in trained})
    return UnseenLabels(counts, known.total())


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
    scheme: str | None = None
    """The tagging scheme that the constraints come from."""

    def check(self, labels: EncodedLabels, lengths: NDArray[np.int64]) -> None:
        """Raise InputError at the first position where known labels break a constraint."""
        begin = 0
        for i, length in enumerate(lengths.tolist()):
            numbers = labels.label[begin : begin + length]
            if length:
                self._check_sequence(i, numbers, labels.classes)
            begin += length

    def _check_sequence(self, i: int, numbers: NDArray[np.int32], classes: Sequence[Label]) -> None:
        first_label, last_label = numbers[0], numbers[-1]
        if first_label >= 0 and np.isinf(self.start[first_label]):
            self._raise_forbidden(i, 0, f"{classes[first_label]!r} must not be the first label")
        if last_label >= 0 and np.isinf(self.end[last_label]):
            self._raise_forbidden(
                i, len(numbers) - 1, f"{classes[last_label]!r} must not be the last label"
            )
        previous, next_labels = numbers[:-1], numbers[1:]
        is_broken = (previous >= 0) & (next_labels >= 0) & self.forbidden[previous, next_labels]
        if is_broken.any():
            t = int(np.argmax(is_broken))
            pair = f"{classes[next_labels[t]]!r} must not follow {classes[previous[t]]!r}"
            self._raise_forbidden(i, t + 1, pair)

    def _raise_forbidden(self, i: int, t: int, rule: str) -> NoReturn:
        hint = ""
        if self.scheme is not None:
            hint = (
                "; correct the label (`trellis check FILE` lists all lines of this kind); if the "
                "data have another scheme, such as IOB1, convert them: `trellis convert "
                f"FROM TO --scheme {self.scheme}`, or trellis.data.tags.convert"
            )
        raise InputError(
            f"sequence {{sequence}}, position {t}: {rule} under the constraints of the model{hint}",
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
    if isinstance(rules, str):
        return _constraints_of_scheme(rules, tuple(map(str, classes)))
    n_labels = len(classes)
    is_forbidden = np.zeros((n_labels, n_labels), dtype=np.bool_)
    start, end = np.zeros(n_labels), np.zeros(n_labels)
    index = {label: n for n, label in enumerate(classes)}
    for pair in rules if isinstance(rules, Iterable) else [rules]:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(
                "constraints must be a tagging scheme or a list of pairs (label, next label): "
                f"{pair!r} is not a pair"
            )
        # A label that does not occur in training needs no rule.
        if pair[0] in index and pair[1] in index:
            is_forbidden[index[pair[0]], index[pair[1]]] = True
    return Constraints(is_forbidden, start, end)


@lru_cache(maxsize=16)
def _constraints_of_scheme(scheme: str, labels: tuple[str, ...]) -> Constraints:
    """Return the constraints of a scheme, as arrays that are shared and cannot be changed.

    Without the cache, this would be half of the time for labelling one sentence.
    """
    allowed = tags.allowed_transitions(labels, scheme)
    start = np.where(allowed.start, 0.0, -np.inf)
    end = np.where(allowed.end, 0.0, -np.inf)
    arrays = (~allowed.matrix, start, end)
    for array in arrays:
        array.flags.writeable = False
    return Constraints(*arrays, scheme)
