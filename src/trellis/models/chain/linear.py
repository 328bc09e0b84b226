"""What the CRF and the MEMM share: features, weights, training, scores and what is made of them.

    score(x, y) = Σₜ w · φ(x, t, yₜ₋₁, yₜ)

They differ in the normaliser alone.
"""

import copy
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from trellis import _core
from trellis.checks import as_integer
from trellis.data import tags
from trellis.errors import InputError
from trellis.features.rows import FeatureBatch
from trellis.features.vectorizer import FeatureMap, choose
from trellis.metrics import scorer
from trellis.models.chain.checkpoint import Checkpoint, Saved, fingerprint
from trellis.models.chain.decoding import (
    Chains,
    Decoding,
    as_array,
    check_not_empty,
    checked,
    checked_weights,
)
from trellis.models.chain.inspection import Inspection
from trellis.models.chain.labels import Constraints, Encoded, Label, constraints_for, encode
from trellis.models.chain.parameters import check_parameters
from trellis.models.chain.training import Problem, state_of, train
from trellis.models.chain.weights import WeightLayout, design, merge
from trellis.native import resolve_jobs
from trellis.optim import EarlyStopping
from trellis.optim.result import Progress

__all__ = ["LinearChainModel"]

_log = logging.getLogger("trellis")


class LinearChainModel(Inspection, Decoding, BaseEstimator):  # type: ignore[misc]
    """A linear chain model of features; subclasses say how it is normalised."""

    _by_step: bool
    # set by fit
    classes_: NDArray[Any]
    features_: FeatureMap
    layout_: WeightLayout
    coef_: NDArray[np.float64]
    n_iter_: int
    objective_: float
    converged_: bool
    losses_: list[tuple[int, float]]
    """Iteration and loss, of each iteration."""
    dev_scores_: list[tuple[int, float]]
    """Iteration and score on the development set, each time that it was asked."""

    def __init__(
        self,
        features: Any = None,
        *,
        edge_features: Any = None,
        l2: float = 1.0,
        l1: float = 0.0,
        solver: str = "lbfgs",
        solver_options: dict[str, Any] | None = None,
        max_iter: int | None = None,
        states: str = "seen",
        transitions: str = "all",
        min_count: float = 0.0,
        constraints: Any = None,
        label_weight: dict[Any, float] | None = None,
        scoring: str = "accuracy",
        early_stopping: int | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.features = features
        self.edge_features = edge_features
        self.l2 = l2
        self.l1 = l1
        self.solver = solver
        self.solver_options = solver_options
        self.max_iter = max_iter
        self.states = states
        self.transitions = transitions
        self.min_count = min_count
        self.constraints = constraints
        self.label_weight = label_weight
        self.scoring = scoring
        self.early_stopping = early_stopping
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- training

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        dev: tuple[Any, Any] | None = None,
        dev_every: int = 1,
        callback: Callable[[Progress], object] | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """Learn the weights from sequences X and their labels y.

        A label of ``None`` is unknown, a set of labels means one of them: the likelihood then sums
        over all labellings that agree with what is known. ``sample_weight`` is one number a
        sequence. ``dev=(X, y)`` is scored every ``dev_every`` iterations; with ``early_stopping=n``
        training ends after n scores in a row that are not better, and the best weights are kept.
        ``callback`` sees each iteration, and stops training if it returns what is true. A
        ``checkpoint`` saves the state as training goes, and takes it up again after a crash.
        """
        before = dict(self.__dict__)
        try:
            each = _Watch(dev, dev_every, callback, checkpoint)
            self._fit(checked(X), y, sample_weight, each)
        except BaseException:
            self.__dict__ = before  # an earlier model stays whole
            raise
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, watch: "_Watch") -> None:
        self._check(watch)
        earlier = self._earlier()
        features = (
            copy.deepcopy(earlier.features_)
            if earlier
            else choose(self.features, self.edge_features, X)
        )
        batch = features.learn(X)
        check_not_empty(batch.lengths)
        known = self._encoded(y, batch, earlier)
        weights = checked_weights(sample_weight, len(X))
        layout = design(
            batch,
            (len(features), features.edges),
            known,
            states=self.states,
            transitions=self.transitions,
            min_count=self.min_count,
            weights=weights,
        )
        w0 = np.zeros(layout.size)
        if earlier:
            layout, w0 = merge(earlier.layout_, earlier.coef_, _now(earlier, known), layout)
        batch, layout, w0 = _without_idle(features, batch, layout, w0)
        if layout.size == 0:
            raise InputError("no feature is left to learn: X has none, or min_count is too high")
        self.classes_ = as_array(known.classes)
        self.features_, self.layout_ = features, layout
        problem = self._problem(batch, known, weights)
        saved = None
        if watch.checkpoint:
            data = (*batch.arrays(), known.label, known.allowed, weights, w0)
            settings = {"model": type(self).__name__, **self.get_params(deep=False)}
            saved = watch.checkpoint.begin(settings, fingerprint(data))
        del batch  # a large corpus should not be in memory twice
        self._learn(problem, w0, watch, saved)
        if self.l1 > 0:
            self._prune()
        self._forget_scorer()

    def _check(self, watch: "_Watch") -> None:
        check_parameters(self)
        dev = watch.dev
        if as_integer(watch.dev_every, "dev_every") < 1:
            raise InputError(f"dev_every must be at least 1, not {watch.dev_every}")
        if watch.callback is not None and not callable(watch.callback):
            raise InputError(f"callback must be a function, not {watch.callback!r}")
        if not isinstance(watch.checkpoint, Checkpoint | None):
            raise InputError(f"checkpoint must be a Checkpoint, not {watch.checkpoint!r}")
        if dev is not None:
            if not isinstance(dev, tuple | list) or len(dev) != 2:
                raise InputError("dev must be a pair (X, y)")
            if len(checked(dev[0])) != len(dev[1]):
                raise InputError(f"dev has {len(dev[0])} sequences and {len(dev[1])} label lists")
        elif self.early_stopping is not None:
            raise InputError("early_stopping needs a development set: fit(X, y, dev=(X, y))")

    def _earlier(self) -> "LinearChainModel | None":
        return self if self.warm_start and hasattr(self, "coef_") else None

    def _encoded(self, y: Any, batch: FeatureBatch, earlier: "LinearChainModel | None") -> Encoded:
        known = encode(y, batch.lengths)
        if earlier:
            classes = dict.fromkeys([*earlier.classes_.tolist(), *known.classes])
            known = encode(y, batch.lengths, list(classes))
        if not known.classes:
            raise InputError("no label is known at any position")
        return known

    def _problem(
        self, batch: FeatureBatch, known: Encoded, weights: NDArray[np.float64] | None
    ) -> Problem:
        limits = constraints_for(self.constraints, known.classes)
        if limits:
            limits.check(known, batch.lengths)
        data = _core.TrainingData(
            self.layout_.native,
            batch.rows.native(),
            None if batch.edges is None else batch.edges.native(),
            batch.row_begin,
            known.label,
            known.allowed,
            weights,
            _costs(self.label_weight, known.classes),
            limits.forbidden if limits else None,
            limits.start if limits else None,
            limits.end if limits else None,
        )
        return Problem(
            data, len(batch.lengths), self._by_step, float(self.l1), float(self.l2), self.n_jobs
        )

    def _learn(
        self, problem: Problem, w0: NDArray[np.float64], watch: "_Watch", saved: Saved | None
    ) -> None:
        early: EarlyStopping | None = None
        if watch.dev is not None:
            early = EarlyStopping(
                lambda w: self._dev_score(w, watch.dev),
                patience=self.early_stopping or int(np.iinfo(np.int64).max),
                every=watch.dev_every,
            )
        self.losses_, state = [], None
        if saved and watch.checkpoint:
            self.losses_ = saved.losses
            with watch.checkpoint.naming():
                state = state_of(self.solver, saved.arrays, len(w0))
            if early:
                early.restore(saved.scores, saved.best_w, saved.since_best)
        self.dev_scores_ = early.history if early else []

        def each(progress: Progress) -> bool:
            self.losses_.append((progress.iteration, progress.loss))
            _log.debug("iteration %d: loss %.6f", progress.iteration, progress.loss)
            stop = early(progress) if early else False
            stop = (watch.callback is not None and bool(watch.callback(progress))) or stop
            if watch.checkpoint and not stop:
                stop = watch.checkpoint.see(progress, self.losses_, early)
            return stop

        result = train(
            problem,
            w0,
            self.solver,
            self.solver_options or {},
            self.max_iter,
            each,
            self.random_state,
            state,
        )
        self.coef_ = result.w
        self.n_iter_, self.objective_ = result.n_iter, result.loss
        if early and self.early_stopping and early.best_w is not None:
            self.coef_ = early.best_w
            self.n_iter_ = max(early.history, key=lambda entry: entry[1])[0]
            self.objective_ = dict(self.losses_)[self.n_iter_]
        self.converged_ = result.converged
        _log.info("%d iterations, loss %.6f: %s", result.n_iter, result.loss, result.message)

    def _dev_score(self, w: NDArray[np.float64], dev: tuple[Any, Any]) -> float:
        self.coef_ = w
        self._forget_scorer()
        options = {}
        if self.scoring == "span_f1":
            options["scheme"] = tags.detect([str(label) for label in self.classes_])
        return scorer(self.scoring, **options)(self, *dev)

    def _prune(self) -> None:
        """Drop the weights that are 0, and the features that have none left."""
        kept = self.coef_ != 0.0
        layout, ids, edge_ids = self.layout_.only(kept)
        self.features_.keep(ids, edge_ids)
        self.layout_, self.coef_ = layout, self.coef_[kept]

    # ---- scores

    def _forget_scorer(self) -> None:
        self._scorer: _core.Scorer | None = None

    def _fitted(self) -> None:
        if not hasattr(self, "coef_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")
        if getattr(self, "_scorer", None) is None:
            self._scorer = _core.Scorer(self.layout_.native, self.coef_)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_scorer", None)
        return state

    @property
    def _limits(self) -> Constraints | None:
        return constraints_for(self.constraints, self.classes_.tolist())

    def _chains(self, X: Any) -> Chains:
        """The scores of sequences, none of them empty."""
        threads = resolve_jobs(self.n_jobs)
        batch = self.features_.find(X, threads)
        limits = self._limits
        assert self._scorer is not None
        unary = np.empty((len(batch.rows), len(self.classes_)))
        self._scorer.scores(batch.rows.native(), threads, unary)
        forbidden = limits.forbidden if limits else None
        edges = None if batch.edges is None else batch.edges.native()
        shape = (1 if edges is None else len(unary), len(self.classes_), len(self.classes_))
        matrices = np.empty(shape)
        self._scorer.transitions(edges, forbidden, matrices)
        transition: Any = matrices[0]
        if edges is not None:
            transition = [m[1:] for m in _core.split_rows(matrices, batch.lengths)]
        scores = Chains(
            _core.split_rows(unary, batch.lengths),
            transition,
            limits.start if limits else None,
            limits.end if limits else None,
        )
        return self._normalised(scores)

    def _normalised(self, scores: Chains) -> Chains:
        """As the model's normaliser asks: a CRF leaves them as they are."""
        return scores


class _Watch(NamedTuple):
    """What is done after each iteration."""

    dev: Any
    dev_every: int
    callback: Callable[[Progress], object] | None
    checkpoint: Checkpoint | None


def _costs(
    label_weight: dict[Label, float] | None, classes: tuple[Label, ...]
) -> NDArray[np.float64] | None:
    """log(weight): what the scores of wrong labels gain where this one is right."""
    if label_weight is None:
        return None
    for label, weight in label_weight.items():
        if not (isinstance(weight, int | float | np.number) and 0 < weight < np.inf):
            raise InputError(f"label_weight of {label!r} is {weight!r}: must be above 0")
    return np.log([float(label_weight.get(label, 1.0)) for label in classes])


def _now(earlier: LinearChainModel, known: Encoded) -> NDArray[np.int64]:
    """The numbers that the labels of an earlier model have now."""
    index = {label: n for n, label in enumerate(known.classes)}
    return np.array([index[label] for label in earlier.classes_.tolist()], dtype=np.int64)


def _without_idle(
    features: FeatureMap, batch: FeatureBatch, layout: WeightLayout, w0: NDArray[np.float64]
) -> tuple[FeatureBatch, WeightLayout, NDArray[np.float64]]:
    """Drop attributes without a weight: they were cut off, or seen with no known label."""
    layout_, ids, edge_ids = layout.only(np.ones(layout.size, dtype=np.bool_))
    if len(ids) == len(features) and len(edge_ids) == features.edges:
        return batch, layout, w0
    renumbered = []
    for rows, alive, count in (
        (batch.rows, ids, len(features)),
        (batch.edges, edge_ids, features.edges),
    ):
        new = np.full(count, -1, dtype=np.int32)
        new[alive] = np.arange(len(alive), dtype=np.int32)
        renumbered.append(None if rows is None else rows.renumbered(new))
    features.keep(ids, edge_ids)
    return FeatureBatch(batch.lengths, cast(Any, renumbered[0]), renumbered[1]), layout_, w0
