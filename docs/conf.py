"""The documentation as a site: ``python -m sphinx -W -b html docs build/docs``.

trellis must be installed, for the page of its public names. Equations are Unicode in code blocks:
they read the same in a terminal, on a code-hosting site and here, without a network.
"""

import re
from pathlib import Path
from typing import Any

_INIT = Path(__file__).parents[1] / "src" / "trellis" / "__init__.py"

project = "trellis"
release = version = re.findall(r'^__version__ = "(.+)"$', _INIT.read_text("utf-8"), re.MULTILINE)[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
highlight_language = "none"  # indented blocks are equations
default_role = "py:obj"  # `CRF` in a docstring leads to it
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"trellis {version}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False


def setup(app: Any) -> None:
    """What Sphinx would show otherwise than it is meant."""
    app.connect("source-read", _trim)
    app.connect("autodoc-process-docstring", _escape)


def _trim(*event: Any) -> None:
    """Blocks end with a blank line so that doctest does not take the fence for output."""
    source = event[-1]
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def _escape(*event: Any) -> None:
    """In an equation, |w| is no substitution of reStructuredText."""
    lines = event[-1]
    lines[:] = [re.sub(r"\|(?=\w+\|)", r"\|", line) for line in lines]
