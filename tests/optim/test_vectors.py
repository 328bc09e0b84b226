"""Compare native vector operations with NumPy, at sizes around blocks, tiles and lanes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples

from trellis import _core

SIZES = [1, 2, 3, 7, 8, 9, 511, 512, 513, 8191, 8192, 8193, 30_001]
THREADS = [1, 2, 3]

sizes = pytest.mark.parametrize("n", SIZES)


def vectors(n: int, count: int, seed: int = 0) -> list[np.ndarray]:
    return list(np.random.default_rng((n, seed)).normal(size=(count, n)))


@sizes
def test_dot(n: int) -> None:
    a, b = vectors(n, 2)
    results = {_core.dot(a, b, threads) for threads in THREADS}
    assert len(results) == 1
    assert results.pop() == pytest.approx(float(a @ b), abs=1e-12 * n)


@sizes
def test_step(n: int) -> None:
    w, d = vectors(n, 2)
    out = np.full(n, np.nan)
    _core.step(w, d, 0.3, out, 2)
    np.testing.assert_allclose(out, w + 0.3 * d, rtol=1e-15, atol=1e-16)


def pseudo_gradient(w: Any, g: Any, c: Any) -> np.ndarray:
    """Compute the pseudo-gradient case by case, as Andrew and Gao define it."""
    at_zero = np.where(g + c < 0, g + c, np.where(g - c > 0, g - c, 0.0))
    return np.where(w > 0, g + c, np.where(w < 0, g - c, at_zero))


def sparse_problem(n: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Return weights, gradients, directions and penalties. Many weights are zero."""
    w, g, d, c = vectors(n, 4, seed)
    rng = np.random.default_rng(n)
    w[rng.random(n) < 0.5] = 0.0
    c = np.abs(c)
    c[rng.random(n) < 0.2] = 0.0
    return w, g, d, c


@sizes
def test_pseudo_gradient(n: int) -> None:
    w, g, _, c = sparse_problem(n)
    out = np.full(n, np.nan)
    penalty = _core.pseudo_gradient(w, g, c, out, 2)
    np.testing.assert_array_equal(out, pseudo_gradient(w, g, c))
    assert penalty == pytest.approx(float(c @ np.abs(w)))


def test_pseudo_gradient_keeps_nan() -> None:
    out = np.zeros(3)
    gradient = np.full(3, np.nan)
    _core.pseudo_gradient(np.array([-1.0, 0.0, 1.0]), gradient, np.ones(3), out, 1)
    assert np.isnan(out).all()


@sizes
def test_project_direction(n: int) -> None:
    w, g, d, c = sparse_problem(n)
    pseudo = pseudo_gradient(w, g, c)
    want = np.where((d * pseudo >= 0) & (c > 0), 0.0, d)
    slope = _core.project_direction(pseudo, c, d, 3)
    np.testing.assert_array_equal(d, want)
    assert slope == pytest.approx(float(want @ pseudo))


@sizes
def test_orthant_step(n: int) -> None:
    w, g, d, c = sparse_problem(n)
    pseudo = pseudo_gradient(w, g, c)
    free = w + 0.7 * d
    side = np.where(w == 0, -np.sign(pseudo), np.sign(w))
    want = np.where((np.sign(free) == side) & (side != 0) | (c == 0), free, 0.0)
    out = np.full(n, np.nan)
    penalty, slope = _core.orthant_step(w, d, 0.7, pseudo, c, out, 2)
    np.testing.assert_allclose(out, want, rtol=1e-14, atol=1e-15)
    assert penalty == pytest.approx(float(c @ np.abs(want)))
    assert slope == pytest.approx(float((want - w) @ pseudo), abs=1e-11)


def two_loops(pairs: list[tuple[Any, Any]], q: Any) -> np.ndarray:
    """Compute the direction by the two-loop recursion of Nocedal (1980)."""
    r = -q
    alphas = []
    for s, y in reversed(pairs):
        alphas.append((s @ r) / (s @ y))
        r = r - alphas[-1] * y
    if pairs:
        s, y = pairs[-1]
        r = r * (s @ y) / (y @ y)
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        r = r + s * (alpha - (y @ r) / (s @ y))
    return r


def walk(n: int, steps: int, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return points, and their gradients on a bowl with curvatures between 1 and 5."""
    rng = np.random.default_rng((n, steps, seed))
    points = list(rng.normal(size=(steps + 1, n)))
    curvature = rng.uniform(1.0, 5.0, size=n)
    return points, [curvature * w for w in points]


@sizes
@pytest.mark.parametrize(("capacity", "steps"), [(1, 3), (2, 1), (6, 4), (6, 20)])
def test_direction(n: int, capacity: int, steps: int) -> None:
    points, gradients = walk(n, steps)
    made = set()
    for threads in THREADS:
        memory = _core.LbfgsMemory(n, capacity)
        for k in range(steps):
            norms = memory.push(
                points[k + 1],
                points[k],
                gradients[k + 1],
                gradients[k],
                gradients[k + 1],
                threads,
            )
        d = np.full(n, np.nan)
        slope = memory.direction(gradients[-1], d, threads)
        made.add((d.tobytes(), slope, norms))
    assert len(made) == 1
    pairs = [(points[k + 1] - points[k], gradients[k + 1] - gradients[k]) for k in range(steps)]
    want = two_loops(pairs[-capacity:], gradients[-1])
    np.testing.assert_allclose(d, want, rtol=1e-7, atol=1e-9 * np.abs(want).max())
    assert slope == pytest.approx(float(d @ gradients[-1]))
    assert norms[:2] == pytest.approx((points[-1] @ points[-1], gradients[-1] @ gradients[-1]))
    for got, pair in zip(memory.pairs(), pairs[-capacity:], strict=True):
        np.testing.assert_array_equal(got, pair)


@settings(max_examples=examples(25), deadline=None)
@given(
    n=st.integers(1, 2000),
    capacity=st.integers(1, 8),
    steps=st.integers(1, 12),
    threads=st.integers(1, 3),
)
def test_a_restored_memory_gives_the_same_bits(
    n: int, capacity: int, steps: int, threads: int
) -> None:
    points, gradients = walk(n, steps)
    memory = _core.LbfgsMemory(n, capacity)
    for k in range(steps):
        q = gradients[k + 1]
        memory.push(points[k + 1], points[k], gradients[k + 1], gradients[k], q, threads)
    other = _core.LbfgsMemory(n, capacity)
    for s, y in memory.pairs():
        other.append(s, y, threads)
    other.project(gradients[-1], threads)
    d, d_other = np.empty(n), np.empty(n)
    assert memory.direction(gradients[-1], d, 1) == other.direction(gradients[-1], d_other, threads)
    np.testing.assert_array_equal(d, d_other)


def test_a_pair_without_positive_curvature_is_skipped() -> None:
    memory = _core.LbfgsMemory(2, 3)
    zero, one = np.zeros(2), np.ones(2)
    assert memory.push(one, zero, one, zero, one, 1)[2]
    assert not memory.push(one, zero, zero, one, one, 1)[2]
    assert not memory.push(one, one, one, zero, one, 1)[2]
    assert len(memory) == 1
    d = np.empty(2)
    memory.direction(one, d, 1)
    np.testing.assert_allclose(d, -one)
    memory.clear()
    assert len(memory) == 0
    memory.direction(3.0 * one, d, 1)
    np.testing.assert_array_equal(d, [-3.0, -3.0])


def test_pairs_outlive_their_memory() -> None:
    memory = _core.LbfgsMemory(5, 2)
    memory.append(np.arange(5.0), np.ones(5), 1)
    ((s, y),) = memory.pairs()
    del memory
    np.testing.assert_array_equal(s, np.arange(5.0))
    assert not s.flags.writeable
    assert not y.flags.writeable


def test_sizes_are_checked() -> None:
    three, two = np.zeros(3), np.zeros(2)
    memory = _core.LbfgsMemory(3, 1)
    for call in (
        lambda: _core.dot(three, two, 1),
        lambda: _core.dot(three, three, 0),
        lambda: _core.step(three, three, 1.0, two, 1),
        lambda: _core.pseudo_gradient(three, three, two, three, 1),
        lambda: _core.project_direction(three, three, two, 1),
        lambda: _core.orthant_step(three, three, 1.0, two, three, three, 1),
        lambda: memory.push(three, three, three, three, two, 1),
        lambda: memory.append(three, two, 1),
        lambda: memory.project(two, 1),
        lambda: memory.direction(two, three, 1),
        lambda: _core.LbfgsMemory(0, 1),
        lambda: _core.LbfgsMemory(1, 0),
    ):
        with pytest.raises(ValueError, match=r"same size|positive"):
            call()
