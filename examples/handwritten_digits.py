"""Handwritten dates: read strings of digits column by column with CTC and a language model.

scikit-learn brings 1,797 images of handwritten digits, 8 by 8 pixels. Joined into dates, with gaps
and overlaps, slants and noise, they make lines of text whose characters nobody has cut apart: a
frame is a column of pixels, and CTC finds the characters. Each digit is a word of its own here
(``units="words"``), so that the n-gram model of other dates is one of digits. Images of the test
are not those of training; scikit-learn keeps them in the order of their writers, so most of the
writers are others, too.

    python examples/handwritten_digits.py [--steps 600] [--figure handwritten_digits.svg]

Needs `pip install trellis[torch,speech]`; takes two minutes on one core.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from digit_strings import Batch, Network, dates, pad, read_greedily, show, train, with_model
from sklearn.datasets import load_digits

from trellis import CTCDecoder
from trellis.inference import ctc
from trellis.plots import emissions

LABELS = ["", *"0123456789"]  # the blank first
ROWS = 10  # of pixels: the images, moved up and down a little
NOISE = 0.2

Images = list[list[np.ndarray]]  # of each digit


def read() -> tuple[Images, Images, Images]:
    """Images of each digit for training, development and test."""
    data = load_digits()
    parts = np.split(np.arange(len(data.target)), [1000, 1300])
    return tuple(
        [[data.images[n] / 16 for n in part if data.target[n] == digit] for digit in range(10)]
        for part in parts
    )


def write(text: str, images: Images, rng: np.random.Generator) -> np.ndarray:
    """(columns, rows): the digits beside each other, in noise."""
    sheet = np.zeros((ROWS, 12 * len(text) + 8))
    at = int(rng.integers(1, 4))
    for digit in map(int, text):
        own = images[digit][rng.integers(len(images[digit]))]
        top = int(rng.integers(0, ROWS - 7))
        sheet[top : top + 8, at : at + 8] += own * rng.uniform(0.6, 1.0)
        at += 8 + int(rng.integers(-2, 3))
    line = sheet[:, : at + 3].T
    return (line + NOISE * rng.standard_normal(line.shape)).astype(np.float32)


def training_batches(images: Images, rng: np.random.Generator) -> Iterator[Batch]:
    """Random digits, not dates: the network shall not learn what the language model knows."""
    while True:
        texts = ["".join(map(str, rng.integers(0, 10, rng.integers(2, 9)))) for _ in range(32)]
        inputs = [write(text, images, rng) for text in texts]
        yield pad(inputs, [[int(digit) + 1 for digit in text] for text in texts])


def main() -> None:
    """Train, decode three ways, print, draw."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--steps", type=int, default=600, help="of the optimiser")
    options.add_argument("--strings", type=int, default=300, help="dates of development and test")
    options.add_argument("--figure", type=Path, help="SVG or PNG file to write")
    given = options.parse_args()

    torch.set_num_threads(1)  # the layers are small: a second thread mostly waits
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    known, dev, test = read()
    network = Network(ROWS, len(LABELS), 64, 1)
    print(f"{sum(map(len, known)):,} images to learn from, {given.steps} steps:")
    train(network, training_batches(known, rng), given.steps, 4e-3)

    days = dates(rng, 2 * given.strings)
    wanted = [" ".join(day) for day in days]
    seen = network.log_probs(
        [write(day, dev if n < given.strings else test, rng) for n, day in enumerate(days)]
    )
    half = given.strings

    others = [list(day) for day in dates(rng, 3000, without=days)]
    decoder = with_model(LABELS, others, seen[:half], wanted[:half], units="words")
    print(f"{half} dates of the test:")
    found = {
        "greedy": read_greedily(seen[half:], LABELS, " "),
        "beam": CTCDecoder(LABELS, units="words").decode_batch(seen[half:]),
        "beam + language model": decoder.decode_batch(seen[half:]),
    }
    show(wanted[half:], found)
    if given.figure:
        path = ctc.align(seen[half], [LABELS.index(digit) for digit in days[half]]).labels
        names = ["blank", *LABELS[1:]]
        emissions(seen[half], names, path, x="column of pixels", title=days[half]).save(
            given.figure
        )


if __name__ == "__main__":
    main()
