"""The results of every sequence model: labels, marginals, samples and likelihoods."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer, one_of, sample_weights
from trellis.data.shards.corpus import Corpus
from trellis.errors import InputError, TrellisError
from trellis.estimator import Predictions
from trellis.formats.parts import Saved
from trellis.inference import chain
from trellis.inference.chain import Scores
from trellis.inference.chain.posterior import posterior_path
from trellis.models.chain.labels import Label, encode
from trellis.models.chain.second_order import LabelStates
from trellis.models.quantities import Quantities
from trellis.models.spans import predict_best_spans
from trellis.sequences import count_positions, label_lists, sequences

__all__ = ["DECODERS", "Decoding", "Labelling"]

DECODERS = ("viterbi", "marginal", "mbr")
"""The values of ``decode`` in `Decoding.predict`."""

# Number of positions that are scored at a time. The scores of 65,536 positions and 50 labels take
# 26 MB. Without slices, the scores of all positions of a large file would be in memory.
_SLICE_POSITIONS = 1 << 16


class Labelling(NamedTuple):
    """A labelling of a sequence and its probability."""

    labels: list[Label]
    probability: float


class Decoding(Quantities, Saved, ABC):
    """Mixin for models with the attribute ``classes_`` and the method ``_compute_scores``."""

    classes_: NDArray[Any]
    n_jobs: int | None

    @abstractmethod
    def _check_fitted(self) -> None:
        """Raise NotFittedError if the model is not fitted."""

    @abstractmethod
    def _compute_scores(self, X: list[Any]) -> Scores:
        """Return the scores of sequences. No sequence is empty."""

    def predict(
        self,
        X: Any,
        known: Any = None,
        *,
        decode: str = "viterbi",
        engine: Any = None,
        to: Any = None,
    ) -> Any:
        """argmax_y p(y | x) for each sequence, or the labels of another decoder.

        ``known`` has, like y, a label, a set of labels or None for each position. The result is
        the best labelling that agrees with ``known``. ``decode`` defines the best labelling:

        - "viterbi": the most probable labelling.
        - "marginal": the largest expected number of correct labels, Σₜ p(yₜ | x). Constraints hold.
        - "mbr": the largest expected F1 of spans, over all sequences of X together. So the labels
          of a sequence depend on the other sequences; if they must not, use ``predict_spans`` with
          ``min_probability``.

        X may be a `trellis.data.Corpus` larger than the memory. ``engine`` then labels its shards,
        by default `trellis.engines.Local`. With the folder ``to``, the result is the list of the
        files that were written there, one for each shard; files that exist are not written again.
        """
        one_of(decode, DECODERS, "decode")
        if isinstance(X, Corpus):
            if known is not None:
                raise InputError("known cannot be used with a Corpus")
            # Imported here, so that commands that label a text start faster.
            from trellis.models.sharded.tagging import predict_corpus

            return predict_corpus(self, X, engine, to, decode)
        if engine is not None or to is not None:
            raise InputError("engine and to need a trellis.data.Corpus as X, which has shards")
        if decode == "mbr":
            return self._predict_best_spans(X, known)
        states = self._label_states
        of_state = None if states is None else states.last
        decoder = chain.viterbi if decode == "viterbi" else partial(posterior_path, label=of_state)
        return self._map_slices(X, known, lambda scores: self._decode(scores, decoder), list)

    def _decode(self, scores: Scores, decoder: Any = chain.viterbi) -> list[list[Label]]:
        """Return the labelling of each sequence that the decoder prefers."""
        path = decoder(scores, n_jobs=self.n_jobs)
        labels = self._column_labels[np.concatenate(path.labels)].tolist()
        ends = np.cumsum([len(numbers) for numbers in path.labels]).tolist()
        return [labels[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]

    def _predict_best_spans(self, X: Any, known: Any) -> list[list[Label]]:
        self._check_fitted()
        X, known = self._read_known(X, known)
        paths = predict_best_spans(self, X, known)
        labels = self._column_labels
        return Predictions(labels[path].tolist() if path else [] for path in paths)

    def predict_marginals(self, X: Any, known: Any = None) -> list[NDArray[np.float64]]:
        """p(yₜ | x) for each sequence, shape (length, labels), in the order of ``classes_``."""

        def marginals(scores: Scores) -> list[Any]:
            p = cast(list[Any], chain.marginals(scores, n_jobs=self.n_jobs).unary)
            states = self._label_states
            return p if states is None else [states.sum_labels(row) for row in p]

        return self._map_slices(X, known, marginals, lambda: np.zeros((0, len(self.classes_))))

    def predict_kbest(self, X: Any, k: int, known: Any = None) -> list[list[Labelling]]:
        """Return the k best labellings of each sequence with their probabilities, best first."""

        def best_labellings(scores: Scores) -> list[Any]:
            paths = chain.kbest(scores, k=k, n_jobs=self.n_jobs)
            log_z = cast(Any, chain.log_partition(scores, n_jobs=self.n_jobs))
            labels = self._column_labels
            return [
                [
                    Labelling(labels[path].tolist(), float(np.exp(score - log_z_of_sequence)))
                    for path, score in zip(paths_of_sequence, path_scores, strict=True)
                ]
                for paths_of_sequence, path_scores, log_z_of_sequence in zip(
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
            return [self._column_labels[path].tolist() for path in paths]

        return self._map_slices(X, None, draw, lambda: [[] for _ in range(n)])

    def entropy(self, X: Any) -> NDArray[np.float64]:
        """H(y | x) = -Σ_y p(y | x) log p(y | x) of each sequence in nats, shape (sequences,)."""

        def entropies(scores: Scores) -> list[Any]:
            return list(cast(Any, chain.entropy(scores, n_jobs=self.n_jobs)))

        return np.array(self._map_slices(X, None, entropies, float))

    def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]:
        """log p(y | x) of each sequence, shape (sequences,); labels may be unknown, as in fit.

        It is -inf for a labelling that is impossible under the model, for example because of
        constraints, also if all labellings of the sequence are impossible.
        """

        def log_probabilities(scores: Scores) -> list[Any]:
            # The sum over the labellings that agree with y, divided by the sum over all labellings.
            numerator = cast(Any, chain.log_partition(scores, n_jobs=self.n_jobs))
            unmasked_scores = scores._replace(mask=None)
            total = cast(Any, chain.log_partition(unmasked_scores, n_jobs=self.n_jobs))
            # -inf - (-inf) would be nan.
            return list(numerator - np.where(np.isneginf(total), 0.0, total))

        X, y = self._read_pairs(X, y)
        return np.array(self._map_slices(X, y, log_probabilities, float))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of labels that are predicted correctly."""
        X, y = self._read_pairs(X, y)
        weights = sample_weights(sample_weight, len(X))
        weighted_correct, weighted_total = 0.0, 0.0
        for i, (predicted, true) in enumerate(zip(self.predict(X), y, strict=True)):
            if len(predicted) != len(true):
                raise InputError(
                    f"sequence {{sequence}} has {len(predicted)} positions and {len(true)} labels",
                    sequence=i,
                )
            weight = 1.0 if weights is None else weights[i]
            weighted_correct += weight * sum(
                predicted_label == true_label
                for predicted_label, true_label in zip(predicted, true, strict=True)
            )
            weighted_total += weight * len(predicted)
        return weighted_correct / weighted_total if weighted_total else 0.0

    # ---- the columns of scores: labels, or the states of a chain of second order

    @property
    def _label_states(self) -> LabelStates | None:
        """The states of a chain of second order; None if the columns of scores are labels."""
        return None

    @property
    def _column_labels(self) -> NDArray[Any]:
        """(columns,) The label of each column of scores."""
        states = self._label_states
        return self.classes_ if states is None else self.classes_[states.last]

    # ---- arguments, and slices of sequences

    def _sequences(self, X: Any) -> list[Any]:
        """Return X as a list of sequences, of any type if only functions of the user read them."""
        return sequences(X, any_type=self._takes_any_type())

    def _takes_any_type(self) -> bool:
        """Return True if only functions of the user read the sequences, as a whole."""
        features, joint = getattr(self, "features", None), getattr(self, "joint", None)
        return callable(features) or (features is None and joint is not None)

    def _read_pairs(self, X: Any, y: Any) -> tuple[list[Any], list[Any]]:
        """Return X and y as lists; raise InputError if their lengths differ."""
        X, y = self._sequences(X), label_lists(y)
        if len(X) != len(y):
            raise InputError(f"X has {len(X)} sequences, y has {len(y)}")
        return X, y

    def _read_known(self, X: Any, known: Any) -> tuple[list[Any], list[Any] | None]:
        """Return X and the known labels as lists; raise InputError if their lengths differ."""
        X = self._sequences(X)
        if known is None:
            return X, None
        known = label_lists(known, "known")
        if len(known) != len(X):
            raise InputError(f"X has {len(X)} sequences, known has {len(known)}")
        return X, known

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
        self._check_fitted()
        X, known = self._read_known(X, known)
        lengths = count_positions(X)
        results: Predictions[Any] = Predictions()
        for block in self._split_into_slices(lengths):
            nonempty_indices = (np.flatnonzero(lengths[block]) + block.start).tolist()
            outputs: list[Any] = []
            if nonempty_indices:
                with _renumber_errors(nonempty_indices):
                    scores = self._compute_scores([X[i] for i in nonempty_indices])
                    if known is not None:
                        mask = self._compute_mask([known[i] for i in nonempty_indices], scores)
                        scores = scores._replace(mask=cast(Any, mask))
                    outputs = function(scores)
            if len(nonempty_indices) < block.stop - block.start:
                by_sequence = dict(zip(nonempty_indices, outputs, strict=True))
                indices = range(block.start, block.stop)
                outputs = [by_sequence[i] if i in by_sequence else empty() for i in indices]
            results += outputs
        return results

    def _compute_mask(self, known: list[Any], scores: Scores) -> list[NDArray[np.bool_]]:
        """Return True where the known labels allow a label: (length, labels) per sequence."""
        lengths = np.array([len(unary) for unary in cast(list[Any], scores.unary)])
        labels = encode(known, lengths, self.classes_.tolist())
        allowed = labels.allowed
        if allowed is None:
            allowed = np.zeros((len(labels.label), len(self.classes_)), dtype=np.bool_)
            allowed[np.arange(len(allowed)), labels.label] = True
        if self._label_states is not None:
            allowed = allowed[:, self._label_states.last]
        return np.split(allowed, np.cumsum(lengths)[:-1])

    def _split_into_slices(self, lengths: NDArray[np.int64]) -> Iterator[slice]:
        """Yield slices of sequences with about _SLICE_POSITIONS positions each.

        For a chain of second order, slices have fewer positions, because some results have a number
        for each pair of states, and there are more states than labels.
        """
        states = self._label_states
        size = 1.0 if states is None else (len(states) / len(self.classes_)) ** 2
        ends = np.cumsum(lengths)
        begin = 0
        while begin < len(lengths):
            positions_before = int(ends[begin - 1]) if begin else 0
            end = int(np.searchsorted(ends, positions_before + _SLICE_POSITIONS / size)) + 1
            yield slice(begin, min(end, len(lengths)))
            begin = end


@contextmanager
def _renumber_errors(indices: list[int]) -> Iterator[None]:
    """Replace the index i of a sequence in an error by ``indices[i]``, the caller's index."""
    try:
        yield
    except TrellisError as error:
        if error.sequence is None:
            raise
        raise error.renumbered(indices[error.sequence]) from None
