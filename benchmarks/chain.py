"""Linear-chain inference: trellis beside hmmlearn, pytorch-crf and torch-struct in one run.

No time is printed before both sides have given the same numbers.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from hmmlearn import _hmmc
from hmmlearn.utils import log_normalize, normalize

from machine import Limits, added_peak, measure
from timing import (
    Case,
    Table,
    Times,
    Timing,
    check_close,
    describe_machine,
    milliseconds,
    ratio,
    save_json,
    time_alternating,
)

EXAMPLES = """examples:
  python benchmarks/chain.py                          everything, about three minutes
  python benchmarks/chain.py --quick --only ragged    one section, few repeats
  python benchmarks/chain.py --json chain.json --markdown
  python benchmarks/chain.py --peers-only             when trellis is not built
"""
CONLL = Path(__file__).parents[2] / "shared" / "data" / "chunking" / "conll2000.train.conll.gz"
# labels -> sequences: few enough that hmmlearn's log form takes about two seconds
RAGGED = {5: 8936, 22: 8936, 50: 1500, 128: 300, 300: 60}
LONG_T, LONG_L = 1_000_000, 9
SHAPES = ((32, 64, 20), (64, 256, 50), (16, 512, 128), (8, 4096, 9))  # B, T, L of BASELINES
LARGEST_TENSOR = 4e9  # bytes; torch-struct holds several of its largest
PACKAGES = ("trellis", "numpy", "hmmlearn", "torch", "pytorch-crf", "torch-struct")


class Hmm(NamedTuple):
    """A hidden Markov model and its observations, as probabilities and as log scores."""

    start: np.ndarray  # (L,)
    transition: np.ndarray  # (L, L)
    frames: list[np.ndarray]  # p(x_t | state), what hmmlearn's scaling form takes
    unary: list[np.ndarray]  # log of the frames, what all others take

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Log transition and log start, in the order of trellis' arguments."""
        return np.log(self.transition), np.log(self.start)

    def padded(self) -> tuple[np.ndarray, np.ndarray]:
        """(B, T, L) log scores, NaN beyond the ends, and the lengths."""
        lengths = np.array([len(unary) for unary in self.unary])
        batch = np.full((len(lengths), lengths.max(), len(self.start)), np.nan)
        for row, unary in zip(batch, self.unary, strict=True):
            row[: len(unary)] = unary
        return batch, lengths


def conll_lengths() -> np.ndarray:
    """The sentence lengths of CoNLL-2000 train, or 8,936 drawn with the same mean and range."""
    if not CONLL.exists():
        drawn = np.random.default_rng(0).gamma(4.2, 23.7 / 4.2, 8936)
        return np.clip(np.rint(drawn), 1, 78).astype(int)
    sentences = gzip.decompress(CONLL.read_bytes()).decode().strip().split("\n\n")
    return np.array([len(sentence.splitlines()) for sentence in sentences])


def make_hmm(lengths: np.ndarray, labels: int) -> Hmm:
    """Random probabilities; the sequences are views into one array, as hmmlearn cuts them."""
    rng = np.random.default_rng(labels)
    unary = -2.0 * rng.standard_exponential((int(lengths.sum()), labels))
    cuts = np.cumsum(lengths)[:-1]
    return Hmm(
        start=rng.dirichlet(np.ones(labels)),
        transition=rng.dirichlet(np.ones(labels), labels),
        frames=np.split(np.exp(unary), cuts),
        unary=np.split(unary, cuts),
    )


# ---- hmmlearn, called one sequence after the other as hmmlearn.base does


def hmm_scaling(hmm: Hmm, posterior: bool) -> tuple[list[float], list[np.ndarray]]:
    """Forward and backward on probabilities; the NumPy posterior step only on request."""
    values, posteriors = [], []
    for frames in hmm.frames:
        value, forward, scaling = _hmmc.forward_scaling(hmm.start, hmm.transition, frames)
        backward = _hmmc.backward_scaling(hmm.start, hmm.transition, frames, scaling)
        values.append(value)
        if posterior:
            gamma = forward * backward
            normalize(gamma, axis=1)
            posteriors.append(gamma)
    return values, posteriors


def hmm_log(hmm: Hmm, posterior: bool) -> tuple[list[float], list[np.ndarray]]:
    """Forward and backward on log probabilities, hmmlearn's default."""
    values, posteriors = [], []
    for unary in hmm.unary:
        value, forward = _hmmc.forward_log(hmm.start, hmm.transition, unary)
        backward = _hmmc.backward_log(hmm.start, hmm.transition, unary)
        values.append(value)
        if posterior:
            gamma = forward + backward
            log_normalize(gamma, axis=1)
            posteriors.append(np.exp(gamma))
    return values, posteriors


def hmm_viterbi(hmm: Hmm) -> list[tuple[float, np.ndarray]]:
    """(score, labels) of each sequence."""
    return [_hmmc.viterbi(hmm.start, hmm.transition, unary) for unary in hmm.unary]


# ---- agreement: no speed-up of a wrong result


def check_marginals(chain: ModuleType, hmm: Hmm) -> None:
    """Log-likelihoods and posteriors of ours, in every form that is timed, against hmmlearn."""
    values, posteriors = hmm_scaling(hmm, posterior=True)
    batch, lengths = hmm.padded()
    for n_jobs in (1, 2):
        ours = chain.marginals(hmm.unary, *hmm.scores(), n_jobs=n_jobs)
        check_close("log-likelihood", ours.log_partition, values)
        check_close("posteriors", np.concatenate(ours.unary), np.concatenate(posteriors))
        ours = chain.marginals(batch, *hmm.scores(), lengths=lengths, n_jobs=n_jobs)
        check_close("log-likelihood (padded)", ours.log_partition, values)
        inside = np.arange(batch.shape[1]) < lengths[:, None]
        check_close("posteriors (padded)", ours.unary[inside], np.concatenate(posteriors))


def check_viterbi(chain: ModuleType, hmm: Hmm) -> None:
    """Scores of ours against hmmlearn's, and of our paths scored here: ties may differ."""
    scores = [score for score, _ in hmm_viterbi(hmm)]
    batch, lengths = hmm.padded()
    for n_jobs in (1, 2):
        ours = chain.viterbi(hmm.unary, *hmm.scores(), n_jobs=n_jobs)
        padded = chain.viterbi(batch, *hmm.scores(), lengths=lengths, n_jobs=n_jobs)
        cut = [row[:length] for row, length in zip(padded.labels, lengths, strict=True)]
        for what, result, labels in (("", ours, ours.labels), (" (padded)", padded, cut)):
            check_close("best score" + what, result.score, scores)
            check_close("score of the best path" + what, path_scores(hmm, labels), scores)


def path_scores(hmm: Hmm, labels: list[np.ndarray]) -> list[float]:
    """start[y₀] + Σ unary[t, y_t] + Σ transition[y_{t-1}, y_t], by nobody's engine."""
    transition, start = hmm.scores()
    return [
        start[path[0]] + u[np.arange(len(u)), path].sum() + transition[path[:-1], path[1:]].sum()
        for u, path in zip(hmm.unary, labels, strict=True)
    ]


# ---- section 1: a ragged batch


def ours_cases(function: Callable[..., Any], hmm: Hmm) -> list[Case]:
    """One engine function on the list and on the padded batch, on one and on two threads."""
    scores = hmm.scores()
    batch, lengths = hmm.padded()
    cases = []
    for n in (1, 2):
        cases += [
            Case(f"list {n}", lambda n=n: function(hmm.unary, *scores, n_jobs=n)),
            Case(f"padded {n}", lambda n=n: function(batch, *scores, lengths=lengths, n_jobs=n)),
        ]
    return cases


def time_marginals(chain: ModuleType | None, hmm: Hmm, repeats: int) -> Times:
    """Forward-backward with unary marginals."""
    check_close("hmmlearn's two forms", hmm_log(hmm, False)[0], hmm_scaling(hmm, False)[0])
    if chain:
        check_marginals(chain, hmm)
    slow = 1 if repeats <= 3 else 3
    cases = [
        Case("scaling", lambda: hmm_scaling(hmm, False)),
        Case("scaling+post", lambda: hmm_scaling(hmm, True)),
        Case("log", lambda: hmm_log(hmm, False), slow),
        Case("log+post", lambda: hmm_log(hmm, True), slow),
    ]
    ours = ours_cases(chain.marginals, hmm) if chain else []
    return time_alternating(cases + ours, repeats)


def time_viterbi(chain: ModuleType | None, hmm: Hmm, repeats: int) -> Times:
    """Best paths."""
    if chain:
        check_viterbi(chain, hmm)
    ours = ours_cases(chain.viterbi, hmm) if chain else []
    return time_alternating([Case("viterbi", lambda: hmm_viterbi(hmm)), *ours], repeats)


def ragged(chain: ModuleType | None, repeats: int, quick: bool) -> list[Table]:
    """Tables of marginals and Viterbi, and how far ours is from the machine's limits."""
    size = ("L", "sequences", "tokens")
    ours = ("list 1", "padded 1", "list 2", "padded 2")
    peers = ("log", "log+post", "scaling", "scaling+post")
    gain = ("peer / list 1", "at minima", "1 / 2 threads")
    forward = Table("Ragged batch, marginals, ms", (*size, *peers, *ours, *gain))
    best = Table("Ragged batch, Viterbi, ms", (*size, "viterbi", *ours, *gain))
    every = conll_lengths()
    origin = "of CoNLL-2000 train" if CONLL.exists() else "drawn, as CoNLL-2000 is not here"
    forward.notes = [
        f"sequence lengths {origin}; medians; float64",
        "hmmlearn: C++ forward + backward; post: with its NumPy posteriors; scaling: its exp of",
        "the scores is not timed. peer: the faster of log and scaling, both without posteriors.",
        "ours (list, padded; 1 or 2 threads): all, from log scores to marginals, checks included.",
    ]
    timed = []
    for labels, count in RAGGED.items():
        hmm = make_hmm(every[:count], labels)
        row = (labels, len(hmm.unary), sum(map(len, hmm.unary)))
        for table, timer in ((forward, time_marginals), (best, time_viterbi)):
            times = timer(chain, hmm, repeats)
            table.keep(f"L={labels}", times)
            names = table.columns[len(size) : -len(gain)]
            peer = min(times[n] for n in ("log", "scaling", "viterbi") if n in times)
            ours_1 = times.get("list 1")
            gains = (
                ratio(peer, ours_1),
                ratio(peer, ours_1, "minimum"),
                ratio(ours_1, times.get("list 2")),
            )
            table.add(*row, *(milliseconds(times.get(name)) for name in names), *gains)
            timed.append((table is forward, *row, times.get("list 1")))
    return [forward, best, *([limits_table(timed, measure(quick))] if chain else [])]


# ---- section 4: distance to the machine's limit


def limits_table(timed: list[tuple[bool, int, int, int, Timing]], limits: Limits) -> Table:
    """GFLOP/s and GB/s of ours on one thread beside what one core was measured to do."""
    columns = ("function", "L", "ms", "GFLOP/s", "% peak", "GB/s", "% stream", "Mexp/s", "x bound")
    table = Table("Ours on one thread, distance to the machine's limit", columns)
    table.notes = [
        f"one core: {limits.gflops:.1f} GFLOP/s (float64 matrix product), {limits.copy_1:.1f} GB/s "
        f"copy ({limits.copy_cached:.1f} within 32 MB); two cores: {limits.copy_2:.1f} GB/s",
        "marginals: 4 L² flops a token (a multiply-add is two), L exp; Viterbi: 2 L² (an add and a",
        "max, which cannot fuse: its peak is half). Bytes: scores read and results written, once.",
        "x bound: time over the larger of flops / peak and bytes / stream.",
    ]
    for marginal, labels, count, tokens, timing in timed:
        flops = (4 if marginal else 2) * labels**2 * tokens
        peak = limits.gflops * (1.0 if marginal else 0.5)
        written = tokens * labels if marginal else tokens
        moved = 8 * (tokens * labels + written + count)
        gflops, gbytes = flops / timing.median / 1e9, moved / timing.median / 1e9
        bound = max(flops / peak, moved / limits.copy_1) / 1e9
        table.add(
            "marginals" if marginal else "viterbi",
            labels,
            milliseconds(timing),
            gflops,
            100 * gflops / peak,
            gbytes,
            100 * gbytes / limits.copy_1,
            tokens * labels / timing.median / 1e6 if marginal else None,
            timing.median / bound,
        )
    return table


# ---- section 2: one long sequence


def long(chain: ModuleType | None, repeats: int) -> list[Table]:
    """Time and memory on one sequence of a million positions."""
    hmm = make_hmm(np.array([LONG_T]), LONG_L)
    if chain:
        check_long(chain, hmm)
    unary, scores = hmm.unary[0], hmm.scores()
    table = Table(
        f"One sequence, T = {LONG_T:,}, L = {LONG_L}",
        ("function", "hmmlearn ms", "ours 1 ms", "ours 2 ms", "peer / ours 1", "at minima"),
    )
    table.notes = ["hmmlearn: scaling, C++ only, exp not timed; ours 1, 2: n_jobs"]
    peers = {"marginals": lambda: hmm_scaling(hmm, False), "viterbi": lambda: hmm_viterbi(hmm)}
    for name, peer in peers.items():
        cases = [Case("peer", peer)]
        for n in (1, 2) if chain else ():
            function = getattr(chain, name)
            cases.append(Case(f"{n}", lambda f=function, n=n: f(unary, *scores, n_jobs=n)))
        times = time_alternating(cases, repeats)
        table.keep(name, times)
        shown = (milliseconds(times.get(case)) for case in ("peer", "1", "2"))
        gains = (ratio(times["peer"], times.get("1"), at) for at in ("median", "minimum"))
        table.add(name, *shown, *gains)
    return [table, memory_table(chain is not None)]


def check_long(chain: ModuleType, hmm: Hmm) -> None:
    """As for the ragged batch, for the one-sequence form."""
    transition, start = hmm.scores()
    values, posteriors = hmm_scaling(hmm, posterior=True)
    ours = chain.marginals(hmm.unary[0], transition, start, n_jobs=1)
    check_close("log-likelihood", ours.log_partition, values[0])
    check_close("posteriors", ours.unary, posteriors[0])
    best = chain.viterbi(hmm.unary[0], transition, start, n_jobs=1)
    score = hmm_viterbi(hmm)[0][0]
    check_close("best score", best.score, score)
    check_close("score of the best path", path_scores(hmm, [best.labels]), [score])


def memory_table(with_ours: bool) -> Table:
    """Peak memory of each call in a process of its own, in multiples of the score array."""
    scores = LONG_T * LONG_L * 8
    table = Table(
        f"Peak memory, T = {LONG_T:,}, L = {LONG_L}: float64 scores of {scores / 1e6:.0f} MB",
        ("call", "added MB", "x scores, input not counted", "x scores, input counted"),
    )
    table.notes = ["added: peak resident memory during the call less that before; results count"]
    ours = ("ours marginals", "ours viterbi") if with_ours else ()
    for name in (*ours, "hmmlearn marginals", "hmmlearn viterbi"):
        command = [sys.executable, __file__, "--probe", name]
        reply = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        added = json.loads(reply.stdout)
        times = None if added is None else added / scores
        table.add(name, added and added / 1e6, times, None if times is None else times + 1)
    return table


def probe_memory(name: str) -> None:
    """In a fresh process: print the bytes that one call adds at its peak."""
    side, function = name.split()
    rng = np.random.default_rng(0)
    start, transition = np.full(LONG_L, 1 / LONG_L), np.full((LONG_L, LONG_L), 1 / LONG_L)

    def call(unary: np.ndarray) -> Any:
        if side == "ours":
            return getattr(load_ours(), function)(unary, transition, start, n_jobs=1)
        hmm = Hmm(start, transition, [unary], [unary])
        return hmm_viterbi(hmm) if function == "viterbi" else hmm_scaling(hmm, posterior=True)

    call(rng.random((10, LONG_L)))  # imports and threads are not memory of the call
    unary = rng.random((LONG_T, LONG_L))  # scores to ours, probabilities to hmmlearn
    print(json.dumps(added_peak(lambda: call(unary))))


# ---- section 3: CRF layers for torch


class Crf(NamedTuple):
    """A padded batch with gold labels, float64."""

    unary: np.ndarray  # (B, T, L)
    transition: np.ndarray
    start: np.ndarray
    end: np.ndarray
    lengths: np.ndarray
    labels: np.ndarray  # (B, T), 0 beyond the ends
    inside: np.ndarray  # (B, T) bool

    def scores(self, dtype: type) -> tuple[np.ndarray, ...]:
        """The arguments of ours in one precision."""
        return tuple(array.astype(dtype) for array in self[:4])


class Gradients(NamedTuple):
    """Σ (log Z − score) over the batch and its derivatives."""

    value: float
    unary: np.ndarray
    transition: np.ndarray
    start: np.ndarray
    end: np.ndarray


def make_crf(batch: int, steps: int, labels: int) -> Crf:
    """Normal scores, lengths T/2..T; the first is T because torch-struct insists on one."""
    rng = np.random.default_rng(steps)
    lengths = rng.integers(steps // 2, steps + 1, batch)
    lengths[0] = steps
    inside = np.arange(steps) < lengths[:, None]
    return Crf(
        unary=rng.standard_normal((batch, steps, labels)),
        transition=rng.standard_normal((labels, labels)),
        start=rng.standard_normal(labels),
        end=rng.standard_normal(labels),
        lengths=lengths,
        labels=np.where(inside, rng.integers(0, labels, (batch, steps)), 0),
        inside=inside,
    )


def ours_train(chain: ModuleType, crf: Crf, scores: tuple[np.ndarray, ...]) -> Gradients:
    """Expected less observed counts: what autograd returns for the loss of a CRF layer."""
    count = len(crf.start)
    expected = chain.expected_counts(*scores, lengths=crf.lengths, n_jobs=2)
    gold = chain.score(*scores, labels=crf.labels, lengths=crf.lengths, n_jobs=2)
    rows, steps = np.nonzero(crf.inside)
    expected.unary[rows, steps, crf.labels[rows, steps]] -= 1
    pairs = (count * crf.labels[:, :-1] + crf.labels[:, 1:])[crf.inside[:, 1:]]
    last = crf.labels[np.arange(len(crf.lengths)), crf.lengths - 1]
    return Gradients(
        float(np.sum(expected.log_partition) - np.sum(gold)),
        expected.unary,
        expected.transition - np.bincount(pairs, minlength=count**2).reshape(count, count),
        expected.start - np.bincount(crf.labels[:, 0], minlength=count),
        expected.end - np.bincount(last, minlength=count),
    )


class TorchPeers:
    """pytorch-crf and torch-struct on one batch, with the same parameters."""

    def __init__(self, crf: Crf, dtype: str) -> None:
        import torch
        import torchcrf

        self.torch, self.dtype = torch, getattr(torch, dtype)
        self.layer = torchcrf.CRF(len(crf.start), batch_first=True).to(self.dtype)
        with torch.no_grad():
            self.layer.transitions.copy_(torch.from_numpy(crf.transition))
            self.layer.start_transitions.copy_(torch.from_numpy(crf.start))
            self.layer.end_transitions.copy_(torch.from_numpy(crf.end))
        self.unary = torch.from_numpy(crf.unary).to(self.dtype).requires_grad_()
        self.lengths, self.labels = torch.from_numpy(crf.lengths), torch.from_numpy(crf.labels)
        self.inside = torch.from_numpy(crf.inside)
        self.gold: Any = None  # torch-struct's one-hot edges, made once outside the timing

    def _gradients(self, loss: Any) -> Gradients:
        leaves = (
            self.unary,
            self.layer.transitions,
            self.layer.start_transitions,
            self.layer.end_transitions,
        )
        for leaf in leaves:
            leaf.grad = None
        loss.backward()
        return Gradients(loss.item(), *(leaf.grad.numpy() for leaf in leaves))

    def crf_train(self) -> Gradients:
        """pytorch-crf: loss and backward."""
        return self._gradients(-self.layer(self.unary, self.labels, self.inside, reduction="sum"))

    def crf_decode(self) -> list[list[int]]:
        """pytorch-crf: best paths."""
        with self.torch.no_grad():
            return self.layer.decode(self.unary, self.inside)

    def _struct(self) -> Any:
        """torch-struct takes edge scores (B, T-1, next, previous), so all is folded into them."""
        from torch_struct import LinearChainCRF

        unary, layer = self.unary.clone(), self.layer
        unary[:, 0] += layer.start_transitions
        unary[self.torch.arange(len(unary)), self.lengths - 1] += layer.end_transitions
        edges = layer.transitions.T.contiguous() + unary[:, 1:, :, None]
        edges[:, 0] += unary[:, 0, None, :]
        return LinearChainCRF(edges, lengths=self.lengths)

    def struct_train(self) -> Gradients:
        """torch-struct: log_prob and backward."""
        if self.gold is None:
            from torch_struct import LinearChain

            labels = self.unary.shape[-1]
            self.gold = LinearChain.to_parts(self.labels, labels, self.lengths).to(self.dtype)
        return self._gradients(-self._struct().log_prob(self.gold).sum())

    def struct_argmax(self) -> Any:
        """torch-struct: best paths as one-hot edges; its slow from_parts is left out."""
        return self._struct().argmax


def struct_bytes(batch: int, steps: int, labels: int) -> int:
    """torch-struct's first merge broadcasts (B, T/2, L, L, L) float32."""
    return batch * steps // 2 * labels**3 * 4


def check_gradients(what: str, left: Gradients, right: Gradients, tolerance: float) -> None:
    """Value and every gradient."""
    for field, a, b in zip(Gradients._fields, left, right, strict=True):
        check_close(f"{what}, {field}", a, b, tolerance)


def check_crf(chain: ModuleType | None, crf: Crf, with_struct: bool) -> None:
    """All in float64 to 1e-8; then ours in float32 to what float32 can hold."""
    peers = TorchPeers(crf, "float64")
    exact = peers.crf_train()
    best = crf_path_scores(crf, peers.crf_decode())
    if with_struct:
        check_gradients("torch-struct", peers.struct_train(), exact, 1e-8)
        edges = peers._struct()
        check_close("torch-struct best", edges.max.detach().squeeze(), best)
    for dtype, tolerance in ((np.float64, 1e-8), (np.float32, 1e-3)) if chain else ():
        scores = crf.scores(dtype)
        check_gradients(dtype.__name__, ours_train(chain, crf, scores), exact, tolerance)
        ours = chain.viterbi(*scores, lengths=crf.lengths, n_jobs=2)
        check_close("best score", ours.score, best, tolerance)
        check_close("score of the best path", crf_path_scores(crf, ours.labels), best, tolerance)


def crf_path_scores(crf: Crf, labels: Any) -> list[float]:
    """Scores of one labelling a sequence, each cut to its length, in float64."""
    scores = []
    for unary, path, length in zip(crf.unary, labels, crf.lengths, strict=True):
        path = np.asarray(path)[:length]
        score = crf.start[path[0]] + unary[np.arange(length), path].sum() + crf.end[path[-1]]
        scores.append(score + crf.transition[path[:-1], path[1:]].sum())
    return scores


def torch_section(chain: ModuleType | None, repeats: int) -> list[Table]:
    """Training step and decoding of CRF layers, two threads each."""
    import torch

    torch.set_num_threads(2)
    torch.distributions.Distribution.set_default_validate_args(False)  # torch-struct has no checks
    columns = ("B, T, L", "task", "pytorch-crf", "torch-struct", "ours float32", "ours float64")
    table = Table(
        "CRF layers, 2 threads, ms",
        (*columns, "/ pytorch-crf", "at minima", "/ torch-struct", "at minima "),
    )
    table.notes = [
        "peers float32; lengths T/2..T; train: loss and all gradients; ratios to ours float32",
        "ours: expected_counts, score and the observed counts subtracted in NumPy",
        "torch-struct: gold edges made outside the timing, argmax left as one-hot edges",
    ]
    for shape in SHAPES:
        crf, size = make_crf(*shape), struct_bytes(*shape)
        if size > LARGEST_TENSOR:
            table.notes.append(
                f"torch-struct skipped at {shape}: one tensor of {size / 1e9:.1f} GB"
            )
        check_crf(chain, crf, size <= LARGEST_TENSOR)
        for task, cases in torch_cases(chain, crf, size <= LARGEST_TENSOR).items():
            times = time_alternating(cases, repeats)
            table.keep(f"{shape} {task}", times)
            ours = times.get("ours float32")
            gains = (
                ratio(times.get(peer), ours, at)
                for peer in columns[2:4]
                for at in ("median", "minimum")
            )
            shown = (milliseconds(times.get(name)) for name in columns[2:])
            table.add(", ".join(map(str, shape)), task, *shown, *gains)
    return [table]


def torch_cases(chain: ModuleType | None, crf: Crf, with_struct: bool) -> dict[str, list[Case]]:
    """The cases of both tasks."""
    peers = TorchPeers(crf, "float32")
    train, decode = [Case("pytorch-crf", peers.crf_train)], [Case("pytorch-crf", peers.crf_decode)]
    if with_struct:
        train.append(Case("torch-struct", peers.struct_train))
        decode.append(Case("torch-struct", peers.struct_argmax))
    for dtype in (np.float32, np.float64) if chain else ():
        scores, name = crf.scores(dtype), f"ours {dtype.__name__}"
        train.append(Case(name, lambda scores=scores: ours_train(chain, crf, scores)))
        best = lambda scores=scores: chain.viterbi(*scores, lengths=crf.lengths, n_jobs=2)  # noqa: E731
        decode.append(Case(name, best))
    return {"train": train, "decode": decode}


# ---- command line


def load_ours() -> ModuleType:
    """trellis.inference.chain, or an exit that says what to do."""
    try:
        return importlib.import_module("trellis.inference.chain")
    except ImportError as error:
        sys.exit(f"trellis cannot be imported ({error}): install it, or use --peers-only")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="3 repeats instead of 9")
    parser.add_argument("--only", choices=("ragged", "long", "torch"), help="run one section")
    parser.add_argument("--peers-only", action="store_true", help="leave ours out")
    parser.add_argument("--json", type=Path, metavar="PATH", help="also save everything here")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--probe", help=argparse.SUPPRESS)  # memory_table calls itself with it
    return parser.parse_args()


def main() -> None:
    """Run the sections asked for and print their tables as they come."""
    options = arguments()
    if options.probe:
        return probe_memory(options.probe)
    chain = None if options.peers_only else load_ours()
    repeats = 3 if options.quick else 9
    machine = describe_machine(PACKAGES)
    print("\n".join(f"{name}: {value}" for name, value in machine.items()))
    sections: dict[str, Callable[[], list[Table]]] = {
        "ragged": lambda: ragged(chain, repeats, options.quick),
        "long": lambda: long(chain, repeats),
        "torch": lambda: torch_section(chain, repeats),
    }
    tables = []
    for name, section in sections.items():
        if options.only in (None, name):
            made = section()
            tables += made
            print("\n".join(table.text(options.markdown) for table in made), flush=True)
    if options.json:
        save_json(options.json, machine, tables)


if __name__ == "__main__":
    main()
