"""`trellis train --model neural`: what is not as with the linear models."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trellis.app.models import count_weights
from trellis.app.terminal import duration
from trellis.errors import InputError
from trellis.features import Spec

if TYPE_CHECKING:
    from trellis.app.train import Job

__all__ = ["check", "estimator", "shown", "summary"]


def check(job: "Job") -> None:
    """Options that go together with ``--model neural``, or do not."""
    if job.model != "neural":
        for option in job.network:
            raise InputError(f"--{option.replace('_', '-')} is for --model neural")
        return
    if not job.network.get("hybrid") and (job.features != "auto" or job.gazetteers):
        raise InputError("--features and --gazetteer need --hybrid with --model neural")
    tagger = estimator(job, None, "BIO")
    from trellis.nn.tagger.settings import check_settings, choose_device

    check_settings(tagger)
    choose_device(tagger.device)
    if tagger.vectors is not None:
        tagger.vectors.stat()  # before the data are read


def estimator(job: "Job", spec: Spec | None, scheme: str) -> Any:
    """The tagger that is asked for; what is not said is its own default."""
    try:
        from trellis.nn.tagger.tagger import NeuralTagger
    except ImportError as error:
        raise InputError(f"--model neural: {error}") from None
    settings = dict(job.network)
    if settings.pop("hybrid", False):
        settings["features"] = "crf" if spec is None else spec
    if "words" in settings:
        settings["words"] = tuple(settings["words"])
    if job.patience is not None:
        settings["patience"] = job.patience
    if job.constraints:
        settings["constraints"] = scheme if job.constraints == "auto" else job.constraints
    return NeuralTagger(random_state=job.seed, n_jobs=job.jobs, **settings)


def shown(model: Any, show: Callable[[float | None, str], None]) -> Callable[[Any], None]:
    """A callback that draws the loss, the score on the development set and the time left."""

    def each(now: Any) -> None:
        most = model.epochs
        text = f"epoch {now.epoch} of {most}  loss {now.loss:.4f}"
        if now.dev_score is not None:
            text += f"  dev {100 * now.dev_score:.2f}"
        left = duration((most - now.epoch) * now.seconds)
        text += f"  {now.tokens_per_second:,.0f} tokens/s  at most {left} left"
        show(now.epoch / most, text)

    return each


def summary(model: Any) -> str:
    """How the training ended."""
    weights = f"{count_weights(model):,} weights"
    return f"{len(model.history_)} epochs, {weights}, loss {model.history_[-1].loss:.4f}"
