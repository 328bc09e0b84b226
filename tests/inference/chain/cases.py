"""Random chains with fixed seeds, and a function that runs every routine of an engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

REGIMES = ("ordinary", "zero", "ties", "forbidden", "huge", "wide", "left_to_right")
Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Case:
    """One chain, a random labelling of it, and the k for kbest."""

    name: str
    unary: Array
    transition: Array
    start: Array | None
    end: Array | None
    mask: Array | None
    labels: Array
    k: int

    @property
    def scores(self) -> tuple[Array, Array, Array | None, Array | None]:
        return self.unary, self.transition, self.start, self.end


def generate_cases(chunk: int, n_cases: int) -> Iterator[Case]:
    """Yield the cases of one chunk. The same arguments give the same cases."""
    rng = np.random.default_rng([20240, chunk])
    for i in range(n_cases):
        regime = REGIMES[i % len(REGIMES)]
        yield make_case(rng, regime, f"{regime} case {i} of chunk {chunk}")


def make_case(rng: np.random.Generator, regime: str, name: str) -> Case:
    length, n_labels = int(rng.integers(1, 7)), int(rng.integers(1, 6))
    positional = rng.random() < 0.4
    shape = (length - 1, n_labels, n_labels) if positional else (n_labels, n_labels)
    unary = _values(rng, regime, (length, n_labels))
    transition = _values(rng, regime, shape)
    start = _values(rng, regime, (n_labels,)) if rng.random() < 0.6 else None
    end = _values(rng, regime, (n_labels,)) if rng.random() < 0.6 else None
    if regime == "forbidden" or (regime in ("huge", "wide") and rng.random() < 0.5):
        _forbid_some(rng, [unary, transition, start, end])
    if regime == "left_to_right":
        start, end = _left_to_right(rng, transition, n_labels)
    mask = rng.random(unary.shape) < rng.uniform(0.5, 0.95) if rng.random() < 0.3 else None
    labels = rng.integers(n_labels, size=length)
    return Case(name, unary, transition, start, end, mask, labels, int(rng.integers(1, 9)))


def _values(rng: np.random.Generator, regime: str, shape: tuple[int, ...]) -> Array:
    if regime == "zero":
        return np.zeros(shape)
    if regime == "ties":
        return rng.integers(-2, 3, shape).astype(np.float64)
    if regime == "wide":  # neighbours differ by hundreds of nats: exp() of them underflows
        return rng.normal(0.0, 300.0, shape)
    if regime == "huge":
        # Multiples of 2**-20, so that the oracle's sums with 1e4 are exact in any order.
        small = np.round(rng.normal(0.0, 2.0, shape) * 2**20) / 2**20
        return np.where(rng.random(shape) < 0.3, rng.choice([-1e4, 1e4], shape), small)
    return rng.normal(0.0, rng.uniform(1.0, 5.0), shape)


def _forbid_some(rng: np.random.Generator, arrays: Sequence[Array | None]) -> None:
    """Put -inf into one to all of the arrays, in place."""
    rate = rng.uniform(0.1, 0.5)
    hit = rng.random(len(arrays)) < 0.6
    hit[rng.integers(len(arrays))] = True
    for array, chosen in zip(arrays, hit, strict=True):
        if array is not None and chosen:
            array[rng.random(array.shape) < rate] = -np.inf


def _left_to_right(
    rng: np.random.Generator, transition: Array, n_labels: int
) -> tuple[Array | None, Array | None]:
    """Forbid decreasing labels. Half of the chains allow only steps of one."""
    before, after = np.indices((n_labels, n_labels))
    transition[..., after < before] = -np.inf
    if rng.random() < 0.5:
        transition[..., after > before + 1] = -np.inf
    only = np.full((2, n_labels), -np.inf)
    only[0, 0] = only[1, -1] = 0.0
    return (
        only[0] if rng.random() < 0.5 else None,
        only[1] if rng.random() < 0.5 else None,
    )


@dataclass(frozen=True, eq=False)
class Batch:
    """A ragged batch of feasible sequences that share start and end."""

    unary: list[Array]
    transition: Array | list[Array]
    start: Array
    end: Array
    mask: list[Array]
    labels: list[Array]

    @property
    def lengths(self) -> Array:
        return np.array([len(u) for u in self.unary])

    def as_list(self) -> dict[str, Any]:
        return dict(vars(self))

    def one(self, b: int) -> dict[str, Any]:
        transition = self.transition
        return {
            "unary": self.unary[b],
            "transition": transition[b] if isinstance(transition, list) else transition,
            "start": self.start,
            "end": self.end,
            "mask": self.mask[b],
            "labels": self.labels[b],
        }

    def padded(self, extra: int = 2) -> dict[str, Any]:
        """Return a padded batch. The padding is NaN or an invalid label, to detect reads of it."""
        length = int(self.lengths.max()) + extra
        transition = self.transition
        if isinstance(transition, list):
            transition = _pad(transition, length - 1, np.nan)
        return {
            "unary": _pad(self.unary, length, np.nan),
            "transition": transition,
            "start": self.start,
            "end": self.end,
            "mask": _pad(self.mask, length, True),
            "labels": _pad(self.labels, length, 10**6),
            "lengths": self.lengths,
        }


def _pad(arrays: Sequence[Array], length: int, fill: Any) -> Array:
    padded = np.full((len(arrays), length, *arrays[0].shape[1:]), fill, arrays[0].dtype)
    for b, array in enumerate(arrays):
        padded[b, : len(array)] = array
    return padded


def make_batch(
    seed: int, lengths: Sequence[int], n_labels: int, *, positional: bool = False
) -> Batch:
    """Return random scores, some of them forbidden. The path of only label 0 is allowed."""
    rng = np.random.default_rng(seed)

    def scores(shape: tuple[int, ...], always: tuple[Any, ...]) -> Array:
        values = rng.normal(0.0, 2.0, shape)
        values[rng.random(shape) < 0.15] = -np.inf
        values[always] = 0.25
        return values

    first, stay, square = (..., 0), (..., 0, 0), (n_labels, n_labels)
    unary = [scores((length, n_labels), first) for length in lengths]
    mask = [rng.random(u.shape) < 0.9 for u in unary]
    for allowed in mask:
        allowed[:, 0] = True
    transition = (
        [scores((length - 1, *square), stay) for length in lengths]
        if positional
        else scores(square, stay)
    )
    labels = [rng.integers(n_labels, size=length) for length in lengths]
    start, end = scores((n_labels,), first), scores((n_labels,), first)
    return Batch(unary, transition, start, end, mask, labels)


def run_all(
    engine: Any, scores: dict[str, Any], rng: np.random.Generator, *, k: int = 4, n: int = 3
) -> dict[str, Any]:
    """Run every routine; return {"routine" or "routine.field": result}."""
    common = {key: value for key, value in scores.items() if key != "labels"}
    labels = scores["labels"]
    results = {
        "score": engine.score(**common, labels=labels),
        "log_partition": engine.log_partition(**common),
        "log_prob": engine.log_prob(**common, labels=labels),
        "sample": engine.sample(**common, n=n, random_state=rng),
        "entropy": engine.entropy(**common),
        "max_marginals": engine.max_marginals(**common),
    }
    fields = {
        "marginals": (engine.marginals(**common), ("unary", "pairwise", "log_partition")),
        "expected_counts": (
            engine.expected_counts(**common),
            ("unary", "transition", "start", "end", "log_partition"),
        ),
        "viterbi": (engine.viterbi(**common), ("labels", "score")),
        "kbest": (engine.kbest(**common, k=k), ("labels", "score")),
        "forward": (engine.forward(**common), ("alpha", "log_partition")),
        "backward": (engine.backward(**common), ("beta", "log_partition")),
        "viterbi_table": (engine.viterbi_table(**common), ("score", "back_pointer")),
    }
    for routine, (result, names) in fields.items():
        results |= {f"{routine}.{name}": getattr(result, name) for name in names}
    return results
