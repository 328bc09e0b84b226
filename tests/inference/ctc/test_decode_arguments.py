"""Invalid arguments of align, greedy and beam_search raise an InputError with the values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.inference import ctc

B, T, V = 3, 6, 5
GOOD: dict[str, Any] = {"log_probs": np.zeros((B, T, V)), "lengths": [6, 4, 1]}
TARGETS: dict[str, Any] = {"targets": [[1, 2], [], [4]]}
FUNCTIONS = [ctc.align, ctc.greedy, ctc.beam_search]


def with_value(value: float) -> np.ndarray:
    x = np.zeros((B, T, V))
    x[1, 3, 2] = value
    return x


def call(function: Any, changes: dict[str, Any]) -> Any:
    arguments = GOOD | (TARGETS if function is ctc.align else {}) | changes
    return function(**arguments)


BROKEN = [
    ({"log_probs": np.full((B, T, V), 1 / V)}, "log_probs are probabilities, every frame sums"),
    ({"lengths": [6, 0, 1]}, "length of batch row 1 is 0: must be 1 to 6"),
    ({"lengths": [6, 4, 7]}, "length of batch row 2 is 7: must be 1 to 6"),
    ({"lengths": [6, 4]}, "lengths have shape (2,); log_probs has 3 batch rows"),
    ({"lengths": [6.0, 4.0, 1.0]}, "lengths has dtype float64: must be integers"),
    ({"blank": 5}, "blank is 5: must be 0 to 4"),
    ({"blank": -1}, "blank is -1: must be 0 to 4"),
    ({"blank": 0.0}, "blank must be an integer, not 0.0"),
    ({"n_jobs": 0}, "n_jobs is 0"),
    ({"log_probs": np.zeros((0, T, V))}, "the batch is empty: log_probs has shape (0, 6, 5)"),
    ({"log_probs": np.zeros((B, 0, V))}, "batch row 0 is empty: log_probs has shape (3, 0, 5)"),
    ({"log_probs": np.zeros((B, T, V), int)}, "log_probs has dtype int64: must be float32 or"),
    ({"log_probs": np.zeros(V)}, "log_probs has shape (5,): must be (T, V) or (B, T, V)"),
    ({"log_probs": with_value(np.nan)}, "log_probs of batch row 1, frame 3, label 2 is nan"),
    ({"log_probs": with_value(np.inf)}, "log_probs of batch row 1, frame 3, label 2 is inf"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[m for _, m in BROKEN])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_invalid_arguments(function: Any, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        call(function, change)


BROKEN_TARGETS = [
    ([[1, 2], [3, 0], [4]], "target of batch row 1, position 1 is the blank, 0"),
    ([[1], [], [5]], "target of batch row 2, position 0 is 5: must be 0 to 4"),
    ([[1], [-1], []], "target of batch row 1, position 0 is -1: must be 0 to 4"),
    ([[1], [2]], "targets must be a list of 3 lists, one per batch row, not 2"),
    (7, "targets must be a list of 3 lists, one per batch row, not int"),
    ([[1], [1.5], []], "target of batch row 1 has dtype float64: must be integers"),
    ([[1], [[1], [3]], []], "target of batch row 1 has shape (2, 1)"),
]


@pytest.mark.parametrize(("targets", "message"), BROKEN_TARGETS, ids=[m for _, m in BROKEN_TARGETS])
def test_invalid_targets(targets: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        ctc.align(GOOD["log_probs"], targets, lengths=GOOD["lengths"])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"beam_width": 0}, "beam_width is 0"),
        ({"beam_width": -3}, "beam_width is -3"),
        ({"beam_width": 2.5}, "beam_width must be an integer, not 2.5"),
        ({"beam_width": "many"}, "beam_width must be an integer, not 'many'"),
        ({"k": 0}, "k is 0"),
        ({"k": -1}, "k is -1"),
        ({"k": 1.0}, "k must be an integer, not 1.0"),
        ({"min_log_prob": np.nan}, "min_log_prob is nan"),
        ({"min_log_prob": "low"}, "min_log_prob"),
    ],
)
def test_invalid_options_of_the_search(change: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=re.escape(what)):
        call(ctc.beam_search, change)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_lengths_need_a_batch(function: Any) -> None:
    change = {"log_probs": np.zeros((T, V)), "lengths": [3]}
    if function is ctc.align:
        change["targets"] = [1]
    with pytest.raises(InputError, match=re.escape("lengths must be None for one sequence")):
        call(function, change)


def test_a_huge_beam_takes_no_memory_in_advance() -> None:
    x = np.log(np.full((4, 3), 1 / 3))
    hypotheses = ctc.beam_search(x, beam_width=2**40, k=2**40)
    assert np.logaddexp.reduce([hypothesis.log_prob for hypothesis in hypotheses]) == pytest.approx(
        0.0, abs=1e-12
    )


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_valid_arguments(function: Any) -> None:
    assert len(call(function, {})) == B
    assert len(call(function, {"lengths": None, "log_probs": np.zeros((B, T, V), np.float32)})) == B
    assert len(call(function, {"lengths": np.array([6, 4, 1], np.uint8)})) == B
    assert len(call(function, {"blank": np.int64(3), "n_jobs": 2})) == B
