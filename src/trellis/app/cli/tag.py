"""`trellis tag`: sequences in, labels out, one batch after the other in constant memory."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
from rich.text import Text

from trellis.app.models import columns_of, open_model
from trellis.app.terminal import COLOURS, check_writable, console
from trellis.data import corpus, files, markup, tags, text
from trellis.data.corpus import Sequence
from trellis.errors import InputError
from trellis.formats.atomic import replacing

__all__ = ["OUTPUTS", "inline", "run", "spans_of"]

OUTPUTS = ("conll", "jsonl", "inline")
_BATCH = 1 << 15  # tokens that are labelled at a time
_SMALL = 1e-4  # marginals below this are not written


class Labelled(NamedTuple):
    """A sequence with what the model says of it."""

    sequence: Sequence
    labels: list[str]
    marginals: Any
    """(length, labels), or None if not asked for."""
    kbest: Any
    """The best labellings with their probabilities, or None if not asked for."""


class Writer(Protocol):
    """Turns a labelled sequence into text."""

    def __call__(self, found: Labelled) -> str:
        """The text, line ends included."""


def run(
    model: Path,
    inputs: list[Path],
    *,
    format: str | None = None,
    layout: corpus.Columns | None = None,
    output: str | None = None,
    target: Path | None = None,
    marginals: bool = False,
    kbest: int = 0,
    jobs: int | None = None,
    unbuffered: bool = False,
) -> None:
    """Label files, or standard input, in order."""
    if target is not None:
        check_writable(target)
    found = open_model(model, jobs)
    width = columns_of(found, model)
    sources = [_source(path, format, width) for path in inputs or [Path("-")]]
    coloured = target is None and sys.stdout.isatty()
    write = _writer(found, _output(output, sources[0][1], coloured))
    size = 1 if unbuffered or (not inputs and sys.stdin.isatty()) else _BATCH
    with _opened(target) as file:
        begun = False
        for source, kind in sources:
            done = 0
            batches = _batches(corpus.iterate(source, kind, width, layout), size)
            for batch in batches if size == 1 else _read_ahead(batches):
                for number, own in enumerate(_labelled(found, batch, marginals, kbest), done + 1):
                    try:
                        piece = write(own)
                        file.write((piece if begun else files.keep_mark(piece)).encode())
                        begun = True
                    except InputError as error:
                        where = f"{files.name_of(source)}, sequence {number}"
                        raise InputError(f"{where}: {error}") from None
                done += len(batch)
                if size == 1:
                    file.flush()


def spans_of(labels: list[str], scheme: str) -> list[tags.Span]:
    """What is marked in a text: spans, or without a scheme each token whose label is not O.

    >>> spans_of(["O", "B-PER", "I-PER"], "BIO"), spans_of(["O", "VERB"], "plain")
    ([Span(label='PER', start=1, end=3)], [Span(label='VERB', start=1, end=2)])
    """
    if scheme == "plain":
        return [tags.Span(label, t, t + 1) for t, label in enumerate(labels) if label != "O"]
    return tags.spans(labels, scheme)


def inline(model: Any) -> Callable[[Sequence, list[str]], str]:
    """What writes a sequence with its spans marked: in colour on a terminal, else as mark-up."""
    write = _writer(model, "inline")
    return lambda sequence, labels: write(Labelled(sequence, labels, None, None)).rstrip("\n")


def _source(path: Path, format: str | None, width: int) -> tuple[Any, str]:
    if str(path) == "-":
        return sys.stdin.buffer, format or ("text" if width == 1 else "conll")
    with open(path, "rb"):  # a file that is missing should not wait for its turn
        pass
    return path, format or corpus.format_of(path, labelled=False)


def _output(output: str | None, format: str, coloured: bool) -> str:
    if output is None:
        like = {"jsonl": "jsonl", "text": "inline", "markup": "inline"}.get(format, "conll")
        return "inline" if coloured else like
    if output not in OUTPUTS:
        raise InputError(f"output must be one of {', '.join(OUTPUTS)}, not {output!r}")
    return output


@contextmanager
def _opened(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    else:
        with replacing(target) as file:
            yield file


def _batches(sequences: Iterable[Sequence], size: int) -> Iterator[list[Sequence]]:
    batch: list[Sequence] = []
    tokens = 0
    for sequence in sequences:
        batch.append(sequence)
        tokens += len(sequence.tokens) + 1
        if tokens >= size:
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


def _read_ahead(batches: Iterator[list[Sequence]]) -> Iterator[list[Sequence]]:
    """The same, each read by another thread while the one before is labelled."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _labelled(model: Any, batch: list[Sequence], marginals: bool, kbest: int) -> Iterator[Labelled]:
    X = [sequence.tokens for sequence in batch]
    if kbest:
        best = model.predict_kbest(X, kbest)
        labels = [own[0].labels for own in best]
    else:
        best, labels = [None] * len(X), model.predict(X)
    chances = model.predict_marginals(X) if marginals else [None] * len(X)
    return map(Labelled, batch, labels, chances, best)


def _writer(model: Any, output: str) -> Writer:
    classes = [str(label) for label in model.classes_]
    if output == "conll":
        return _Columns(classes)
    if output == "jsonl":
        return _Objects(classes)
    scheme = tags.detect(classes, otherwise="plain")
    return _Inline(classes, scheme, sys.stdout.isatty())


class _Columns:
    """The rows as they were and the label after them; its probability after that, if asked for."""

    def __init__(self, classes: list[str]) -> None:
        self.index = {label: n for n, label in enumerate(classes)}

    def __call__(self, found: Labelled) -> str:
        if not found.labels:
            return ""
        if found.kbest is None:
            return self._block(found, found.labels)
        blocks = (
            f"# {n} {own.probability:.6f}\n{self._block(found, own.labels)}"
            for n, own in enumerate(found.kbest, 1)
        )
        return "".join(blocks)

    def _block(self, found: Labelled, labels: list[str]) -> str:
        rows = found.sequence.rows
        lines = [f"{row}\t{label}" for row, label in zip(rows, labels, strict=True)]
        if found.marginals is not None:
            chances = found.marginals[np.arange(len(labels)), [self.index[y] for y in labels]]
            lines = [f"{line}\t{p:.6f}" for line, p in zip(lines, chances.tolist(), strict=True)]
        block = "\n".join(lines) + "\n\n"
        cells = found.sequence.columns + (found.marginals is not None)
        if block.count("\n") != len(lines) + 1 or block.count("\t") != cells * len(lines):
            raise InputError("a token holds a tab or a line break, which columns cannot have")
        return block


class _Objects:
    """An object a line."""

    def __init__(self, classes: list[str]) -> None:
        self.classes = classes

    def __call__(self, found: Labelled) -> str:
        entry = dict(found.sequence.entry or {})
        entry.pop("spans", None)  # which would speak against the tags
        if found.sequence.text is not None:
            entry["text"] = found.sequence.text
        entry |= {"tokens": found.sequence.tokens, "tags": found.labels}
        if found.marginals is not None:
            entry["marginals"] = [
                {y: round(p, 6) for y, p in zip(self.classes, row, strict=True) if p >= _SMALL}
                for row in found.marginals.tolist()
            ]
        if found.kbest is not None:
            entry["kbest"] = [
                {"tags": own.labels, "probability": round(own.probability, 6)}
                for own in found.kbest
            ]
        return json.dumps(entry, ensure_ascii=False) + "\n"


class _Inline:
    """The text with its spans marked, in colour on a terminal."""

    def __init__(self, classes: list[str], scheme: str, coloured: bool) -> None:
        self.scheme, self.coloured = scheme, coloured
        self.index = {label: n for n, label in enumerate(classes)}
        kinds = sorted({s.label for y in classes for s in spans_of([y], scheme)})
        self.colour = dict(zip(kinds, cycle(COLOURS), strict=False))

    def __call__(self, found: Labelled) -> str:
        if found.kbest is None:
            return self._line(found, found.labels) + "\n"
        return "".join(
            f"{own.probability:.4f}\t{self._line(found, own.labels)}\n" for own in found.kbest
        )

    def _line(self, found: Labelled, labels: list[str]) -> str:
        raw, places = _laid_out(found.sequence)
        spans = []
        for label, start, end in spans_of(labels, self.scheme):
            name = label
            if found.marginals is not None:  # the doubtful one of its labels
                chances = [found.marginals[t][self.index[labels[t]]] for t in range(start, end)]
                name = f"{label} {min(chances):.2f}"
            spans.append((places[start][0], places[end - 1][1], name))
        return self._painted(raw, spans) if self.coloured else markup.mark(raw, spans)

    def _painted(self, raw: str, spans: list[tuple[int, int, str]]) -> str:
        line, done = Text(), 0
        for start, end, name in spans:
            colour = self.colour.get(name.split(" ")[0], COLOURS[0])
            line.append(raw[done:start])
            line.append(raw[start:end], style=f"bold {colour}")
            line.append(f" {name}", style=f"dim {colour}")
            done = end
        line.append(raw[done:])
        screen = console()
        with screen.capture() as captured:
            screen.print(line, end="", soft_wrap=True)
        return captured.get()


def _laid_out(sequence: Sequence) -> tuple[str, list[tuple[int, int]]]:
    """The text of a sequence, and where its tokens are in it."""
    if sequence.text is not None:
        return sequence.text, text.offsets(sequence.text)
    words = [token if isinstance(token, str) else token[0] for token in sequence.tokens]
    ends = np.cumsum([len(word) + 1 for word in words]).tolist()
    places = [(end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True)]
    return " ".join(words), places
