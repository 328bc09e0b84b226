"""Tags that mark spans: ``B-PER I-PER O`` means that a PER covers positions 0 and 1.

A tag is ``O`` (outside), or a letter, a hyphen and a label. Labels may contain hyphens: the first
hyphen separates. A letter alone is a tag with the label ``""``. The schemes differ in the letters.
The example has five words: a PER of two words, a PER of one word, a word outside, and a LOC:

>>> example = [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 5)]
>>> for scheme in SCHEMES[:-1]:
...     print(f"{scheme:6}", *from_spans(example, 5, scheme))
IOB1   I-PER I-PER B-PER O I-LOC
BIO    B-PER I-PER B-PER O B-LOC
IOE1   I-PER E-PER I-PER O I-LOC
IOE2   I-PER E-PER E-PER O E-LOC
BIOES  B-PER E-PER S-PER O S-LOC
BILOU  B-PER L-PER U-PER O U-LOC

IOB1 uses B, and IOE1 uses E, only where two spans with the same label touch. In the last scheme,
``plain``, tags are the labels themselves, and a span is a run of equal tags other than ``O``, so
two spans with the same label cannot touch. ``IOB2`` is another name of BIO, ``IOBES`` of BIOES.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, pairwise, product
from operator import index
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import InputError

__all__ = [
    "SCHEMES",
    "Reader",
    "Reading",
    "Span",
    "Transitions",
    "allowed_transitions",
    "convert",
    "detect",
    "from_spans",
    "reading",
    "spans",
]

SCHEMES = ("IOB1", "BIO", "IOE1", "IOE2", "BIOES", "BILOU", "plain")
"""The names of the schemes."""

_OTHER_NAMES = {"IOB2": "BIO", "IOBES": "BIOES"}
_SAME_LETTER = {"L": "E", "U": "S"}  # BILOU is BIOES with other letters


class Span(NamedTuple):
    """A label on the positions start, start + 1, …, end - 1."""

    label: str
    start: int
    end: int


class Transitions(NamedTuple):
    """Allowed transitions of L labels; ``matrix[a, b]`` is True if b may follow a."""

    start: NDArray[np.bool_]  # (L,)
    matrix: NDArray[np.bool_]  # (L, L)
    end: NDArray[np.bool_]  # (L,)


class Reading(NamedTuple):
    """How `spans` reads L tags with ``strict=False``, as arrays.

    A span starts at each tag that is not outside and does not continue the tag before it. It goes
    on as long as tags continue it. So every reading depends on pairs of neighbours only.
    """

    labels: list[str]
    """The labels of spans."""
    span_label: NDArray[np.int64]
    """(L,) The index in ``labels`` of each tag; -1 for a tag outside of spans."""
    continues: NDArray[np.bool_]
    """(L, L) ``[a, b]`` is True if tag b after tag a continues the span of a."""


class _Rules(NamedTuple):
    """The pairs of neighbouring tags at which a span starts, continues or ends.

    A rule consists of the letter before, the letter after (``.`` is any letter) and optionally
    ``=`` (both tags must have the same label) or ``≠`` (they must have different labels). A
    span starts where a ``start`` rule matches and no span is open. It continues as long as
    ``inside`` rules match. It counts if an ``end`` rule matches after its last position.
    """

    letters: str
    start: str
    inside: str
    end: str


# The rule of conlleval and of seqeval by default: a tag continues the previous span or starts one.
_LENIENT = _Rules("BIESLU", ".B .I .E .S", "BI= BE= II= IE=", "B. I. E. S.")
_STRICT = {
    "IOB1": _Rules("BI", "OI BI II≠ IB= BB=", "BI= II=", "BO IO IB BI≠ II≠ BB="),
    "BIO": _Rules("BI", ".B", "BI= II=", "BO IO BB IB BI≠ II≠"),
    "IOE1": _Rules("IE", "OI OE EI EE II≠ IE≠", "II= IE=", "IO II≠ IE≠ EI= EE="),
    "IOE2": _Rules("IE", "OI OE EI EE II≠ IE≠", "II= IE=", "E."),
    "BIOES": _Rules("BIES", ".B .S", "BI= BE= II= IE=", "E. S."),
    "BILOU": _Rules("BILU", ".B .S", "BI= BE= II= IE=", "E. S."),
    "plain": _Rules("", ".I", "II=", "I."),  # every label is an I
}
# The letters of the first, of inner and of the last position of a span, and of a span of length 1.
_SPAN_LETTERS = {
    "IOB1": "IIII",
    "BIO": "BIIB",
    "IOE1": "IIII",
    "IOE2": "IIEE",
    "BIOES": "BIES",
    "BILOU": "BILU",
}
_START, _INSIDE, _END = 1, 2, 4
_LETTERS = "OBIES"


def _validate_scheme(name: str) -> str:
    scheme = _OTHER_NAMES.get(name, name) if isinstance(name, str) else name
    if scheme not in SCHEMES:
        raise InputError(f"scheme {name!r} is not one of {', '.join(SCHEMES)}")
    return scheme


@cache
def _compute_flags(rules: _Rules) -> dict[tuple[str, str, bool], int]:
    """Return the flags _START, _INSIDE and _END of (letter before, letter after, same label?)."""
    flags = dict.fromkeys(product(_LETTERS, _LETTERS, (True, False)), 0)
    for flag, patterns in ((_START, rules.start), (_INSIDE, rules.inside), (_END, rules.end)):
        for pattern in patterns.split():
            for before, after, same_label in flags:
                letters_match = pattern[0] in (".", before) and pattern[1] in (".", after)
                if letters_match and pattern[2:] in ("", "=" if same_label else "≠"):
                    flags[before, after, same_label] |= flag
    return flags


def _split_tag(tag: object, rules: _Rules) -> tuple[str, str] | None:
    """Return the letter of a tag (as in BIOES) and its label; None if it is not a valid tag."""
    if not isinstance(tag, str) or not tag:
        return None
    if tag == "O":
        return "O", ""
    if not rules.letters:
        return "I", str(tag)  # a NumPy string becomes a plain one
    letter, _, label = tag.partition("-")
    if len(letter) != 1 or letter not in rules.letters:
        return None
    return _SAME_LETTER.get(letter, letter), label


def _make_tag_error(where: str, tag: object, scheme: str, rules: _Rules) -> InputError:
    expected = f"O, or one of {', '.join(rules.letters)} with a hyphen and a label"
    return InputError(
        f"{where}: {tag!r} is not a tag of scheme {scheme}, expected "
        + (expected if rules.letters else "a non-empty string")
    )


def _check_list(name: str, values: object) -> None:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list, not {values!r}")


class Reader:
    """A faster `spans` for many sequences: it caches pairs of tags and returns plain tuples.

    >>> read = Reader("BIO")
    >>> [read(tags) for tags in (["B-PER", "I-PER"], ["O", "B-LOC"])]
    [[('PER', 0, 2)], [('LOC', 1, 2)]]
    """

    def __init__(self, scheme: str = "BIO", strict: bool = False) -> None:
        self._scheme = _validate_scheme(scheme)
        is_exact = strict or self._scheme == "plain"
        self._rules = _STRICT[self._scheme] if is_exact else _LENIENT
        self._parts = {"O": ("O", "")}
        self._flags: dict[tuple[str, str], int] = {}  # (tag before, tag) -> flags

    def __call__(self, tags: Sequence[str]) -> list[tuple[str, int, int]]:
        """Return (label, start, end) of the spans in the tags of one sequence, in order."""
        _check_list("tags", tags)
        cache, spans = self._flags, []
        begin, label, before = -1, "", "O"
        # A final O closes a span that is open at the end.
        for position, tag in enumerate(chain(tags, ("O",))):
            try:
                flags = cache[before, tag]
            except (KeyError, TypeError):  # TypeError: not hashable
                flags = self._learn(before, tag, position)
            before = tag
            if begin >= 0:
                if flags & _INSIDE:
                    continue
                if flags & _END:
                    spans.append((label, begin, position))
                begin = -1
            if flags & _START:
                begin, label = position, self._parts[tag][1]
        return spans

    def _learn(self, before: str, tag: str, position: int) -> int:
        """Compute, cache and return the flags of two neighbouring tags."""
        parts = _split_tag(tag, self._rules)
        if parts is None:
            raise _make_tag_error(f"position {position}", tag, self._scheme, self._rules)
        self._parts[tag] = parts
        letter_before, label_before = self._parts[before]
        flags = _compute_flags(self._rules)[letter_before, parts[0], label_before == parts[1]]
        self._flags[before, tag] = flags
        return flags


def spans(tags: Sequence[str], scheme: str = "BIO", strict: bool = False) -> list[Span]:
    """Return the spans in the tags of one sequence, in order.

    With ``strict=False`` all schemes except plain are read by the rule of conlleval: I, E or L
    continues the span before it if the previous tag is B or I with the same label; any other tag
    except O starts a span.

    >>> for span in spans(["I-PER", "I-PER", "I-LOC", "O", "B-LOC"]):
    ...     print(span)
    Span(label='PER', start=0, end=2)
    Span(label='LOC', start=2, end=3)
    Span(label='LOC', start=4, end=5)

    With ``strict=True`` only well-formed spans of the scheme count, as in seqeval's strict mode,
    and a letter that the scheme does not have is an error.

    >>> spans(["I-PER", "I-PER", "I-LOC", "O", "B-LOC"], strict=True)
    [Span(label='LOC', start=4, end=5)]
    """
    return [Span(*span) for span in Reader(scheme, strict)(tags)]


def reading(tags: Sequence[str], scheme: str) -> Reading:
    """Return the rules by which ``spans(…, scheme)`` reads sequences of these tags, as arrays.

    >>> rules = reading(["O", "B-X", "I-X", "I-Y"], "BIO")
    >>> rules.labels, rules.span_label.tolist()
    (['X', 'Y'], [-1, 0, 0, 1])
    >>> rules.continues.astype(int)  # only I-X after B-X and I-X, and I-Y after I-Y
    array([[0, 0, 0, 0],
           [0, 0, 1, 0],
           [0, 0, 1, 0],
           [0, 0, 0, 1]])
    """
    rules = _STRICT["plain"] if _validate_scheme(scheme) == "plain" else _LENIENT
    _check_list("tags", tags)
    parts = []
    for position, tag in enumerate(tags):
        letter_and_label = _split_tag(tag, rules)
        if letter_and_label is None:
            raise _make_tag_error(f"label {position}", tag, scheme, rules)
        parts.append(letter_and_label)
    index: dict[str, int] = {}
    span_label = np.array(
        [-1 if letter == "O" else index.setdefault(label, len(index)) for letter, label in parts],
        dtype=np.int64,
    )
    flags = _compute_flags(rules)
    inside = [
        [[flags[before, after, same] & _INSIDE for same in (False, True)] for after in _LETTERS]
        for before in _LETTERS
    ]
    # One table lookup for all L² pairs, as in `allowed_transitions`.
    letter = np.array([_LETTERS.index(letter) for letter, _ in parts], dtype=np.intp)
    same_label = (span_label[:, None] == span_label).astype(np.intp)
    continues = np.array(inside, dtype=np.bool_)[letter[:, None], letter, same_label]
    return Reading(list(index), span_label, continues)


def from_spans(
    spans: Iterable[tuple[str, int, int]], length: int, scheme: str = "BIO"
) -> list[str]:
    """Return the tags of a sequence of ``length`` positions; the spans can be in any order.

    >>> from_spans([Span("creative-work", 1, 4)], 5, "BIOES")
    ['O', 'B-creative-work', 'I-creative-work', 'E-creative-work', 'O']
    """
    scheme = _validate_scheme(scheme)
    _check_list("spans", spans)
    if not isinstance(length, int | np.integer) or length < 0:
        raise InputError(f"length must be an integer of at least 0, not {length!r}")
    sorted_spans = sorted(
        (_validate_span(span, length, scheme) for span in spans), key=lambda s: s[1:]
    )
    tags = ["O"] * length
    for span in sorted_spans:
        tags[span.start : span.end] = _make_tags(span, scheme)
    for before, after in pairwise(sorted_spans):
        if after.start < before.end:
            raise InputError(f"{before} and {after} overlap")
        if after.start == before.end and after.label == before.label:
            if scheme == "plain":
                raise InputError(f"{before} and {after} touch: plain tags cannot separate them")
            if scheme == "IOB1":
                tags[after.start] = _format_tag("B", after.label)
            if scheme == "IOE1":
                tags[before.end - 1] = _format_tag("E", before.label)
    return tags


def _validate_span(span: tuple[str, int, int], length: int, scheme: str) -> Span:
    try:
        label, start, end = span
        span = Span(label, index(start), index(end))
    except (TypeError, ValueError):
        raise InputError(f"{span!r} is not a span: must be a label, a start and an end") from None
    if not 0 <= span.start < span.end <= length:
        raise InputError(f"{span} is empty, or outside of the {length} positions of the sequence")
    if not isinstance(label, str) or (scheme == "plain" and label in ("", "O")):
        raise InputError(f"{span}: {label!r} cannot be a label in scheme {scheme}")
    return span


def _make_tags(span: Span, scheme: str) -> list[str]:
    length = span.end - span.start
    if scheme == "plain":
        return [span.label] * length
    first_tag, inner_tag, last_tag, single_tag = (
        _format_tag(letter, span.label) for letter in _SPAN_LETTERS[scheme]
    )
    return [single_tag] if length == 1 else [first_tag, *[inner_tag] * (length - 2), last_tag]


def _format_tag(letter: str, label: str) -> str:
    return f"{letter}-{label}" if label else letter


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """Convert tags to another scheme: ``from_spans(spans(tags, source), len(tags), target)``.

    >>> convert(["I-NP", "I-NP", "B-NP", "O"], "IOB1", "BILOU")
    ['B-NP', 'L-NP', 'U-NP', 'O']

    If source and target are the same scheme, invalid tags are repaired.

    >>> convert(["O", "I-NP", "I-VP"], "BIO", "BIO")
    ['O', 'B-NP', 'B-VP']
    """
    return from_spans(spans(tags, source), len(tags), target)


def allowed_transitions(labels: Sequence[str], scheme: str) -> Transitions:
    """Return which tags may start a well-formed sequence, follow each other, and end it.

    >>> start, matrix, end = allowed_transitions(["O", "B-X", "I-X", "B-Y", "I-Y"], "BIO")
    >>> start.astype(int)  # all but I-X and I-Y
    array([1, 1, 0, 1, 0])
    >>> matrix.astype(int)  # I-X only after B-X and I-X
    array([[1, 1, 0, 1, 0],
           [1, 1, 1, 1, 0],
           [1, 1, 1, 1, 0],
           [1, 1, 0, 1, 1],
           [1, 1, 0, 1, 1]])
    >>> end.all()
    np.True_
    """
    scheme = _validate_scheme(scheme)
    rules = _STRICT[scheme]
    _check_list("labels", labels)
    letters, numbers = [], []
    label_numbers: dict[str, int] = {}
    for position, tag in enumerate(labels):
        parts = _split_tag(tag, rules)
        if parts is None:
            raise _make_tag_error(f"label {position}", tag, scheme, rules)
        letters.append(_LETTERS.index(parts[0]))
        numbers.append(label_numbers.setdefault(parts[1], len(label_numbers)))
    # One table lookup for all L² pairs: a loop would be slow for hundreds of labels.
    letter, label_number = np.array(letters, dtype=np.intp), np.array(numbers, dtype=np.intp)
    same_label = (label_number[:, None] == label_number).astype(np.intp)
    allowed = _compute_allowed(rules)
    outside_letter = _LETTERS.index("O")
    return Transitions(
        start=allowed[outside_letter, letter, 0],
        matrix=allowed[letter[:, None], letter, same_label],
        end=allowed[letter, outside_letter, 0],
    )


def _compute_allowed(rules: _Rules) -> NDArray[np.bool_]:
    """Return an array [letter before, letter after, same label?]: True if the pair is allowed.

    A pair is allowed if a span continues, or if a span may end and another may start there.
    """
    size = len(_LETTERS)
    allowed = np.zeros((size, size, 2), dtype=np.bool_)
    for (before, after, same_label), flags in _compute_flags(rules).items():
        ends = before == "O" or flags & _END
        starts = after == "O" or flags & _START
        index = _LETTERS.index(before), _LETTERS.index(after), int(same_label)
        allowed[index] = bool(flags & _INSIDE or (ends and starts))
    return allowed


def detect(labels: Iterable[str], otherwise: str | None = None) -> str:
    """Return the most likely scheme of a set of tags.

    The scheme is plain if no tag is a letter with a hyphen, and not all tags are single letters.
    Otherwise it depends on the letters. B, I: BIO, but IOB1 if a label has an I and no B, because
    BIO starts every span with B. I, E: IOE2, but IOE1 if a label has an I and no E. B, I, E, S:
    BIOES. B, I, L, U: BILOU. For any other letters, ``otherwise`` is returned, or an InputError is
    raised if it is None.

    >>> detect(["O", "B-NP", "I-NP", "B-VP"]), detect(["O", "I-NP", "B-NP", "I-VP"])
    ('BIO', 'IOB1')
    >>> detect(["NOUN", "VERB"]), detect(["B-NP", "VERB"], otherwise="plain")
    ('plain', 'plain')
    """
    _check_list("labels", labels)
    tags = list(labels)
    for position, tag in enumerate(tags):
        if not isinstance(tag, str) or not tag:
            raise InputError(f"label {position}: {tag!r} is not a non-empty string")
    if not tags:
        raise InputError("labels is empty: a scheme cannot be detected")
    try:
        return _detect_scheme(set(tags) - {"O"})
    except InputError:
        if otherwise is None:
            raise
        return otherwise


def _detect_scheme(tags: set[str]) -> str:
    tags_with_letter = {tag for tag in tags if _split_tag(tag, _LENIENT)}
    if tags_with_letter != tags and any("-" in tag for tag in tags_with_letter):
        prefixed_tag, bare_tag = (
            min(tag for tag in tags_with_letter if "-" in tag),
            min(tags - tags_with_letter),
        )
        raise InputError(
            f"label {prefixed_tag!r} has a prefix and {bare_tag!r} has none: no scheme has both"
        )
    if tags_with_letter != tags or not tags:
        return "plain"
    return _detect_by_letters(tags)


def _detect_by_letters(tags: set[str]) -> str:
    labels = {letter: {tag[1:] for tag in tags if tag[0] == letter} for letter in "BIESLU"}
    letters = {letter for letter, names in labels.items() if names}
    if letters <= set("BI"):
        return "IOB1" if labels["I"] - labels["B"] else "BIO"
    if letters <= set("IE"):
        return "IOE1" if labels["I"] - labels["E"] else "IOE2"
    for scheme in ("BIOES", "BILOU"):
        if letters <= set(_STRICT[scheme].letters):
            return scheme
    raise InputError(f"no tagging scheme has all of the letters {', '.join(sorted(letters))}")
