"""``trellis train``: read data, train a model with checkpoints, and write the model."""

import contextlib
import dataclasses
import functools
import time
import warnings
from importlib.util import find_spec
from typing import Any

from trellis.app.terminal import (
    InterruptedWorkError,
    build_command_line,
    catch_interrupts,
    check_writable,
    format_duration,
    print_status,
    show_progress,
)
from trellis.app.training.best import VALUES, choose, constrain
from trellis.app.training.data import (
    TrainingData,
    name_file_in_errors,
    read_dev,
    read_files,
    warn_of_little_data,
)
from trellis.app.training.estimators import build_estimator, check_estimator
from trellis.app.training.features import build_spec
from trellis.app.training.options import DEV_EVERY, Options, check_options
from trellis.app.training.progress import draw_epochs, draw_iterations, draw_shards
from trellis.app.training.shards import survey_files
from trellis.app.training.tuning import score, search
from trellis.data import corpus, tags
from trellis.data.atomic import clear_leftovers
from trellis.errors import UnseenLabelWarning
from trellis.features import Spec
from trellis.models.chain.checkpoint import Checkpoint

__all__ = ["Options", "run"]

HYBRID_PATIENCE = 5  # epochs without a better score, after which the network of --best stops


def run(options: Options) -> None:
    """Train a model on files with labels.

    **Examples**

    `trellis train train.conll --dev dev.conll -o model.trellis`

    `trellis train train.md --constraints auto --tune 8`

    `trellis train train.conll --dev dev.conll --best --gazetteer city=cities.txt` (chooses
    features, constraints and the penalty; with `--vectors`, also a network)

    `trellis train train.conll --template crfpp.template --model perceptron`

    `trellis train train.conll --dev dev.conll --model neural --vectors words.vec --hybrid`

    `trellis train partial.conll --unknown _ --weight weight` (labels `_` are unknown; a comment
    `# weight = 0.5` before a sequence is its weight)

    `trellis train parts/*.conll.gz --workers 8` (read in shards, by processes; with
    `--engine dask://scheduler:8786`, by a cluster)

    `trellis train big.conll -o big.trellis --resume` (continue after an interruption; the result is
    the same as without the interruption)
    """
    check_writable(options.output, *options.input_files())
    check_options(options)
    check_estimator(options)
    checkpoint = Checkpoint(
        options.output.with_name(options.output.name + ".checkpoint"),
        every=options.checkpoint_every,
        resume=options.resume,
    )
    for path in (options.output, checkpoint.path):
        clear_leftovers(path)
    if options.engine.is_set:
        _train_in_shards(options, checkpoint)
    else:
        _train(options, checkpoint)


def _train_in_shards(options: Options, checkpoint: Checkpoint) -> None:
    """Fit the model on an engine, write it, and remove the checkpoint."""
    start = time.perf_counter()
    with options.engine.open() as engine:
        data = survey_files(options, engine)
        dev = read_dev(options, data.head)
        spec = build_spec(options.extraction, data.width, options.data.encoding)
        model = build_estimator(options, spec, data.scheme)
        fit = functools.partial(model.fit, data.corpus, engine=engine)
        _run_fit(options, model, fit, dev, checkpoint, engine)
    model.save(options.output)
    checkpoint.remove()
    print_status(f"{data}; {format_duration(time.perf_counter() - start)}", quiet=options.quiet)
    print_status(_summarise(options, model, dev, data.scheme), quiet=options.quiet)


def _train(options: Options, checkpoint: Checkpoint) -> None:
    """Read the data, fit the model, write it, and remove the checkpoint."""
    start = time.perf_counter()
    data = read_files(options.files, options)
    dev = read_dev(options, data)
    scheme = tags.detect(data.labels, otherwise="plain")
    with name_file_in_errors(options.files, data.sizes):
        if options.best:
            options = constrain(options, data, scheme)
            model, spec = choose(options, data, dev, scheme)
        else:
            spec = build_spec(options.extraction, corpus.width_of(data.X), options.data.encoding)
            model = build_estimator(options, spec, scheme)
        if options.tune or (options.best and options.l2 is None):
            _tune(options, model, data, dev, checkpoint)
        if options.model == "hmm":
            model.fit(data.X, data.y, data.weights or None)
        else:
            _fit(options, model, data, dev, checkpoint)
        if options.best and options.network.vectors is not None:
            model = _fit_hybrid(options, model, spec, data, dev, scheme)
    model.corpus_layout_ = data.layout
    model.save(options.output)
    checkpoint.remove()
    warn_of_little_data(data, options)
    print_status(f"{data}; {format_duration(time.perf_counter() - start)}", quiet=options.quiet)
    print_status(_summarise(options, model, dev, scheme), quiet=options.quiet)


def _fit(
    options: Options, model: Any, data: TrainingData, dev: Any, checkpoint: Checkpoint
) -> None:
    """Train on data in memory."""
    fit = functools.partial(model.fit, data.X, data.y)
    if data.weights:
        fit = functools.partial(fit, sample_weight=data.weights)
    _run_fit(options, model, fit, dev, checkpoint)


def _run_fit(
    options: Options,
    model: Any,
    fit: Any,
    dev: Any,
    checkpoint: Checkpoint,
    engine: Any = None,
) -> None:
    """Train with a progress bar; Ctrl-C saves a checkpoint and raises InterruptedWorkError."""
    if options.resume and not checkpoint.path.exists():
        print_status(
            f"{checkpoint.path} does not exist: training starts from the beginning",
            quiet=options.quiet,
        )
    neural = options.model == "neural"
    arguments: dict[str, Any] = {} if neural else {"dev_every": options.dev_every or DEV_EVERY}
    with (
        show_progress("training", options.quiet) as update,
        catch_interrupts(checkpoint.halt) as signals,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UnseenLabelWarning)  # read_dev has named the line
        if engine is not None:
            engine.progress = draw_shards(update)
        draw = draw_epochs(model, update) if neural else draw_iterations(model, update)
        fit(dev=dev, callback=draw, checkpoint=checkpoint, **arguments)
    if checkpoint.stopped:
        raise InterruptedWorkError(
            f"stopped at iteration {checkpoint.iteration}, saved in {checkpoint.path}. "
            f"Continue with:\n  {build_command_line('--resume')}",
            signals[0],
        )


def _fit_hybrid(
    options: Options, linear: Any, spec: Spec | None, data: TrainingData, dev: Any, scheme: str
) -> Any:
    """Train a network with the same features; return it, or the linear model if that is better."""
    if dev is None or find_spec("torch") is None:
        reason = "without --dev" if dev is None else "because PyTorch is not installed"
        print_status(f"no network is trained, {reason}", quiet=options.quiet)
        return linear
    settings = dataclasses.replace(options.network, hybrid=True)
    patience = options.patience or HYBRID_PATIENCE
    network_options = dataclasses.replace(
        options, model="neural", network=settings, patience=patience
    )
    model = build_estimator(network_options, spec, scheme)
    with show_progress("training the network", options.quiet) as update, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenLabelWarning)  # read_dev has named the line
        model.fit(data.X, data.y, dev=dev, callback=draw_epochs(model, update))
    scores = [score(dev[1], candidate.predict(dev[0]), scheme) for candidate in (linear, model)]
    texts = [f"{100 * value:.2f}" for value in scores]
    is_better = scores[1] > scores[0]
    name = "hybrid" if is_better else "linear"
    print_status(f"dev: linear {texts[0]}, hybrid {texts[1]}: {name} is kept", quiet=options.quiet)
    return model if is_better else linear


def _tune(
    options: Options, model: Any, data: TrainingData, dev: Any, checkpoint: Checkpoint
) -> None:
    """Choose l2 by the development set, or by cross-validation without one.

    With ``--resume``, take l2 from the checkpoint.
    """
    if parameters := checkpoint.parameters():
        # The checkpoint of a run without --tune may have l2="auto". `fit` refuses it later.
        with contextlib.suppress(ValueError):
            model.set_params(l2=float(parameters["l2"]))
        return
    trials = []
    with show_progress("tuning", options.quiet) as update:
        count = options.tune or VALUES
        for trial in search(model, data.X, data.y, count, options.seed, dev):
            trials.append(trial)
            best = max(trials, key=lambda trial: trial.score)
            text = f"{len(trials)} of {count}  best {100 * best.score:.2f}"
            update(len(trials) / count, text)
            print_status(f"  {trial}", quiet=options.quiet)
    method = "the development set" if dev else "cross-validation"
    print_status(f"chosen by {method}: {best}", quiet=options.quiet)
    model.set_params(l2=best.l2)


def _summarise(options: Options, model: Any, dev: Any, scheme: str) -> str:
    facts, parts = model.describe(), []
    if facts.unit == "epoch":
        parts.append(f"{facts.steps} epochs, {facts.weights:,} weights, loss {facts.loss:.4f}")
    elif facts.steps or facts.loss is not None:
        ending = "" if facts.converged else ", not converged"
        parts.append(f"{facts.steps} iterations{ending}, loss {facts.loss:,.2f}")
    if dev is not None:
        name = "accuracy" if scheme == "plain" else "span F1"
        parts.append(f"dev {name} {100 * score(dev[1], model.predict(dev[0]), scheme):.2f}")
    parts.append(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB")
    return "; ".join(parts)
