"""`trellis train`: files in, a model out, and a state to go on from if it is stopped."""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trellis import features as presets
from trellis.app import train_neural
from trellis.app.terminal import (
    InterruptedWorkError,
    bar,
    check_writable,
    command_line,
    duration,
    interrupts,
    iterations_left,
    say,
)
from trellis.app.tune import score, search
from trellis.data import corpus, files, tags
from trellis.errors import FormatError, InfeasibleError, InputError
from trellis.features import Spec, Window, templates, wapiti
from trellis.formats.atomic import clear_leftovers
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.crf import CRF
from trellis.models.chain.hmm import HMM
from trellis.models.chain.memm import MEMM
from trellis.models.chain.parameters import check_parameters
from trellis.optim.result import Progress

__all__ = ["FEATURES", "MODELS", "Job", "run"]

MODELS = ("crf", "memm", "hmm", "neural", "sgd", "perceptron", "passive-aggressive", "arow")
FEATURES = ("auto", "words", "chunking", "chunking-rich", "ner", "pos")
_DEV_EVERY = 5  # iterations
_ONLINE = ("l1", "l2", "tune", "solver")
_NOT_FOR = {
    "hmm": (
        *_ONLINE,
        *("max_iter", "min_count", "states", "transitions", "constraints"),
        *("patience", "checkpoint_every", "resume"),
    ),
    "neural": (
        *_ONLINE,
        *("max_iter", "min_count", "states", "transitions", "dev_every", "template"),
    ),
    "sgd": ("l1", "solver"),
    **dict.fromkeys(("perceptron", "passive-aggressive", "arow"), _ONLINE),
}


@dataclasses.dataclass
class Job:
    """What is asked for; None is the model's own default."""

    files: list[Path]
    output: Path
    dev: Path | None = None
    model: str = "crf"
    format: str | None = None
    layout: corpus.Columns = dataclasses.field(default_factory=corpus.Columns)
    template: Path | None = None
    features: str = "auto"
    gazetteers: dict[str, Path] = dataclasses.field(default_factory=dict)
    l1: float | None = None
    l2: float | None = None
    solver: str | None = None
    max_iter: int | None = None
    min_count: float | None = None
    states: str | None = None
    transitions: str | None = None
    constraints: str | None = None
    patience: int | None = None
    dev_every: int | None = None
    jobs: int | None = None
    seed: int = 0
    tune: int = 0
    checkpoint_every: int | None = None
    resume: bool = False
    network: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What is asked of a network; ``hybrid`` gives it the features as well."""
    quiet: bool = False


def run(job: Job) -> None:
    """Train a model and write it."""
    read = [*job.files, job.dev, job.template, job.network.get("vectors"), *job.gazetteers.values()]
    check_writable(job.output, *(path for path in read if path is not None))
    _check(job)
    checkpoint = Checkpoint(
        job.output.with_name(job.output.name + ".checkpoint"),
        every=job.checkpoint_every,
        resume=job.resume,
    )
    for path in (job.output, checkpoint.path):
        clear_leftovers(path)
    began = time.perf_counter()
    X, y, sizes = _read(job.files, job)
    labels = {label for own in y for label in own}
    dev = _dev(job, labels)
    scheme = tags.detect(labels, otherwise="plain")
    model = _estimator(job, _spec(job, corpus.width_of(X)), scheme, dev is not None)
    with _naming(job.files, sizes):
        if job.tune:
            _tuned(job, model, X, y, checkpoint)
        if isinstance(model, HMM):
            model.fit(X, y)
        else:
            _fit(job, model, X, y, dev, checkpoint)
    model.save(job.output)
    checkpoint.remove()
    count = f"{len(X):,} sequences, {sum(map(len, X)):,} tokens, {len(labels)} labels"
    say(f"{count}; {duration(time.perf_counter() - began)}", quiet=job.quiet)
    _summary(job, model, dev, scheme)


def _read(paths: list[Path], job: Job) -> tuple[list[Any], list[list[str]], list[int]]:
    """The sequences of all files, their labels, and how many each file has."""
    X: list[Any] = []
    y: list[list[str]] = []
    sizes = []
    width = None
    for path in paths:
        sequences, labels = corpus.read(path, job.format, job.layout)
        found = corpus.width_of(sequences)
        if found != (width := width or found):
            raise FormatError(f"{path}: tokens of {found} columns, but of {width} in {paths[0]}")
        X += sequences
        y += labels
        sizes.append(len(sequences))
    return X, y, sizes


@contextmanager
def _naming(paths: list[Path], sizes: list[int]) -> Iterator[None]:
    """Errors inside that name a sequence of all files name the file, and count from 1 in it."""
    try:
        yield
    except (InputError, InfeasibleError) as error:
        found = re.match(r"sequence (\d+), position (\d+): (.*)", str(error))
        if not found:
            raise
        number, position = int(found[1]), int(found[2])
        for path, size in zip(paths, sizes, strict=True):
            if number < size:
                where = f"{path}, sequence {number + 1}, token {position + 1}"
                raise type(error)(f"{where}: {found[3]}") from None
            number -= size
        raise


def _dev(job: Job, labels: set[str]) -> tuple[list[Any], list[list[str]]] | None:
    """The development set, whose labels must all be known."""
    if job.dev is None:
        return None
    X, y, _ = _read([job.dev], job)
    for n, own in enumerate(y):
        for t, label in enumerate(own):
            if label not in labels:
                line = corpus.line_with(job.dev, label, job.format, job.layout)
                where = f"line {line}" if line else f"sequence {n + 1}, token {t + 1}"
                raise InputError(
                    f"{job.dev}, {where}: label {label!r} does not occur in the training data"
                )
    return X, y


def _check(job: Job) -> None:
    """Find out before the data are read what no data can make right."""
    if job.model not in MODELS:
        raise InputError(f"--model must be one of {', '.join(MODELS)}, not {job.model!r}")
    if job.features not in FEATURES:
        raise InputError(f"--features must be one of {', '.join(FEATURES)}, not {job.features!r}")
    if job.template and (job.features != "auto" or job.gazetteers):
        raise InputError("--template says all features: --features and --gazetteer are not for it")
    for option, least in (("tune", 0), ("seed", 0), ("dev_every", 1), ("patience", 1)):
        value = getattr(job, option)
        if value is not None and value < least:
            name = option.replace("_", "-")
            raise InputError(f"--{name} must be at least {least}, not {value}")
    if job.patience is not None and job.dev is None:
        raise InputError("--patience needs a development set: --dev FILE")
    train_neural.check(job)
    for option in _NOT_FOR.get(job.model, ()):
        value = getattr(job, option)
        if value is not None and value is not False and (option, value) != ("tune", 0):
            raise InputError(f"--{option.replace('_', '-')} is not for --model {job.model}")
    if job.model not in ("hmm", "neural"):
        check_parameters(_estimator(job, None, "BIO", job.dev is not None))


def _estimator(job: Job, spec: Spec | None, scheme: str, has_dev: bool) -> Any:
    if job.model == "hmm":
        return HMM(spec, n_jobs=job.jobs, random_state=job.seed)
    if job.model == "neural":
        return train_neural.estimator(job, spec, scheme)
    settings = {
        name: value
        for name in ("l1", "l2", "solver", "max_iter", "min_count", "states", "transitions")
        if (value := getattr(job, name)) is not None
    }
    if job.model not in ("crf", "memm"):
        settings["solver"] = job.model
    if job.template and job.transitions is None and spec is not None:
        settings["transitions"] = "all" if any(t.edge for t in spec.templates) else "none"
    if job.constraints:
        settings["constraints"] = scheme if job.constraints == "auto" else job.constraints
    return (MEMM if job.model == "memm" else CRF)(
        spec,
        scoring="accuracy" if scheme == "plain" else "span_f1",
        early_stopping=job.patience if has_dev else None,
        n_jobs=job.jobs,
        random_state=job.seed,
        **settings,
    )


def _spec(job: Job, width: int) -> Spec | None:
    """The features that are asked for; None for the default ones."""
    if job.template is not None:
        return _template(job.template)
    columns = tuple(f"c{n}" for n in range(1, width))
    lists = {name: [*files.lines(path)] for name, path in job.gazetteers.items()}
    lists = {name: [line for line in own if line.strip()] for name, own in lists.items()}
    if job.features == "ner":
        return presets.ner(columns, lists)
    if job.features in ("auto", "words"):
        own = () if job.features == "words" else columns
        return Window(columns=own, gazetteers=lists).spec() if lists or own != columns else None
    if lists:
        raise InputError(f"--gazetteer needs --features auto, words or ner, not {job.features}")
    spec: Spec = getattr(presets, job.features.replace("-", "_"))()
    if spec.columns > width:
        raise InputError(f"--features {job.features} needs {spec.columns} columns, not {width}")
    return spec


def _template(path: Path) -> Spec:
    """A file of CRF++'s templates, or else of Wapiti's patterns."""
    try:
        spec = templates.parse(path)
    except FormatError as error:
        try:
            spec = wapiti.parse(path)
        except FormatError:
            raise error from None
    if not spec.templates:
        raise FormatError(f"{path}: there is no template in it")
    return spec


def _fit(job: Job, model: Any, X: Any, y: Any, dev: Any, checkpoint: Checkpoint) -> None:
    if job.resume and not checkpoint.path.exists():
        say(f"{checkpoint.path} is not there: training begins at the beginning", quiet=job.quiet)
    neural = job.model == "neural"
    options = {} if neural else {"dev_every": job.dev_every or _DEV_EVERY}
    with bar("training", job.quiet) as show, interrupts(checkpoint.halt) as seen:
        each = train_neural.shown(model, show) if neural else _shown(model, show)
        model.fit(X, y, dev=dev, callback=each, checkpoint=checkpoint, **options)
    if not checkpoint.stopped:
        return
    raise InterruptedWorkError(
        f"stopped at iteration {checkpoint.iteration}, and saved in {checkpoint.path}. Go on with:"
        f"\n  {command_line('--resume')}",
        seen[0],
    )


def _tuned(job: Job, model: Any, X: Any, y: Any, checkpoint: Checkpoint) -> None:
    """Set l1 and l2 to the best by cross-validation, or to those of the run that is to go on."""
    earlier = checkpoint.parameters()
    if earlier:
        model.set_params(l1=float(earlier["l1"]), l2=float(earlier["l2"]))
        return
    with bar("tuning", job.quiet) as show:
        tried = []
        for trial in search(model, X, y, job.tune, job.seed):
            tried.append(trial)
            best = max(tried, key=lambda t: t.score)
            show(len(tried) / job.tune, f"{len(tried)} of {job.tune}  best {100 * best.score:.2f}")
            say(f"  {trial}", quiet=job.quiet)
    say(f"chosen: {best}, by cross-validation", quiet=job.quiet)
    model.set_params(l1=best.l1, l2=best.l2)


def _shown(model: Any, show: Callable[[float | None, str], None]) -> Callable[[Progress], None]:
    """A callback that draws the loss, the score on the development set and the time left."""
    first = 0
    most = model.max_iter or (None if model.solver == "lbfgs" else 100)

    def each(progress: Progress) -> None:
        nonlocal first
        first = first or progress.iteration
        losses = [loss for _, loss in model.losses_]
        left = iterations_left(losses, most)
        text = f"iteration {progress.iteration}  loss {progress.loss:,.1f}"
        if model.dev_scores_:
            text += f"  dev {100 * model.dev_scores_[-1][1]:.2f}"
        share = None
        if left is not None:
            each_takes = progress.seconds / (progress.iteration - first + 1)
            text += f"  about {duration(left * each_takes)} left"
            share = progress.iteration / max(1, progress.iteration + left)
        show(share, text)

    return each


def _summary(job: Job, model: Any, dev: Any, scheme: str) -> None:
    parts = []
    if job.model == "neural":
        parts.append(train_neural.summary(model))
    elif job.model != "hmm":
        ended = "" if model.converged_ else ", not converged"
        parts.append(f"{model.n_iter_} iterations{ended}, loss {model.objective_:,.2f}")
    if dev is not None:
        name = "accuracy" if scheme == "plain" else "span F1"
        parts.append(f"dev {name} {100 * score(dev[1], model.predict(dev[0]), scheme):.2f}")
    parts.append(f"{job.output}: {job.output.stat().st_size / 1e6:.1f} MB")
    say("; ".join(parts), quiet=job.quiet)
