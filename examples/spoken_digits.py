"""Spoken digits: from recordings to text with CTC and a language model.

Recordings of single digits by six speakers are joined, with silences between them, into dates that
are read digit by digit. A small convolutional network learns to spell them from four speakers. CTC
needs only the text, not the position of each letter. The language model is an n-gram model of other
dates, which knows the digits that can follow each other. Its weights are chosen on the fifth
speaker, and the sixth speaker is the test.

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
from digit_strings import Batch, Network, dates, pad, read_greedily, show, train, tune_decoder

from trellis import CTCDecoder
from trellis.inference import ctc
from trellis.plots import emissions

DATA = Path(__file__).parents[2] / "shared" / "data" / "speech"
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
LABELS = ["", " ", *sorted(set("".join(WORDS)))]  # index 0 is the blank
DEV, TEST = "yweweler", "theo"

RATE, WINDOW, HOP, BANDS = 8000, 200, 80, 32  # a window of 25 ms every 10 ms
STRIDE = 2  # windows per output frame of the network: a frame every 20 ms

Recordings = dict[int, list[np.ndarray]]  # the recordings of each digit


def read(folder: Path) -> dict[str, Recordings]:
    """Return the recordings of each speaker, scaled to a peak of 1."""
    with lzma.open(folder / "fsdd.i16le.xz") as file:
        samples = np.frombuffer(file.read(), "<i2").astype(np.float32)
    speakers: dict[str, Recordings] = {}
    with (folder / "fsdd.index.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            start, length = int(row["start"]), int(row["length"])
            recording = samples[start : start + length]
            digits = speakers.setdefault(row["speaker"], {digit: [] for digit in range(10)})
            digits[int(row["digit"])].append(recording / np.abs(recording).max())
    return speakers


# ---- from sound to features


def mel_bands() -> np.ndarray:
    """Return triangular filters, shape (frequencies, bands), equally spaced on the mel scale."""
    low, high = (1127 * np.log1p(f / 700) for f in (60.0, 3800.0))
    edges = 700 * np.expm1(np.linspace(low, high, BANDS + 2) / 1127)[:, None]
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    f = np.fft.rfftfreq(256, 1 / RATE)
    rising, falling = (f - left) / (middle - left), (right - f) / (right - middle)
    return np.maximum(0, np.minimum(rising, falling)).T.astype(np.float32)


MEL, TAPER = mel_bands(), np.hanning(WINDOW).astype(np.float32)


def log_mel(sound: np.ndarray) -> np.ndarray:
    """Return the log energy in each band, shape (T, bands), standardised over the utterance."""
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP]
    power = np.abs(np.fft.rfft(windows * TAPER, 256)) ** 2
    x = np.log(power.astype(np.float32) @ MEL + 1e-6)
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-3)


def join(
    digits: str, speaker: list[Recordings], rng: np.random.Generator, vary: bool
) -> np.ndarray:
    """Join recordings with silences between them, add noise, and return the features.

    With ``vary``, each recording is played faster or slower. This also shifts its pitch, so that
    there are more voices than speakers.
    """
    parts = []
    for digit in map(int, digits):
        recordings = speaker[rng.integers(len(speaker))][digit]
        recording = recordings[rng.integers(len(recordings))]
        if vary:
            times = np.arange(0, len(recording) - 1, rng.uniform(0.8, 1.25))
            recording = np.interp(times, np.arange(len(recording)), recording)
            recording = recording * rng.uniform(0.4, 1.0)
        parts += [np.zeros(rng.integers(400, 2000)), recording]
    sound = np.concatenate([*parts, np.zeros(rng.integers(400, 2000))])
    noise = rng.uniform(0.001, 0.01) if vary else 0.003
    return log_mel((sound + noise * rng.standard_normal(len(sound))).astype(np.float32))


def spell(digits: str) -> str:
    """Return the digits as words: "25" becomes "two five"."""
    return " ".join(WORDS[int(digit)] for digit in digits)


def training_batches(speakers: list[Recordings], rng: np.random.Generator) -> Iterator[Batch]:
    """Yield batches of random digits. They are not dates: only the language model knows dates."""
    while True:
        texts = ["".join(map(str, rng.integers(0, 10, rng.integers(2, 6)))) for _ in range(16)]
        inputs = [join(text, speakers, rng, vary=True) for text in texts]
        for x in inputs:  # mask a few bands, so that the network uses all of them
            band = rng.integers(0, BANDS - 5)
            x[:, band : band + rng.integers(0, 6)] = 0.0
        yield pad(inputs, [[LABELS.index(letter) for letter in spell(text)] for text in texts])


# ---- training and decoding


def main() -> None:
    """Train the network, decode in four ways, then print the error rates and draw an example."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the two files")
    parser.add_argument("--steps", type=int, default=1000, help="training steps")
    parser.add_argument("--strings", type=int, default=200, help="dates of each held-out speaker")
    parser.add_argument("--figure", type=Path, help="SVG or PNG file to write")
    options = parser.parse_args()

    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    speakers = read(options.data)
    training_speakers = [digits for name, digits in speakers.items() if name not in (DEV, TEST)]
    network = Network(BANDS, len(LABELS), 96, STRIDE)
    weights = sum(p.numel() for p in network.parameters())
    print(f"{len(training_speakers)} speakers, {weights:,} weights, {options.steps} steps:")
    train(network, training_batches(training_speakers, rng), options.steps, 4e-3)

    days = dates(rng, 2 * options.strings)
    halves = {DEV: days[: options.strings], TEST: days[options.strings :]}
    texts = {name: [spell(day) for day in part] for name, part in halves.items()}
    log_probs = {
        name: network.log_probs([join(day, [speakers[name]], rng, vary=False) for day in part])
        for name, part in halves.items()
    }

    other_dates = [spell(day).split() for day in dates(rng, 3000, without=days)]
    decoder = tune_decoder(LABELS, other_dates, log_probs[DEV], texts[DEV], lexicon=WORDS)
    print(f"{options.strings} dates by {TEST}, a speaker that the network has never heard:")
    decoded = {
        "greedy": read_greedily(log_probs[TEST], LABELS, ""),
        "beam": CTCDecoder(LABELS).decode_batch(log_probs[TEST]),
        "beam + lexicon": CTCDecoder(LABELS, lexicon=WORDS).decode_batch(log_probs[TEST]),
        "beam + language model": decoder.decode_batch(log_probs[TEST]),
    }
    show(texts[TEST], decoded)
    if options.figure:
        draw(options.figure, log_probs[TEST][0], texts[TEST][0])


def draw(file: Path, log_probs: np.ndarray, text: str) -> None:
    """Draw the emissions of an utterance and the alignment of its text."""
    path = ctc.align(log_probs, [LABELS.index(letter) for letter in text]).labels
    names = ["blank", "space", *LABELS[2:]]
    seconds = STRIDE * HOP / RATE
    emissions(log_probs, names, path, frame=seconds, x="seconds", title=text).save(file)


if __name__ == "__main__":
    main()
