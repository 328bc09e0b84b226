"""The scores of a tagger: those of its network and, in a hybrid, α times those of a linear CRF.

    p(y | x) ∝ p_network(y | x) · p_CRF(y | x)^α

The two models of a hybrid are trained independently. A network trained together with the scores of
a fitted CRF would learn little: the CRF has seen the training data and is almost always right
there, so there would be no errors left to learn from.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from trellis import metrics
from trellis.data import tags
from trellis.errors import InputError
from trellis.estimator import clone
from trellis.inference import chain
from trellis.models.chain.crf import CRF
from trellis.models.chain.memm import by_step
from trellis.nn.tagger.data import Corpus, Epoch, bucket_by_length
from trellis.nn.tagger.heads import MEMM
from trellis.nn.tagger.network import Network

__all__ = [
    "ALPHAS",
    "DevScore",
    "LinearScores",
    "build_linear",
    "check_linear",
    "choose_metric",
    "compute_scores",
    "decode_custom",
    "head_scores",
    "score_linear",
    "tempered_scores",
]

Metric: TypeAlias = Callable[[list[list[Any]], list[list[Any]]], float]
DevScore: TypeAlias = Callable[..., float]
"""A function ``score(alpha=1.0)`` that returns the development score with the weight α."""

ALPHAS = (1.0, 0.25, 0.5, 2.0, 4.0)
"""Candidates for α. Without a development set, α is the first of them."""
_L2, _MAX_ITER = 0.3, 100
_BATCH_SIZE = 128  # sequences; prediction needs less memory than training


# ---- the linear part of a hybrid


class LinearScores(NamedTuple):
    """Scores of the linear part for some sequences."""

    unary: list[NDArray[np.float64]]
    """(length, labels) per sequence."""
    transition: NDArray[np.float64]
    """(labels, labels)"""


def build_linear(features: Any, head: Any, n_jobs: int | None) -> CRF | None:
    """Return the unfitted CRF for the setting ``features``, or None if it is None."""
    if features is None:
        return None
    if head not in ("crf", "softmax"):
        raise InputError(f"features need head='crf' or 'softmax', not {head!r}")
    if isinstance(features, CRF):
        model: CRF = clone(features)
        return model
    if isinstance(features, str) and features != "crf":
        raise InputError(f"features must be crf, a CRF or features of a CRF, not {features!r}")
    feature_setting = None if isinstance(features, str) else features
    return CRF(feature_setting, l2=_L2, max_iter=_MAX_ITER, n_jobs=n_jobs)


def check_linear(model: CRF) -> None:
    """Raise if a fitted CRF has features of transitions.

    A tagger has a single transition matrix for all positions, so it cannot add their scores.
    """
    if model.features_.has_edges:
        raise InputError("features: a neural tagger does not support features of transitions")


def score_linear(model: CRF | None, X: list[Any]) -> LinearScores | None:
    """Return the scores of a fitted model for sequences; None without a model."""
    if model is None:
        return None
    model._check_fitted()
    scores: Any = model._compute_scores(X)
    return LinearScores(scores.unary, scores.transition)


# ---- the network, and both together


@torch.no_grad()
def _score_emissions(network: Network, corpus: Corpus) -> list[NDArray[np.float64]]:
    """Return emissions (length, labels) of each sequence."""
    groups = bucket_by_length(corpus.lengths, _BATCH_SIZE, None)
    network.eval()
    # All batches are started before the first copy to the host, because a copy waits for the GPU.
    grids = [(batch.sequences, network(batch)) for batch in Epoch(corpus, groups)]
    emissions: list[Any] = [None] * len(corpus.lengths)
    for indices, grid in grids:
        scores = grid.cpu().double().numpy()
        for row, i in enumerate(indices):
            emissions[i] = scores[row, : corpus.lengths[i]]
    return emissions


def head_scores(network: Network) -> tuple[NDArray[np.float64], Any, Any]:
    """Return the scores of transitions (labels, labels), starts and ends (labels,)."""
    if not hasattr(network.head, "scores"):
        raise InputError("a tagger whose head is a function can only predict labels")
    with torch.no_grad():
        matrix, start, end = (scores.double().cpu().numpy() for scores in network.head.scores())
    return matrix, start, end


def compute_scores(
    network: Network,
    corpus: Corpus,
    linear: LinearScores | None,
    alpha: float,
    temperature: float = 1.0,
) -> chain.Scores:
    """Return the scores of the network plus ``alpha`` times those of the linear model.

    All scores are divided by ``temperature``.
    """
    return tempered_scores(network, corpus, linear, alpha)(temperature)


def tempered_scores(
    network: Network, corpus: Corpus, linear: LinearScores | None, alpha: float
) -> Callable[[float], chain.Scores]:
    """Return a function of the temperature that returns scores; the network runs only once."""
    unary = _score_emissions(network, corpus)
    matrix, start, end = head_scores(network)
    if linear is not None:
        unary = [
            emissions + alpha * linear_unary
            for emissions, linear_unary in zip(unary, linear.unary, strict=True)
        ]
        matrix = matrix + alpha * linear.transition

    def divide(temperature: float) -> chain.Scores:
        if temperature == 1.0:
            scores = chain.Scores(unary, matrix, start, end)
        else:
            parts = (matrix / temperature, start / temperature, end / temperature)
            scores = chain.Scores([e / temperature for e in unary], *parts)
        return by_step(scores) if isinstance(network.head, MEMM) else scores

    return divide


@torch.no_grad()
def decode_custom(network: Network, corpus: Corpus) -> list[list[int]]:
    """Return the label indices of each sequence, from the ``decode`` method of a custom head."""
    paths: list[list[int]] = [[] for _ in corpus.lengths]
    network.eval()
    for batch in Epoch(corpus, bucket_by_length(corpus.lengths, _BATCH_SIZE, None)):
        emissions = network(batch)
        steps = torch.arange(emissions.shape[1], device=emissions.device)
        batch_paths = network.head.decode(emissions, mask=steps < batch.lengths[:, None])
        for i, path in zip(batch.sequences, batch_paths, strict=True):
            paths[i] = path
    return paths


# ---- the score of a development set


def choose_metric(scoring: str | None, labels: list[Any]) -> Metric:
    """Return the metric ``scoring``, a function of true and predicted labels.

    The default is span_f1 if the labels follow a tagging scheme, else accuracy.
    """
    scheme = tags.detect([str(label) for label in labels], otherwise="plain")
    name = scoring or ("accuracy" if scheme == "plain" else "span_f1")
    options = {"scheme": scheme} if name == "span_f1" else {}
    metric = getattr(metrics, name)

    def score(true: list[list[Any]], predicted: list[list[Any]]) -> float:
        # Labels may be numbers, and the development set may have labels that are new.
        texts = ([[str(label) for label in labels] for labels in y] for y in (true, predicted))
        try:
            return float(metric(*texts, **options))
        except InputError as error:
            # The error contains the index of a sequence in dev, not in the training data.
            raise InputError(f"dev: {error}") from None

    return score
