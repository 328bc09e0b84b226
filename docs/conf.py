"""The documentation as a site: ``python -m sphinx -W -b html docs build/docs``.

trellis must be installed, because the page of public names is made from its docstrings. Equations
are LaTeX between dollar signs; MathJax is part of the site, so it works without a network.
"""

import re
from pathlib import Path
from typing import Any

_INIT = Path(__file__).parents[1] / "src" / "trellis" / "__init__.py"

project = "trellis"
release = version = re.findall(r'^__version__ = "(.+)"$', _INIT.read_text("utf-8"), re.MULTILINE)[0]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # copies MathJax into the site, so that it works without a network
]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
highlight_language = "none"  # indented blocks in docstrings are equations
default_role = "py:obj"  # `CRF` in a docstring becomes a link
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = f"trellis {version}"
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False


def setup(app: Any) -> None:
    """Register the two fixes below."""
    app.connect("source-read", _trim)
    app.connect("autodoc-process-docstring", _escape)


def _trim(*event: Any) -> None:
    """Remove the blank line at the end of code blocks, which doctest needs."""
    source = event[-1]
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def _escape(*event: Any) -> None:
    """Escape |w| and |a - b| in equations, which reStructuredText reads as a substitution."""
    lines = event[-1]
    lines[:] = [re.sub(r"\|(?=[\w* -]+\|)", r"\|", line) for line in lines]
