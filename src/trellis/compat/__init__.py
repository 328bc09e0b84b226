"""The faces of other libraries over the models of trellis: same names, same calls, same answers.

One import line is enough, ``from trellis.compat import pycrfsuite``; for programs that import the
original themselves, `stand_in` puts a face in its place.

    from trellis.compat import stand_in
    stand_in("pycrfsuite")
    import usaddress              # and all that imports pycrfsuite from now on

>>> FACES
('fasttext', 'gensim', 'pycrfsuite', 'pyctcdecode', 'sklearn_crfsuite', 'torchcrf')
"""

import sys
from importlib import import_module

from trellis.errors import InputError

__all__ = ["FACES", "stand_in"]

FACES = ("fasttext", "gensim", "pycrfsuite", "pyctcdecode", "sklearn_crfsuite", "torchcrf")
"""The modules that have a face here."""


def stand_in(*names: str) -> None:
    """From now on ``import name`` gives the face of that name; all of `FACES` if none is named."""
    for name in names or FACES:
        if name not in FACES:
            raise InputError(f"there is no face of {name!r}: there are {', '.join(FACES)}")
        real = f"{__name__}.{name}"
        module = import_module(real)
        for loaded in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
            del sys.modules[loaded]
        sys.modules[name] = module
        for loaded in [n for n in sys.modules if n.startswith(f"{real}.")]:
            sys.modules[name + loaded.removeprefix(real)] = sys.modules[loaded]
