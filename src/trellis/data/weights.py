"""Weights of sequences in files with labels.

In the formats conll, conllu and markup, a comment before a sequence has its weight. In jsonl it is
a key of the object. A sequence without a weight has the weight 1.

    # weight = 2.5
    Ann     B-PER
    sings   O

    {"tokens": ["Ann", "sings"], "tags": ["B-PER", "O"], "weight": 2.5}
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from trellis.data import corpus, files
from trellis.data.corpus import Columns
from trellis.data.files import Token
from trellis.errors import FormatError

__all__ = ["read_weighted"]


def read_weighted(
    path: str | os.PathLike[str] | files.OpenFile,
    name: str,
    format: str | None = None,
    columns: Columns | None = None,
) -> tuple[list[list[Token]], list[list[str]], list[float]]:
    r"""Return ``(X, y, weights)``; ``name`` is the name of the comment or key with the weight.

    A comment with a weight ends the sequence before it, as a blank line does.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "train.conll")
    >>> with open(path, "w") as file:
    ...     size = file.write("# weight = 2.5\nAnn\tB-PER\nsings\tO\n\nHush\tO\n")
    >>> read_weighted(path, "weight")
    ([['Ann', 'sings'], ['Hush']], [['B-PER', 'O'], ['O']], [2.5, 1.0])
    """
    with files.open_once(path) as file:
        file.encoding = columns.encoding if columns is not None else None
        format = format or corpus.format_of(file)
        weights = _Weights(file.name, name)
        lines = files.lines(file)
        lines = weights.take_keys(lines) if format == "jsonl" else weights.take_comments(lines)
        X, y, values = [], [], []
        for sequence in corpus.iterate_numbered(lines, weights.fail, format, columns):
            X.append(sequence.tokens)
            y.append(sequence.labels)
            values.append(weights.find(sequence.line))
    if not X:
        raise FormatError(f"{files.name_of(path)}: the file contains no sequence")
    if not weights.count:
        place = f"key {name!r}" if format == "jsonl" else f"comment such as '# {name} = 2.5'"
        raise FormatError(f"{files.name_of(path)}: no sequence has a weight: no {place} occurs")
    return X, y, values


class _Weights:
    """Takes the weights from the lines of a file while a reader reads them."""

    def __init__(self, file: str, name: str) -> None:
        self.file, self.name = file, name
        self.comment = re.compile(rf"#\s*{re.escape(name)}\s*=(.*)")
        self.count = 0
        self.waiting: list[tuple[int, float]] = []
        """(line, weight) of the weights whose sequence has not been read."""

    def fail(self, line: int, problem: str) -> NoReturn:
        """Raise a FormatError that names the file and the line."""
        raise files.line_error(self.file, line, problem)

    def take_comments(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines, with a blank line for each comment that has a weight."""
        for number, line in enumerate(lines, 1):
            match = self.comment.fullmatch(line) if line.startswith("#") else None
            if match is not None:
                self._add(number, match[1].strip())
            yield line if match is None else ""

    def take_keys(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines of a file of JSON objects."""
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):  # the reader of the line reports the problem
                entry = None
            if isinstance(entry, dict) and self.name in entry:
                self._add(number, entry[self.name])
            yield line

    def find(self, line: int) -> float:
        """Return the weight of the sequence that starts at a line."""
        weight = 1.0
        while self.waiting and self.waiting[0][0] <= line:
            weight = self.waiting.pop(0)[1]
        return weight

    def _add(self, line: int, value: Any) -> None:
        try:
            weight = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            weight = math.nan
        if not 0 <= weight < math.inf:
            self.fail(line, f"{self.name} is {value!r}: must be a number of at least 0")
        self.count += 1
        self.waiting.append((line, weight))
