"""A lattice inside another page: a report, or the output of a cell in a notebook."""

import itertools
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from html import escape
from os import PathLike
from typing import Any

import numpy as np

from trellis.data.atomic import writing
from trellis.plots.interactive.bundle import HERE, as_script_data, join_modules, make_script

__all__ = ["Lattice", "embed", "modules_once", "pack", "sentence_payload"]

_numbers = itertools.count(1)


def pack(array: Any) -> dict[str, Any]:
    """Return an array of float64 for JSON: its shape, and its bytes as base64, little endian.

    >>> pack(np.zeros((1, 2)))
    {'shape': [1, 2], 'float64': 'AAAAAAAAAAAAAAAAAAAAAA=='}
    """
    array = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": list(array.shape), "float64": b64encode(array.tobytes()).decode()}


def sentence_payload(
    tokens: Sequence[str], labels: Sequence[str], scores: Any, **facts: Any
) -> dict[str, Any]:
    """Return the scores of one sentence for the page, which computes everything from them.

    ``scores`` has the fields of `trellis.inference.chain.Scores` for a list of one sequence.
    ``facts`` are further members: ``name``, ``gold``, ``columns``, ``spans``.
    """
    matrix = scores.transition
    return {
        "name": "",
        "kind": "chain",
        "tokens": list(tokens),
        "columns": None,
        "labels": list(labels),
        "unary": pack(scores.unary[0]),
        "transition": pack(matrix[0] if isinstance(matrix, list) else matrix),
        "start": None if scores.start is None else pack(scores.start),
        "end": None if scores.end is None else pack(scores.end),
        "gold": None,
        "spans": None,
    } | facts


def embed(payload: dict[str, Any], fallback: str, name: str | None = None) -> str:
    """Return the element of a lattice, its data, and a picture for readers without JavaScript.

    ``payload`` is that of `sentence_payload`, ``fallback`` is HTML. ``name`` is the id of the data,
    which must be unique in the page.
    """
    name = escape(name or f"trellis-{next(_numbers)}")
    return (
        f'<div class="trellis-lattice" data-source="{name}">{fallback}</div>'
        f'<script type="application/json" id="{name}">{as_script_data(payload)}</script>'
    )


@cache
def modules_once() -> str:
    """Return the style and the script that make all lattices of a page interactive."""
    style = (HERE / "embed.css").read_text(encoding="utf-8")
    return f"<style>{style}</style>\n{make_script(join_modules('embed.js'))}"


class Lattice:
    """An interactive lattice. Notebooks show it; `save` writes it as a page that needs no server.

    It shows the probabilities of nodes and edges and the best labellings. A click on a node pins or
    forbids a label, and the rest is decoded again. Without JavaScript it is a picture.
    """

    def __init__(self, payload: dict[str, Any], fallback: str) -> None:
        self.payload, self.fallback = payload, fallback

    def __repr__(self) -> str:
        tokens, labels = len(self.payload["tokens"]), len(self.payload["labels"])
        return f"Lattice({tokens} tokens, {labels} labels)"

    def html(self) -> str:
        """Return the lattice as a part of a page, with its style and its script."""
        # Jupyter may show several cells with the same number of a fresh process: a random id.
        name = f"trellis-{np.random.default_rng().integers(1 << 62)}"
        return f"{embed(self.payload, self.fallback, name)}\n{modules_once()}"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the lattice as an HTML page."""
        title = escape(" ".join(self.payload["tokens"])[:80])
        head = f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>'
        with writing(path) as file:
            file.write(f"{head}\n<body>{self.html()}</body>\n</html>\n".encode())

    def _repr_html_(self) -> str:
        return self.html()
