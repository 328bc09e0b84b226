"""What every sequence model does with its scores: labels, marginals, samples, likelihoods."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from trellis.checks import as_integer
from trellis.errors import InfeasibleError, InputError
from trellis.inference import chain
from trellis.models.chain.labels import Label, encode

__all__ = [
    "Chains",
    "Decoding",
    "Labelling",
    "as_array",
    "check_not_empty",
    "checked",
    "checked_weights",
]

_SLICE_ROWS = 1 << 16  # positions that are scored at a time, to keep memory bounded


class Labelling(NamedTuple):
    """One way to label a sequence."""

    labels: list[Label]
    probability: float


class Chains(NamedTuple):
    """Scores of some sequences, as `trellis.inference.chain` takes them."""

    unary: list[NDArray[np.float64]]
    transition: Any
    start: NDArray[np.float64] | None
    end: NDArray[np.float64] | None


class Decoding(ABC):
    """Mixed into models that have ``classes_``, and ``_chains(X)`` to score sequences."""

    classes_: NDArray[Any]
    n_jobs: int | None

    @abstractmethod
    def _fitted(self) -> None:
        """Raise if the model is not fitted."""

    @abstractmethod
    def _chains(self, X: Any) -> Chains:
        """The scores of sequences, none of them empty."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a ``.trellis`` file, which `trellis.load` reads."""
        from trellis.models.files import save  # it knows all models, and they need not know it

        save(self, path)

    def _each(self, X: Any, known: Any, use: Callable[..., list[Any]], empty: Any) -> list[Any]:
        """use(chains, mask) on slices of X; ``empty()`` for sequences without positions."""
        self._fitted()
        X = checked(X)
        if known is not None and not hasattr(known, "__len__"):
            raise InputError(f"known must be a list like y, not {type(known).__name__}")
        if known is not None and len(known) != len(X):
            raise InputError(f"X has {len(X)} sequences, known has {len(known)}")
        out: list[Any] = []
        lengths = _sizes(X)
        for part in _slices(lengths):
            own, full = X[part], np.flatnonzero(lengths[part]).tolist()
            some = own if len(full) == len(own) else [own[i] for i in full]
            found: list[Any] = []
            if full:
                with _counting(part.start, full):
                    chains = self._chains(some)
                    mask = self._mask(known, part, full, chains) if known is not None else None
                    found = use(chains, mask)
            if len(full) < len(own):
                results = [empty() for _ in own]
                for i, result in zip(full, found, strict=True):
                    results[i] = result
                found = results
            out += found
        return out

    def _mask(self, known: Any, part: slice, full: list[int], chains: Chains) -> Any:
        own = list(known[part])
        lengths = np.array([len(u) for u in chains.unary])
        allowed = encode([own[i] for i in full], lengths, self.classes_.tolist())
        table = allowed.allowed
        if table is None:
            table = np.zeros((len(allowed.label), len(self.classes_)), dtype=np.bool_)
            table[np.arange(len(table)), allowed.label] = True
        return np.split(table, np.cumsum(lengths)[:-1])

    # ---- what follows from the scores

    def predict(self, X: Any, known: Any = None) -> list[list[Label]]:
        """argmax_y p(y | x) for each sequence.

        ``known`` has, like y, a label, a set of labels or None for each position: the best
        labelling among those that agree with it is returned.
        """

        def best(c: Chains, mask: Any) -> list[Any]:
            path = chain.viterbi(*c, mask=mask, n_jobs=self.n_jobs)
            flat = self.classes_[np.concatenate(path.labels)].tolist()
            ends = np.cumsum([len(u) for u in c.unary]).tolist()
            return [flat[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

        return self._each(X, known, best, list)

    def predict_marginals(self, X: Any, known: Any = None) -> list[NDArray[np.float64]]:
        """p(yₜ | x): an array (length, labels) for each sequence, in the order of ``classes_``."""

        def marginals(c: Chains, mask: Any) -> list[Any]:
            return cast(list[Any], chain.marginals(*c, mask=mask, n_jobs=self.n_jobs).unary)

        return self._each(X, known, marginals, lambda: np.zeros((0, len(self.classes_))))

    def predict_kbest(self, X: Any, k: int, known: Any = None) -> list[list[Labelling]]:
        """The k best labellings of each sequence with their probabilities, best first."""

        def kbest(c: Chains, mask: Any) -> list[Any]:
            found = chain.kbest(*c, k=k, mask=mask, n_jobs=self.n_jobs)
            log_z = cast(Any, chain.log_partition(*c, mask=mask, n_jobs=self.n_jobs))
            return [
                [
                    Labelling(self.classes_[path].tolist(), float(np.exp(score - z)))
                    for path, score in zip(paths, scores, strict=True)
                ]
                for paths, scores, z in zip(found.labels, found.score, log_z, strict=True)
            ]

        return self._each(X, known, kbest, lambda: [Labelling([], 1.0)])

    def sample(self, X: Any, n: int = 1, random_state: Any = None) -> list[list[list[Label]]]:
        """N labellings y ~ p(y | x) of each sequence."""
        n = as_integer(n, "n")
        generator = np.random.default_rng(random_state)

        def draw(c: Chains, mask: Any) -> list[Any]:
            paths = chain.sample(*c, n=n, random_state=generator, mask=mask, n_jobs=self.n_jobs)
            return [self.classes_[own].tolist() for own in paths]

        return self._each(X, None, draw, lambda: [[] for _ in range(n)])

    def log_likelihood(self, X: Any, y: Any) -> NDArray[np.float64]:
        """Log p(y | x) of each sequence; labels may be unknown, as in fit."""

        def evidence(c: Chains, mask: Any) -> list[Any]:
            inside = cast(Any, chain.log_partition(*c, mask=mask, n_jobs=self.n_jobs))
            return list(inside - cast(Any, chain.log_partition(*c, n_jobs=self.n_jobs)))

        X = checked(X)
        if len(X) != len(y):
            raise InputError(f"X has {len(X)} sequences, y has {len(y)}")
        return np.array(self._each(X, y, evidence, float))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labels that are predicted right."""
        X = checked(X)
        if len(X) != len(y):
            raise InputError(f"X has {len(X)} sequences, y has {len(y)}")
        weights = checked_weights(sample_weight, len(X))
        right, total = 0.0, 0.0
        for i, (ours, theirs) in enumerate(zip(self.predict(X), y, strict=True)):
            if len(ours) != len(theirs):
                raise InputError(f"sequence {i} has {len(ours)} positions and {len(theirs)} labels")
            weight = 1.0 if weights is None else weights[i]
            right += weight * sum(a == b for a, b in zip(ours, theirs, strict=True))
            total += weight * len(ours)
        return right / total if total else 0.0


def _sizes(X: list[Any]) -> NDArray[np.int64]:
    """How many positions each sequence has; what is wrong with them is said elsewhere."""
    if {*map(type, X)} <= {list, tuple}:
        return np.fromiter(map(len, X), dtype=np.int64, count=len(X))
    sizes = (
        x.shape[0] if hasattr(x, "shape") else len(x) if hasattr(x, "__len__") else 1 for x in X
    )
    return np.fromiter(sizes, dtype=np.int64, count=len(X))


def _slices(lengths: NDArray[np.int64]) -> Iterator[slice]:
    """Stretches of sequences with about _SLICE_ROWS positions each."""
    ends = np.cumsum(lengths)
    begin = 0
    while begin < len(lengths):
        before = int(ends[begin - 1]) if begin else 0
        end = int(np.searchsorted(ends, before + _SLICE_ROWS)) + 1
        yield slice(begin, min(end, len(lengths)))
        begin = end


@contextmanager
def _counting(start: int, index: list[int]) -> Iterator[None]:
    """Errors inside name sequences as the caller counts them: ``index[i]`` after ``start``."""
    try:
        yield
    except (InputError, InfeasibleError) as error:
        renamed = re.sub(
            r"sequence (\d+)", lambda m: f"sequence {start + index[int(m[1])]}", str(error), count=1
        )
        raise type(error)(renamed) from None


def checked(X: Any) -> Any:
    """X as a list of sequences."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        raise InputError(f"X must be a list of sequences, not {type(X).__name__}")
    return X if isinstance(X, list) else list(X)


def check_not_empty(lengths: NDArray[np.int64]) -> None:
    """Raise if there is no sequence, or one without positions."""
    if not len(lengths):
        raise InputError("X is empty: at least one sequence is needed")
    empty = np.flatnonzero(lengths == 0)
    if empty.size:
        raise InputError(f"sequence {empty[0]} is empty")


def checked_weights(sample_weight: Any, count: int) -> NDArray[np.float64] | None:
    """One number of at least 0 for each sequence, or None."""
    if sample_weight is None:
        return None
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must be one number for each sequence") from None
    if weights.shape != (count,):
        raise InputError(f"sample_weight has shape {weights.shape}; X has {count} sequences")
    bad = ~((weights >= 0) & (weights < np.inf))
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(f"sample_weight of sequence {i} is {weights[i]}")
    return weights


def as_array(classes: tuple[Label, ...]) -> NDArray[Any]:
    """Labels as an array of objects: what comes out is what went in, never a NumPy scalar."""
    out = np.empty(len(classes), dtype=object)
    out[:] = classes
    return out
