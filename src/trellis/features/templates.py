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
# The largest offset. A spec stores one value per distance outside of the sequence, so larger
# offsets would need much memory.
_MAX_ROW = 1000


def parse(source: str | PathLike[str]) -> Spec:
    """Parse a template file into a spec; ``source`` is its text as a str, or a path.

    >>> parse("U00:%x[0]")
    Traceback (most recent call last):
    trellis.errors.FormatError: template, line 1: expected %x[row,column] at '%x[0]'
    """
    draft = Draft()
    for location, line in numbered_lines(source, "template"):
        if not line or line.startswith("#"):
            continue
        if line[0] not in "UB":
            raise FormatError(f"{location}: a template must start with U or B, got {line!r}")
        # re.split with groups returns literal, row, column, literal, row, column, …, literal.
        fragments = _MACRO.split(line)
        literals, rows, columns = fragments[::3], fragments[1::3], fragments[2::3]
        _check_template(location, literals, rows)
        parts = [
            (int(row), Field(column=int(column))) for row, column in zip(rows, columns, strict=True)
        ]
        draft.add(line.split(":")[0], parts, literals, edge=line[0] == "B")
    return draft.spec(outside=_make_outside_values(draft))


def _check_template(location: str, literals: list[str], rows: list[str]) -> None:
    for text in literals:
        if "%" in text:
            raise FormatError(f"{location}: expected %x[row,column] at {text[text.index('%') :]!r}")
    for row in rows:
        if abs(int(row)) > _MAX_ROW:
            raise FormatError(f"{location}: row {row} is out of range: must be within ±{_MAX_ROW}")


def _make_outside_values(draft: Draft) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values outside of a sequence up to the largest offsets; at least one a side."""
    offsets = [part.offset for template in draft.templates for part in template.parts]
    before, after = -min(offsets, default=0), max(offsets, default=0)
    return (
        tuple(f"_B-{n}" for n in range(1, max(before, 1) + 1)),
        tuple(f"_B+{n}" for n in range(1, max(after, 1) + 1)),
    )


def render(spec: Spec) -> str:
    """Return the template file of a spec; raise InputError if CRF++ has no such templates.

    >>> from trellis.features.window import named
    >>> render(named(["lower[0]"]))
    Traceback (most recent call last):
    trellis.errors.InputError: template 'lower[0]': CRF++ has no field of kind 'lower'
    """
    lines = []
    draft = Draft(templates=[*spec.templates])
    for template in spec.templates:
        name = template.name
        for part in template.parts:
            kind = spec.fields[part.field].kind
            if kind != "value":
                raise InputError(f"template {name!r}: CRF++ has no field of kind {kind!r}")
            if part.origin != "here":
                raise InputError(f"template {name!r}: CRF++ has no absolute positions")
        macros = [f"%x[{part.offset},{spec.fields[part.field].column}]" for part in template.parts]
        literals, letter = template.literals, "B" if template.edge else "U"
        if not literals[0].startswith(letter) or set("%\r\n") & set("".join(literals)):
            raise InputError(
                f"template {name!r}: the literals {literals} must start with {letter} and not "
                "contain % or line breaks"
            )
        lines.append(literals[0] + "".join(map(str.__add__, macros, literals[1:])) + "\n")
    if spec.outside != _make_outside_values(draft):
        raise InputError(
            f"the values outside of a sequence are {spec.outside}: CRF++ cannot express them"
        )
    return "".join(lines)


def numbered_lines(source: str | PathLike[str], default_name: str) -> Iterator[tuple[str, str]]:
    """Yield (file name and line number, line) of each line of a text, or of the file at a path."""
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
