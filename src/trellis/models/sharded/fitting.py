"""`fit` of a CRF or MEMM on a `Corpus`: the steps of `LinearChainModel.fit`, shard by shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import sample_weights, unchanged_on_error
from trellis.data.shards.corpus import Corpus
from trellis.engines.base import Engine
from trellis.engines.local import Local
from trellis.engines.storage import Placed, Shared
from trellis.errors import InputError
from trellis.features.merging import restore
from trellis.models.chain.labels import (
    EncodedLabels,
    as_array,
    constraints_for,
    encode_for_training,
)
from trellis.models.chain.monitoring import Monitor, TrainingRun, warn_of_unseen_labels
from trellis.models.chain.parameters import AUTO, automatic_l2, label_costs
from trellis.models.chain.solvers import SOLVERS
from trellis.models.chain.training import solve
from trellis.models.chain.warm_start import initial_classes, initial_features, initial_weights
from trellis.models.chain.weights import WeightRules, drop_unused_attributes
from trellis.models.sharded.encoding import (
    Encoder,
    Part,
    constraint_arrays,
    count_cells,
    empty_batch,
    encode_shard,
    layout_of,
)
from trellis.models.sharded.problem import CorpusProblem, Terms
from trellis.models.sharded.survey import Prototype, Survey, first_sequences, survey
from trellis.optim.display import show_progress

__all__ = ["fit_corpus"]


def _check(model: Any, corpus: Corpus, y: Any, engine: Any) -> None:
    """Validate the arguments of ``fit(corpus)`` before any data are read."""
    if y is not None:
        raise InputError("y must be None if X is a Corpus, which contains the labels")
    if not corpus.labelled:
        raise InputError("the corpus has no labels, which training needs")
    if engine is not None and not isinstance(engine, Engine):
        raise InputError(
            f"engine must be a trellis.engines.Local or Dask, not {type(engine).__name__}"
        )
    if SOLVERS[model.solver].online:
        names = " or ".join(repr(name) for name, s in SOLVERS.items() if not s.online)
        raise InputError(
            f"solver {model.solver!r} needs all sequences in memory: use solver={names}, or "
            "fit(*corpus.load())"
        )
    needs_memory = {"joint features": model.joint is not None, "order=2": model.order == 2}
    for name in (name for name, is_set in needs_memory.items() if is_set):
        raise InputError(f"{name} cannot be used with a Corpus: use fit(*corpus.load())")


def fit_corpus(
    model: Any, corpus: Corpus, y: Any, sample_weight: Any, engine: Engine | None, monitor: Monitor
) -> None:
    """Learn the weights of a model. The result has the same bits on every engine."""
    _check(model, corpus, y, engine)
    is_own = engine is None
    engine = Local(model.n_jobs) if engine is None else engine
    earlier = engine.progress
    try:
        with unchanged_on_error(model), show_progress(type(model).__name__, model.verbose) as draw:
            run = TrainingRun(model, monitor, draw)
            engine.progress = earlier or _draw_passes(run)
            _fit(model, corpus, sample_weight, engine, run)
    finally:
        engine.progress = earlier
        if is_own:
            engine.close()


def _draw_passes(run: TrainingRun) -> Callable[[str, int, int], None]:
    """Return a function that draws the shards of both passes; the iterations draw themselves."""

    def draw(name: str, done: int, shards: int) -> None:
        if name in ("vocabulary", "features"):
            run.draw(done / shards, f"{name}: {done} of {shards} shards")

    return draw


def _fit(model: Any, corpus: Corpus, sample_weight: Any, engine: Engine, run: TrainingRun) -> None:
    model.corpus_layout_ = corpus.layout
    # Pass 1: attributes and labels.
    any_type = model._takes_any_type()
    prototype = Prototype(initial_features(model, first_sequences(corpus)), any_type)
    totals = survey(engine, corpus, prototype)
    assert totals.attributes is not None  # the first sequences exist
    features = restore(prototype.features, totals.attributes)
    labels = _encode_classes(model, totals)
    # Pass 2: numbers on the disks of the workers.
    run.tokens = totals.tokens
    weights = sample_weights(sample_weight, sum(totals.sequences))
    parts = _split_weights(corpus, totals.sequences, weights)
    encoder = Shared(Encoder(features, labels.classes, any_type, model.constraints))
    placed = engine.place(encode_shard, parts, encoder)
    with engine.holding(*placed, encoder):
        _train(model, placed, encoder, engine, run)
    model.isa_ = engine.isa
    if model.l1 > 0:
        model._prune()


def _train(
    model: Any, placed: list[Placed], encoder: Shared, engine: Engine, run: TrainingRun
) -> None:
    """Choose the weights and minimise the objective, from the numbers of the shards."""
    features, classes = encoder.value.features, encoder.value.classes
    rules = WeightRules(model.states, model.transitions, model.min_count)
    cells = engine.sum(count_cells, placed, encoder, rules.min_count > 0, name="features")
    layout = layout_of(cells, features, len(classes), rules)
    layout, w0 = initial_weights(model, layout, classes)
    # The placed shards contain the indices of attributes without a weight, so `terms` has the
    # complete layout. Only the model drops these attributes.
    constraints = constraints_for(model.constraints, classes)
    costs = label_costs(model.label_weight, classes)
    terms = Terms(layout, model.normalised_by_step, costs, *constraint_arrays(constraints))
    _, model_layout = drop_unused_attributes(features, empty_batch(features), layout)
    model.classes_, model.features_, model.layout_ = as_array(classes), features, model_layout
    model.l2_ = float(model.l2) if model.l2 != AUTO else automatic_l2(cells.known, len(classes))
    warn_of_unseen_labels(run.monitor.dev, classes, stacklevel=6)
    problem = CorpusProblem(
        engine, placed, terms, l1=float(model.l1), l2=model.l2_, n_jobs=model.n_jobs
    )
    state = run.resume([np.frombuffer(bytes.fromhex(cells.digest), np.uint8)], w0)
    with engine.holding(problem.terms):
        run.finish(solve(model, problem, w0, run, state), problem)


def _encode_classes(model: Any, totals: Survey) -> EncodedLabels:
    """Return the classes as for data in memory: one sequence with every label of the corpus."""
    y = [[*totals.labels, None]] if totals.is_partial else [[*totals.labels]]
    return encode_for_training(y, np.array([len(y[0])]), initial_classes(model), model.constraints)


def _split_weights(
    corpus: Corpus, counts: tuple[int, ...], weights: NDArray[np.float64] | None
) -> list[Part]:
    if weights is None:
        return [Part(shard, None) for shard in corpus.shards]
    pieces = np.split(weights, np.cumsum(counts)[:-1])
    return [Part(shard, piece) for shard, piece in zip(corpus.shards, pieces, strict=True)]
