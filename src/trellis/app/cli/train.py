"""``trellis train``: read data, train a model with checkpoints, and write the model."""

import time
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
from trellis.app.training.data import TrainingData, name_file_in_errors, read_dev, read_files
from trellis.app.training.estimators import build_estimator, check_estimator
from trellis.app.training.features import build_spec
from trellis.app.training.options import DEV_EVERY, Options, check_options
from trellis.app.training.progress import draw_epochs, draw_iterations
from trellis.app.training.tuning import score, search
from trellis.data import corpus, tags
from trellis.formats.atomic import clear_leftovers
from trellis.models.chain.checkpoint import Checkpoint

__all__ = ["Options", "run"]


def run(options: Options) -> None:
    """Train a model on files with labels.

    **Examples**

    `trellis train train.conll --dev dev.conll -o model.trellis`

    `trellis train train.md --constraints auto --tune 8`

    `trellis train train.conll --template crfpp.template --model perceptron`

    `trellis train train.conll --dev dev.conll --model neural --vectors words.vec --hybrid`

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
    _train(options, checkpoint)


def _train(options: Options, checkpoint: Checkpoint) -> None:
    """Read the data, fit the model, write it, and remove the checkpoint."""
    start = time.perf_counter()
    data = read_files(options.files, options)
    dev = read_dev(options, data.labels)
    scheme = tags.detect(data.labels, otherwise="plain")
    spec = build_spec(options.extraction, corpus.width_of(data.X))
    model = build_estimator(options, spec, scheme)
    with name_file_in_errors(options.files, data.sizes):
        if options.tune:
            _tune(options, model, data, checkpoint)
        if options.model == "hmm":
            model.fit(data.X, data.y)
        else:
            _fit(options, model, data, dev, checkpoint)
    model.save(options.output)
    checkpoint.remove()
    print_status(f"{data}; {format_duration(time.perf_counter() - start)}", quiet=options.quiet)
    print_status(_summarise(options, model, dev, scheme), quiet=options.quiet)


def _fit(
    options: Options, model: Any, data: TrainingData, dev: Any, checkpoint: Checkpoint
) -> None:
    """Train with a progress bar; Ctrl-C saves a checkpoint and raises InterruptedWorkError."""
    if options.resume and not checkpoint.path.exists():
        print_status(
            f"{checkpoint.path} does not exist: training starts from the beginning",
            quiet=options.quiet,
        )
    neural = options.model == "neural"
    arguments = {} if neural else {"dev_every": options.dev_every or DEV_EVERY}
    with (
        show_progress("training", options.quiet) as update,
        catch_interrupts(checkpoint.halt) as signals,
    ):
        draw = draw_epochs(model, update) if neural else draw_iterations(model, update)
        model.fit(data.X, data.y, dev=dev, callback=draw, checkpoint=checkpoint, **arguments)
    if checkpoint.stopped:
        raise InterruptedWorkError(
            f"stopped at iteration {checkpoint.iteration}, saved in {checkpoint.path}. "
            f"Continue with:\n  {build_command_line('--resume')}",
            signals[0],
        )


def _tune(options: Options, model: Any, data: TrainingData, checkpoint: Checkpoint) -> None:
    """Choose l1 and l2 by cross-validation; with ``--resume``, take them from the checkpoint."""
    if parameters := checkpoint.parameters():
        model.set_params(l1=float(parameters["l1"]), l2=float(parameters["l2"]))
        return
    trials = []
    with show_progress("tuning", options.quiet) as update:
        for trial in search(model, data.X, data.y, options.tune, options.seed):
            trials.append(trial)
            best = max(trials, key=lambda trial: trial.score)
            text = f"{len(trials)} of {options.tune}  best {100 * best.score:.2f}"
            update(len(trials) / options.tune, text)
            print_status(f"  {trial}", quiet=options.quiet)
    print_status(f"chosen by cross-validation: {best}", quiet=options.quiet)
    model.set_params(l1=best.l1, l2=best.l2)


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
