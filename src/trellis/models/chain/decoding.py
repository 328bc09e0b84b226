"""The results of every sequence model: labels, marginals, samples and likelihoods."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, sample_weights, sequences
from trellis.errors import InputError, TrellisError
from trellis.formats.parts import Saved
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.models.chain.labels import Label, encode

__all__ = ["Decoding", "Labelling"]

# Number of positions that are scored at a time. The scores of 65,536 positions and 50 labels take
# 26 MB. Without slices, the scores of all positions of a large file would be in memory.
_SLICE_POSITIONS = 1 << 16


class Labelling(NamedTuple):
    """A labelling of a sequence and its probability."""

    labels: list[Label]
    probability: float


class Decoding(Saved, ABC):
    """Mixin for models with the attribute ``classes_`` and the method ``_compute_scores``."""

    classes_: NDArray[Any]
    n_jobs: int | None

    @abstractmethod
    def _fitted(self) -> None:
        """Raise NotFittedError if the model is not fitted."""

    @abstractmethod
    def _compute_scores(self, X: list[Any]) -> Scores:
        """Return the scores of sequences. No sequence is empty."""

    def predict(self, X: Any, known: Any = None) -> list[list[Label]]:
        """argmax_y p(y | x) for each sequence.

        ``known`` has, like y, a label, a set of labels or None for each position. The result is
        the best labelling that agrees with it.
        """

        def best_paths(scores: Scores) -> list[Any]:
            path = chain.viterbi(scores, n_jobs=self.n_jobs)
            flat = self.classes_[np.concatenate(path.labels)].tolist()
            ends = np.cumsum([len(numbers) for numbers in path.labels]).tolist()
            return [flat[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

        return self._map_slices(X, known, best_paths, list)

    def predict_marginals(self, X: Any, known: Any = None) -> list[NDArray[np.float64]]:
        """p(yₜ | x) for each sequence, shape (length, labels), in the order of ``classes_``."""

        def marginals(scores: Scores) -> list[Any]:
            return cast(list[Any], chain.marginals(scores, n_jobs=self.n_jobs).unary)

        return self._map_slices(X, known, marginals, lambda: np.zeros((0, len(self.classes_))))

    def predict_kbest(self, X: Any, k: int, known: Any = None) -> list[list[Labelling]]:
        """Return the k best labellings of each sequence with their probabilities, best first."""

        def best_labellings(scores: Scores) -> list[Any]:
            paths = chain.kbest(scores, k=k, n_jobs=self.n_jobs)
            log_z = cast(Any, chain.log_partition(scores, n_jobs=self.n_jobs))
            return [
                [
                    Labelling(self.classes_[path].tolist(), float(np.exp(score - z)))
                    for path, score in zip(paths_of_sequence, path_scores, strict=True)
                ]
                for paths_of_sequence, path_scores, z in zip(
                    paths.labels, paths.score, log_z, strict=True
                )
            ]

        return self._map_slices(X, known, best_labellings, lambda: [Labelling([], 1.0)])

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[list[list[Label]]]:
        """Draw n labellings y ~ p(y | x) of each sequence."""
        n = as_integer(n, "n")
        generator = np.random.default_rng(random_state)

        def draw(scores: Scores) -> list[Any]:
            paths = chain.sample(scores, n=n, random_state=generator, n_jobs=self.n_jobs)
            return [self.classes_[numbers].tolist() for numbers in paths]

        return self._map_slices(X, None, draw, lambda: [[] for _ in range(n)])

    def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]:
        """log p(y | x) of each sequence, shape (sequences,); labels may be unknown, as in fit."""

        def log_probabilities(scores: Scores) -> list[Any]:
            # The sum over the labellings that agree with y, divided by the sum over all labellings.
            numerator = cast(Any, chain.log_partition(scores, n_jobs=self.n_jobs))
            unmasked = scores._replace(mask=None)
            return list(numerator - cast(Any, chain.log_partition(unmasked, n_jobs=self.n_jobs)))

        X = _check_pairs(X, y)
        return np.array(self._map_slices(X, y, log_probabilities, float))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of labels that are predicted correctly."""
        X = _check_pairs(X, y)
        weights = sample_weights(sample_weight, len(X))
        correct, total = 0.0, 0.0
        for i, (predicted, true) in enumerate(zip(self.predict(X), y, strict=True)):
            if len(predicted) != len(true):
                raise InputError(
                    f"sequence {{sequence}} has {len(predicted)} positions and {len(true)} labels",
                    sequence=i,
                )
            weight = 1.0 if weights is None else weights[i]
            correct += weight * sum(
                guess == label for guess, label in zip(predicted, true, strict=True)
            )
            total += weight * len(predicted)
        return correct / total if total else 0.0

    # ---- slices of sequences

    def _map_slices(
        self,
        X: Any,
        known: Any,
        function: Callable[[Scores], list[Any]],
        empty: Callable[[], Any],
    ) -> list[Any]:
        """Apply ``function`` to the scores of slices of X; return one result for each sequence.

        The slices do not contain empty sequences. The result of an empty sequence is ``empty()``.
        """
        self._fitted()
        X = sequences(X)
        if known is not None:
            _check_known(known, len(X))
        lengths = _count_positions(X)
        results: list[Any] = []
        for block in _split_into_slices(lengths):
            nonempty = (np.flatnonzero(lengths[block]) + block.start).tolist()
            outputs: list[Any] = []
            if nonempty:
                with _renumber_errors(nonempty):
                    scores = self._compute_scores([X[i] for i in nonempty])
                    if known is not None:
                        mask = self._compute_mask([known[i] for i in nonempty], scores)
                        scores = scores._replace(mask=cast(Any, mask))
                    outputs = function(scores)
            if len(nonempty) < block.stop - block.start:
                by_sequence = dict(zip(nonempty, outputs, strict=True))
                numbers = range(block.start, block.stop)
                outputs = [by_sequence[i] if i in by_sequence else empty() for i in numbers]
            results += outputs
        return results

    def _compute_mask(self, known: list[Any], scores: Scores) -> list[NDArray[np.bool_]]:
        """Return True where the known labels allow a label: (length, labels) per sequence."""
        lengths = np.array([len(u) for u in cast(list[Any], scores.unary)])
        labels = encode(known, lengths, self.classes_.tolist())
        allowed = labels.allowed
        if allowed is None:
            allowed = np.zeros((len(labels.label), len(self.classes_)), dtype=np.bool_)
            allowed[np.arange(len(allowed)), labels.label] = True
        return np.split(allowed, np.cumsum(lengths)[:-1])


def _check_pairs(X: Any, y: Any) -> list[Any]:
    """Return X as a list; raise InputError if y has another length."""
    X = sequences(X)
    if len(X) != len(y):
        raise InputError(f"X has {len(X)} sequences, y has {len(y)}")
    return cast(list[Any], X)


def _check_known(known: Any, count: int) -> None:
    if not hasattr(known, "__len__"):
        raise InputError(f"known must be a list of label lists, not {type(known).__name__}")
    if len(known) != count:
        raise InputError(f"X has {count} sequences, known has {len(known)}")


def _count_positions(X: list[Any]) -> NDArray[np.int64]:
    """Return the number of positions of each sequence. The feature map validates X later."""
    if {*map(type, X)} <= {list, tuple}:
        return np.fromiter(map(len, X), dtype=np.int64, count=len(X))
    # The shape is read first, because len() of a sparse matrix raises an error.
    lengths = (
        x.shape[0] if hasattr(x, "shape") else len(x) if hasattr(x, "__len__") else 1 for x in X
    )
    return np.fromiter(lengths, dtype=np.int64, count=len(X))


def _split_into_slices(lengths: NDArray[np.int64]) -> Iterator[slice]:
    """Yield slices of sequences with about _SLICE_POSITIONS positions each."""
    ends = np.cumsum(lengths)
    begin = 0
    while begin < len(lengths):
        positions_before = int(ends[begin - 1]) if begin else 0
        end = int(np.searchsorted(ends, positions_before + _SLICE_POSITIONS)) + 1
        yield slice(begin, min(end, len(lengths)))
        begin = end


@contextmanager
def _renumber_errors(numbers: list[int]) -> Iterator[None]:
    """Replace the index i of a sequence in an error by ``numbers[i]``, the caller's index."""
    try:
        yield
    except TrellisError as error:
        if error.sequence is None:
            raise
        raise error.renumbered(numbers[error.sequence]) from None
