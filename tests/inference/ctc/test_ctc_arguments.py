"""Invalid arguments raise an InputError that names the batch row and the values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from trellis.errors import InputError
from trellis.inference import ctc
from trellis.inference.ctc import cpu

B, T, V = 3, 6, 5
GOOD: dict[str, Any] = {
    "log_probs": np.zeros((B, T, V)),
    "targets": [[1, 2], [], [4]],
    "lengths": [6, 4, 1],
}


def with_value(value: float) -> np.ndarray:
    x = np.zeros((B, T, V))
    x[1, 3, 2] = value
    return x


BROKEN = [
    ({"targets": [[1, 2], [3, 0], [4]]}, "target of batch row 1, position 1 is the blank, 0"),
    ({"blank": 4}, "target of batch row 2, position 0 is the blank, 4"),
    ({"targets": [[1], [], [5]]}, "target of batch row 2, position 0 is 5: must be 0 to 4"),
    ({"targets": [[1], [-1], []]}, "target of batch row 1, position 0 is -1: must be 0 to 4"),
    ({"targets": [[1], [2]]}, "targets must be a list of 3 lists, one per batch row, not 2"),
    ({"targets": 7}, "targets must be a list of 3 lists, one per batch row, not int"),
    ({"targets": [[1], [1.5], []]}, "target of batch row 1 has dtype float64: must be integers"),
    ({"targets": [[1], [[1, 2], [3]], []]}, "target of batch row 1 is not a list of integers"),
    ({"targets": [[1], [[1], [3]], []]}, "target of batch row 1 has shape (2, 1)"),
    ({"targets": [1, 2, 3]}, "target of batch row 0 has shape (): must be a list"),
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
    ({"log_probs": np.zeros((T, V)), "targets": [1]}, "lengths must be None for one sequence"),
    ({"log_probs": with_value(np.nan)}, "log_probs of batch row 1, frame 3, label 2 is nan"),
    ({"log_probs": with_value(np.inf)}, "log_probs of batch row 1, frame 3, label 2 is inf"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN, ids=[m for _, m in BROKEN])
@pytest.mark.parametrize("function", [ctc.loss, ctc.posterior])
@pytest.mark.parametrize("logits", [False, True])
def test_invalid_arguments(
    function: Any, logits: bool, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        function(**(GOOD | change), logits=logits)


@pytest.mark.parametrize("function", [ctc.loss, ctc.posterior])
def test_probabilities_in_place_of_their_logarithms(function: Any) -> None:
    p = GOOD | {"log_probs": np.full((B, T, V), 1 / V)}
    with pytest.raises(InputError, match=r"^log_probs are probabilities, every frame sums to 1"):
        function(**p)


@pytest.mark.parametrize("logits", [False, True])
def test_valid_arguments(logits: bool) -> None:
    assert np.isfinite(ctc.loss(**GOOD, logits=logits)).all()
    assert ctc.posterior(**GOOD, logits=logits).shape == (B, T, V)
    nan_in_padding = GOOD | {"log_probs": with_value(np.nan), "lengths": [6, 3, 1]}
    assert np.isfinite(ctc.loss(**nan_in_padding, logits=logits)).all()
    assert ctc.loss(np.zeros((3, V)), [1, 2, 3, 4]) == np.inf
    assert ctc.loss(np.zeros((3, V)), ()) == pytest.approx(0.0)
    target_array = np.array([[1, 2], [3, 4], [2, 1]])
    assert np.shape(ctc.loss(np.zeros((B, T, V), np.float32), target_array)) == (B,)


def good_rows() -> list[Any]:
    return [np.zeros((T, B, V)), np.array([[1], [2], [3]]), np.full(B, T), np.ones(B, int), 0, True]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, np.zeros((T, B, V), np.float16), "input has dtype float16"),
        (0, np.zeros((T, V)), "input has shape (6, 5): must be (T, B, V)"),
        (1, np.array([[1], [2]]), "targets and lengths must have as many rows as input"),
        (1, np.array([[1], [2], [5]]), "target of batch row 2, position 0 is 5"),
        (1, np.array([[1.0], [2.0], [3.0]]), "targets has dtype float64: must be integers"),
        (2, np.array([6, 7, 6]), "input length of batch row 1 is 7: must be 0 to 6"),
        (2, np.array([6, 6, -1]), "input length of batch row 2 is -1: must be 0 to 6"),
        (3, np.array([2, 1, 1]), "target length of batch row 0 is 2: must be 0 to 1"),
        (4, 9, "blank is 9: must be 0 to 4"),
    ],
)
def test_invalid_arguments_of_the_core(place: int, value: Any, message: str) -> None:
    rows = good_rows()
    rows[place] = value
    with pytest.raises(InputError, match=re.escape(message)):
        cpu.forward(*rows)


def test_invalid_arguments_of_backward() -> None:
    rows = good_rows()
    loss, log_norm, kept = cpu.forward(*rows)
    good = [log_norm, kept, loss, np.ones(B)]
    cpu.backward(*rows, *good)
    for place in range(4):
        broken = list(good)
        broken[place] = broken[place][:-1]
        with pytest.raises(InputError):
            cpu.backward(*rows, *broken)
    with pytest.raises(InputError, match=re.escape("out is float64 (6, 3, 4): must be float64")):
        cpu.backward(*rows, *good, out=np.zeros((T, B, V - 1)))
