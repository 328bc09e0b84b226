"""Run a program with python-crfsuite and with its replacement of trellis, in one process.

    python benchmarks/compat_programs.py usaddress FOLDER

FOLDER is the unpacked source package; its training data are the inputs. All outputs are compared
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
    """Return a thousand training texts of the program, evenly spaced."""
    location, tag = TEXTS[program]
    files = (
        sorted((folder / location).glob("*.xml"))
        if (folder / location).is_dir()
        else [folder / location]
    )
    lines = []
    for file in files:
        for element in ET.parse(file).iter(tag):
            lines.append(" ".join("".join(element.itertext()).split()))
    lines = [line for line in dict.fromkeys(lines) if line]
    return lines[:: max(1, len(lines) // INPUTS)][:INPUTS]


def tag(program: Any, text: str) -> Any:
    """Return the result of ``tag``, or its message if a label occurs twice."""
    try:
        return program.tag(text)
    except program.RepeatedLabelError as error:
        return str(error)


def features(program: Any, text: str) -> Any:
    """Return the features that the program passes to its tagger."""
    return program.tokens2features(program.tokenize(text))


def main() -> None:
    """Compare the outputs, then time both sides."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    theirs = importlib.import_module(name)
    for imported in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
        del sys.modules[imported]
    stand_in("pycrfsuite")
    ours = importlib.import_module(name)
    inputs = texts(name, folder)
    for text in inputs:
        for call in (lambda p, t: p.parse(t), tag):
            if call(ours, text) != call(theirs, text):
                raise WrongResultError(f"{name}: the outputs for {text!r} differ")
    print(f"{name}: parse() and tag() of {len(inputs)} texts are equal")
    taggers = [
        next(v for v in vars(p).values() if type(v).__name__ == "Tagger") for p in (ours, theirs)
    ]
    inputs_of_tagger = [x for x in (features(theirs, text) for text in inputs) if x]
    for function, calls in {
        "Tagger.tag": [lambda t=t: [t.tag(x) for x in inputs_of_tagger] for t in taggers],
        "parse": [lambda p=p: [p.parse(x) for x in inputs] for p in (ours, theirs)],
    }.items():
        times = time_alternating([Case("ours", calls[0]), Case("theirs", calls[1])], repeats=9)
        our_time, peer_time = times["ours"], times["theirs"]
        our_us, peer_us = (1e6 * t.median / len(inputs) for t in (our_time, peer_time))
        print(
            f"{name} {function}: {our_us:.1f} us per text, python-crfsuite {peer_us:.1f} us: "
            f"{peer_us / our_us:.2f}x (minima {peer_time.minimum / our_time.minimum:.2f}x)"
            f"{' DISTURBED' if times.disturbed() else ''}"
        )


if __name__ == "__main__":
    main()
