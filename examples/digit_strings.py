"""Strings of digits for the two CTC examples: dates, a language model of them, training, scores.

A date such as 25 December 1984 is read out as two five one two one nine eight four. A language
model that has seen other dates knows that none of them begins with a seven, and that the fifth
digit is a one or a two; a network that hears one digit after the other does not.
"""

import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
import numpy as np
import torch
from torch import Tensor, nn

from trellis import CTCDecoder
from trellis.formats import arpa
from trellis.inference import ctc
from trellis.nn import CTCLoss

Sentence = list[str]


def dates(rng: np.random.Generator, count: int, without: Sequence[str] = ()) -> list[str]:
    """Days from 1930 to 2010 as DDMMYYYY, none of them in ``without``."""
    first, last = date(1930, 1, 1).toordinal(), date(2010, 12, 31).toordinal()
    seen = set(without)
    found: list[str] = []
    while len(found) < count:
        day = f"{date.fromordinal(int(rng.integers(first, last + 1))):%d%m%Y}"
        found += [day] if day not in seen else []
    return found


# ---- a language model


def write_arpa(path: Path, sentences: list[Sentence], order: int) -> None:
    """An n-gram model by Witten-Bell smoothing, as an ARPA file.

    p(w | h) = (c(h w) + n(h) p(w | shorter h)) / (c(h) + n(h)), where n(h) is how many different
    words have followed h. For a word that never did, that is n(h) / (c(h) + n(h)) p(w | shorter h):
    the share is the weight of backing off.
    """
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for sentence in sentences:
        words = ["<s>", *sentence, "</s>"]
        for end in range(1, len(words)):
            for start in range(max(0, end - order + 1), end + 1):
                counts.setdefault(tuple(words[start:end]), Counter())[words[end]] += 1
    uniform = 1 / (len(counts[()]) + 1)  # of <unk> as well

    def backoff(history: tuple[str, ...]) -> float:
        own = counts[history]
        return len(own) / (own.total() + len(own))

    def probability(word: str, history: tuple[str, ...]) -> float:
        own = counts[history]
        shorter = probability(word, history[1:]) if history else uniform
        return own[word] / (own.total() + len(own)) + backoff(history) * shorter

    def line(word: str, history: tuple[str, ...], p: float) -> str:
        gram = (*history, word)
        weight = f"\t{math.log10(backoff(gram)):.7f}" if gram in counts else ""
        return f"{math.log10(p):.7f}\t{' '.join(gram)}{weight}"

    levels: list[list[str]] = [[] for _ in range(order)]
    levels[0] = [line("<unk>", (), probability("<unk>", ())), line("<s>", (), 1e-99)]
    for history in sorted(counts, key=lambda own: (len(own), own)):
        for word in sorted(set(counts[history])):
            levels[len(history)].append(line(word, history, probability(word, history)))
    sections = [f"ngram {n}={len(own)}" for n, own in enumerate(levels, 1)]
    for n, own in enumerate(levels, 1):
        sections += ["", f"\\{n}-grams:", *own]
    path.write_text("\n".join(["\\data\\", *sections, "", "\\end\\", ""]), encoding="utf-8")


# ---- a network


class Batch(NamedTuple):
    """Inputs (B, T, features) with lengths, and the labels of each."""

    inputs: Tensor
    lengths: Tensor
    targets: list[list[int]]


def pad(inputs: list[np.ndarray], targets: list[list[int]]) -> Batch:
    """Sequences of any lengths as one tensor."""
    lengths = torch.tensor([len(x) for x in inputs])
    tensors = [torch.from_numpy(x) for x in inputs]
    return Batch(nn.utils.rnn.pad_sequence(tensors, batch_first=True), lengths, targets)


class Block(nn.Module):
    """x + ReLU(norm(convolution of x)): sees two steps to both sides, ``dilation`` apart."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(0.15),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, width, T) to the same."""
        return x + self.layers(x)


class Network(nn.Module):
    """Features (B, T, features) to scores of labels (T / stride, B, labels)."""

    def __init__(self, features: int, labels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.first = nn.Conv1d(features, width, 5, stride=stride, padding=2)
        self.blocks = nn.Sequential(*(Block(width, dilation) for dilation in (1, 2, 4, 1, 2)))
        self.last = nn.Conv1d(width, labels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Scores before the softmax, frames first as CTCLoss wants them."""
        return self.last(self.blocks(torch.relu(self.first(x.mT)))).permute(2, 0, 1)

    def frames(self, lengths: Tensor) -> Tensor:
        """How many frames come out for so many that go in."""
        return (lengths + self.stride - 1) // self.stride

    @torch.no_grad()
    def log_probs(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """(T, labels) of each input."""
        self.eval()
        found: list[np.ndarray] = []
        for begin in range(0, len(inputs), 32):
            batch = pad(inputs[begin : begin + 32], [])
            scores = self(batch.inputs).log_softmax(-1).numpy()
            ends = self.frames(batch.lengths).tolist()
            found += [scores[:end, b].copy() for b, end in enumerate(ends)]
        return found


def train(network: Network, batches: Iterator[Batch], steps: int, rate: float) -> None:
    """Follow the gradient of the CTC loss; say now and then where it is."""
    criterion = CTCLoss(from_logits=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    network.train()
    begun, losses = time.perf_counter(), []
    for step in range(1, steps + 1):
        batch = next(batches)
        sizes = torch.tensor([len(own) for own in batch.targets])
        labels = torch.tensor([label for own in batch.targets for label in own])
        loss = criterion(network(batch.inputs), labels, network.frames(batch.lengths), sizes)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % max(1, steps // 8) == 0:
            mean = np.mean(losses[-50:])
            print(
                f"  step {step:5}  loss {mean:.3f}  {time.perf_counter() - begun:4.0f} s",
                flush=True,
            )


# ---- decoding


def read_greedily(emissions: list[np.ndarray], labels: list[str], glue: str) -> list[str]:
    """The best label of each frame, merged and without blanks."""
    found = (glue.join(labels[v] for v in ctc.greedy(x).labels) for x in emissions)
    return [" ".join(text.split()) for text in found]


def with_model(
    labels: list[str],
    sentences: list[Sentence],
    emissions: list[np.ndarray],
    wanted: list[str],
    **options: Any,
) -> CTCDecoder:
    """A decoder with a 5-gram model of sentences, of the weights that err least on emissions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.arpa"
        write_arpa(path, sentences, order=5)
        lm = arpa.read(path)

    def make(alpha: float, beta: float) -> CTCDecoder:
        return CTCDecoder(labels, lm=lm, alpha=alpha, beta=beta, **options)

    grid = [(alpha, beta) for alpha in (0.25, 0.5, 0.75, 1.0, 1.5) for beta in (0.0, 1.0, 2.0, 3.0)]
    best = min(grid, key=lambda own: jiwer.wer(wanted, make(*own).decode_batch(emissions)))
    print("\nthe language model's weights by the development data: alpha {}, beta {}".format(*best))
    return make(*best)


def show(wanted: list[str], found: dict[str, list[str]]) -> None:
    """A line for each way to decode: the share of wrong words and of wrong strings."""
    print(f"\n{'':24}word errors   strings with an error")
    for name, own in found.items():
        wrong = np.mean([a != b for a, b in zip(wanted, own, strict=True)])
        print(f"{name:24}{jiwer.wer(wanted, own):11.1%}{wrong:24.0%}")
    print("\nfor example:")
    worst = next(iter(found.values()))
    n = next((n for n, own in enumerate(worst) if own != wanted[n]), 0)
    for name, text in {"said": wanted[n], **{name: own[n] for name, own in found.items()}}.items():
        print(f"  {name:24}{text}")
