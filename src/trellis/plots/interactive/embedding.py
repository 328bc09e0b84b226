"""A lattice inside another page: a report, or the output of a cell in a notebook."""

import itertools
from functools import cache
from html import escape
from typing import Any

from trellis.plots.interactive.bundle import HERE, as_script_data, join_modules, make_script

__all__ = ["embed", "modules_once"]

_numbers = itertools.count(1)


def embed(payload: dict[str, Any], fallback: str, name: str | None = None) -> str:
    """Return the element of a lattice, its data, and a picture for readers without JavaScript.

    ``payload`` has the scores of a sentence as the page of ``trellis serve`` gets them;
    ``fallback`` is HTML. ``name`` is the id of the data, which must be unique in the page.
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
