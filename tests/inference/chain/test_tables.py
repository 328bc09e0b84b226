"""α, β, π and back-pointers agree with the enumeration of all beginnings and endings, to 1e-10."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from brute import path_scores
from cases import Case, generate_cases

from trellis.errors import InputError
from trellis.inference import chain
from trellis.inference.chain import reference

TOLERANCE = 1e-10


def log_sum(scores: np.ndarray) -> np.ndarray:
    """log Σ exp over the first axis; -inf exactly where all scores are -inf."""
    with np.errstate(divide="ignore"):
        top = scores.max(axis=0)
        shift = np.where(np.isfinite(top), top, 0.0)
        return np.log(np.exp(scores - shift).sum(axis=0)) + shift


def beginnings(case: Case, t: int) -> np.ndarray:
    """Return the scores of all beginnings of t + 1 positions, a column for each last label."""
    transition = case.transition if case.transition.ndim == 2 else case.transition[:t]
    end = case.end if t == len(case.unary) - 1 else None
    mask = None if case.mask is None else case.mask[: t + 1]
    scores = path_scores(case.unary[: t + 1], transition, case.start, end, mask)
    return scores.reshape(-1, case.unary.shape[1])


def endings(case: Case, t: int, label: int) -> np.ndarray:
    """Return the scores of all paths through the positions after t, which has the label."""
    is_shared = case.transition.ndim == 2
    step = case.transition if is_shared else case.transition[t]
    mask = None if case.mask is None else case.mask[t + 1 :]
    rest = case.transition if is_shared else case.transition[t + 1 :]
    return path_scores(case.unary[t + 1 :], rest, step[label], case.end, mask)


def require_near(got: Any, want: np.ndarray, name: str) -> None:
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(want), err_msg=name)
    np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def check_tables(engine: Any, case: Case) -> None:
    length, n_labels = case.unary.shape
    scores = {"mask": case.mask, "start": case.start, "end": case.end}
    alpha, log_z = engine.forward(case.unary, case.transition, **scores)
    beta, log_z_again = engine.backward(case.unary, case.transition, **scores)
    table = engine.viterbi_table(case.unary, case.transition, **scores)
    want_alpha = np.array([log_sum(beginnings(case, t)) for t in range(length)])
    want_beta = [
        [float(log_sum(endings(case, t, a))) for a in range(n_labels)] for t in range(length - 1)
    ]
    require_near(alpha, want_alpha, case.name)
    require_near(beta, np.array([*want_beta, np.zeros(n_labels)]), case.name)
    total = log_sum(want_alpha[-1])
    require_near(log_z, total, case.name)
    require_near(log_z_again, total, case.name)
    best = np.array([beginnings(case, t).max(axis=0) for t in range(length)])
    require_near(table.score, best, case.name)
    check_pointers(case, table)


def check_pointers(case: Case, table: chain.ViterbiTable) -> None:
    """The pointers are -1 without a beginning, else lead to a label with which it is reached."""
    score, pointer = np.asarray(table.score), np.asarray(table.back_pointer)
    assert (pointer[0] == -1).all()
    for t in range(1, len(score)):
        step = case.transition if case.transition.ndim == 2 else case.transition[t - 1]
        candidates = score[t - 1][:, None] + step
        want = np.where(np.isneginf(score[t]), -1, candidates.argmax(axis=0))
        np.testing.assert_array_equal(pointer[t], want, err_msg=case.name)


def test_every_case(isa: str) -> None:
    for case in generate_cases(200, 700):
        check_tables(chain, case)


def test_reference() -> None:
    for case in generate_cases(201, 300):
        check_tables(reference, case)


def test_back_pointers_lead_along_the_viterbi_path(isa: str) -> None:
    rng = np.random.default_rng(0)
    scores = chain.Scores(rng.integers(-2, 3, (40, 11)), rng.integers(-2, 3, (11, 11)))
    score, pointer = chain.viterbi_table(scores)
    label = int(np.argmax(score[-1]))
    path = [label]
    for t in range(39, 0, -1):
        label = int(pointer[t, label])
        path.append(label)
    best = chain.viterbi(scores)
    assert path[::-1] == best.labels.tolist()
    assert score[-1].max() == best.score


def test_alpha_and_beta_give_the_marginals(isa: str) -> None:
    rng = np.random.default_rng(1)
    scores = chain.Scores([rng.normal(0, 200, (n, 9)) for n in (30, 1, 7)], rng.normal(size=(9, 9)))
    (alpha, log_z), (beta, _) = chain.forward(scores), chain.backward(scores)
    p = chain.marginals(scores)
    np.testing.assert_allclose(log_z, p.log_partition, rtol=1e-12)
    for i in range(3):
        got = np.exp(alpha[i] + beta[i] - np.asarray(log_z)[i])
        np.testing.assert_allclose(got, p.unary[i], atol=1e-9)


def test_a_label_out_of_reach_has_no_pointer() -> None:
    forbidden = -np.inf
    table = chain.viterbi_table(
        [[0.0, forbidden], [0.0, 0.0], [forbidden, 0.0]], [[0.0, forbidden], [0.0, 0.0]]
    )
    assert table.score.tolist() == [[0.0, forbidden], [0.0, forbidden], [forbidden, forbidden]]
    assert table.back_pointer.tolist() == [[-1, -1], [0, -1], [-1, -1]]


def test_scores_that_overflow() -> None:
    for function in (chain.forward, chain.backward, chain.viterbi_table):
        with pytest.raises(InputError, match="sequence 1 overflow: unary of position 1, label 0"):
            function([np.zeros((1, 2)), np.array([[0.0, 0.0], [-2e300, 0.0]])], np.zeros((2, 2)))
        with pytest.raises(InputError, match="scores of sequence 0 overflow"):
            function(np.zeros((2, 2)), np.full((2, 2), 2e300))


# --- integers and nested lists ------------------------------------------------------------------


def same(got: Any, want: Any) -> None:
    assert got.score == want.score
    assert got.labels.tolist() == want.labels.tolist()


@pytest.mark.parametrize("dtype", [int, np.int8, np.uint16])
def test_integers_are_converted_to_float64(dtype: Any) -> None:
    u, a = np.array([[1, 2], [3, 0]]), np.array([[0, 1], [1, 0]])
    edge = np.array([4, 1])
    want = chain.viterbi(u * 1.0, a * 1.0, edge * 1.0, edge * 1.0)
    same(
        chain.viterbi(u.astype(dtype), a.astype(dtype), edge.astype(dtype), edge.astype(dtype)),
        want,
    )
    p = chain.marginals(u.astype(dtype), a.astype(dtype))
    assert p.unary.dtype == np.float64
    listed = chain.viterbi([u.astype(dtype), u[:1] * 1.0], a.astype(dtype), edge, edge)
    assert listed.labels[0].tolist() == want.labels.tolist()
    assert listed.score.tolist() == [want.score, 9.0]


def test_lists_of_lists_are_one_array() -> None:
    want = chain.viterbi(np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[0.0, 0.5], [0.0, 0.0]]))
    same(chain.viterbi([[1, 2], [3, 0]], [[0, 0.5], [0, 0]]), want)
    same(chain.viterbi([[1.0, 2], [3, 0]], [[0, 0.5], [0, 0]]), want)
    same(chain.viterbi(((1, 2), (3, 0)), ((0, 0.5), (0, 0))), want)
    same(chain.viterbi(chain.Scores([[1, 2], [3, 0]], [[0, 0.5], [0, 0]])), want)
    mask = [[False, True], [True, True]]
    assert chain.viterbi([[1, 2], [3, 0]], [[0, 9], [0, 0]], mask=mask).labels.tolist() == [1, 0]


def test_lists_of_three_levels_are_sequences() -> None:
    listed = chain.viterbi([[[1, 2], [3, 0]], [[0, 1]]], [[0, 0], [0, 0]])
    assert [path.tolist() for path in listed.labels] == [[1, 0], [1]]
    assert listed.score.tolist() == [5.0, 1.0]


def test_lists_of_matrices_of_one_sequence() -> None:
    steps = [[[0, 5], [0, 0]], [[0, 0], [7, 0]]]
    one = chain.viterbi([[0, 0], [0, 0], [0, 0]], steps)
    assert one.labels.tolist() == [0, 1, 0]
    assert one.score == 12.0
    arrays = [np.array(step, dtype=float) for step in steps]
    same(chain.viterbi(np.zeros((3, 2)), arrays), one)
    listed = chain.viterbi([np.zeros((3, 2))], [arrays])
    assert listed.labels[0].tolist() == [0, 1, 0]


def test_start_scores_of_integers() -> None:
    """Integers after the transitions may be labels that were passed without their name."""
    u, a, edge = [[0, 0], [0, 0]], [[0, 0], [0, 0]], [1, 0]
    assert chain.viterbi(u, a, edge).score == 1.0
    assert chain.score(u, a, edge, edge, labels=[0, 0]) == 2.0
    assert chain.score(chain.Scores(u, a, edge, edge), labels=[0, 1]) == 1.0
    assert chain.expected_counts(chain.Scores(u, a, edge)).start[0] > 0.5
    for function in (chain.score, chain.log_prob, chain.expected_counts):
        for name in ("start", "end"):
            with pytest.raises(
                InputError,
                match=f"{name} has dtype int64: must be float32 or float64 if labels= is not "
                "passed; write the names of other arguments, such as labels=",
            ):
                function(u, a, **{name: edge})
    assert chain.expected_counts(u, a, [1.0, 0.0]).start[0] > 0.5
    assert chain.expected_counts(u, a, edge, labels=[0, 0]).start[0] < 0.0


@pytest.mark.parametrize(
    ("unary", "message"),
    [
        ([[1, 2], [3, 4], [5]], "row 2 of unary has length 1, but row 0 has length 2"),
        ([[1, 2], 3], "row 1 of unary has length 1, but row 0 has length 2"),
        ([[1], 3], "unary is not an array"),
        ([[[1, 2], [3]]], "row 1 of unary of sequence 0 has length 1, but row 0 has length 2"),
        ([[1, None], [3, 4]], "unary has dtype object"),
        ([[True, False]], "unary has dtype bool"),
        ([["a", "b"]], "unary of sequence 0 has dtype <U1"),
        ([[]], "sequence 0"),
        ([1, 2], r"unary of sequence 0 has shape \(\)"),
        ([np.zeros(2)], r"unary of sequence 0 has shape \(2,\): must be \(T, L\)"),
        ([[2**70, 1]], "unary has dtype object"),
    ],
)
def test_lists_that_are_no_scores(unary: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chain.viterbi(unary, np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ([[0, 1], [2]], "row 1 of transition has length 1, but row 0 has length 2"),
        ([[0, 1]], r"transition has shape \(1, 2\): must be \(2, 2\)"),
        ([[[0, 1], [2, 3]]] * 3, r"transition has shape \(3, 2, 2\)"),
        ([], r"transition has shape \(0,\)"),
    ],
)
def test_lists_that_are_no_transitions(transition: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chain.viterbi(np.zeros((2, 2)), transition)
