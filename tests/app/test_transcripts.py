"""What commands print, byte for byte: tests/app/transcripts has the output that was checked by eye.

After a change of what commands print, run the tests with TRELLIS_TRANSCRIPTS=write to write the
files again, and read the differences. Times, speeds and sizes of pages are replaced by dots, and
long numbers are rounded, because the last digits depend on the instruction set.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from commands import Ran

from trellis import CTCDecoder

FOLDER = Path(__file__).parent / "transcripts"
WRITE = os.environ.get("TRELLIS_TRANSCRIPTS") == "write"
VECTORS = """6 3
man 1 0 0.1
woman 0 1 0.1
king 1 0 1
queen 0 1 1
Rome 3 3 0
rome 0.5 0.25 -1
"""
ANALOGIES = """: people
man woman king queen
man king woman queen
Rome man king woman
: places
Rome rome man nosuch
"""
TEXT = "the cat purrs and sleeps\nthe dog barks and runs\n" * 20
INTENTS = "__label__cat it purrs and sleeps\n__label__dog it barks and runs\n" * 20
LABELS = ["", " ", *"abdegosy"]
SAID = ["good day", "a bad egg"]
CALENDAR = "Ann B-PER\nmeets O\nBob B-PER\n\nin O\nNew B-LOC\nYork I-LOC\n\nBob O\nleft O\n"
SMALL = "--dim 4 --min-count 1 --epochs 1 --seed 0 -j 1"

COMMANDS = {
    "train": [
        "train small.conll -o m.trellis --max-iter 5",
        "train small.conll --dev small.conll -o m.trellis --max-iter 6 --dev-every 2 --patience 2",
        "train small.conll -o m.trellis -m memm --features pos --constraints auto --l2 0.5",
        "train small.conll -o m.trellis -m hmm",
        "train small.conll -o m.trellis -m perceptron --max-iter 3 --seed 1",
        "train small.conll -o m.trellis -m arow --max-iter 2 --states all --transitions none",
        "train small.conll -o m.trellis -m passive-aggressive --max-iter 2 --min-count 2",
        "train small.conll -o m.trellis --tune 2 --seed 3 --max-iter 5",
        "train small.conll -o m.trellis --gazetteer city=city.txt --l1 0.1 --quiet",
        "train small.conll -o m.trellis --template a.template --solver sgd --max-iter 2",
        "train empty.conll -o m.trellis",
    ],
    "tag": [
        "tag model.trellis test.conll -o out.conll",
        "tag model.trellis small.txt",
        "tag model.trellis small.txt --output jsonl",
        "tag model.trellis small.txt --kbest 2",
        "tag model.trellis small.txt --marginals",
        "tag model.trellis small.txt --output markup",
    ],
    "eval": [
        "eval model.trellis test.conll",
        "eval model.trellis test.conll --worst 1 --confusions 2",
        "eval model.trellis test.conll --worst 0 --confusions 0",
        "eval model.trellis small.conll",
        "eval model.trellis test.conll --json --worst 2 --confusions 3",
    ],
    "inspect": [
        "inspect model.trellis --top 3",
        "inspect model.trellis --top 0",
        "inspect model.trellis --top 2 --label O",
        "inspect v.vec",
    ],
    "convert": [
        "convert small.conll a.jsonl",
        "convert small.conll b.conll --scheme BILOU",
        "convert small.conll c.md --quiet",
        "convert a.jsonl d.conll --from jsonl --to conll",
        "convert model.trellis e.crfsuite",
        "convert v.vec e.bin",
        "report model.trellis small.conll -o page.html",
    ],
    "vectors": [
        "neighbors v.vec man",
        "neighbors v.vec man nosuch",
        "neighbors v.vec man queen -k 2",
        "neighbors v.vec man -k 1 --json",
        "neighbors v.vec --limit 3 man -k 9",
        "analogy v.vec man king woman",
        "analogy v.vec man king woman -k 1 --json",
        "analogy v.vec --test analogies.txt",
        "analogy v.vec --test analogies.txt --restrict 4 --json",
        "similarity v.vec man woman",
        "similarity v.vec --test pairs.txt",
        "similarity v.vec --test pairs.txt --restrict 4 --json",
    ],
    "embed": [
        f"embed text.txt -o w.vec {SMALL}",
        f"embed text.txt -o w.bin --subwords --bucket 50 --minn 2 --maxn 3 {SMALL}",
        f"embed text.txt -o w.trellis --architecture cbow --loss hierarchical {SMALL}",
        f"embed intents.txt -o c.bin --supervised --word-ngrams 2 --bucket 50 {SMALL}",
        f"embed intents.txt -o c.bin --supervised --architecture cbow {SMALL}",
        f"embed text.txt -o w.vec --word-ngrams 2 {SMALL}",
        f"embed text.txt -o w.vec --minn 2 {SMALL}",
        f"embed text.txt -o w.nosuch {SMALL}",
    ],
    "ctc": [
        "ctc decode a.npy b.npy -l labels.json",
        "ctc decode a.npy -l labels.json -k 2",
        "ctc decode a.npy -l labels.json -k 1 --json --frame 0.5",
        "ctc decode a.npy b.npy -l labels.json --reference said.txt",
        "ctc decode a.npy b.npy -l labels.json --reference said.txt --json",
        'ctc align a.npy -l labels.json --text "good day"',
        'ctc align a.npy -l labels.json --text "good day" --characters --frame 0.25',
        "ctc align a.npy -l labels.json --reference said1.txt --json",
    ],
}


def emissions(text: str) -> np.ndarray:
    """Return log-probabilities with two frames per letter and a blank after each letter."""
    frames = [n for letter in text for n in (*[LABELS.index(letter)] * 2, 0)]
    p = np.full((len(frames), len(LABELS)), 0.2 / (len(LABELS) - 1))
    p[np.arange(len(frames)), frames] = 0.8
    return np.log(p)


@pytest.fixture
def files(folder: Path) -> Path:
    """The folder of the other tests, and small files of every kind."""
    texts = {
        "v.vec": VECTORS,
        "analogies.txt": ANALOGIES,
        "pairs.txt": "man woman 2\nman king 7.5\nking queen 6\nRome nosuch 1\nman Rome 3\n",
        "text.txt": TEXT,
        "intents.txt": INTENTS,
        "labels.json": json.dumps(LABELS),
        "said.txt": "good day\na bed egg\n",
        "said1.txt": "good day\n",
        "small.conll": CALENDAR,
        "small.txt": "meet Ann at noon\n\nlunch tomorrow\n",
        "city.txt": "New York\n",
        "a.template": "U00:%x[0,0]\nB\n",
        "empty.conll": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, text in zip("ab", SAID, strict=True):
        np.save(folder / f"{name}.npy", emissions(text))
    assert CTCDecoder(LABELS).decode(emissions(SAID[0])) == SAID[0]
    return folder


def without_noise(text: str) -> str:
    text = re.sub(r"-?\d+\.\d{6,}(e-\d+)?", lambda number: f"{float(number[0]):.4g}", text)
    text = re.sub(r"\d+(?:\.\d+)? (?=m?s\b|seconds)", "… ", text)
    text = re.sub(r"\d+ (?=kB\b)", "… ", text)  # a page contains scripts, which change often
    return re.sub(r"[\d,.]+(?= (?:words|tokens|sequences|lines)(?: per second|/s))", "…", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_transcripts(
    run: Callable[..., Ran], files: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    parts = []
    for command in COMMANDS[name]:
        ran = run(*shlex.split(command))
        out = "".join(f"  {line}\n" for line in ran.out.splitlines())
        err = "".join(f"! {line}\n" for line in ran.err.splitlines())
        parts.append(f"$ trellis {command}\n{out}{err}exit {ran.code}\n")
    text = without_noise("\n".join(line.rstrip() for line in "\n".join(parts).split("\n")))
    path = FOLDER / f"{name}.txt"
    if WRITE:
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text.splitlines() == path.read_text(encoding="utf-8").splitlines()
