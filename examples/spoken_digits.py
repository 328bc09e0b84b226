"""Spoken digits: from recordings to text with CTC, and what a language model is worth.

Recordings of single digits by six people are joined, with silences between, into dates that are
read out digit by digit. A small convolutional network learns to spell them from four of the
speakers: CTC needs the text alone, not where each letter is. The fifth speaker chooses the weights
of the language model, the sixth is the test. An n-gram model of other dates knows which digits
follow each other.

    python examples/spoken_digits.py [--data FOLDER] [--steps 1000] [--figure spoken_digits.svg]

FOLDER holds the Free Spoken Digit Dataset as fsdd.i16le.xz (all samples, 8 kHz) and fsdd.index.tsv.
Needs `pip install trellis[torch,speech]`; takes some minutes on one core.
"""

import argparse
import csv
import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from digit_strings import Batch, Network, dates, pad, read_greedily, show, train, with_model

from trellis import CTCDecoder
from trellis.inference import ctc
from trellis.plots import emissions

DATA = Path(__file__).parents[2] / "shared" / "data" / "speech"
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
LABELS = ["", " ", *sorted(set("".join(WORDS)))]  # the blank first
DEV, TEST = "yweweler", "theo"

RATE, WINDOW, HOP, BANDS = 8000, 200, 80, 32  # 25 ms each 10 ms
STRIDE = 2  # the network has a frame each 20 ms

Recordings = dict[int, list[np.ndarray]]  # of each digit


def read(folder: Path) -> dict[str, Recordings]:
    """The recordings of each speaker, each scaled to a peak of 1."""
    with lzma.open(folder / "fsdd.i16le.xz") as file:
        samples = np.frombuffer(file.read(), "<i2").astype(np.float32)
    speakers: dict[str, Recordings] = {}
    with (folder / "fsdd.index.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            start, length = int(row["start"]), int(row["length"])
            own = samples[start : start + length]
            digits = speakers.setdefault(row["speaker"], {digit: [] for digit in range(10)})
            digits[int(row["digit"])].append(own / np.abs(own).max())
    return speakers


# ---- sound to features


def mel_bands() -> np.ndarray:
    """(frequencies, bands): triangles that overlap by half, equally far apart on the mel scale."""
    low, high = (1127 * np.log1p(f / 700) for f in (60.0, 3800.0))
    edges = 700 * np.expm1(np.linspace(low, high, BANDS + 2) / 1127)[:, None]
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    f = np.fft.rfftfreq(256, 1 / RATE)
    rising, falling = (f - left) / (middle - left), (right - f) / (right - middle)
    return np.maximum(0, np.minimum(rising, falling)).T.astype(np.float32)


MEL, TAPER = mel_bands(), np.hanning(WINDOW).astype(np.float32)


def log_mel(sound: np.ndarray) -> np.ndarray:
    """(T, bands): the logarithm of the energy in each band, standardised over the utterance."""
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(windows * TAPER, 256)) ** 2
    x = np.log(power.astype(np.float32) @ MEL + 1e-6)
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)


def join(
    digits: str, speaker: list[Recordings], rng: np.random.Generator, vary: bool
) -> np.ndarray:
    """Recordings one after the other, silences before, between and behind, noise over all.

    With ``vary`` each recording is played faster or slower, which also shifts its pitch: so there
    are more voices than speakers.
    """
    parts = []
    for digit in map(int, digits):
        recordings = speaker[rng.integers(len(speaker))][digit]
        own = recordings[rng.integers(len(recordings))]
        if vary:
            at = np.arange(0, len(own) - 1, rng.uniform(0.8, 1.25))
            own = np.interp(at, np.arange(len(own)), own) * rng.uniform(0.4, 1.0)
        parts += [np.zeros(rng.integers(400, 2000)), own]
    sound = np.concatenate([*parts, np.zeros(rng.integers(400, 2000))])
    noise = rng.uniform(0.001, 0.01) if vary else 0.003
    return log_mel((sound + noise * rng.standard_normal(len(sound))).astype(np.float32))


def spell(digits: str) -> str:
    """25 is "two five"."""
    return " ".join(WORDS[int(digit)] for digit in digits)


def training_batches(speakers: list[Recordings], rng: np.random.Generator) -> Iterator[Batch]:
    """Random digits, not dates: the network shall not learn what the language model knows."""
    while True:
        texts = ["".join(map(str, rng.integers(0, 10, rng.integers(2, 6)))) for _ in range(16)]
        inputs = [join(text, speakers, rng, vary=True) for text in texts]
        for x in inputs:  # a few bands are hidden, so that the network needs all of them
            band = rng.integers(0, BANDS - 5)
            x[:, band : band + rng.integers(0, 6)] = 0.0
        yield pad(inputs, [[LABELS.index(letter) for letter in spell(text)] for text in texts])


# ---- all together


def main() -> None:
    """Train, decode four ways, print, draw."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--data", type=Path, default=DATA, help="folder of the two files")
    options.add_argument("--steps", type=int, default=1000, help="of the optimiser")
    options.add_argument("--strings", type=int, default=200, help="dates of each held-out speaker")
    options.add_argument("--figure", type=Path, help="SVG or PNG file to write")
    given = options.parse_args()

    torch.set_num_threads(1)  # the layers are small: a second thread mostly waits
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    speakers = read(given.data)
    known = [own for name, own in speakers.items() if name not in (DEV, TEST)]
    network = Network(BANDS, len(LABELS), 96, STRIDE)
    weights = sum(p.numel() for p in network.parameters())
    print(f"{len(known)} speakers to learn from, {weights:,} weights, {given.steps} steps:")
    train(network, training_batches(known, rng), given.steps, 4e-3)

    days = dates(rng, 2 * given.strings)
    halves = {DEV: days[: given.strings], TEST: days[given.strings :]}
    texts = {name: [spell(day) for day in own] for name, own in halves.items()}
    heard = {
        name: network.log_probs([join(day, [speakers[name]], rng, vary=False) for day in own])
        for name, own in halves.items()
    }

    others = [spell(day).split() for day in dates(rng, 3000, without=days)]
    decoder = with_model(LABELS, others, heard[DEV], texts[DEV], lexicon=WORDS)
    print(f"{given.strings} dates by {TEST}, whom the network has never heard:")
    found = {
        "greedy": read_greedily(heard[TEST], LABELS, ""),
        "beam": CTCDecoder(LABELS).decode_batch(heard[TEST]),
        "beam + lexicon": CTCDecoder(LABELS, lexicon=WORDS).decode_batch(heard[TEST]),
        "beam + language model": decoder.decode_batch(heard[TEST]),
    }
    show(texts[TEST], found)
    if given.figure:
        draw(given.figure, heard[TEST][0], texts[TEST][0])


def draw(file: Path, log_probs: np.ndarray, text: str) -> None:
    """The emissions of an utterance, and the best path of what was said."""
    path = ctc.align(log_probs, [LABELS.index(letter) for letter in text]).labels
    names = ["blank", "space", *LABELS[2:]]
    seconds = STRIDE * HOP / RATE
    emissions(log_probs, names, path, frame=seconds, x="seconds", title=text).save(file)


if __name__ == "__main__":
    main()
