"""A program built on python-crfsuite, with it and with trellis in its place, in one process.

    python benchmarks/compat_programs.py usaddress FOLDER

FOLDER is the unpacked source package, whose training data are the inputs. All outputs must be equal
before any time is printed.
"""

from __future__ import annotations

import importlib
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from timing import Case, WrongResultError, time_alternating

from trellis.compat import stand_in

INPUTS = 1000
TEXTS = {
    "usaddress": ("training/labeled.xml", "AddressString"),
    "probablepeople": ("name_data/labeled", "Name"),
}


def texts(program: str, folder: Path) -> list[str]:
    """A thousand of the texts that the program was trained on, as evenly as they come."""
    place, tag = TEXTS[program]
    files = (
        sorted((folder / place).glob("*.xml")) if (folder / place).is_dir() else [folder / place]
    )
    found = []
    for file in files:
        for element in ET.parse(file).iter(tag):
            found.append(" ".join("".join(element.itertext()).split()))
    found = [text for text in dict.fromkeys(found) if text]
    return found[:: max(1, len(found) // INPUTS)][:INPUTS]


def tagged(program: Any, text: str) -> Any:
    """What ``tag`` gives; it raises where a label comes twice."""
    try:
        return program.tag(text)
    except program.RepeatedLabelError as error:
        return str(error)


def features(program: Any, text: str) -> Any:
    """What the program gives its tagger."""
    return program.tokens2features(program.tokenize(text))


def main() -> None:
    """Compare, then time."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    theirs = importlib.import_module(name)
    for loaded in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
        del sys.modules[loaded]
    stand_in("pycrfsuite")
    ours = importlib.import_module(name)
    inputs = texts(name, folder)
    for text in inputs:
        for ask in (lambda p, t: p.parse(t), tagged):
            if ask(ours, text) != ask(theirs, text):
                raise WrongResultError(f"{name}: {text!r}")
    print(f"{name}: parse() and tag() of {len(inputs)} texts are equal")
    taggers = [
        next(v for v in vars(p).values() if type(v).__name__ == "Tagger") for p in (ours, theirs)
    ]
    ready = [x for x in (features(theirs, text) for text in inputs) if x]
    for what, calls in {
        "Tagger.tag": [lambda t=t: [t.tag(x) for x in ready] for t in taggers],
        "parse": [lambda p=p: [p.parse(x) for x in inputs] for p in (ours, theirs)],
    }.items():
        times = time_alternating([Case("ours", calls[0]), Case("theirs", calls[1])], repeats=9)
        a, b = times["ours"], times["theirs"]
        print(
            f"{name} {what}: {1e6 * a.median / len(inputs):.1f} us a text, python-crfsuite "
            f"{1e6 * b.median / len(inputs):.1f} us: {b.median / a.median:.2f}x "
            f"(minima {b.minimum / a.minimum:.2f}x){' DISTURBED' if times.disturbed() else ''}"
        )


if __name__ == "__main__":
    main()
