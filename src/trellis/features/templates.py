"""CRF++'s template files: ``U05:%x[-1,0]/%x[0,0]`` names the attribute ``U05:New/York``.

``%x[row,column]`` is replaced by the value of a column, ``row`` positions further on; all other
text is copied. Lines that start with U are attributes of a position. Lines that start with B are
attributes of the transition into it; ``B`` alone is the label bigram. Outside of the sequence the
values are ``_B-1``, ``_B-2``, … before its first token and ``_B+1``, ``_B+2``, … after its last.

>>> spec = parse('''
... # words
... U00:%x[-1,0]
... U01:%x[0,0]/%x[0,1]
... B
... ''')
>>> spec.templates[1].literals, spec.templates[2].edge, spec.outside
(('U01:', '/', ''), True, (('_B-1',), ('_B+1',)))
>>> print(render(spec), end="")
U00:%x[-1,0]
U01:%x[0,0]/%x[0,1]
B
"""

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from trellis.errors import FormatError, InputError
from trellis.features.spec import Draft, Field, Spec

__all__ = ["numbered_lines", "parse", "render"]

_MACRO = re.compile(r"%x\[(-?[0-9]{1,9}),([0-9]{1,9})\]")
_MAX_ROW = 1000  # a spec has one value for each distance outside of the sequence


def parse(source: str | PathLike[str]) -> Spec:
    """The spec of a template file: its text as a str, or a path to it.

    >>> parse("U00:%x[0]")
    Traceback (most recent call last):
    trellis.errors.FormatError: template, line 1: expected %x[row,column] at '%x[0]'
    """
    draft = Draft()
    for where, line in numbered_lines(source, "template"):
        if not line or line.startswith("#"):
            continue
        if line[0] not in "UB":
            raise FormatError(f"{where}: a template must begin with U or B, got {line!r}")
        # re.split with groups returns literal, row, column, literal, row, column, …, literal.
        pieces = _MACRO.split(line)
        literals, rows, columns = pieces[::3], pieces[1::3], pieces[2::3]
        _check(where, literals, rows)
        parts = [(int(r), Field(column=int(c))) for r, c in zip(rows, columns, strict=True)]
        draft.add(line.split(":")[0], parts, literals, edge=line[0] == "B")
    return draft.spec(outside=_outside(draft))


def _check(where: str, literals: list[str], rows: list[str]) -> None:
    for text in literals:
        if "%" in text:
            raise FormatError(f"{where}: expected %x[row,column] at {text[text.index('%') :]!r}")
    for row in rows:
        if abs(int(row)) > _MAX_ROW:
            raise FormatError(f"{where}: row {row} is out of range: at most ±{_MAX_ROW}")


def _outside(draft: Draft) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Values for all distances that the templates reach, at least one on each side."""
    offsets = [part.offset for template in draft.templates for part in template.parts]
    before, after = -min(offsets, default=0), max(offsets, default=0)
    return (
        tuple(f"_B-{n}" for n in range(1, max(before, 1) + 1)),
        tuple(f"_B+{n}" for n in range(1, max(after, 1) + 1)),
    )


def render(spec: Spec) -> str:
    """The template file of a spec; InputError if CRF++ cannot express it.

    >>> from trellis.features.window import named
    >>> render(named(["lower[0]"]))
    Traceback (most recent call last):
    trellis.errors.InputError: template 'lower[0]': CRF++ has no field of kind 'lower'
    """
    lines = []
    draft = Draft(templates=[*spec.templates])
    for t in spec.templates:
        for part in t.parts:
            kind = spec.fields[part.field].kind
            if kind != "value":
                raise InputError(f"template {t.name!r}: CRF++ has no field of kind {kind!r}")
            if part.origin != "here":
                raise InputError(f"template {t.name!r}: CRF++ has no absolute positions")
        macros = [f"%x[{part.offset},{spec.fields[part.field].column}]" for part in t.parts]
        text = "".join(t.literals)
        if not t.literals[0].startswith("B" if t.edge else "U") or set("%\r\n") & set(text):
            raise InputError(f"template {t.name!r}: CRF++ cannot write the literals {t.literals}")
        lines.append(t.literals[0] + "".join(map(str.__add__, macros, t.literals[1:])) + "\n")
    if spec.outside != _outside(draft):
        raise InputError(f"CRF++ has other values outside the sequence than {spec.outside}")
    return "".join(lines)


def numbered_lines(source: str | PathLike[str], default_name: str) -> Iterator[tuple[str, str]]:
    """(place for error messages, line) of each line of a text, or of the file at a path."""
    if isinstance(source, str):
        name, text = default_name, source
    else:
        name = str(source)
        try:
            text = Path(source).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"{name}: not UTF-8: {error}") from None
    for n, line in enumerate(text.split("\n"), start=1):
        yield f"{name}, line {n}", line.removesuffix("\r")
