"""`trellis embed`: vectors of words, or a classifier of texts, learned from files."""

import time
from pathlib import Path
from typing import Any

from trellis.app.terminal import bar, check_writable, duration, say
from trellis.embeddings.classifier import TextClassifier
from trellis.embeddings.fasttext import FastText
from trellis.embeddings.training import Progress
from trellis.embeddings.word2vec import Word2Vec
from trellis.errors import InputError

__all__ = ["run"]

_MODELS = {"words": Word2Vec, "subwords": FastText, "supervised": TextClassifier}
_OUTPUTS = {
    "words": (".trellis", ".vec", ".txt", ".bin"),
    "subwords": (".trellis", ".vec", ".txt", ".bin"),
    "supervised": (".trellis", ".bin", ".ftz"),
}


def run(
    files: list[Path],
    output: Path,
    *,
    kind: str,
    architecture: str,
    dim: int,
    settings: dict[str, Any],
    seed: int | None,
    jobs: int | None,
    quiet: bool,
) -> None:
    """Train, with a bar on a terminal, and write what the output's name asks for."""
    check_writable(output, *files)
    if output.suffix not in _OUTPUTS[kind]:
        known = ", ".join(_OUTPUTS[kind])
        raise InputError(f"{output}: its name must end in one of {known}")
    model = _model(kind, architecture, dim, settings, seed, jobs)
    for path in files:
        path.stat()  # before an hour of training on the others
    began = time.monotonic()
    with bar("training", quiet) as show:

        def tell(progress: Progress) -> None:
            speed, loss = progress.words_per_second, progress.loss
            show(progress.fraction, f"{speed:,.0f} words/s  loss {loss:.3f}")

        model.fit(files, callback=tell)
    _save(model, kind, output)
    took = duration(time.monotonic() - began)
    speed = f"{model.words_per_second_:,.0f} words/s"
    say(f"{output}: {len(model.words_):,} words, {dim} dimensions; {took}, {speed}", quiet=quiet)


def _model(
    kind: str,
    architecture: str,
    dim: int,
    settings: dict[str, Any],
    seed: int | None,
    jobs: int | None,
) -> Any:
    made = _MODELS[kind]
    if kind != "supervised":
        settings = {"architecture": architecture, **settings}
    wrong = sorted(settings.keys() - set(made().get_params()))
    if wrong:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise InputError(f"{names}: no option of {made.__name__}")
    return made(dim, n_jobs=jobs, random_state=seed, **settings)


def _save(model: Any, kind: str, output: Path) -> None:
    if output.suffix == ".trellis":
        model.save(output)
    elif output.suffix == ".ftz":
        model.quantize().save_fasttext(output)
    elif kind == "words" or output.suffix != ".bin":
        model.vectors_.save(output)
    else:
        model.save_fasttext(output)
