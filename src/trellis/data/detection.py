"""The format of a file without a known extension, from its first lines.

Files in formats that trellis does not read, CSV and JSON arrays, are named as such.
"""

import json
from collections.abc import Sequence

from trellis.data import compressed
from trellis.data.files import OpenFile
from trellis.errors import FormatError

__all__ = ["detect_labelled", "detect_unlabelled", "first_lines", "refuse_other_formats"]

_MAX_LINES = 20  # more than one, because the first lines may be comments or have no spans
_MAX_BYTES = 1 << 15  # more than the first lines usually have
_CONLLU_COLUMNS = 10


def first_lines(file: OpenFile, *, at_once: bool = False) -> list[str]:
    """Return the first lines that are not empty; they can be read again.

    With ``at_once``, only the lines that arrive together with the first one are returned: the
    program at the other end of a pipe may wait for an answer before it writes the next line.
    """
    encoding = file.encoding or "utf-8"
    data, text, at_end = b"", "", False
    with file.replay():
        while len(data) < _MAX_BYTES:
            block = file.read()
            at_end = not block
            if at_end:
                break
            data += block
            text = data.decode(encoding, "replace").removeprefix("\ufeff")
            # The first block has only the bytes from which `OpenFile` detects compression. After a
            # comment of this length, more lines may be available.
            is_cut_comment = text.startswith("#") and len(data) == compressed.HEAD
            if at_once and "\n" in text.lstrip() and not is_cut_comment:
                break
    lines = text.split("\n")
    if not at_end and len(lines) > 1:
        lines.pop()  # the last line may be incomplete
    return [line.rstrip("\r") for line in lines if line.strip()][:_MAX_LINES]


def detect_labelled(lines: Sequence[str]) -> str:
    r"""Return the format of a file with labels.

    >>> detect_labelled(["# text = Ann", "1\tAnn\t" + "_\t" * 7 + "_"])
    'conllu'
    >>> detect_labelled(["call [Ann](person)"]), detect_labelled(["Ann B-person"])
    ('markup', 'conll')
    """
    rows = [line for line in lines if not line.startswith("# ")]
    if rows and rows[0].lstrip().startswith("{"):
        return "jsonl"
    if rows and _is_conllu(rows[0]):
        return "conllu"
    return "markup" if any("](" in line for line in rows) else "conll"


def detect_unlabelled(lines: Sequence[str]) -> str:
    r"""Return the format of data to label: jsonl, conllu, conll (tabs, but no spaces), or text.

    >>> detect_unlabelled(["Ann\tNNP"]), detect_unlabelled(["Ann sings.\tBob"])
    ('conll', 'text')
    """
    rows = [line for line in lines if not (line.startswith("# ") and "\t" not in line)]
    first = rows[0] if rows else ""
    if _is_object_with_text(first):
        return "jsonl"
    if _is_conllu(first):
        return "conllu"
    return "conll" if "\t" in first.strip() and " " not in first else "text"


def refuse_other_formats(name: str, lines: Sequence[str]) -> None:
    """Raise FormatError if the lines are those of a JSON array, of indented JSON, or of CSV.

    >>> refuse_other_formats("a.csv", ["word,label", "Ann,B-person"])
    ... # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: a.csv: the file is CSV: separate the columns by tabs instead of ',',
    and the sequences by empty lines
    """
    first = lines[0].strip() if lines else ""
    is_cut = first.startswith("{") and first.endswith(("{", "[", ",", ":"))
    if is_cut or first == "[" or first.startswith(("[{", '[["')):
        content = "a JSON array" if first.startswith("[") else "JSON with objects of several lines"
        raise FormatError(
            f"{name}: the file is {content}: write JSON lines instead, one object per line and no "
            "comma between them"
        )
    if any(" " in line or "\t" in line for line in lines):
        return
    for comma in ",;":
        counts = {line.count(comma) for line in lines}
        if len(counts) == 1 and counts != {0}:
            raise FormatError(
                f"{name}: the file is CSV: separate the columns by tabs instead of {comma!r}, and "
                "the sequences by empty lines"
            )


def _is_conllu(row: str) -> bool:
    cells = row.split("\t")
    return len(cells) == _CONLLU_COLUMNS and cells[0].partition("-")[0] == "1"


def _is_object_with_text(line: str) -> bool:
    """Return True for a JSON object with the keys of the format jsonl."""
    if not line.lstrip().startswith("{"):
        return False
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, dict) and ("tokens" in entry or "text" in entry)
