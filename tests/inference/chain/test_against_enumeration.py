"""Every routine agrees with the enumeration of all label sequences, to 1e-10."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from brute import Enumeration, all_labels, enumerate_chain
from cases import REGIMES, Case, generate_cases, make_case
from scipy import stats

from trellis import native
from trellis.errors import InfeasibleError
from trellis.inference import chain
from trellis.inference.chain import reference

TOLERANCE = 1e-10
CASES_PER_CHUNK = 600
BEST_ISA = native.available_isas()[-1]
# All 12,000 cases run on the most common instruction set, 1,800 on each of the others.
CHUNKS = [(BEST_ISA, chunk) for chunk in range(20)] + [
    (name, chunk) for name in native.available_isas()[:-1] for chunk in range(3)
]


def require_close(what: str, got: Any, want: Any, case: Case) -> None:
    """Assert the same shape and |got - want| <= tolerance (1 + |want|)."""
    got, want = np.asarray(got), np.asarray(want, dtype=np.float64)
    assert got.shape == want.shape, f"{what} of {case.name}: {got.shape}, not {want.shape}"
    finite = np.isfinite(want)
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= TOLERANCE * (1.0 + np.abs(want))
    right = np.where(finite, near, got == want)
    assert right.all(), f"{what} of {case.name}:\n{got}\nis not\n{want}"


def check_labels(what: str, labels: np.ndarray, shape: tuple[int, ...], case: Case) -> None:
    assert labels.dtype == np.int64, f"{what} of {case.name}: {labels.dtype}"
    assert labels.shape == shape, f"{what} of {case.name}: {labels.shape}, not {shape}"
    n_labels = case.unary.shape[1]
    assert ((labels >= 0) & (labels < n_labels)).all(), f"{what} of {case.name}: {labels}"


def check_marginals(engine: Any, case: Case, truth: Enumeration) -> None:
    unary, pairwise = truth.unary_marginals(), truth.pairwise_marginals()
    p = engine.marginals(*case.scores, mask=case.mask)
    require_close("marginals.unary", p.unary, unary, case)
    require_close("marginals.pairwise", p.pairwise, pairwise, case)
    require_close("marginals.log_partition", p.log_partition, truth.log_partition, case)

    counts = engine.expected_counts(*case.scores, mask=case.mask)
    per_transition = pairwise.sum(0) if case.transition.ndim == 2 else pairwise
    require_close("expected_counts.unary", counts.unary, unary, case)
    require_close("expected_counts.transition", counts.transition, per_transition, case)
    require_close("expected_counts.start", counts.start, unary[0], case)
    require_close("expected_counts.end", counts.end, unary[-1], case)
    require_close("expected_counts.log_partition", counts.log_partition, truth.log_partition, case)


def check_best_paths(engine: Any, case: Case, truth: Enumeration) -> None:
    length = len(case.unary)
    best = engine.viterbi(*case.scores, mask=case.mask)
    check_labels("viterbi.labels", best.labels, (length,), case)
    require_close("viterbi.score", best.score, truth.best_score, case)
    require_close("score of viterbi.labels", truth.score(best.labels), truth.best_score, case)

    want = truth.kbest_scores(case.k)
    paths = engine.kbest(*case.scores, mask=case.mask, k=case.k)
    check_labels("kbest.labels", paths.labels, (len(want), length), case)
    require_close("kbest.score", paths.score, want, case)
    require_close("scores of kbest.labels", truth.score(paths.labels), want, case)
    n_distinct = len(set(truth.index(paths.labels).tolist()))
    assert n_distinct == len(want), f"kbest of {case.name} repeats a path: {paths.labels}"

    through = engine.max_marginals(*case.scores, mask=case.mask)
    require_close("max_marginals", through, truth.max_marginals(), case)


def check_probabilities(engine: Any, case: Case, truth: Enumeration) -> None:
    for labels in (case.labels, all_labels(*case.unary.shape)[truth.scores.argmax()]):
        log_probs = engine.log_prob(*case.scores, mask=case.mask, labels=labels)
        require_close("log_prob", log_probs, truth.log_prob(labels), case)
    entropy = engine.entropy(*case.scores, mask=case.mask)
    require_close("entropy", entropy, truth.entropy, case)
    paths = engine.sample(*case.scores, mask=case.mask, n=3, random_state=case.k)
    check_labels("sample", paths, (3, len(case.unary)), case)
    assert (truth.score(paths) > -np.inf).all(), f"{case.name}: a forbidden path was drawn"


def check_feasible(engine: Any, case: Case, truth: Enumeration) -> None:
    check_marginals(engine, case, truth)
    check_best_paths(engine, case, truth)
    check_probabilities(engine, case, truth)


def check_sums(engine: Any, case: Case, truth: Enumeration) -> None:
    """Check the two routines that accept chains without an allowed path."""
    score = engine.score(*case.scores, mask=case.mask, labels=case.labels)
    require_close("score", score, truth.score(case.labels), case)
    log_partition = engine.log_partition(*case.scores, mask=case.mask)
    require_close("log_partition", log_partition, truth.log_partition, case)


def require_infeasible(case: Case) -> None:
    calls: dict[str, dict[str, Any]] = {
        "log_prob": {"labels": case.labels},
        "marginals": {},
        "expected_counts": {},
        "viterbi": {},
        "kbest": {"k": case.k},
        "sample": {"random_state": 0},
        "entropy": {},
        "max_marginals": {},
    }
    for routine, options in calls.items():
        try:
            result = getattr(chain, routine)(*case.scores, mask=case.mask, **options)
        except InfeasibleError:
            continue
        pytest.fail(f"{routine} of {case.name} has no allowed path, yet gave {result}")


@pytest.mark.parametrize(("name", "chunk"), CHUNKS)
def test_every_routine(name: str, chunk: int, use_isa: Callable[[str], None]) -> None:
    use_isa(name)
    for case in generate_cases(chunk, CASES_PER_CHUNK):
        truth = enumerate_chain(*case.scores, case.mask)
        check_sums(chain, case, truth)
        if truth.feasible:
            check_feasible(chain, case, truth)
        else:
            require_infeasible(case)


@pytest.mark.parametrize("chunk", range(100, 102))
def test_reference(chunk: int) -> None:
    for case in generate_cases(chunk, 500):
        truth = enumerate_chain(*case.scores, case.mask)
        check_sums(reference, case, truth)
        if truth.feasible:  # the reference has no errors for chains without an allowed path
            check_feasible(reference, case, truth)


def test_cases_cover_all_regimes() -> None:
    """The cases have all shapes, infeasible chains, and each optional argument often."""
    cases = [case for chunk in range(3) for case in generate_cases(chunk, CASES_PER_CHUNK)]
    infeasible = sum(not enumerate_chain(*c.scores, c.mask).feasible for c in cases)
    assert 0.02 * len(cases) < infeasible < 0.3 * len(cases)
    assert {c.unary.shape for c in cases} == set(product(range(1, 7), range(1, 6)))
    for optional in ("start", "end", "mask"):
        present = sum(getattr(c, optional) is not None for c in cases)
        assert 0.2 * len(cases) < present < 0.8 * len(cases)
    positional = sum(c.transition.ndim == 3 for c in cases)
    assert 0.3 * len(cases) < positional < 0.5 * len(cases)


@pytest.mark.parametrize("n_labels", range(1, 6))
@pytest.mark.parametrize("length", range(1, 7))
def test_zero_scores_count_the_paths(length: int, n_labels: int, isa: str) -> None:
    unary, transition = np.zeros((length, n_labels)), np.zeros((n_labels, n_labels))
    log_partition = chain.log_partition(unary, transition)
    assert isinstance(log_partition, float)
    assert np.exp(log_partition) == pytest.approx(n_labels**length, rel=1e-12)
    assert chain.entropy(unary, transition) == pytest.approx(log_partition, abs=1e-12)
    assert chain.viterbi(unary, transition).score == 0.0


def test_kbest_lists_every_allowed_path() -> None:
    for case in generate_cases(chunk=200, n_cases=100):
        truth = enumerate_chain(*case.scores, case.mask)
        if not truth.feasible or len(truth.scores) > 300:
            continue
        paths = chain.kbest(*case.scores, mask=case.mask, k=1000)
        allowed = np.flatnonzero(truth.scores > -np.inf)
        assert sorted(truth.index(paths.labels)) == allowed.tolist(), case.name
        require_close("kbest.score", paths.score, truth.kbest_scores(1000), case)


def sampling_cases(n_cases: int) -> list[Case]:
    """Return feasible chains in which more than one path has a large probability."""
    rng = np.random.default_rng(99)
    spread = [regime for regime in REGIMES if regime not in ("huge", "wide")]
    cases: list[Case] = []
    while len(cases) < n_cases:
        regime = spread[len(cases) % len(spread)]
        case = make_case(rng, regime, f"{regime} sampling case {len(cases)}")
        truth = enumerate_chain(*case.scores, case.mask)
        if truth.feasible and truth.entropy > 0.1 and len(truth.scores) <= 1100:
            cases.append(case)
    return cases


@pytest.mark.parametrize("case", sampling_cases(30), ids=lambda case: case.name)
def test_sample_frequencies(case: Case) -> None:
    """Compare path counts by Pearson's chi-square. Rare paths are counted together."""
    n = 20_000
    truth = enumerate_chain(*case.scores, case.mask)
    paths = chain.sample(*case.scores, mask=case.mask, n=n, random_state=5)
    counts = np.bincount(truth.index(paths), minlength=len(truth.scores))
    expected = n * truth.probabilities
    common = expected >= 10
    observed, wanted = counts[common], expected[common]
    if expected[~common].sum() >= 10:
        observed = np.append(observed, counts[~common].sum())
        wanted = np.append(wanted, expected[~common].sum())
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    p_value = stats.chi2.sf(statistic, max(len(wanted) - 1, 1))
    assert p_value > 1e-6, f"chi-square {statistic:.1f} over {len(wanted)} groups"
    assert (counts[truth.scores == -np.inf] == 0).all()


def test_oracle_against_a_result_by_hand() -> None:
    """Two labels and two positions give 4 paths with the weights 2, 3, 5 and 6."""
    unary = np.log([[1.0, 1.0], [2.0, 3.0]])
    transition = np.log([[1.0, 1.0], [2.5, 2.0]])
    truth = enumerate_chain(unary, transition)
    weights = np.array([2.0, 3.0, 5.0, 6.0])
    np.testing.assert_allclose(np.exp(truth.scores), weights, rtol=1e-14)
    assert truth.log_partition == pytest.approx(np.log(16.0), abs=1e-14)
    np.testing.assert_allclose(truth.unary_marginals(), [[5 / 16, 11 / 16], [7 / 16, 9 / 16]])
    np.testing.assert_allclose(truth.pairwise_marginals(), [[[2 / 16, 3 / 16], [5 / 16, 6 / 16]]])
    np.testing.assert_allclose(np.exp(truth.max_marginals()), [[3.0, 6.0], [5.0, 6.0]])
    np.testing.assert_allclose(np.exp(truth.kbest_scores(3)), [6.0, 5.0, 3.0])
    assert truth.entropy == pytest.approx(-(weights / 16 * np.log(weights / 16)).sum())
    assert truth.log_prob(np.array([1, 0])) == pytest.approx(np.log(5 / 16))

    ends = enumerate_chain(unary, transition, np.log([2.0, 1.0]), np.array([0.0, -np.inf]))
    np.testing.assert_allclose(np.exp(ends.scores), [4.0, 0.0, 5.0, 0.0], rtol=1e-14)
    assert ends.n_allowed == 2


def test_oracle_path_by_path() -> None:
    """The vectorised sums equal the definition, computed one path and one term at a time."""
    for case in generate_cases(chunk=300, n_cases=40):
        length, n_labels = case.unary.shape
        truth = enumerate_chain(*case.scores, case.mask)
        for index, y in enumerate(product(range(n_labels), repeat=length)):
            want = sum(case.unary[t, y[t]] for t in range(length))
            steps = np.broadcast_to(case.transition, (length - 1, n_labels, n_labels))
            want += sum(steps[t - 1, y[t - 1], y[t]] for t in range(1, length))
            want += 0.0 if case.start is None else case.start[y[0]]
            want += 0.0 if case.end is None else case.end[y[-1]]
            if case.mask is not None and not all(case.mask[t, y[t]] for t in range(length)):
                want = -np.inf
            require_close(f"path {y}", truth.scores[index], want, case)
            assert truth.index(np.array(y)) == index
