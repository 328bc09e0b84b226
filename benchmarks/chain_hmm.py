"""Models, calls of hmmlearn and checks that the chain benchmarks against hmmlearn share.

This module measures nothing. It calls hmmlearn as hmmlearn.base does, one sequence at a time.
"""

from __future__ import annotations

import gzip
from types import ModuleType
from typing import NamedTuple

import numpy as np
from corpora import find
from hmmlearn import _hmmc
from hmmlearn.utils import log_normalize, normalize
from timing import check_close

CONLL = find("chunking/conll2000.train.conll.gz")
PART = 1000  # sequences in one call of ours


class Hmm(NamedTuple):
    """A hidden Markov model and its observations, as probabilities and as log scores."""

    start: np.ndarray  # (L,)
    transition: np.ndarray  # (L, L)
    frames: list[np.ndarray]  # (T, L) each: p(x_t | state), for hmmlearn's scaling version
    unary: list[np.ndarray]  # log of the frames, for all other functions

    def scores(self) -> tuple[np.ndarray, np.ndarray]:
        """Return log transition and log start, in the order of the arguments of trellis."""
        return np.log(self.transition), np.log(self.start)

    def parts(self) -> list[list[np.ndarray]]:
        """Return the log scores as lists of PART sequences, as if a corpus were read in parts."""
        return [self.unary[i : i + PART] for i in range(0, len(self.unary), PART)]


def pad(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return log scores of shape (B, T, L), with NaN in the padding, and the lengths."""
    lengths = np.array([len(unary) for unary in sequences])
    batch = np.full((len(lengths), lengths.max(), sequences[0].shape[1]), np.nan)
    for row, unary in zip(batch, sequences, strict=True):
        row[: len(unary)] = unary
    return batch, lengths


def conll_lengths() -> np.ndarray:
    """Return the sentence lengths of CoNLL-2000 train, or 8,936 random ones if it is absent.

    The random lengths have the same mean and range.
    """
    if not CONLL.exists():
        drawn = np.random.default_rng(0).gamma(4.2, 23.7 / 4.2, 8936)
        return np.clip(np.rint(drawn), 1, 78).astype(int)
    sentences = gzip.decompress(CONLL.read_bytes()).decode().strip().split("\n\n")
    return np.array([len(sentence.splitlines()) for sentence in sentences])


def make_hmm(lengths: np.ndarray, labels: int) -> Hmm:
    """Return a random model. The sequences are views of one array, as in hmmlearn."""
    rng = np.random.default_rng(labels)
    unary = -2.0 * rng.standard_exponential((int(lengths.sum()), labels))
    cuts = np.cumsum(lengths)[:-1]
    return Hmm(
        start=rng.dirichlet(np.ones(labels)),
        transition=rng.dirichlet(np.ones(labels), labels),
        frames=np.split(np.exp(unary), cuts),
        unary=np.split(unary, cuts),
    )


# ---- hmmlearn


def hmm_scaling(hmm: Hmm, posterior: bool) -> tuple[list[float], list[np.ndarray]]:
    """Run forward and backward on probabilities, and the NumPy posterior step if requested."""
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
    """Run forward and backward on log probabilities, which is the default of hmmlearn."""
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
    """Return (score, labels) of each sequence."""
    return [_hmmc.viterbi(hmm.start, hmm.transition, unary) for unary in hmm.unary]


# ---- checks that both sides agree: the time of a wrong result means nothing


def check_marginals(chain: ModuleType, hmm: Hmm) -> None:
    """Check log-likelihoods and posteriors of every timed call against hmmlearn."""
    values, posteriors = hmm_scaling(hmm, posterior=True)
    for n_jobs in (1, 2):
        ours = chain.marginals(hmm.unary, *hmm.scores(), n_jobs=n_jobs)
        check_close("log-likelihood", ours.log_partition, values)
        check_close("posteriors", np.concatenate(ours.unary), np.concatenate(posteriors))
        for number, part in enumerate(hmm.parts()):
            window = slice(number * PART, (number + 1) * PART)
            rows = np.concatenate(posteriors[window])
            listed = chain.marginals(part, *hmm.scores(), n_jobs=n_jobs)
            check_close("log-likelihood (part)", listed.log_partition, values[window])
            check_close("posteriors (part)", np.concatenate(listed.unary), rows)
            batch, lengths = pad(part)
            ours = chain.marginals(batch, *hmm.scores(), lengths=lengths, n_jobs=n_jobs)
            check_close("log-likelihood (padded)", ours.log_partition, values[window])
            inside = np.arange(batch.shape[1]) < lengths[:, None]
            check_close("posteriors (padded)", ours.unary[inside], rows)


def check_viterbi(chain: ModuleType, hmm: Hmm) -> None:
    """Check the scores of best paths against hmmlearn; the paths may differ in ties."""
    scores = [score for score, _ in hmm_viterbi(hmm)]
    batch, lengths = pad(hmm.unary)
    for n_jobs in (1, 2):
        ours = chain.viterbi(hmm.unary, *hmm.scores(), n_jobs=n_jobs)
        parts = [chain.viterbi(part, *hmm.scores(), n_jobs=n_jobs) for part in hmm.parts()]
        check_close("best score (parts)", np.concatenate([p.score for p in parts]), scores)
        rows = chain.viterbi(batch, *hmm.scores(), lengths=lengths, n_jobs=n_jobs)
        cut = [row[:length] for row, length in zip(rows.labels, lengths, strict=True)]
        for what, result, labels in (("", ours, ours.labels), (" (padded)", rows, cut)):
            check_close("best score" + what, result.score, scores)
            check_close("score of the best path" + what, path_scores(hmm, labels), scores)


def check_long(chain: ModuleType, hmm: Hmm) -> None:
    """Check marginals and best paths of one long sequence against hmmlearn."""
    transition, start = hmm.scores()
    values, posteriors = hmm_scaling(hmm, posterior=True)
    score = hmm_viterbi(hmm)[0][0]
    for n_jobs in (1, 2):
        ours = chain.marginals(hmm.unary[0], transition, start, n_jobs=n_jobs)
        check_close("log-likelihood", ours.log_partition, values[0])
        check_close("posteriors", ours.unary, posteriors[0])
        best = chain.viterbi(hmm.unary[0], transition, start, n_jobs=n_jobs)
        check_close("best score", best.score, score)
        check_close("score of the best path", path_scores(hmm, [best.labels]), [score])


def path_scores(hmm: Hmm, labels: list[np.ndarray]) -> list[float]:
    """start[y₀] + Σ unary[t, y_t] + Σ transition[y_{t-1}, y_t], in plain NumPy."""
    transition, start = hmm.scores()
    return [
        start[path[0]] + u[np.arange(len(u)), path].sum() + transition[path[:-1], path[1:]].sum()
        for u, path in zip(hmm.unary, labels, strict=True)
    ]
