"""``trellis train --best``: choose constraints, features, lists and the penalty by their scores.

Every choice is made on the development set, or by cross-validation without one. All candidates are
trained with the automatic penalty; the penalty is then tuned for the best of them.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trellis.app.terminal import print_status, show_progress
from trellis.app.training.data import TrainingData
from trellis.app.training.estimators import build_estimator
from trellis.app.training.features import WordLists, build_preset, build_spec, read_lists
from trellis.app.training.options import Options
from trellis.app.training.tuning import search
from trellis.data import corpus
from trellis.errors import TrellisError
from trellis.features import Spec
from trellis.models.chain.labels import constraints_for, encode

__all__ = ["PRESETS", "VALUES", "Candidate", "choose", "constrain", "list_candidates"]

PRESETS = ("auto", "ner", "pos", "chunking")
"""The values of ``--features`` that are tried."""
WITH_LISTS = ("auto", "ner", "pos")
"""The values of ``--features`` that can be combined with gazetteers and clusters."""
VALUES = 8  # number of l2 values that are tried with the best features, unless --tune N is given


class Candidate(NamedTuple):
    """A set of features."""

    name: str
    spec: Spec | None


def choose(options: Options, data: TrainingData, dev: Any, scheme: str) -> tuple[Any, Spec | None]:
    """Return the unfitted model with the best settings, and its features."""
    width = corpus.width_of(data.X)
    candidates = list(list_candidates(options, width))
    trials = []
    with show_progress("choosing features", options.quiet) as update:
        for n, candidate in enumerate(candidates):
            update(n / len(candidates), f"features: {candidate.name}")
            model = build_estimator(options, candidate.spec, scheme)
            trial = next(search(model, data.X, data.y, 1, options.seed, dev))
            trials.append((trial, candidate, model))
            print_status(
                f"  features: {candidate.name:<28} {100 * trial.score:.2f}", quiet=options.quiet
            )
    _, candidate, model = max(trials, key=lambda entry: entry[0].score)
    print_status(f"chosen features: {candidate.name}", quiet=options.quiet)
    return model, candidate.spec


def list_candidates(options: Options, width: int) -> Iterator[Candidate]:
    """Yield the feature sets to try: the template, or else ``--features`` or every preset.

    If there are gazetteers or clusters, a preset that can use them is tried with and without them.
    """
    extraction, encoding = options.extraction, options.data.encoding
    if extraction.template is not None:
        yield Candidate("template", build_spec(extraction, width, encoding))
        return
    lists = read_lists(extraction, encoding)
    if options.network.vectors is not None and not lists.clusters:
        lists = lists._replace(clusters={"cluster": _cluster_file(options.network.vectors)})
    presets = PRESETS if extraction.features == "auto" else (extraction.features,)
    empty, titles = WordLists({}, {}), [title for title, table in lists._asdict().items() if table]
    for name in presets:
        if any(lists) and name in (*WITH_LISTS, "words"):
            yield Candidate(" + ".join([name, *titles]), build_preset(name, width, lists))
        if name != "chunking" or width > 1:
            yield Candidate(name, build_preset(name, width, empty))


def _cluster_file(path: Path) -> dict[str, str]:
    # Imported here, because scikit-learn and the vectors are needed only with --vectors.
    from trellis.app.word_vectors import load_vectors
    from trellis.embeddings.vectors import cluster_words

    return cluster_words(load_vectors(path, None))


def constrain(options: Options, data: TrainingData, scheme: str) -> Options:
    """Return the options with the constraints of the scheme, if all training labels obey it."""
    if options.constraints is not None or scheme == "plain":
        return options
    lengths = np.array([len(labels) for labels in data.y])
    labels = encode(data.y, lengths)
    rules = constraints_for(scheme, labels.classes)
    try:
        if rules is not None:
            rules.check(labels, lengths)
    except TrellisError as error:
        text = str(error).partition(": ")[2]
        print_status(f"constraints {scheme} are not used: {text}", quiet=options.quiet)
        return options
    print_status(f"constraints: {scheme}", quiet=options.quiet)
    return dataclasses.replace(options, constraints=scheme)
