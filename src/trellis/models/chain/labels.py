"""Label sequences as numbers: known, unknown, or one of several.

A label is any hashable value; ``None`` at a position means unknown, a set means one of its members.

>>> known = encode([["O", None, {"B", "I"}]], np.array([3]))
>>> known.classes, known.label.tolist()
(('B', 'I', 'O'), [2, -1, -1])
>>> known.allowed.tolist()
[[False, False, True], [True, True, True], [True, True, False]]
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.data import tags
from trellis.errors import InputError

__all__ = ["Constraints", "Encoded", "Label", "constraints_for", "encode"]

Label: TypeAlias = Hashable
_SETS = (set, frozenset)


@dataclass(frozen=True, eq=False)
class Encoded:
    """What is known of the labels of all positions, one after the other."""

    classes: tuple[Label, ...]
    label: NDArray[np.int32]
    """Numbers of classes; -1 where not known."""
    allowed: NDArray[np.bool_] | None
    """(positions, classes) which labels a position may have; None if all labels are known."""


def encode(y: Any, lengths: NDArray[np.int64], classes: Sequence[Label] | None = None) -> Encoded:
    """Check y against the lengths of the sequences, and number its labels.

    With ``classes`` given, those are the labels; else the sorted ones of y.
    """
    _check_lengths(y, lengths)
    flat = list(chain.from_iterable(own.tolist() if hasattr(own, "tolist") else own for own in y))
    try:
        distinct = set(flat)
        partial = None in distinct or any(isinstance(v, frozenset) for v in distinct)
    except TypeError:  # a set is not hashable
        distinct, partial = set(), True
    if partial:
        distinct = _members(flat, y)
    if any(isinstance(v, np.generic) for v in distinct):
        flat = [v.item() if isinstance(v, np.generic) else v for v in flat]
        distinct = {v.item() if isinstance(v, np.generic) else v for v in distinct}
    if any(v != v for v in distinct):  # NaN alone differs from itself
        _raise_nan(y)
    if classes is None:
        classes = _sorted(distinct)
    index = {label: n for n, label in enumerate(classes)}
    unknown = distinct - index.keys()
    if unknown:
        _raise_unknown(y, unknown, classes)
    if not partial:
        numbers = np.fromiter(map(index.__getitem__, flat), dtype=np.int32, count=len(flat))
        return Encoded(tuple(classes), numbers, None)
    return _encode_partial(flat, index, tuple(classes))


def _check_lengths(y: Any, lengths: NDArray[np.int64]) -> None:
    if isinstance(y, str) or not hasattr(y, "__len__"):
        raise InputError(f"y must be a list of label lists, not {type(y).__name__}")
    if len(y) != len(lengths):
        raise InputError(f"X has {len(lengths)} sequences, y has {len(y)}")
    for i, (own, length) in enumerate(zip(y, lengths, strict=True)):
        if isinstance(own, str) or not hasattr(own, "__len__"):
            raise InputError(f"labels of sequence {i} must be a list, not {own!r}")
        if len(own) != length:
            raise InputError(f"sequence {i} has {length} positions and {len(own)} labels")


def _members(flat: Iterable[Any], y: Any) -> set[Any]:
    """All labels, those in sets too."""
    members: set[Any] = set()
    for value in flat:
        if isinstance(value, _SETS):
            if not value or None in value:
                i, t = _where(y, lambda v: isinstance(v, _SETS) and (not v or None in v))
                raise InputError(f"sequence {i}, position {t}: {value!r} is not a set of labels")
            members |= value
        elif value is not None:
            try:
                members.add(value)
            except TypeError:
                i, t = _where(y, lambda v, bad=value: v is bad)
                raise InputError(
                    f"sequence {i}, position {t}: {value!r} cannot be a label: it is not hashable"
                ) from None
    return members


def _sorted(labels: set[Any]) -> list[Any]:
    try:
        return sorted(labels)
    except TypeError:  # labels of several types
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))


def _where(y: Any, wanted: Any) -> tuple[int, int]:
    return next((i, t) for i, own in enumerate(y) for t, v in enumerate(own) if wanted(v))


def _raise_nan(y: Any) -> None:
    i, t = _where(y, lambda v: any(x != x for x in (v if isinstance(v, _SETS) else (v,))))
    raise InputError(f"sequence {i}, position {t}: nan is no label; None means unknown")


def _raise_unknown(y: Any, unknown: set[Any], classes: Sequence[Label]) -> None:
    i, t = _where(y, lambda v: v in unknown or (isinstance(v, _SETS) and bool(unknown & v)))
    raise InputError(
        f"sequence {i}, position {t}: {y[i][t]!r} is none of the {len(classes)} labels of the model"
    )


def _encode_partial(
    flat: Sequence[Any], index: dict[Label, int], classes: tuple[Label, ...]
) -> Encoded:
    numbers = np.full(len(flat), -1, dtype=np.int32)
    allowed = np.zeros((len(flat), len(classes)), dtype=np.bool_)
    for n, value in enumerate(flat):
        if value is None:
            allowed[n] = True
        elif isinstance(value, _SETS):
            members = [index[v] for v in value]
            allowed[n, members] = True
            if len(members) == 1:
                numbers[n] = members[0]
        else:
            numbers[n] = index[value]
            allowed[n, numbers[n]] = True
    return Encoded(classes, numbers, allowed)


# ---- which labels may follow each other


@dataclass(frozen=True, eq=False)
class Constraints:
    """Transitions that are forbidden, and 0 or -inf for each label as the first and the last."""

    forbidden: NDArray[np.bool_]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def check(self, known: Encoded, lengths: NDArray[np.int64]) -> None:
        """Raise for the first known labels that break a constraint."""
        begin = 0
        for i, length in enumerate(lengths):
            own = known.label[begin : begin + length]
            if length and own[0] >= 0 and np.isinf(self.start[own[0]]):
                self._raise(i, 0, f"{known.classes[own[0]]!r} must not be the first label")
            if length and own[-1] >= 0 and np.isinf(self.end[own[-1]]):
                self._raise(i, int(length) - 1, f"{known.classes[own[-1]]!r} must not be the last")
            before, after = own[:-1], own[1:]
            both = (before >= 0) & (after >= 0)
            bad = both & self.forbidden[before, after]
            if bad.any():
                t = int(np.argmax(bad))
                a, b = known.classes[before[t]], known.classes[after[t]]
                self._raise(i, t + 1, f"{b!r} must not follow {a!r}")
            begin += int(length)

    @staticmethod
    def _raise(i: int, t: int, what: str) -> None:
        raise InputError(f"sequence {i}, position {t}: {what} under the constraints of the model")


def constraints_for(wish: Any, classes: Sequence[Label]) -> Constraints | None:
    """From a tagging scheme ("BIO", "BILOU", …) or pairs of labels that must not follow each other.

    >>> bio = constraints_for("BIO", ["B-X", "I-X", "O"])
    >>> bio.forbidden.tolist()[2], bio.start.tolist()  # I-X neither follows O nor starts
    ([False, True, False], [0.0, -inf, 0.0])
    """
    if wish is None:
        return None
    count = len(classes)
    forbidden = np.zeros((count, count), dtype=np.bool_)
    start, end = np.zeros(count), np.zeros(count)
    if isinstance(wish, str):
        may = tags.allowed_transitions([str(label) for label in classes], wish)
        forbidden |= ~may.matrix
        start[~may.start], end[~may.end] = -np.inf, -np.inf
        return Constraints(forbidden, start, end)
    index = {label: n for n, label in enumerate(classes)}
    if not isinstance(wish, Iterable):
        raise InputError(f"constraints must be a scheme or pairs (label, next label), got {wish!r}")
    for pair in wish:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(
                f"constraints must be a scheme or pairs (label, next label), got {pair!r}"
            )
        if pair[0] in index and pair[1] in index:  # a label that never occurs needs no rule
            forbidden[index[pair[0]], index[pair[1]]] = True
    return Constraints(forbidden, start, end)
