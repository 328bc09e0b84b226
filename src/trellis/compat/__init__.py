"""Replacements: modules with the API of other libraries, implemented by trellis.

They give the same results as the original libraries. In your program, change one import line:
``from trellis.compat import pycrfsuite``. If a program that you do not want to change imports the
original library, `stand_in` makes it import the replacement.

    from trellis.compat import stand_in
    stand_in("pycrfsuite")
    import usaddress              # its "import pycrfsuite" imports the replacement

>>> REPLACEMENTS
('fasttext', 'gensim', 'hmmlearn', 'pycrfsuite', 'pyctcdecode', 'sklearn_crfsuite', 'torchcrf')
"""

import sys
import warnings
from importlib import import_module
from typing import Any

from trellis.errors import InputError

__all__ = ["REPLACEMENTS", "stand_in"]

REPLACEMENTS = (
    "fasttext",
    "gensim",
    "hmmlearn",
    "pycrfsuite",
    "pyctcdecode",
    "sklearn_crfsuite",
    "torchcrf",
)
"""The libraries that have a replacement."""


def stand_in(*names: str) -> None:
    """Make ``import name`` import the replacement of that library; by default of all libraries."""
    for name in names or REPLACEMENTS:
        if name not in REPLACEMENTS:
            raise InputError(
                f"{name!r} has no replacement: must be one of {', '.join(REPLACEMENTS)}"
            )
        replacement = f"{__name__}.{name}"
        module = import_module(replacement)
        # The original may be imported already: remove it and its submodules.
        for imported_name in [
            module_name
            for module_name in sys.modules
            if module_name == name or module_name.startswith(f"{name}.")
        ]:
            del sys.modules[imported_name]
        sys.modules[name] = module
        for imported_name in [
            module_name for module_name in sys.modules if module_name.startswith(f"{replacement}.")
        ]:
            sys.modules[name + imported_name.removeprefix(replacement)] = sys.modules[imported_name]


def __getattr__(name: str) -> Any:
    """Return `REPLACEMENTS` for its old name ``FACES``, with a DeprecationWarning."""
    if name == "FACES":
        text = "trellis.compat.FACES is deprecated: use trellis.compat.REPLACEMENTS"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return REPLACEMENTS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
