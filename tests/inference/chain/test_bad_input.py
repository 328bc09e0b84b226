"""Invalid input raises an InputError that names the place and the values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trellis import native
from trellis.errors import InfeasibleError, InputError, TrellisError
from trellis.inference import chain

T, L = 6, 4
ROUTINES = {
    "score": {"labels": None},
    "log_partition": {},
    "log_prob": {"labels": None},
    "marginals": {},
    "expected_counts": {},
    "viterbi": {},
    "kbest": {"k": 2},
    "sample": {"random_state": 0},
    "entropy": {},
    "max_marginals": {},
    "forward": {},
    "backward": {},
    "viterbi_table": {},
}
TABLES = ("forward", "backward", "viterbi_table")
NEED_A_PATH = [name for name in ROUTINES if name not in ("score", "log_partition", *TABLES)]
WITH_LABELS = ["score", "log_prob"]
SCORES = ["unary", "transition", "start", "end"]

every_routine = pytest.mark.parametrize("routine", ROUTINES)


def one() -> dict[str, Any]:
    square, row = np.zeros((L, L)), np.zeros(L)
    return {"unary": np.zeros((T, L)), "transition": square, "start": row, "end": row.copy()}


def padded(n: int = 3) -> dict[str, Any]:
    return one() | {"unary": np.zeros((n, T, L)), "lengths": np.array([4, 6, 2][:n])}


def listed(*lengths: int) -> dict[str, Any]:
    return one() | {"unary": [np.zeros((length, L)) for length in lengths or (4, 6, 2)]}


def labels_for(unary: Any) -> Any:
    """Return labels 0 in the layout of unary."""
    if isinstance(unary, (list, tuple)):
        return [np.zeros(len(u), dtype=int) if np.ndim(u) else 0 for u in unary]
    return np.zeros(np.shape(unary)[:-1], dtype=int)


def call(routine: str, scores: dict[str, Any]) -> Any:
    options = dict(ROUTINES[routine])
    if "labels" in options:
        options["labels"] = labels_for(scores["unary"])
    return getattr(chain, routine)(**(options | scores))


def says(*tokens: str | int) -> str:
    """Return a regex that requires every token in the message as a complete word or number."""
    wanted = [
        rf"(?=.*(?<![\d.]){t}(?!\d))" if isinstance(t, int) else rf"(?=.*(?:{t}))" for t in tokens
    ]
    return "(?is)^" + "".join(wanted)


def rejects(routine: str, scores: dict[str, Any], *tokens: str | int) -> None:
    with pytest.raises(InputError, match=says(*tokens)):
        call(routine, scores)


@every_routine
def test_good_input_is_accepted(routine: str) -> None:
    """The inputs that the tests below damage are valid."""
    for scores in (one(), padded(), listed()):
        call(routine, scores)


def test_errors_are_value_errors() -> None:
    for error in (InputError, InfeasibleError):
        assert issubclass(error, TrellisError)
        assert issubclass(error, ValueError)


# --- values -------------------------------------------------------------------------------------


@every_routine
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_in_unary(routine: str, bad: float) -> None:
    word = "nan" if np.isnan(bad) else "inf"
    scores = one()
    scores["unary"][5, 3] = bad
    rejects(routine, scores, "unary", "position 5", "label 3", word)
    for scores, where in ((padded(), (1, 5, 3)), (listed(), (5, 3))):
        target = scores["unary"][1] if isinstance(scores["unary"], list) else scores["unary"]
        target[where] = bad
        rejects(routine, scores, "unary", "sequence 1", "position 5", "label 3", word)


@every_routine
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_inf_in_the_other_scores(routine: str, bad: float) -> None:
    word = "nan" if np.isnan(bad) else "inf"
    for name in ("start", "end"):
        scores = one()
        scores[name][2] = bad
        rejects(routine, scores, name, "label 2", word)
    scores = one()
    scores["transition"][3, 2] = bad
    rejects(routine, scores, "transition", 3, 2, word)
    scores = one() | {"transition": np.zeros((T - 1, L, L))}
    scores["transition"][4, 3, 2] = bad
    rejects(routine, scores, "transition", 3, 2, word)
    scores = listed() | {"transition": [np.zeros((n - 1, L, L)) for n in (4, 6, 2)]}
    scores["transition"][1][4, 3, 2] = bad
    rejects(routine, scores, "transition", "sequence 1", 3, 2, word)
    scores = padded() | {"transition": np.zeros((3, T - 1, L, L))}
    scores["transition"][1, 4, 3, 2] = bad
    rejects(routine, scores, "transition", "sequence 1", 3, 2, word)


# --- dtypes -------------------------------------------------------------------------------------


@every_routine
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("dtype", ["complex128", "object", "float16", "bool"])
def test_wrong_dtype(routine: str, name: str, dtype: str) -> None:
    scores = one()
    scores[name] = scores[name].astype(dtype)
    rejects(routine, scores, name, dtype)


@every_routine
def test_strings_are_not_scores(routine: str) -> None:
    rejects(routine, one() | {"unary": np.full((T, L), "a")}, "unary", "str|<U")
    rejects(routine, one() | {"unary": "scores"})
    rejects(routine, one() | {"unary": None})


@every_routine
def test_wrong_dtype_inside_a_batch(routine: str) -> None:
    rejects(routine, padded() | {"unary": np.zeros((3, T, L), dtype=bool)}, "unary", "bool")
    scores = listed()
    scores["unary"][1] = scores["unary"][1].astype(bool)
    rejects(routine, scores, "unary", "sequence 1", "bool", "must be float32, float64 or integers")


# --- shapes -------------------------------------------------------------------------------------


@every_routine
def test_empty_input(routine: str) -> None:
    rejects(routine, one() | {"unary": np.zeros((0, L))}, "unary", "empty|0")
    empty = {"unary": np.zeros((T, 0)), "transition": np.zeros((0, 0)), "start": None, "end": None}
    rejects(routine, empty, "unary", "empty|0")
    rejects(routine, one() | {"unary": []}, "empty|no sequence|0")
    rejects(routine, listed(4, 0, 2), "sequence 1", "empty|0")


@every_routine
@pytest.mark.parametrize("shape", [(), (T,), (2, 3, T, L)])
def test_unary_with_the_wrong_number_of_dimensions(routine: str, shape: tuple[int, ...]) -> None:
    labels = {"labels": np.zeros(T, dtype=int)} if "labels" in ROUTINES[routine] else {}
    rejects(routine, one() | labels | {"unary": np.zeros(shape)}, "unary")


@every_routine
def test_list_items_must_be_matrices(routine: str) -> None:
    rejects(routine, one() | {"unary": [np.zeros((4, L)), np.zeros(L)]}, "sequence 1")
    rejects(routine, one() | {"unary": [np.zeros((4, L)), np.zeros((2, 4, L))]}, "sequence 1")
    rejects(routine, one() | {"unary": [[0.0, 1.0], [0.0, 1.0]]})


@every_routine
def test_sequences_with_different_label_counts(routine: str) -> None:
    scores = listed()
    scores["unary"][1] = np.zeros((6, 7))
    rejects(routine, scores, "sequence 1", 7, L)


@every_routine
@pytest.mark.parametrize("make", [one, padded, listed])
def test_transition_of_wrong_size(routine: str, make: Callable[[], dict[str, Any]]) -> None:
    for shape in [(7, 7), (L, 7), (7, L)]:
        rejects(routine, make() | {"transition": np.zeros(shape)}, "transition", 7, L)
    rejects(routine, make() | {"transition": np.zeros(L)}, "transition")


@every_routine
def test_positional_transitions_of_wrong_length(routine: str) -> None:
    # There are 9 steps, but 6 positions need 5.
    rejects(routine, one() | {"transition": np.zeros((9, L, L))}, "transition", 9, T - 1)
    rejects(routine, padded() | {"transition": np.zeros((9, L, L))}, "transition", 9, T - 1)
    rejects(routine, padded() | {"transition": np.zeros((3, 9, L, L))}, "transition", 9, T - 1)
    rejects(routine, padded() | {"transition": np.zeros((8, T - 1, L, L))}, "transition", 8, 3)
    steps = [np.zeros((n, L, L)) for n in (3, 9, 1)]
    rejects(routine, listed() | {"transition": steps}, "transition", "sequence 1", 9, 5)
    rejects(routine, listed() | {"transition": steps[:2]}, "transition", 2, 3)
    rejects(routine, one() | {"transition": np.zeros((2, T - 1, L, L))}, "transition")


@every_routine
@pytest.mark.parametrize("name", ["start", "end"])
@pytest.mark.parametrize("make", [one, padded, listed])
def test_start_and_end_of_wrong_size(
    routine: str, name: str, make: Callable[[], dict[str, Any]]
) -> None:
    rejects(routine, make() | {name: np.zeros(7)}, name, 7, L)
    rejects(routine, make() | {name: np.zeros((2, L))}, name)


# --- masks and lengths --------------------------------------------------------------------------


@every_routine
def test_mask(routine: str) -> None:
    rejects(routine, one() | {"mask": np.ones((T, 7), dtype=bool)}, "mask", 7, L)
    rejects(routine, one() | {"mask": np.ones(T, dtype=bool)}, "mask")
    rejects(routine, one() | {"mask": np.ones((T, L), dtype=int)}, "mask", "int64")
    rejects(routine, one() | {"mask": np.ones((T, L))}, "mask", "float64")
    rejects(routine, padded() | {"mask": np.ones((8, T, L), dtype=bool)}, "mask", 8, 3)
    masks = [np.ones((n, L), dtype=bool) for n in (4, 9, 2)]
    rejects(routine, listed() | {"mask": masks}, "mask", "sequence 1", 9, 6)
    rejects(routine, listed() | {"mask": masks[:2]}, "mask", 2, 3)


@every_routine
@pytest.mark.parametrize("bad", [0, -2, 7])
def test_length_out_of_range(routine: str, bad: int) -> None:
    lengths = np.array([4, bad, 2])
    sign = "-2" if bad == -2 else rf"(?<!\d){bad}(?!\d)"
    rejects(routine, padded() | {"lengths": lengths}, "length", "sequence 1", sign, T)


@every_routine
def test_lengths_of_wrong_type(routine: str) -> None:
    rejects(routine, padded() | {"lengths": np.array([4.0, 6.0, 2.0])}, "lengths", "float64")
    rejects(routine, padded() | {"lengths": np.array([4, 6])}, "lengths", 2, 3)
    rejects(routine, padded() | {"lengths": np.array([[4, 6, 2]])}, "lengths")
    rejects(routine, one() | {"lengths": np.array([T])}, "lengths")
    rejects(routine, listed() | {"lengths": np.array([4, 6, 2])}, "lengths")


# --- arguments of single routines ---------------------------------------------------------------


@pytest.mark.parametrize("routine", WITH_LABELS)
@pytest.mark.parametrize("bad", [-3, 9])
def test_label_out_of_range(routine: str, bad: int) -> None:
    labels = np.array([0, 1, 2, 3, 0, bad])
    value = str(bad) if bad < 0 else bad
    rejects(routine, one() | {"labels": labels}, "labels?", "position 5", value)
    batch = [np.zeros(4, dtype=int), labels, np.zeros(2, dtype=int)]
    rejects(routine, listed() | {"labels": batch}, "sequence 1", "position 5", value)
    block = np.zeros((3, T), dtype=int)
    block[1] = labels
    rejects(routine, padded() | {"labels": block}, "sequence 1", "position 5", value)


@pytest.mark.parametrize("routine", WITH_LABELS)
def test_labels_of_wrong_type_or_length(routine: str) -> None:
    rejects(routine, one() | {"labels": np.zeros(T)}, "labels", "float64")
    rejects(routine, one() | {"labels": np.full(T, "B-PER")}, "labels")
    rejects(routine, one() | {"labels": np.zeros(9, dtype=int)}, "labels", 9, T)
    rejects(routine, padded() | {"labels": np.zeros((3, 9), dtype=int)}, "labels", 9, T)
    rejects(routine, padded() | {"labels": np.zeros((8, T), dtype=int)}, "labels", 8, 3)
    batch = [np.zeros(n, dtype=int) for n in (4, 9, 2)]
    rejects(routine, listed() | {"labels": batch}, "labels", "sequence 1", 9, 6)
    rejects(routine, listed() | {"labels": batch[:2]}, "labels", 2, 3)


@pytest.mark.parametrize("bad", [0, -3, 1.5, "two"])
def test_k(bad: Any) -> None:
    rejects("kbest", one() | {"k": bad}, r"\bk\b", re.escape(str(bad)))


@pytest.mark.parametrize("bad", [0, -3, 1.5, "two"])
def test_n(bad: Any) -> None:
    rejects("sample", one() | {"n": bad}, r"\bn\b", re.escape(str(bad)))


@pytest.mark.parametrize("bad", ["junk", 1.5, -1, object()])
def test_random_state(bad: Any) -> None:
    rejects("sample", one() | {"random_state": bad}, "random_state")


@every_routine
@pytest.mark.parametrize("bad", [0, "two", 1.5])
def test_n_jobs(routine: str, bad: Any) -> None:
    rejects(routine, listed() | {"n_jobs": bad}, "n_jobs", re.escape(str(bad)))


def test_unknown_isa() -> None:
    before = native.isa()
    with pytest.raises(InputError, match="x86-64-v9"):
        native.use_isa("x86-64-v9")
    assert native.isa() == before
    assert before in native.available_isas()


# --- no allowed path ----------------------------------------------------------------------------


def forbidden_ways() -> dict[str, dict[str, Any]]:
    """Return chains without an allowed path, forbidden by one argument or by several."""
    forbidden = -np.inf
    row = np.zeros((T, L))
    row[3] = forbidden
    mask = np.ones((T, L), dtype=bool)
    mask[3] = False
    gap = np.zeros((T - 1, L, L))
    gap[2] = forbidden
    first = np.array([0.0, forbidden, forbidden, forbidden])
    stay = np.where(np.eye(L, dtype=bool), 0.0, forbidden)
    return {
        "unary": {"unary": row},
        "mask": {"mask": mask},
        "transition": {"transition": np.full((L, L), forbidden)},
        "gap": {"transition": gap},
        "start": {"start": np.full(L, forbidden)},
        "end": {"end": np.full(L, forbidden)},
        "no way from start to end": {"start": first, "transition": stay, "end": first[::-1]},
        "everything": {name: np.full_like(value, forbidden) for name, value in one().items()},
        "one position": {"unary": np.zeros((1, L)), "start": first, "end": first[::-1]},
    }


WAYS = forbidden_ways()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("routine", ROUTINES)
def test_no_allowed_path(routine: str, way: str) -> None:
    scores = one() | WAYS[way]
    if routine in NEED_A_PATH:
        with pytest.raises(InfeasibleError, match=r"(?i)path|label"):
            call(routine, scores)
    elif routine == "viterbi_table":
        table = call(routine, scores)
        assert (table.score[-1] == -np.inf).all()
        assert (table.back_pointer[-1] == -1).all()
    else:
        result = call(routine, scores)
        assert getattr(result, "log_partition", result) == -np.inf


@pytest.mark.parametrize("make", [padded, listed])
@pytest.mark.parametrize("routine", ROUTINES)
def test_one_sequence_without_a_path(routine: str, make: Callable[[], dict[str, Any]]) -> None:
    scores = make()
    scores["unary"][1][5] = -np.inf
    if routine in NEED_A_PATH:
        with pytest.raises(InfeasibleError, match=says("sequence 1")):
            call(routine, scores)
    elif routine != "viterbi_table":
        result = call(routine, scores)
        totals = getattr(result, "log_partition", result)
        np.testing.assert_array_equal(np.isfinite(totals), [True, False, True])


def test_forbidden_labelling_of_a_feasible_chain() -> None:
    scores = one()
    scores["unary"][3, 0] = -np.inf
    assert call("score", scores) == call("log_prob", scores) == -np.inf


def test_too_many_labels() -> None:
    unary = np.zeros((1, 2**15 + 1))
    with pytest.raises(InputError, match=r"32769 labels.*32768"):
        chain.log_partition(unary, np.zeros((1, 1)))
