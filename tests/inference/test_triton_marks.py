"""Marks that a kernel writes and the host waits for, here without a card."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trellis.inference import triton_marks as module  # noqa: E402
from trellis.inference.triton_marks import Marks  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def nothing_free(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_free", {})


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9])
def test_rows_of_any_number(rows: int) -> None:
    marks = Marks.of(rows, CPU)
    assert marks.memory.numel() >= rows
    marks.memory[:rows] = torch.arange(rows)
    assert marks.wait() == list(range(rows))


def test_memory_is_used_again_once_it_was_read() -> None:
    first, other = Marks.of(3, CPU), Marks.of(4, CPU)
    assert first.address != other.address
    first.memory[:] = 7
    assert first.wait() == [7, 7, 7]
    again = Marks.of(4, CPU)
    assert again is first
    assert again.memory.tolist() == [-1] * 4  # nothing of the batch before


def test_a_kernel_that_never_came() -> None:
    marks = Marks.of(3, CPU)
    marks.memory[0] = 0
    with pytest.raises(RuntimeError, match="no kernel has looked at batch row 1"):
        marks.wait()
    assert Marks.of(3, CPU) is not marks  # it may still be written to


def test_a_card_that_is_slow(monkeypatch: Any) -> None:
    """Who has looked often enough waits for the stream."""
    marks = Marks.of(2, CPU)
    marks.device = torch.device("cuda", 1)
    asked = []

    class Stream:
        def synchronize(self) -> None:
            marks.memory[:2] = 0

    def stream(device: Any) -> Stream:
        asked.append(device)
        return Stream()

    monkeypatch.setattr(module.torch.cuda, "current_stream", stream)
    module._free[2, True] = []
    assert marks.wait() == [0, 0]
    assert asked == [marks.device]
    assert module._free[2, True] == [marks]
