"""The alignments of the page, ctc.js, are those of `trellis.inference.ctc`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from node import decode, encode, run_node

from trellis.inference import ctc

_LETTERS = "abcd"


def make_problems(count: int) -> list[tuple[np.ndarray, list[int], int]]:
    """Random log-probabilities (T, V) with a target and the blank; some targets do not fit."""
    rng = np.random.default_rng(9)
    problems = []
    for _ in range(count):
        n_frames, n_symbols = int(rng.integers(1, 16)), int(rng.integers(2, len(_LETTERS) + 2))
        scores = rng.normal(0, 2, (n_frames, n_symbols))
        scores[rng.random(scores.shape) < 0.1] = -np.inf
        scores[:, int(rng.integers(n_symbols))] = 0.0  # every frame has a possible symbol
        log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        blank = int(rng.integers(n_symbols))
        others = [symbol for symbol in range(n_symbols) if symbol != blank]
        target = rng.choice(others, size=int(rng.integers(0, 6))).tolist()
        problems.append((log_p, target, blank))
    return problems


def test_alignments_equal_the_core(tmp_path: Path) -> None:
    problems = make_problems(300)
    bodies = []
    for log_p, target, blank in problems:
        symbols = [*_LETTERS[:blank], "", *_LETTERS[blank:]][: log_p.shape[1]]
        text = "".join(symbols[n] for n in target)
        bodies.append({"scores": encode(log_p), "text": text, "symbols": symbols, "blank": blank})
    feasible = 0
    for problem, result in zip(problems, run_node("run_ctc.js", bodies, tmp_path), strict=True):
        log_p, target, blank = problem
        loss = ctc.loss(log_p, target, blank=blank)
        np.testing.assert_allclose(decode(result["log_z"])[0], -loss, rtol=1e-12, atol=1e-12)
        if loss == np.inf:
            assert result["path"] is None
            assert not decode(result["posterior"]).any()
            continue
        feasible += 1
        expected = ctc.posterior(log_p, target, blank=blank)
        actual = decode(result["by_symbol"]).reshape(log_p.shape)
        np.testing.assert_allclose(actual, expected, rtol=1e-11, atol=1e-12)
        best = ctc.align(log_p, target, blank=blank)
        rows = np.arange(len(log_p))
        np.testing.assert_allclose(log_p[rows, result["path"]].sum(), best.score, atol=1e-12)
        assert ctc.collapse(result["path"], blank=blank) == target
        # Each state passes all of its posterior on to the next frame.
        states = decode(result["posterior"])[: len(decode(result["outgoing"]))]
        np.testing.assert_allclose(decode(result["outgoing"]), states, rtol=1e-11, atol=1e-12)
    assert 100 < feasible < 300
