"""Handwritten dates: read strings of digits column by column, with CTC and a language model.

scikit-learn contains 1,797 images of handwritten digits with 8 by 8 pixels. They are joined into
dates, with gaps, overlaps and noise. The result is lines of text that are not segmented into
characters. A frame is a column of pixels, and CTC finds the characters. Each digit is a word here
(``units="words"``), so that the n-gram model of other dates is a model of digits. The test images
do not occur in training. The images are ordered by writer, so most writers of test images do not
occur in training either.

    python examples/handwritten_digits.py [--steps 600] [--figure handwritten_digits.svg]

Needs `pip install trellis[torch,speech]`; takes two minutes on one core.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from digit_strings import Batch, Network, dates, pad, read_greedily, show, train, tune_decoder
from sklearn.datasets import load_digits

from trellis import CTCDecoder
from trellis.inference import ctc
from trellis.plots import emissions

LABELS = ["", *"0123456789"]  # index 0 is the blank
ROWS = 10  # pixels: the height of an image, 8, and space to move it up and down
NOISE = 0.2

Images = list[list[np.ndarray]]  # the images of each digit


def read() -> tuple[Images, Images, Images]:
    """Return the images of each digit for training, development and test."""
    data = load_digits()
    parts = np.split(np.arange(len(data.target)), [1000, 1300])
    return tuple(
        [[data.images[n] / 16 for n in part if data.target[n] == digit] for digit in range(10)]
        for part in parts
    )


def write(text: str, images: Images, rng: np.random.Generator) -> np.ndarray:
    """Return a noisy image of the digits side by side, shape (columns, rows)."""
    sheet = np.zeros((ROWS, 12 * len(text) + 8))
    left = int(rng.integers(1, 4))
    for digit in map(int, text):
        image = images[digit][rng.integers(len(images[digit]))]
        top = int(rng.integers(0, ROWS - 7))
        sheet[top : top + 8, left : left + 8] += image * rng.uniform(0.6, 1.0)
        left += 8 + int(rng.integers(-2, 3))
    line = sheet[:, : left + 3].T
    return (line + NOISE * rng.standard_normal(line.shape)).astype(np.float32)


def training_batches(images: Images, rng: np.random.Generator) -> Iterator[Batch]:
    """Yield batches of random digits. They are not dates: only the language model knows dates."""
    while True:
        texts = ["".join(map(str, rng.integers(0, 10, rng.integers(2, 9)))) for _ in range(32)]
        inputs = [write(text, images, rng) for text in texts]
        yield pad(inputs, [[int(digit) + 1 for digit in text] for text in texts])


def main() -> None:
    """Train the network, decode in three ways, then print the error rates and draw an example."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=600, help="training steps")
    parser.add_argument("--strings", type=int, default=300, help="dates of development and test")
    parser.add_argument("--figure", type=Path, help="SVG or PNG file to write")
    options = parser.parse_args()

    torch.set_num_threads(1)  # the layers are small: a second thread would mostly wait
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    training, dev, test = read()
    network = Network(ROWS, len(LABELS), 64, 1)
    print(f"{sum(map(len, training)):,} images for training, {options.steps} steps:")
    train(network, training_batches(training, rng), options.steps, 4e-3)

    days = dates(rng, 2 * options.strings)
    references = [" ".join(day) for day in days]
    log_probs = network.log_probs(
        [write(day, dev if n < options.strings else test, rng) for n, day in enumerate(days)]
    )
    half = options.strings

    other_dates = [list(day) for day in dates(rng, 3000, without=days)]
    decoder = tune_decoder(LABELS, other_dates, log_probs[:half], references[:half], units="words")
    print(f"{half} test dates:")
    decoded = {
        "greedy": read_greedily(log_probs[half:], LABELS, " "),
        "beam": CTCDecoder(LABELS, units="words").decode_batch(log_probs[half:]),
        "beam + language model": decoder.decode_batch(log_probs[half:]),
    }
    show(references[half:], decoded)
    if options.figure:
        path = ctc.align(log_probs[half], [LABELS.index(digit) for digit in days[half]]).labels
        names = ["blank", *LABELS[1:]]
        emissions(log_probs[half], names, path, x="column of pixels", title=days[half]).save(
            options.figure
        )


if __name__ == "__main__":
    main()
