"""Compare CRF tagging with trellis, python-crfsuite and sklearn-crfsuite, with equal models.

    python benchmarks/crf_tag.py                        everything, about two minutes
    python benchmarks/crf_tag.py --quick                a smaller model, few repeats
    python benchmarks/crf_tag.py --only tokens
    python benchmarks/crf_tag.py --json crf_tag.json --markdown

Times are printed only if all sides give the same labels and the same probabilities.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import crf_ours
import crf_peers
import numpy as np
import pycrfsuite
from crf_data import CHUNKING, CHUNKING_TEST, Task, build_all, chunking_dicts, chunking_names, read
from sections import run_sections
from timing import Case, Table, WrongResultError, check_close, milliseconds, ratio, time_alternating

from trellis import CRF
from trellis.features import chunking

PACKAGES = ("trellis", "numpy", "python-crfsuite", "sklearn-crfsuite")
ITERATIONS = 20  # the speed does not depend on the quality of the weights
JOBS = (1, 2)
Ways = dict[str, Callable[[], Any]]


class Models(NamedTuple):
    """Models with the same weights: CoNLL-2000 with the features of CRFsuite's example."""

    tagger: pycrfsuite.Tagger
    sklearn: Any  # sklearn_crfsuite.CRF on the tagger's file
    tokens: list[CRF]  # ours on 1 and 2 threads, from tokens
    ready: list[CRF]  # the same, from lists of names and dicts


@cache
def train_models(quick: bool) -> Models:
    """Train all sides. Raise unless they end at the same loss."""
    corpus = read(CHUNKING, 1500 if quick else None)
    names = build_all(chunking_names, corpus)
    tokens = Task("tokens", corpus.X, names, corpus.y, 5 if quick else ITERATIONS, chunking())
    ready = Task("ready", names, names, corpus.y, tokens.iterations)
    trainer = crf_peers.trainer_for(tokens)
    crf_peers.append(trainer, names, corpus.y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.crfsuite"
        loss = crf_peers.train(trainer, path=path).loss
        tagger, sklearn = crf_peers.taggers(path)
    return Models(tagger, sklearn, train_ours(tokens, loss), train_ours(ready, loss))


def train_ours(task: Task, loss: float) -> list[CRF]:
    """Return our model for 1 and 2 threads. Raise unless it ends at the loss of CRFsuite."""
    crf, outcome = crf_ours.train(task, n_jobs=2)
    check_close(f"loss, from {task.name}", outcome.loss, loss)
    return [copy.copy(crf).set_params(n_jobs=n) for n in JOBS]


def time_ways(title: str, ways: Ways, tokens: int, quick: bool, notes: tuple[str, ...]) -> Table:
    """Return a table: the speed of each way, and its ratio to each peer.

    A way whose name does not start with "ours" is a peer.
    """
    peers = [name for name in ways if not name.startswith("ours")]
    repeats = 3 if quick else 9
    slow = 1 if quick else 5  # repeats of the peers
    cases = [Case(name, call, slow if name in peers else None) for name, call in ways.items()]
    times = time_alternating(cases, repeats)
    gains = [f"x {peer}{at}" for peer in peers for at in ("", " (min)")]
    table = Table(title, ("way", "ms", "tokens/s", "(min)", *gains), notes=[*notes])
    for name, timing in times.items():
        speeds = (round(tokens / seconds) for seconds in (timing.median, timing.minimum))
        ratios = (ratio(times[peer], timing, at) for peer in peers for at in ("median", "minimum"))
        table.add(name, milliseconds(timing), *speeds, *ratios)
    table.notes.append(
        "columns with (min) are computed from the shortest times, the others from the medians"
    )
    table.keep(title, times)
    return table


def check_labels(ways: Ways) -> None:
    """Raise unless all ways give the labels of the first one."""
    expected: list[list[str]] = []
    for name, call in ways.items():
        paths = [list(labels) for labels in call()]
        expected = expected or paths
        for i, (labels, right) in enumerate(zip(paths, expected, strict=True)):
            if labels != right:
                raise WrongResultError(f"sentence {i}: {name} gives {labels}, expected {right}")


# ---- the sections


def from_tokens(quick: bool) -> list[Table]:
    """Time the way from tokens to labels: features, scores and the best path."""
    X, y = read(CHUNKING_TEST)
    tagger, sklearn, ours, _ = train_models(quick)
    sequence = pycrfsuite.ItemSequence
    ways: Ways = {
        "python-crfsuite": lambda: [tagger.tag(sequence(chunking_names(x))) for x in X],
        "sklearn-crfsuite": lambda: sklearn.predict([chunking_dicts(x) for x in X]),
        "ours 1": lambda: ours[0].predict(X),
        "ours 2": lambda: ours[1].predict(X),
    }
    check_labels(ways)
    notes = (
        "the peers compute features in Python, where each string is built once; python-crfsuite "
        "gets lists of names in an ItemSequence, sklearn-crfsuite gets dicts",
        "ours 1 and ours 2 have n_jobs of 1 and 2",
    )
    tokens = sum(map(len, y))
    return [time_ways(f"From {tokens:,} tokens to labels", ways, tokens, quick, notes)]


def from_ready(quick: bool) -> list[Table]:
    """Time the way from features that the caller has built to labels."""
    corpus = read(CHUNKING_TEST)
    tagger, sklearn, _, ours = train_models(quick)
    names, dicts = build_all(chunking_names, corpus), build_all(chunking_dicts, corpus)
    sequences = [pycrfsuite.ItemSequence(items) for items in names]
    by_names: Ways = {
        "ItemSequence": lambda: [tagger.tag(items) for items in sequences],
        "python-crfsuite": lambda: [tagger.tag(items) for items in names],
        "ours 1": lambda: ours[0].predict(names),
        "ours 2": lambda: ours[1].predict(names),
    }
    by_dicts: Ways = {
        "sklearn-crfsuite": lambda: sklearn.predict(dicts),
        "ours 1": lambda: ours[0].predict(dicts),
        "ours 2": lambda: ours[1].predict(dicts),
    }
    check_labels(by_names | {f"{name}, dicts": call for name, call in by_dicts.items()})
    note = ("ItemSequence is python-crfsuite's container; it is filled before the timing starts",)
    return [
        time_ways("From lists of names to labels", by_names, corpus.tokens, quick, note),
        time_ways("From dicts to labels", by_dicts, corpus.tokens, quick, ()),
    ]


def marginals(quick: bool) -> list[Table]:
    """Time the marginals: p(label | sentence) of every label at every position."""
    corpus = read(CHUNKING_TEST, 400 if quick else None)
    _, sklearn, _, ours = train_models(quick)
    dicts = build_all(chunking_dicts, corpus)
    order = ours[0].classes_.tolist()
    expected = [
        [token[label] for label in order]
        for sentence in sklearn.predict_marginals(dicts)
        for token in sentence
    ]
    for crf in ours:
        check_close("marginals", np.concatenate(crf.predict_marginals(dicts)), expected, 1e-6)
    ways: Ways = {
        "sklearn-crfsuite": lambda: sklearn.predict_marginals(dicts),
        "ours 1": lambda: ours[0].predict_marginals(dicts),
        "ours 2": lambda: ours[1].predict_marginals(dicts),
    }
    return [time_ways("From dicts to marginals", ways, corpus.tokens, quick, ())]


if __name__ == "__main__":
    sections = {"tokens": from_tokens, "ready": from_ready, "marginals": marginals}
    run_sections(str(__doc__), PACKAGES, sections)
