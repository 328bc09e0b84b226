"""Corrected sentences: kept in memory, and saved as a file that ``trellis train`` reads."""

import json
import threading
from pathlib import Path
from typing import Any, NamedTuple

from trellis.app.web.http.errors import RequestError
from trellis.data import conll, corpus, jsonl
from trellis.data.atomic import replacing

__all__ = ["UNKNOWN", "Corrections", "key_of"]

UNKNOWN = "?"
"""The label of a position that is unknown in the file: ``trellis train --unknown "?"``."""
_NAMES = {"conll": "corrections.conll", "jsonl": "corrections.jsonl"}


class _Sentence(NamedTuple):
    tokens: list[Any]
    labels: list[str | None]


class Corrections:
    """The corrected sentences: those of the files of an earlier session, then those of this one.

    The names of the files are fixed, and the folder is chosen when the server starts: a request
    cannot choose where something is written.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._sentences: dict[str, _Sentence] = {}
        """By tokens: a sentence that is corrected again replaces its first correction."""
        self._lock = threading.Lock()
        if folder is not None:
            paths = [folder / name for name in _NAMES.values() if (folder / name).exists()]
            # Each has the sentences of the other up to its last change: the newer one is right.
            for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns):
                self._read(path)

    def add(self, tokens: list[Any], labels: list[str | None], format: str) -> dict[str, Any]:
        """Save a sentence together with the earlier ones; None is an unknown label."""
        if self.folder is None:
            raise RequestError(422, "the server has no folder to save to: start it with --save")
        if len(tokens) != len(labels):
            raise RequestError(422, f"{len(tokens)} tokens, but {len(labels)} labels")
        if UNKNOWN in labels:
            raise RequestError(422, f"the label {UNKNOWN!r} means unknown in the file: use null")
        name = _NAMES[format]
        with self._lock:
            sentences = {**self._sentences, key_of(tokens): _Sentence(tokens, labels)}
            X = [sentence.tokens for sentence in sentences.values()]
            y = [
                [UNKNOWN if label is None else label for label in sentence.labels]
                for sentence in sentences.values()
            ]
            write = conll.write if format == "conll" else jsonl.write
            try:
                with replacing(self.folder / name) as file:
                    write(file, X, y)
            except OSError as error:
                raise RequestError(500, f"{name} was not written: {error.strerror}") from None
            self._sentences = sentences
        return {"saved": len(sentences), "file": name}

    def pairs(self) -> tuple[list[list[Any]], list[list[str | None]]]:
        """Return the tokens and the labels of all corrected sentences."""
        with self._lock:
            sentences = list(self._sentences.values())
        return [s.tokens for s in sentences], [s.labels for s in sentences]

    def _read(self, path: Path) -> None:
        """Add the sentences of a file of an earlier session."""
        X, y = corpus.read(path)
        for tokens, labels in zip(X, y, strict=True):
            known = [None if label == UNKNOWN else label for label in labels]
            self._sentences[key_of(tokens)] = _Sentence(tokens, known)


def key_of(tokens: list[Any]) -> str:
    """Return a string that is equal for equal tokens."""
    return json.dumps(tokens)
