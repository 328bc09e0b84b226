"""The recursions of the page, chain.js, give the numbers of `trellis.inference.chain`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from inference.chain.cases import Case, generate_cases, make_case
from node import decode, encode, run_node

from trellis.inference import chain

_TOLERANCE = 1e-12


def long_cases(n_cases: int) -> Iterator[Case]:
    """Longer chains than those of `generate_cases`, with pins and forbidden labels."""
    rng = np.random.default_rng(24)
    for i in range(n_cases):
        length, n_labels = int(rng.integers(8, 40)), int(rng.integers(4, 14))
        small = make_case(rng, "ordinary", f"long case {i}")
        positional = rng.random() < 0.4
        shape = (length - 1, n_labels, n_labels) if positional else (n_labels, n_labels)
        unary, transition = rng.normal(0, 3, (length, n_labels)), rng.normal(0, 2, shape)
        transition[rng.random(shape) < 0.2] = -np.inf
        mask = rng.random(unary.shape) < 0.9
        for t in rng.integers(length, size=2).tolist():  # pins
            mask[t] = np.arange(n_labels) == rng.integers(n_labels)
        ends = (rng.normal(size=n_labels), rng.normal(size=n_labels))
        yield Case(
            small.name, unary, transition, *ends, mask, rng.integers(n_labels, size=length), 7
        )


def as_problem(case: Case) -> dict[str, Any]:
    arrays = {"unary": case.unary, "transition": case.transition, "start": case.start}
    payload = {name: encode(array) for name, array in {**arrays, "end": case.end}.items()}
    return {"payload": payload, "allowed": encode(case.mask), "k": case.k}


def assert_equal(actual: Any, expected: Any, name: str, case: Case) -> None:
    expected = np.asarray(expected, dtype=float).ravel()
    np.testing.assert_allclose(
        actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE, err_msg=f"{name} of {case.name}"
    )


def check(case: Case, result: dict[str, Any]) -> bool:
    """Compare one result with the core. Return whether the case has an allowed path."""
    scores, mask = case.scores, case.mask
    log_z = chain.log_partition(*scores, mask=mask)
    assert_equal(decode(result["log_partition"]), [log_z, log_z], "log Z", case)
    if log_z == -np.inf:
        assert result["viterbi"] is None
        assert result["paths"] == []
        assert not decode(result["unary"]).any()
        assert not decode(result["pairwise"]).any()
        return False
    p = chain.marginals(*scores, mask=mask)
    assert_equal(decode(result["unary"]), p.unary, "unary marginals", case)
    assert_equal(decode(result["pairwise"]), p.pairwise, "pairwise marginals", case)
    assert_equal(decode(result["entropy"]), chain.entropy(*scores, mask=mask), "entropy", case)
    best, paths = chain.viterbi(*scores, mask=mask), chain.kbest(*scores, k=case.k, mask=mask)
    assert_equal(decode(result["viterbi_score"]), best.score, "best score", case)
    assert_equal(decode(result["path_scores"]), paths.score, "k best scores", case)
    # With ties another path may have the same score; so the paths themselves are scored.
    assert_equal(decode(result["rescored"]), paths.score, "scores of the k best paths", case)
    assert len({tuple(path) for path in result["paths"]}) == len(paths.score)
    if len(paths.score) < 2 or paths.score[0] - paths.score[1] > 1e-9 * abs(paths.score[0]):
        assert result["viterbi"] == best.labels.tolist(), case.name
    return True


def test_recursions_equal_the_core_on_1000_lattices(tmp_path: Path) -> None:
    cases = [*generate_cases(7, 800), *long_cases(200)]
    results = run_node("run_chain.js", [as_problem(case) for case in cases], tmp_path)
    feasible = [check(case, result) for case, result in zip(cases, results, strict=True)]
    assert len(feasible) == 1000
    assert 700 < sum(feasible) < 1000
