"""Faces: modules with the API of other libraries, implemented by trellis, with the same results.

In your program, change one import line: ``from trellis.compat import pycrfsuite``. For a program
that imports the original library itself, `stand_in` replaces the library by the face.

    from trellis.compat import stand_in
    stand_in("pycrfsuite")
    import usaddress              # imports the face as "pycrfsuite"

>>> FACES
('fasttext', 'gensim', 'pycrfsuite', 'pyctcdecode', 'sklearn_crfsuite', 'torchcrf')
"""

import sys
from importlib import import_module

from trellis.errors import InputError

__all__ = ["FACES", "stand_in"]

FACES = ("fasttext", "gensim", "pycrfsuite", "pyctcdecode", "sklearn_crfsuite", "torchcrf")
"""The libraries that have a face."""


def stand_in(*names: str) -> None:
    """Make ``import name`` import the face of that library; by default for all `FACES`."""
    for name in names or FACES:
        if name not in FACES:
            raise InputError(f"no face for {name!r}: must be one of {', '.join(FACES)}")
        face = f"{__name__}.{name}"
        module = import_module(face)
        # Remove an original that was imported before, with its submodules.
        for imported in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
            del sys.modules[imported]
        sys.modules[name] = module
        for imported in [n for n in sys.modules if n.startswith(f"{face}.")]:
            sys.modules[name + imported.removeprefix(face)] = sys.modules[imported]
