"""Output formats of ``trellis tag``: columns, JSON objects, or text with marked spans."""

import json
import sys
from collections.abc import Callable
from itertools import accumulate, cycle
from typing import Any, NamedTuple, Protocol

import numpy as np

from trellis.app.terminal import COLOURS, make_console
from trellis.checks import one_of
from trellis.data import markup, tags, text
from trellis.data.corpus import Sequence
from trellis.errors import InputError

__all__ = ["OUTPUTS", "Labelled", "choose_output", "find_spans", "make_inline", "make_writer"]

OUTPUTS = ("conll", "jsonl", "inline")
_MIN_PROBABILITY = (
    1e-4  # smaller marginals are omitted in JSON: most labels have almost no probability
)


class Labelled(NamedTuple):
    """A sequence and the labels that the model predicts."""

    sequence: Sequence
    labels: list[str]
    marginals: Any
    """(tokens, labels), or None without ``--marginals``."""
    kbest: Any
    """The best labellings with their probabilities, or None without ``--kbest``."""
    uncertainty: float | None = None
    """The score by which the sequence was selected, or None without ``--uncertain``."""


class Writer(Protocol):
    """Formats a labelled sequence as text."""

    def __call__(self, result: Labelled) -> str:
        """Return the text, with line breaks."""


def choose_output(output: str | None, format: str, on_terminal: bool) -> str:
    """Return the output format: ``output``, or a default if it is None.

    The default is inline on a terminal, otherwise the format that matches the input.
    """
    if output is not None:
        return one_of(output, OUTPUTS, "--output")
    if on_terminal:
        return "inline"
    return {"jsonl": "jsonl", "text": "inline", "markup": "inline"}.get(format, "conll")


def find_spans(labels: list[str], scheme: str) -> list[tags.Span]:
    """Return the spans of the labels. In the plain scheme, each token is a span unless it is O.

    >>> find_spans(["O", "B-PER", "I-PER"], "BIO"), find_spans(["O", "VERB"], "plain")
    ([Span(label='PER', start=1, end=3)], [Span(label='VERB', start=1, end=2)])
    """
    if scheme == "plain":
        return [tags.Span(label, t, t + 1) for t, label in enumerate(labels) if label != "O"]
    return tags.spans(labels, scheme)


def make_writer(classes: list[str], output: str) -> Writer:
    """Return the writer of an output format for a model with these labels."""
    if output == "conll":
        return _Columns(classes)
    if output == "jsonl":
        return _Objects(classes)
    scheme = tags.detect(classes, otherwise="plain")
    return _Inline(classes, scheme, sys.stdout.isatty())


def make_inline(model: Any) -> Callable[[Sequence, list[str]], str]:
    """Return a function of (sequence, labels) that returns one line: coloured text or markup."""
    write = make_writer([str(label) for label in model.classes_], "inline")
    return lambda sequence, labels: write(Labelled(sequence, labels, None, None)).rstrip("\n")


class _Columns:
    """Writes the rows of the input; the label and its probability are added as columns."""

    def __init__(self, classes: list[str]) -> None:
        self.index = {label: n for n, label in enumerate(classes)}

    def __call__(self, result: Labelled) -> str:
        if not result.labels:
            return ""
        if result.kbest is None:
            return _format_comment(result) + self._format_block(result, result.labels)
        blocks = (
            f"# {n} {path.probability:.6f}\n{self._format_block(result, path.labels)}"
            for n, path in enumerate(result.kbest, 1)
        )
        return "".join(blocks)

    def _format_block(self, result: Labelled, labels: list[str]) -> str:
        rows = result.sequence.rows
        lines = [f"{row}\t{label}" for row, label in zip(rows, labels, strict=True)]
        if result.marginals is not None:
            columns = [self.index[label] for label in labels]
            probabilities = result.marginals[np.arange(len(labels)), columns].tolist()
            lines = [f"{line}\t{p:.6f}" for line, p in zip(lines, probabilities, strict=True)]
        block = "\n".join(lines) + "\n\n"
        # Tokens from JSON may contain tabs and line breaks, which would change rows and columns.
        cells = result.sequence.columns + (result.marginals is not None)
        if block.count("\n") != len(lines) + 1 or block.count("\t") != cells * len(lines):
            raise InputError(
                "a token contains a tab or a line break, which the conll format cannot store"
            )
        return block


class _Objects:
    """Writes one JSON object per line."""

    def __init__(self, classes: list[str]) -> None:
        self.classes = classes

    def __call__(self, result: Labelled) -> str:
        entry = dict(result.sequence.entry or {})
        entry.pop("spans", None)  # the spans of the input may contradict the new tags
        if result.sequence.text is not None:
            entry["text"] = result.sequence.text
        entry |= {"tokens": result.sequence.tokens, "tags": result.labels}
        if result.marginals is not None:
            entry["marginals"] = [
                {
                    label: round(p, 6)
                    for label, p in zip(self.classes, row, strict=True)
                    if p >= _MIN_PROBABILITY
                }
                for row in result.marginals.tolist()
            ]
        if result.uncertainty is not None:
            entry["uncertainty"] = round(result.uncertainty, 6)
        if result.kbest is not None:
            entry["kbest"] = [
                {"tags": path.labels, "probability": round(path.probability, 6)}
                for path in result.kbest
            ]
        return json.dumps(entry, ensure_ascii=False) + "\n"


class _Inline:
    """Writes the text with marked spans: coloured on a terminal, otherwise as markup."""

    def __init__(self, classes: list[str], scheme: str, coloured: bool) -> None:
        self.scheme, self.coloured = scheme, coloured
        self.index = {label: n for n, label in enumerate(classes)}
        names = sorted({span.label for label in classes for span in find_spans([label], scheme)})
        self.colour = dict(zip(names, cycle(COLOURS), strict=False))

    def __call__(self, result: Labelled) -> str:
        if result.kbest is None:
            return _format_comment(result) + self._format_line(result, result.labels) + "\n"
        return "".join(
            f"{path.probability:.4f}\t{self._format_line(result, path.labels)}\n"
            for path in result.kbest
        )

    def _format_line(self, result: Labelled, labels: list[str]) -> str:
        raw_text, offsets = _locate_tokens(result.sequence)
        spans = []
        for label, start, end in find_spans(labels, self.scheme):
            name = label
            if result.marginals is not None:  # show the lowest probability in the span
                p = min(result.marginals[t][self.index[labels[t]]] for t in range(start, end))
                name = f"{label} {p:.2f}"
            spans.append((offsets[start][0], offsets[end - 1][1], name))
        return (
            self._colour_spans(raw_text, spans) if self.coloured else markup.mark(raw_text, spans)
        )

    def _colour_spans(self, raw: str, spans: list[tuple[int, int, str]]) -> str:
        from rich.text import Text

        line, position = Text(), 0
        for start, end, name in spans:
            colour = self.colour.get(name.split(" ")[0], COLOURS[0])
            line.append(raw[position:start])
            line.append(raw[start:end], style=f"bold {colour}")
            line.append(f" {name}", style=f"dim {colour}")
            position = end
        line.append(raw[position:])
        console = make_console()
        with console.capture() as captured_output:
            console.print(line, end="", soft_wrap=True)
        return captured_output.get()


def _format_comment(result: Labelled) -> str:
    """Return the line of the uncertainty, which is a comment in the formats conll and markup."""
    return "" if result.uncertainty is None else f"# uncertainty = {result.uncertainty:.6f}\n"


def _locate_tokens(sequence: Sequence) -> tuple[str, list[tuple[int, int]]]:
    """Return the text of a sequence, and the start and end of each token in it."""
    if sequence.text is not None:
        return sequence.text, text.offsets(sequence.text)
    words = [token if isinstance(token, str) else token[0] for token in sequence.tokens]
    ends = accumulate(len(word) + 1 for word in words)  # each end includes the space after the word
    offsets = [(end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True)]
    return " ".join(words), offsets
