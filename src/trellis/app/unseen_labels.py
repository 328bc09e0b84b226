"""A warning about labels of a file that a model does not have, with the place of the first one."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trellis.app.cli.options import DataOptions
from trellis.app.terminal import print_status
from trellis.data import corpus, tags
from trellis.errors import InputError
from trellis.models.chain.labels import UnseenLabels, count_unseen

__all__ = ["warn_of_unseen_labels"]


def warn_of_unseen_labels(
    path: Path,
    y: list[list[str]],
    classes: Iterable[Any],
    reading: DataOptions,
    *,
    counts_spans: bool = True,
    quiet: bool = False,
) -> UnseenLabels:
    """Print a warning if a label in ``y`` is not one of the classes; return the counts.

    With ``counts_spans``, raise InputError if such a label is not a tag of the scheme of the
    classes, because spans cannot be counted with it.
    """
    names = [str(label) for label in classes]
    unseen = count_unseen(y, names)
    if not unseen.counts:
        return unseen
    scheme = tags.detect(names, otherwise="plain")
    for label in unseen.counts if counts_spans else ():
        try:
            tags.spans([str(label)], scheme)
        except InputError:
            raise InputError(
                f"{_find_place(path, y, label, reading)}: label {label!r} is not a tag of scheme "
                f"{scheme}, which the labels of the training data have"
            ) from None
    place = _find_place(path, y, next(iter(unseen.counts)), reading)
    print_status(f"trellis: warning: {place}: {unseen}", quiet=quiet)
    return unseen


def _find_place(path: Path, y: list[list[str]], label: Any, reading: DataOptions) -> str:
    """Return the file and the line of a label; its position in y if the file is a pipe."""
    line = corpus.line_with(path, label, reading.format, reading.layout)
    if line:
        return f"{path}, line {line}"
    n, t = next((n, t) for n, row in enumerate(y) for t, value in enumerate(row) if value == label)
    return f"{path}, sequence {n + 1}, token {t + 1}"
