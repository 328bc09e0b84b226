"""DistributedDataParallel with the CRF layer gives the parameters of one process."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
        reason="needs PyTorch with gloo",
    ),
]


def test_two_processes_equal_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", ":".join([str(EXAMPLES), *filter(None, sys.path)]))
    import distributed_tagger

    single, losses = distributed_tagger.train(0, 1)
    first, second = distributed_tagger.train_on_processes(2)
    assert losses[-1] < 0.8 * losses[0]
    assert first[1] == pytest.approx(losses, rel=1e-4)
    for name, value in single.items():
        torch.testing.assert_close(first[0][name], second[0][name], rtol=0, atol=0)
        torch.testing.assert_close(first[0][name], value, rtol=1e-3, atol=1e-3)
