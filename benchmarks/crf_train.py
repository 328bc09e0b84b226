"""Compare CRF training with trellis and CRFsuite, with the same attributes and objective.

    python benchmarks/crf_train.py                      everything, about four minutes
    python benchmarks/crf_train.py --quick              part of the data, under a minute
    python benchmarks/crf_train.py --only brown memory
    python benchmarks/crf_train.py --json crf_train.json --markdown

Times are printed only if both sides end at the same loss with the same number of weights.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import crf_ours
import crf_peers
from crf_data import (
    CHUNKING,
    SPANISH,
    Corpus,
    Outcome,
    Task,
    brown,
    build_all,
    chunking_dicts,
    chunking_names,
    ner_dicts,
    pos_names,
    read,
)
from crf_memory import FORMS, ITERATIONS, measure_in_process
from sections import run_sections
from timing import (
    Case,
    Table,
    Times,
    WrongResultError,
    check_close,
    milliseconds,
    ratio,
    time_alternating,
    time_iterations,
)

from trellis.features import chunking

PACKAGES = ("trellis", "numpy", "python-crfsuite", "sklearn-crfsuite")
TURNS = 5  # turns of each side, so that noise affects all sides
QUICK = 1500  # sentences
SIDES = ("CRFsuite", "ours 1", "ours 2")


# ---- the tasks


def chunking_task(quick: bool) -> Task:
    """Return CoNLL-2000 with the features of CRFsuite's example; trellis computes its own."""
    corpus = read(CHUNKING, QUICK if quick else None)
    items = build_all(chunking_names, corpus)
    return Task("CoNLL-2000", corpus.X, items, corpus.y, 20 if quick else 50, chunking())


def spanish_task(quick: bool) -> Task:
    """Return CoNLL-2002 Spanish with the features of sklearn-crfsuite's tutorial."""
    corpus = read(SPANISH, QUICK if quick else None)
    items = build_all(ner_dicts, corpus)
    return Task("CoNLL-2002 es", items, items, corpus.y, 20 if quick else 50)


def brown_task(quick: bool) -> Task:
    """Return Brown with its 260 labels: the time grows with the square of their number."""
    corpus = brown(10_000) if quick else brown()
    items = build_all(pos_names, corpus)
    return Task("Brown", items, items, corpus.y, 4 if quick else 6)


def sparse_task(quick: bool) -> Task:
    """Return Spanish with the settings of the tutorial: both penalties, all transitions."""
    corpus = read(SPANISH, QUICK if quick else None)
    items = build_all(ner_dicts, corpus)
    return Task(
        "CoNLL-2002 es, L1",
        items,
        items,
        corpus.y,
        30 if quick else 100,
        c1=0.1,
        c2=0.1,
        all_transitions=True,
    )


# ---- time per iteration


def iterations(make: Callable[[bool], Task]) -> Callable[[bool], list[Table]]:
    """Return a section that trains one task on all sides in turn."""

    def section(quick: bool) -> list[Table]:
        task = make(quick)
        trainer = crf_peers.trainer_for(task)
        crf_peers.append(trainer, task.items, task.y)
        times, ends = time_iterations(
            {
                "CRFsuite": lambda tick: crf_peers.train(trainer, tick),
                "ours 1": lambda tick: crf_ours.train(task, 1, tick),
                "ours 2": lambda tick: crf_ours.train(task, 2, tick),
            },
            turn=max(1, task.iterations // TURNS),
        )
        digests = {crf_ours.digest(ends[side][0]) for side in SIDES[1:]}
        if len(digests) > 1:
            raise WrongResultError(f"{task.name}: the weights depend on n_jobs: {digests}")
        outcomes = {"CRFsuite": ends["CRFsuite"]} | {side: ends[side][1] for side in SIDES[1:]}
        check_outcomes(task, outcomes)
        return [speed_table(task, times), ends_table(task, outcomes)]

    return section


def check_outcomes(task: Task, outcomes: dict[str, Outcome]) -> None:
    """Raise unless both sides have the same number of weights and the same loss."""
    peer, ours = outcomes["CRFsuite"], outcomes["ours 1"]
    if peer.weights != ours.weights:
        raise WrongResultError(f"{task.name}: {ours.weights} weights, CRFsuite {peer.weights}")
    # with L1, the last digits depend on which weights are 0
    check_close(f"{task.name}: loss", ours.loss, peer.loss, 1e-3 if task.c1 else 1e-4)


def speed_table(task: Task, times: Times) -> Table:
    """Return a table of the time per iteration, and of the ratios."""
    labels = len({label for labels in task.y for label in labels})
    tokens = sum(map(len, task.y))
    table = Table(
        f"{task.name}: {tokens:,} tokens, {labels} labels, c1 = {task.c1}, c2 = {task.c2}",
        ("side", "ms an iteration", "at minimum", "CRFsuite / this", "at minima", "iterations"),
    )
    for side in SIDES:
        time = times[side]
        gains = (ratio(times["CRFsuite"], time, at) for at in ("median", "minimum"))
        table.add(side, milliseconds(time), 1e3 * time.minimum, *gains, time.repeats)
    table.notes = [
        "ours 1, 2: n_jobs; wall clock, without the first iteration and the preparation",
        f"in turns of {max(1, task.iterations // TURNS)} iterations",
    ]
    table.keep(task.name, times)
    return table


def ends_table(task: Task, outcomes: dict[str, Outcome]) -> Table:
    """Return a table of the state at the end of the trainings."""
    table = Table(
        f"{task.name}: where the trainings end",
        ("side", "loss", "difference", "iterations", "evaluations", "weights", "not 0"),
    )
    peer = outcomes["CRFsuite"].loss
    for side, end in outcomes.items():
        difference = f"{(end.loss - peer) / peer:+.1e}"
        table.add(side, f"{end.loss:,.6f}", difference, *end[1:])
    table.notes = [
        "difference: relative to CRFsuite; the weights of ours 1 and 2 have the same bits"
    ]
    return table


# ---- before the first iteration


def ingestion(quick: bool) -> list[Table]:
    """Time the preparation before the first iteration, from tokens, lists of names and dicts."""
    task = chunking_task(quick)
    corpus = Corpus(task.X, task.y)
    table = Table(
        f"CoNLL-2000, {corpus.tokens:,} tokens: before the first iteration",
        ("from", "peer", "peer s", "ours s", "peer / ours", "at minima"),
    )
    table.notes = [
        "peers: features in Python where they start from tokens, and append; "
        "their own preparation is not included",
        "ours: all of fit(max_iter=0), with one evaluation of the loss; one thread",
    ]

    def from_tokens() -> None:
        crf_peers.append(crf_peers.trainer_for(task), map(chunking_names, task.X), task.y)

    def from_names() -> None:
        crf_peers.append(crf_peers.trainer_for(task), task.items, task.y)

    names, dicts = ready(task, task.items), ready(task, build_all(chunking_dicts, corpus))
    rows: list[tuple[str, str, Callable[[], None], Task]] = [
        ("tokens", "python-crfsuite", from_tokens, task),
        ("lists of names", "python-crfsuite", from_names, names),
        ("dicts", "sklearn-crfsuite", lambda: crf_peers.load_dicts(dicts), dicts),
    ]
    sizes = {len(prepare(form_task).coef_) for *_, form_task in rows}
    if len(sizes) > 1:
        raise WrongResultError(f"the forms of the same features have {sizes} weights")
    repeats = 1 if quick else 3
    for form, peer, load, form_task in rows:
        ours = partial(prepare, form_task)
        cases = [Case("peer", load, repeats), Case("ours", ours, repeats)]
        times = time_alternating(cases, repeats)
        gains = (ratio(times["peer"], times["ours"], at) for at in ("median", "minimum"))
        table.add(form, peer, times["peer"].median, times["ours"].median, *gains)
        table.keep(form, times)
    return [table]


def ready(task: Task, items: list[object]) -> Task:
    """Return the task with features that were built in Python."""
    return Task(task.name, items, items, task.y, task.iterations)


def prepare(task: Task) -> crf_ours.CRF:
    """Return our model before its first iteration."""
    return crf_ours.model(task, n_jobs=1, max_iter=0).fit(task.X, task.y)


# ---- memory


def memory(quick: bool) -> list[Table]:
    """Measure the peak memory of training processes. Their weights must equal those of this one."""
    corpus = read(CHUNKING, QUICK if quick else None)
    table = Table(
        f"CoNLL-2000, {corpus.tokens:,} tokens: peak memory of a process, {ITERATIONS} iterations",
        ("form", "MB with imports only", "MB at the peak", "loss"),
    )
    probes = {form: measure_in_process(form, len(corpus.X)) for form in FORMS}
    first, *later = probes.values()
    for probe in later:
        check_close("loss in another process", probe.loss, first.loss, 1e-4)
    task = Task("", corpus.X, [], corpus.y, ITERATIONS, chunking())
    digests = {p.digest for p in probes.values() if p.digest}
    digests.add(crf_ours.digest(crf_ours.train(task, n_jobs=2)[0]))
    if len(digests) > 1:
        raise WrongResultError(f"repeated runs of ours give different weights: {digests}")
    for form, probe in probes.items():
        table.add(form, probe.imported / 1e6, probe.peak / 1e6, f"{probe.loss:,.6f}")
    table.notes = [
        "token lists: each string is its own object; file: trellis.data.conll.read",
        "the weights of ours here and of a run on two threads have the same bits",
    ]
    return [table]


if __name__ == "__main__":
    run_sections(
        str(__doc__),
        PACKAGES,
        {
            "chunking": iterations(chunking_task),
            "spanish": iterations(spanish_task),
            "brown": iterations(brown_task),
            "sparse": iterations(sparse_task),
            "ingestion": ingestion,
            "memory": memory,
        },
    )
