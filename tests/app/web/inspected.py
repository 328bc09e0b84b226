"""Models, data and recordings for the inspector, and a server that shows them."""

from __future__ import annotations

import json
import subprocess
import sys
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from trellis import CRF, Word2Vec
from trellis.data import conll, samples

_RATE, _SECONDS_PER_FRAME = 8000, 0.04
SYMBOLS = ["", *" abcdefghijklmnopqrstuvwxyz'"]
EVERYTHING = (
    "model.trellis weak.trellis speech.npy speech.wav words.txt --symbols symbols.json "
    "--data test.conll --train train.conll --save saved"
)
SPOKEN = "the trellis is open"


def write_files(folder: Path) -> None:
    """Write the demo's model, a weaker model, corpora, emissions with their sound, and vectors."""
    command = [sys.executable, "-m", "trellis", "demo", "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    X, y = samples.load("train")
    conll.write(folder / "train.conll", X, y)
    conll.write(folder / "test.conll", *samples.load("test"))
    CRF(l2=3.0, max_iter=12, constraints="BIO").fit(X[:150], y[:150]).save(folder / "weak.trellis")
    words = Word2Vec(vector_size=24, epochs=20, min_count=2, n_jobs=1, random_state=0).fit(X)
    words.vectors_.save(folder / "words.txt")
    write_emissions(folder)


def write_emissions(folder: Path) -> None:
    """Emissions in which `SPOKEN` is easy to read, and a tone for each symbol."""
    rng = np.random.default_rng(3)
    spoken = [SYMBOLS.index(letter) for letter in SPOKEN]
    frames = [
        n for letter in spoken for n in [letter] * rng.integers(1, 4) + [0] * rng.integers(1, 4)
    ]
    scores = rng.normal(0, 1, (len(frames), len(SYMBOLS)))
    scores[np.arange(len(frames)), frames] += 5
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.save(folder / "speech.npy", log_p.astype(np.float32))
    (folder / "symbols.json").write_text(json.dumps(SYMBOLS), encoding="utf-8")
    seconds = np.arange(int(len(frames) * _SECONDS_PER_FRAME * _RATE)) / _RATE
    pitch = 200 + 40 * np.array(frames)[(seconds / _SECONDS_PER_FRAME).astype(int)]
    with wave.open(str(folder / "speech.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_RATE)
        file.writeframes((6000 * np.sin(2 * np.pi * pitch * seconds)).astype("<i2").tobytes())


@contextmanager
def serve(folder: Path, arguments: str = EVERYTHING) -> Iterator[str]:
    """Run ``trellis serve`` in a folder; yield its URL."""
    pytest.importorskip("uvicorn", reason="the extra trellis[web] is not installed")
    (folder / "saved").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "trellis", "serve", *arguments.split(), "--no-browser"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:"), url
            yield url
        finally:
            process.terminate()
