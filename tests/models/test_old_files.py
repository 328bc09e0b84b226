"""Files and checkpoints of earlier versions: they load, predict the same, and training resumes.

The files were written by ``tests/fixtures/write.py`` with the version that the folder is named
after.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis

FIXTURES = Path(__file__).parents[1] / "fixtures"
OLD = FIXTURES / "0.1.0"
EXPECTED = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))

sys.path.insert(0, str(FIXTURES))
import write  # noqa: E402

OTHER = (
    "logistic",
    "softmax",
    "graph-crf",
    "grid-crf",
    "word2vec",
    "vectors",
    "fasttext",
    "classifier",
)


def assert_same(values: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Compare nested lists of numbers and strings."""
    if isinstance(expected, dict):
        assert values.keys() == expected.keys()
        for key in expected:
            assert_same(values[key], expected[key], tolerance)
    elif isinstance(expected, list):
        assert len(values) == len(expected)
        for value, other in zip(values, expected, strict=True):
            assert_same(value, other, tolerance)
    elif isinstance(expected, float):
        assert values == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert values == expected


def exact() -> float:
    """Return the tolerance for numbers of our core: none, with the kernels of the same machine.

    Instruction sets differ in the last bits, because they add in another order.
    """
    return 0.0 if trellis.native.isa() == EXPECTED["isa"] else 1e-9


@pytest.mark.parametrize("name", write.CHAINS)
def test_models_of_chains(name: str) -> None:
    model = trellis.load(OLD / f"{name}.trellis")
    assert type(model).__name__ == write.CHAINS[name][0]
    assert_same(write.predict_chain(name, model), EXPECTED[name], exact())


@pytest.mark.parametrize("name", OTHER)
def test_other_models(name: str) -> None:
    model = trellis.load(OLD / f"{name}.trellis")
    # BLAS computes the scores of regressions and the dot products of vectors.
    tolerance = exact() or 1e-12
    assert_same(write.predict_other(name, model), EXPECTED[name], tolerance)


@pytest.mark.parametrize("name", [*write.CHAINS, *OTHER])
def test_saving_again_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "again.trellis"
    trellis.load(OLD / f"{name}.trellis").save(path)
    assert path.read_bytes() == (OLD / f"{name}.trellis").read_bytes()


@pytest.mark.parametrize("name", write.TAGGERS)
def test_networks(name: str) -> None:
    pytest.importorskip("torch")
    model = trellis.load(OLD / f"{name}.trellis")
    # PyTorch's kernels depend on its version and on the processor.
    assert_same(write.predict_tagger(model), EXPECTED[name], 1e-5)


@pytest.mark.parametrize("name", write.CHECKPOINTS)
def test_training_resumes(name: str, tmp_path: Path) -> None:
    path = Path(shutil.copy(OLD / f"{name}.checkpoint", tmp_path))
    model = write.resume(path, write.make_crf(name))
    iterations = [iteration for iteration, _ in model.losses_]
    assert iterations == list(range(1, model.n_iter_ + 1))
    assert_same(model.coef_.tolist(), EXPECTED[f"{name}.checkpoint"], exact())


def test_training_of_a_network_resumes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = Path(shutil.copy(OLD / "tagger.checkpoint", tmp_path))
    epochs: list[int] = []
    model = write.make_tagger("tagger")
    checkpoint = write.checkpoint_class()(path, resume=True)
    model.fit(
        write.SENTENCES,
        write.TAGS,
        checkpoint=checkpoint,
        callback=lambda progress: epochs.append(progress.epoch),
    )
    assert epochs == [3, 4]
    weights = EXPECTED["tagger.checkpoint"]
    for name, tensor in model.network_.state_dict().items():
        np.testing.assert_allclose(tensor.numpy(), weights[name], rtol=1e-4, atol=1e-6)
