"""Product quantisation against its definition and against scikit-learn's k-means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from vector_files import fasttext, some_rows

from trellis.errors import InputError
from trellis.formats.quantization import CENTROIDS, ProductQuantizer, QuantizedMatrix, quantize


@pytest.mark.parametrize("dsub", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("norms", [False, True])
def test_codes_are_the_nearest_centroids(dsub: int, norms: bool) -> None:
    rows = some_rows(700, 7)
    small = quantize(rows, dsub, norms=norms, random_state=1)
    lengths = np.linalg.norm(rows, axis=1)
    target = rows / lengths[:, None] if norms else rows
    assert small.shape == rows.shape
    assert small.codes.shape == (700, -(-7 // dsub))
    for g, (begin, end) in enumerate(small.quantizer.columns()):
        distance = ((target[:, None, begin:end] - small.quantizer.tables()[g]) ** 2).sum(axis=2)
        chosen = distance[np.arange(700), small.codes[:, g]]
        np.testing.assert_allclose(chosen, distance.min(axis=1), atol=1e-6)
    if norms:
        norms = small.norms()
        assert norms is not None
        assert np.abs(norms - lengths).max() < 0.05


def test_rows_are_put_together_from_centroids() -> None:
    quantizer = ProductQuantizer(3, 2, np.arange(3 * CENTROIDS, dtype=np.float32))
    codes = np.array([[0, 0], [1, 255]], np.uint8)
    lengths = ProductQuantizer(1, 1, np.arange(CENTROIDS, dtype=np.float32))
    rows = np.array([[0, 1, 512], [2, 3, 767]], np.float32)
    assert np.array_equal(QuantizedMatrix(codes, quantizer).rows(), rows)
    scaled = QuantizedMatrix(codes, quantizer, np.array([2, 3], np.uint8), lengths)
    assert np.array_equal(scaled.rows(), rows * [[2], [3]])
    assert np.array_equal(scaled.rows(np.array([1])), rows[1:] * 3)
    vector = np.array([1, -1, 0.5], np.float32)
    assert np.array_equal(scaled.dot(vector), scaled.rows() @ vector)


def test_as_good_as_k_means_of_others() -> None:
    rows = some_rows(4000, 2)
    small = quantize(rows, 2, random_state=0)
    other = KMeans(CENTROIDS, n_init=1, max_iter=25, random_state=0).fit(rows)
    ours = ((small.rows() - rows) ** 2).sum()
    assert ours < 1.1 * other.inertia_  # the best of several draws begins its clusters


def test_as_good_as_fasttext(tmp_path: Any) -> None:
    peer = fasttext()
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(1500)]
    text = "\n".join(f"__label__{i % 5} {' '.join(rng.choice(words, 9))}" for i in range(2000))
    (tmp_path / "train.txt").write_text(text)
    model = peer.train_supervised(str(tmp_path / "train.txt"), dim=8, epoch=1, thread=1, minCount=1)
    rows = model.get_input_matrix()
    model.quantize(dsub=2)
    theirs = np.stack([model.get_input_vector(i) for i in range(len(rows))])
    ours = quantize(rows, 2, random_state=0).rows()
    assert ((ours - rows) ** 2).mean() < 1.05 * ((theirs - rows) ** 2).mean()


def test_few_distinct_rows_are_kept_exactly() -> None:
    rows = np.repeat(some_rows(40, 6), 10, axis=0)
    for norms in (False, True):
        small = quantize(rows, 3, norms=norms, random_state=0)
        np.testing.assert_allclose(small.rows(), rows, atol=1e-6)


def test_zeros_and_equal_rows() -> None:
    rows = np.zeros((300, 4), np.float32)
    assert np.abs(quantize(rows, norms=True, random_state=0).rows()).max() < 1e-6
    assert np.abs(quantize(rows + 5, random_state=0).rows() - 5).max() < 1e-5


def test_same_bytes_for_one_seed_and_any_threads() -> None:
    rows = some_rows(70_000, 3)
    one = quantize(rows, random_state=7, n_jobs=1)
    two = quantize(rows, random_state=7, n_jobs=2)
    assert one.codes.tobytes() == two.codes.tobytes()
    assert one.quantizer.centroids.tobytes() == two.quantizer.centroids.tobytes()


@pytest.mark.parametrize(
    ("rows", "dsub", "match"),
    [
        (some_rows(255, 3), 2, "must have at least 256 rows"),
        (some_rows(300, 3)[0], 2, "must have at least 256 rows"),
        (some_rows(300, 3), 0, "dsub is 0"),
        (some_rows(300, 3), 4, r"dsub is 4: must be in 1\.\.3"),
        (some_rows(300, 3), 1.5, "dsub must be an integer"),
        (np.full((300, 3), np.nan), 2, "NaN"),
    ],
)
def test_bad_input(rows: Any, dsub: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        quantize(rows, dsub)
