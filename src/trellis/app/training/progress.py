"""Callbacks that draw the progress of training: loss, development score and time left."""

from collections.abc import Callable
from typing import Any

from trellis.app.terminal import estimate_iterations_left, format_duration
from trellis.models.chain.solvers import default_max_iter
from trellis.optim.result import Progress

__all__ = ["draw_epochs", "draw_iterations", "draw_shards"]


def draw_iterations(
    model: Any, update: Callable[[float | None, str], None]
) -> Callable[[Progress], None]:
    """Return a callback of a linear model that calls ``update(fraction, text)``."""
    first_iteration = 0
    max_iter = model.max_iter or default_max_iter(model.solver)

    def draw(progress: Progress) -> None:
        nonlocal first_iteration
        first_iteration = first_iteration or progress.iteration  # after --resume, this is not 1
        # After --resume, model.losses_ also has the losses of earlier runs.
        losses = [loss for _, loss in model.losses_]
        iterations_left = estimate_iterations_left(losses, max_iter)
        text = f"iteration {progress.iteration}  loss {progress.loss:,.1f}"
        if model.dev_scores_:
            text += f"  dev {100 * model.dev_scores_[-1][1]:.2f}"
        fraction = None
        if iterations_left is not None:
            seconds = progress.seconds / (progress.iteration - first_iteration + 1)
            text += f"  about {format_duration(iterations_left * seconds)} left"
            fraction = progress.iteration / max(1, progress.iteration + iterations_left)
        update(fraction, text)

    return draw


def draw_shards(update: Callable[[float | None, str], None]) -> Callable[[str, int, int], None]:
    """Return a callback of an engine that draws the passes over the shards before training."""

    def draw(name: str, done: int, shards: int) -> None:
        if name in ("vocabulary", "features"):
            update(done / shards, f"{name}: {done} of {shards} shards")

    return draw


def draw_epochs(model: Any, update: Callable[[float | None, str], None]) -> Callable[[Any], None]:
    """Return a callback of a neural tagger that calls ``update(fraction, text)``."""

    def draw(progress: Any) -> None:
        text = f"epoch {progress.epoch} of {model.epochs}  loss {progress.loss:.4f}"
        if progress.dev_score is not None:
            text += f"  dev {100 * progress.dev_score:.2f}"
        time_left = format_duration((model.epochs - progress.epoch) * progress.seconds)
        text += f"  {progress.tokens_per_second:,.0f} tokens/s  at most {time_left} left"
        update(progress.epoch / model.epochs, text)

    return draw
