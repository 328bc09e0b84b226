"""Compare marginals and Viterbi with hmmlearn: ragged batches, and one sequence of 1,000,000."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
from chain_hmm import (
    CONLL,
    PART,
    Hmm,
    check_long,
    check_marginals,
    check_viterbi,
    conll_lengths,
    hmm_log,
    hmm_scaling,
    hmm_viterbi,
    make_hmm,
    pad,
)
from chain_limits import Work, limits_table
from chain_memory import LONG_L, LONG_T, memory_table
from machine import measure
from timing import Case, Table, Times, check_close, milliseconds, ratio, time_alternating

# number of labels -> number of sequences, so that hmmlearn in log space takes about two seconds
RAGGED = {5: 8936, 22: 8936, 50: 1500, 128: 300, 300: 60}
PEERS = {
    "marginals": ("log", "log+post", "scaling", "scaling+post"),
    "viterbi": ("viterbi",),
}
OURS = ("list", "padded", "whole")


# ---- a ragged batch


def ours_cases(function: Callable[..., Any], hmm: Hmm, n: int) -> dict[str, Callable[[], None]]:
    """Return calls of one function on n threads: with lists, padded batches, and one long list."""
    scores, lists = hmm.scores(), hmm.parts()
    batches = [pad(part) for part in lists]

    def as_lists() -> None:
        for part in lists:
            function(part, *scores, n_jobs=n)

    def as_batches() -> None:
        for batch, lengths in batches:
            function(batch, *scores, lengths=lengths, n_jobs=n)

    def as_whole() -> None:
        function(hmm.unary, *scores, n_jobs=n)

    return dict(zip(OURS, (as_lists, as_batches, as_whole), strict=True))


def time_marginals(chain: ModuleType | None, hmm: Hmm, repeats: int) -> Times:
    """Time forward-backward with unary marginals."""
    check_close("hmmlearn's two forms", hmm_log(hmm, False)[0], hmm_scaling(hmm, False)[0])
    if chain:
        check_marginals(chain, hmm)
    slow = 1 if repeats <= 3 else 3
    cases = [
        Case("scaling", lambda: hmm_scaling(hmm, False)),
        Case("scaling+post", lambda: hmm_scaling(hmm, True)),
        Case("log", lambda: hmm_log(hmm, False), slow),
        Case("log+post", lambda: hmm_log(hmm, True), slow),
    ]
    ours = ours_cases(chain.marginals, hmm, 1) if chain else {}
    cases += [Case(form, call) for form, call in ours.items()]
    return time_alternating(cases, repeats)


def time_viterbi(chain: ModuleType | None, hmm: Hmm, repeats: int) -> Times:
    """Time the best paths."""
    if chain:
        check_viterbi(chain, hmm)
    ours = ours_cases(chain.viterbi, hmm, 1) if chain else {}
    cases = [Case("viterbi", lambda: hmm_viterbi(hmm))]
    cases += [Case(form, call) for form, call in ours.items()]
    return time_alternating(cases, repeats)


def time_ragged(chain: ModuleType | None, repeats: int, quick: bool) -> list[Table]:
    """Return tables of marginals and Viterbi, and of the distance to the limits of the machine."""
    timers = {"marginals": time_marginals, "viterbi": time_viterbi}
    tables = {name: (gains_table(name), forms_table(name)) for name in timers}
    lengths = conll_lengths()
    timed = []
    for labels, count in RAGGED.items():
        hmm = make_hmm(lengths[:count], labels)
        for name, timer in timers.items():
            times = timer(chain, hmm, repeats)
            add_ragged(*tables[name], hmm, times)
            if chain:
                size = (labels, len(hmm.unary), sum(map(len, hmm.unary)))
                timed.append(Work(name, *size, times["list"]))
    all_tables = [table for pair in tables.values() for table in pair]
    if not chain:
        return all_tables
    return [*all_tables, time_threads(chain, repeats), limits_table(timed, measure(quick))]


def gains_table(name: str) -> Table:
    """Return the table of the docs: the best of hmmlearn and our list version, one thread each."""
    columns = ("L", "tokens", "hmmlearn", "ours", "hmmlearn / ours", "at minima")
    table = Table(f"Ragged batch, {name}, one thread, ms", columns)
    origin = "those of CoNLL-2000 train" if CONLL.exists() else "drawn, as CoNLL-2000 is not here"
    table.notes = [
        f"the sequence lengths are {origin}; scores are float64, and times are medians",
        "ours is timed from log scores to results, with validation, "
        f"on lists of {PART:,} sequences",
    ]
    if name == "marginals":
        table.notes.append(
            "hmmlearn is the faster of its log and scaling forms; only its C++ functions are timed,"
            " without the posteriors"
        )
    return table


def forms_table(name: str) -> Table:
    """Return the empty table of all timed versions."""
    columns = ("L", "sequences", *PEERS[name], *OURS)
    table = Table(f"Ragged batch, {name}, every form, ms", columns)
    if name == "marginals":
        table.notes = [
            "hmmlearn: C++ forward and backward; post: with its NumPy posteriors; "
            "the exp of the scores for scaling is not timed",
            f"ours on 1 thread; list, padded: calls with {PART:,} sequences; whole: all sequences "
            "in one call, whose results (37 MB at L = 22) are new memory pages each time",
        ]
    return table


def add_ragged(gains: Table, forms: Table, hmm: Hmm, times: Times) -> None:
    """Add one row to both tables, and store the times in each of them."""
    labels = len(hmm.start)
    peer = min(times[name] for name in ("log", "scaling", "viterbi") if name in times)
    ours = times.get("list")
    gains.add(
        labels,
        sum(map(len, hmm.unary)),
        milliseconds(peer),
        milliseconds(ours),
        *(ratio(peer, ours, at) for at in ("median", "minimum")),
    )
    forms.add(labels, len(hmm.unary), *(milliseconds(times.get(n)) for n in forms.columns[2:]))
    for table in (gains, forms):
        table.keep(f"L = {labels}", times)


# ---- the second core


def time_threads(chain: ModuleType, repeats: int) -> Table:
    """Time marginals on one and on two threads in turns.

    There are many repeats, because other programs disturb the second core.
    """
    table = Table(
        "Marginals, speed-up by a second core",
        ("L", "form", "1 thread ms", "2 threads ms", "1 / 2", "at minima"),
    )
    lengths = conll_lengths()
    for labels in (22, 50, 128):
        hmm = make_hmm(lengths[: RAGGED[labels]], labels)
        one, two = (ours_cases(chain.marginals, hmm, n) for n in (1, 2))
        for form in OURS:
            cases = [Case("1", one[form]), Case("2", two[form])]
            times = time_alternating(cases, 5 * repeats)
            gains = (ratio(times["1"], times["2"], at) for at in ("median", "minimum"))
            table.add(labels, form, milliseconds(times["1"]), milliseconds(times["2"]), *gains)
            table.keep(f"L = {labels} {form}", times)
        add_ceiling(table, labels, 5 * repeats)
    return table


def add_ceiling(table: Table, labels: int, repeats: int) -> None:
    """Add the speed-up by a second core for independent work: np.sin on blocks in the cache."""
    blocks = [np.linspace(0.0, 1.0, 16_384) for _ in range(2)]

    def work(i: int, rounds: int) -> None:
        for _ in range(rounds):
            np.sin(blocks[i], out=scratch[i])

    scratch = [np.empty_like(block) for block in blocks]
    with ThreadPoolExecutor(1) as other:

        def both() -> None:
            half = other.submit(work, 1, 100)
            work(0, 100)
            half.result()

        times = time_alternating([Case("1", lambda: work(0, 200)), Case("2", both)], repeats)
    gains = (ratio(times["1"], times["2"], at) for at in ("median", "minimum"))
    table.add(labels, "np.sin", milliseconds(times["1"]), milliseconds(times["2"]), *gains)
    table.keep(f"L = {labels} np.sin", times)


# ---- one long sequence


def time_long(chain: ModuleType | None, repeats: int) -> list[Table]:
    """Return tables of time and memory for one sequence of a million positions."""
    hmm = make_hmm(np.array([LONG_T]), LONG_L)
    if chain:
        check_long(chain, hmm)
    unary, scores = hmm.unary[0], hmm.scores()
    table = Table(
        f"One sequence, T = {LONG_T:,}, L = {LONG_L}",
        ("function", "hmmlearn ms", "ours 1 ms", "ours 2 ms", "peer / ours 1", "at minima"),
    )
    table.notes = ["hmmlearn: scaling, C++ only, exp not timed; ours 1, 2: n_jobs"]
    peers = {"marginals": lambda: hmm_scaling(hmm, False), "viterbi": lambda: hmm_viterbi(hmm)}
    for name, peer in peers.items():
        cases = [Case("peer", peer)]
        for n in (1, 2) if chain else ():
            function = getattr(chain, name)
            cases.append(Case(f"{n}", lambda f=function, n=n: f(unary, *scores, n_jobs=n)))
        times = time_alternating(cases, repeats)
        table.keep(name, times)
        shown = (milliseconds(times.get(case)) for case in ("peer", "1", "2"))
        gains = (ratio(times["peer"], times.get("1"), at) for at in ("median", "minimum"))
        table.add(name, *shown, *gains)
    return [table, memory_table(chain is not None)]
