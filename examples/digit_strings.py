"""Functions of both CTC examples: dates, a language model of dates, a network, error rates.

The date 25 December 1984 is read as "two five one two one nine eight four". A language model of
other dates knows that no date begins with a seven, and that the fifth digit is a one or a two. The
network is trained on random digits and does not know this.
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
    """Return random days from 1930 to 2010 as DDMMYYYY, except those in ``without``."""
    first, last = date(1930, 1, 1).toordinal(), date(2010, 12, 31).toordinal()
    excluded = set(without)
    days: list[str] = []
    while len(days) < count:
        day = f"{date.fromordinal(int(rng.integers(first, last + 1))):%d%m%Y}"
        days += [day] if day not in excluded else []
    return days


# ---- a language model


def write_arpa(path: Path, sentences: list[Sentence], order: int) -> None:
    """Write an n-gram model with Witten-Bell smoothing as an ARPA file.

    p(w | h) = (c(h w) + n(h) p(w | shorter h)) / (c(h) + n(h)), where n(h) is the number of
    different words after h. A word that never occurs after h has
    n(h) / (c(h) + n(h)) p(w | shorter h); the first factor is the backoff weight of h.
    """
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for sentence in sentences:
        words = ["<s>", *sentence, "</s>"]
        for end in range(1, len(words)):
            for start in range(max(0, end - order + 1), end + 1):
                counts.setdefault(tuple(words[start:end]), Counter())[words[end]] += 1
    uniform = 1 / (len(counts[()]) + 1)  # + 1 for <unk>

    def backoff(history: tuple[str, ...]) -> float:
        followers = counts[history]
        return len(followers) / (followers.total() + len(followers))

    def probability(word: str, history: tuple[str, ...]) -> float:
        followers = counts[history]
        shorter = probability(word, history[1:]) if history else uniform
        total = followers.total() + len(followers)
        return followers[word] / total + backoff(history) * shorter

    def line(word: str, history: tuple[str, ...], p: float) -> str:
        gram = (*history, word)
        weight = f"\t{math.log10(backoff(gram)):.7f}" if gram in counts else ""
        return f"{math.log10(p):.7f}\t{' '.join(gram)}{weight}"

    levels: list[list[str]] = [[] for _ in range(order)]
    levels[0] = [line("<unk>", (), probability("<unk>", ())), line("<s>", (), 1e-99)]
    for history in sorted(counts, key=lambda h: (len(h), h)):
        for word in sorted(set(counts[history])):
            levels[len(history)].append(line(word, history, probability(word, history)))
    sections = [f"ngram {n}={len(lines)}" for n, lines in enumerate(levels, 1)]
    for n, lines in enumerate(levels, 1):
        sections += ["", f"\\{n}-grams:", *lines]
    path.write_text("\n".join(["\\data\\", *sections, "", "\\end\\", ""]), encoding="utf-8")


# ---- a network


class Batch(NamedTuple):
    """Padded inputs (B, T, features), their lengths (B,), and the labels of each sequence."""

    inputs: Tensor
    lengths: Tensor
    targets: list[list[int]]


def pad(inputs: list[np.ndarray], targets: list[list[int]]) -> Batch:
    """Return sequences of different lengths as one padded batch."""
    lengths = torch.tensor([len(x) for x in inputs])
    tensors = [torch.from_numpy(x) for x in inputs]
    return Batch(nn.utils.rnn.pad_sequence(tensors, batch_first=True), lengths, targets)


class Block(nn.Module):
    """x + ReLU(norm(conv(x))), where each kernel has five steps with a distance of ``dilation``."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Dropout(0.15),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, width, T) to the same shape."""
        return x + self.layers(x)


class Network(nn.Module):
    """A network from features (B, T, features) to scores of labels (T / stride, B, labels)."""

    def __init__(self, features: int, labels: int, width: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.first = nn.Conv1d(features, width, 5, stride=stride, padding=2)
        self.blocks = nn.Sequential(*(Block(width, dilation) for dilation in (1, 2, 4, 1, 2)))
        self.last = nn.Conv1d(width, labels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, with frames first as CTCLoss expects."""
        return self.last(self.blocks(torch.relu(self.first(x.mT)))).permute(2, 0, 1)

    def frames(self, lengths: Tensor) -> Tensor:
        """Return the number of output frames for each input length."""
        return (lengths + self.stride - 1) // self.stride

    @torch.no_grad()
    def log_probs(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Return the log-probabilities of each input, shape (frames, labels)."""
        self.eval()
        emissions: list[np.ndarray] = []
        for begin in range(0, len(inputs), 32):
            batch = pad(inputs[begin : begin + 32], [])
            scores = self(batch.inputs).log_softmax(-1).numpy()
            ends = self.frames(batch.lengths).tolist()
            emissions += [scores[:end, b].copy() for b, end in enumerate(ends)]
        return emissions


def train(network: Network, batches: Iterator[Batch], steps: int, rate: float) -> None:
    """Minimise the CTC loss with AdamW, and print the loss eight times."""
    criterion = CTCLoss(from_logits=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    network.train()
    started, losses = time.perf_counter(), []
    for step in range(1, steps + 1):
        batch = next(batches)
        sizes = torch.tensor([len(target) for target in batch.targets])
        labels = torch.tensor([label for target in batch.targets for label in target])
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
                f"  step {step:5}  loss {mean:.3f}  {time.perf_counter() - started:4.0f} s",
                flush=True,
            )


# ---- decoding


def read_greedily(emissions: list[np.ndarray], labels: list[str], glue: str) -> list[str]:
    """Return the text of the best label of each frame, without repetitions and blanks."""
    texts = (glue.join(labels[v] for v in ctc.greedy(x).labels) for x in emissions)
    return [" ".join(text.split()) for text in texts]


def tune_decoder(
    labels: list[str],
    sentences: list[Sentence],
    emissions: list[np.ndarray],
    references: list[str],
    **options: Any,
) -> CTCDecoder:
    """Return a decoder with a 5-gram model, and with the weights of the lowest error rate."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.arpa"
        write_arpa(path, sentences, order=5)
        lm = arpa.read(path)

    def make_decoder(alpha: float, beta: float) -> CTCDecoder:
        return CTCDecoder(labels, lm=lm, alpha=alpha, beta=beta, **options)

    grid = [(alpha, beta) for alpha in (0.25, 0.5, 0.75, 1.0, 1.5) for beta in (0.0, 1.0, 2.0, 3.0)]
    rates = {
        pair: jiwer.wer(references, make_decoder(*pair).decode_batch(emissions)) for pair in grid
    }
    alpha, beta = min(rates, key=rates.__getitem__)
    print(f"\nlanguage model weights chosen on development data: alpha {alpha}, beta {beta}")
    return make_decoder(alpha, beta)


def show(references: list[str], decoded: dict[str, list[str]]) -> None:
    """Print the error rates of words and of complete strings, for each decoding method."""
    print(f"\n{'':24}word errors   strings with an error")
    for name, texts in decoded.items():
        wrong = np.mean([text != true for text, true in zip(texts, references, strict=True)])
        print(f"{name:24}{jiwer.wer(references, texts):11.1%}{wrong:24.0%}")
    print("\nexample:")
    first_texts = next(iter(decoded.values()))
    n = next((n for n, text in enumerate(first_texts) if text != references[n]), 0)
    examples = {"reference": references[n], **{name: texts[n] for name, texts in decoded.items()}}
    for name, text in examples.items():
        print(f"  {name:24}{text}")
