"""α, β and 𝓑 agree with the enumeration of all paths, to 1e-10."""

from __future__ import annotations

from itertools import groupby, pairwise, product
from typing import Any

import numpy as np
import pytest
from ctc_cases import Case, generate_cases

from trellis.errors import InputError
from trellis.inference import ctc
from trellis.inference.ctc import reference

TOLERANCE = 1e-10


def walks(case: Case, steps: int) -> dict[tuple[int, ...], list[int]]:
    """Return every walk of ``steps`` frames through the states of the target, by its start."""
    symbols = extended(case)
    paths: dict[tuple[int, ...], list[int]] = {}
    for walk in product(range(len(symbols)), repeat=steps):
        moves = all(may_follow(symbols, s, after, case.blank) for s, after in pairwise(walk))
        if moves:
            paths[walk] = [symbols[s] for s in walk]
    return paths


def extended(case: Case) -> list[int]:
    return [case.blank, *(v for label in case.target for v in (label, case.blank))]


def may_follow(symbols: list[int], s: int, after: int, blank: int) -> bool:
    """A path stays, moves on by one, or skips a blank between two different labels."""
    if after - s in (0, 1):
        return True
    return after - s == 2 and symbols[after] != blank and symbols[after] != symbols[s]


def log_sum(values: list[float]) -> float:
    return float(np.logaddexp.reduce(values)) if values else -np.inf


def tables(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Compute α and β by enumeration of all walks."""
    x, n_states = case.log_probs, 2 * len(case.target) + 1
    n_frames = len(x)
    alpha, beta = np.full((n_frames, n_states), -np.inf), np.full((n_frames, n_states), -np.inf)
    for t in range(n_frames):
        parts: list[list[float]] = [[] for _ in range(n_states)]
        for walk, labels in walks(case, t + 1).items():
            if walk[0] <= 1:
                parts[walk[-1]].append(sum(x[i, v] for i, v in enumerate(labels)))
        alpha[t] = [log_sum(part) for part in parts]
        parts = [[] for _ in range(n_states)]
        for walk, labels in walks(case, n_frames - t).items():
            if walk[-1] >= n_states - 2:
                rest = sum(x[t + i, v] for i, v in enumerate(labels) if i > 0)
                parts[walk[0]].append(rest)
        beta[t] = [log_sum(part) for part in parts]
    return alpha, beta


def small_cases(seed: int, count: int, **options: Any) -> list[Case]:
    cases = generate_cases(seed=seed, count=3 * count, scale=2.0, **options)
    small = [c for c in cases if len(c.scores) <= 4 and len(c.target) <= 2]
    return [c for c in small if not np.isnan(c.log_probs).any()][:count]


def require_near(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(want))
    np.testing.assert_allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("impossible", [0.0, 0.2])
def test_tables_agree_with_enumeration(impossible: float) -> None:
    cases = small_cases(5, 80, impossible=impossible)
    assert len(cases) > 40
    assert {len(case.target) for case in cases} >= {0, 1, 2}
    for case in cases:
        options = {"blank": case.blank, "logits": case.logits}
        alpha, beta = tables(case)
        forward = ctc.forward(case.scores, case.target, **options)
        backward = ctc.backward(case.scores, case.target, **options)
        require_near(forward.alpha, alpha)
        require_near(backward.beta, beta)
        assert forward.symbols.tolist() == backward.symbols.tolist() == extended(case)
        loss = ctc.loss(case.scores, case.target, **options)
        assert isinstance(forward.log_prob, float)
        require_near(forward.log_prob, -loss)
        require_near(backward.log_prob, -loss)
        require_near(reference.forward(case.log_probs, case.target, case.blank), alpha)
        require_near(reference.backward(case.log_probs, case.target, case.blank), beta)


def test_the_product_is_the_probability_at_every_frame() -> None:
    rng = np.random.default_rng(2)
    x = np.log(rng.dirichlet(np.ones(5), size=30))
    (alpha, symbols, log_prob), (beta, _, _) = (
        f(x, [1, 1, 4, 2]) for f in (ctc.forward, ctc.backward)
    )
    np.testing.assert_allclose(np.logaddexp.reduce(alpha + beta, axis=1), log_prob)
    posterior = np.zeros_like(x)
    np.add.at(posterior, (slice(None), symbols), np.exp(alpha + beta - log_prob))
    np.testing.assert_allclose(posterior, ctc.posterior(x, [1, 1, 4, 2]), atol=TOLERANCE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("logits", [False, True])
def test_a_padded_batch_has_the_tables_of_its_rows(dtype: Any, logits: bool) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4, 6, 4)).astype(dtype)
    targets, lengths = [[1, 1, 3], [], [2], [3, 2]], [6, 4, 1, 1]
    x[1, 4:] = np.nan  # the padding is never read
    options = {"blank": 0, "logits": logits}
    forward = ctc.forward(x, targets, lengths=lengths, **options)
    backward = ctc.backward(x, targets, lengths=lengths, **options)
    assert forward.alpha.shape == backward.beta.shape == (4, 6, 7)
    assert forward.alpha.dtype == backward.beta.dtype == np.float64
    assert forward.symbols.shape == (4, 7)
    for b, (target, length) in enumerate(zip(targets, lengths, strict=True)):
        n_states = 2 * len(target) + 1
        for result in (forward, backward):
            table, symbols, log_prob = result
            one = (ctc.forward if result is forward else ctc.backward)(
                x[b, :length], target, **options
            )
            np.testing.assert_array_equal(table[b, :length, :n_states], one[0])
            assert np.isneginf(table[b, length:]).all()
            assert np.isneginf(table[b, :, n_states:]).all()
            assert symbols[b, :n_states].tolist() == one.symbols.tolist()
            assert (symbols[b, n_states:] == -1).all()
            assert log_prob[b] == one.log_prob
    assert forward.log_prob[3] == -np.inf  # two labels need two frames
    np.testing.assert_allclose(
        forward.log_prob, -ctc.loss(x, targets, lengths=lengths, logits=logits), rtol=1e-5
    )


@pytest.mark.parametrize("function", [ctc.forward, ctc.backward])
def test_invalid_arguments(function: Any) -> None:
    x = np.zeros((3, 4))
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((x, [1, 0]), {}, "target of batch row 0, position 1 is the blank, 0"),
        ((x, [4]), {}, "target of batch row 0, position 0 is 4: must be 0 to 3"),
        ((x, [1]), {"blank": 4}, "blank is 4"),
        ((x, [1.0]), {}, "target of batch row 0 has dtype float64: must be integers"),
        ((x, [1]), {"lengths": [3]}, "lengths must be None for one sequence"),
        ((x[None], [[1]]), {"lengths": [4]}, "length of batch row 0 is 4: must be 1 to 3"),
        ((x[None], [1]), {}, r"target of batch row 0 has shape \(\): must be a list"),
        ((np.full((2, 2), 0.5), [1]), {}, "log_probs are probabilities"),
        ((np.full((2, 2), np.nan), [1]), {}, "log_probs of frame 0, label 0 is nan"),
        ((x.astype(int), [1]), {}, "log_probs has dtype int64"),
    ]
    for arguments, options, message in cases:
        with pytest.raises(InputError, match=message):
            function(*arguments, **options)


def test_probabilities_with_zeros_in_the_padding() -> None:
    batch = np.stack([np.full((2, 2), 0.5), np.zeros((2, 2))])
    batch[1, 0] = 0.5
    message = r"log_probs are probabilities, every frame sums to 1: pass .*, np.log\(log_probs\)"
    with pytest.raises(InputError, match=message):
        ctc.loss(batch, [[1], [1]], lengths=[2, 1])
    assert ctc.loss(batch, [[1], [1]], lengths=[2, 2]).shape == (2,)


# ---- collapse


def test_collapse_equals_the_definition() -> None:
    rng = np.random.default_rng(4)
    for blank in (0, 2):
        for path in rng.integers(0, 3, size=(60, 7)).tolist():
            want = [label for label, _ in groupby(path) if label != blank]
            assert ctc.collapse(path, blank=blank) == want
            assert reference.collapse(path, blank) == want


def test_collapse_of_many_paths() -> None:
    paths = np.array([[1, 1, 0, 1], [0, 2, 2, 9]])
    assert ctc.collapse(paths) == [[1, 1], [2, 9]]
    assert ctc.collapse(paths, lengths=[2, 0]) == [[1], []]
    assert ctc.collapse(paths, lengths=[4, 3]) == [[1, 1], [2]]
    assert ctc.collapse([[1, 0], np.array([3, 3, 3]), ()]) == [[1], [3], []]
    assert ctc.collapse(paths[0]) == [1, 1]
    assert ctc.collapse([]) == []
    assert all(type(v) is int for v in ctc.collapse(paths[0]))
    best = ctc.align(np.log(np.full((4, 3), 1 / 3)), [1, 2])
    assert ctc.collapse(best.labels) == [1, 2]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ([1, -1], {}, "path, frame 1 is -1: a label must be at least 0"),
        ([[0], [1, 2, -3]], {}, "path 1, frame 2 is -3: a label must be at least 0"),
        ([1.0, 2.0], {}, "path has dtype float64: must be integers"),
        ("aab", {}, "path has dtype <U3: must be integers"),
        (["a", "b"], {}, "path has dtype <U1: must be integers"),
        (3, {}, r"path has shape \(\): must be \(T,\)"),
        ([[[1]]], {}, r"path 0 has shape \(1, 1\): must be \(T,\)"),
        ([1, 2], {"lengths": [2]}, "lengths must be None for one path"),
        ([[1, 2]], {"lengths": [2, 2]}, r"lengths have shape \(2,\); there are 1 paths"),
        ([[1, 2]], {"lengths": [3]}, "length of path 0 is 3: must be 0 to 2"),
        ([[1, 2], [1]], {"lengths": [1, -1]}, "length of path 1 is -1: must be 0 to 1"),
        ([1, 2], {"blank": 0.5}, "blank must be an integer, not 0.5"),
    ],
)
def test_collapse_of_invalid_paths(path: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ctc.collapse(path, **options)
