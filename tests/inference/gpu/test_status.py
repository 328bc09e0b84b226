"""Marks that a kernel writes and the host waits for, here without a card."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trellis.inference.gpu import status as module  # noqa: E402
from trellis.inference.gpu.status import Marks  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def nothing_free(monkeypatch: Any) -> Any:
    monkeypatch.setattr(module, "_free", {})
    yield
    module._late.clear()


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9])
def test_rows_of_any_number(rows: int) -> None:
    marks = Marks(rows, CPU)
    assert marks.tensor.numel() >= rows
    assert marks.tensor.data_ptr() == marks.address
    marks.tensor[:rows] = torch.arange(rows)
    assert marks.wait() == list(range(rows))


def test_memory_is_used_again_once_it_was_read() -> None:
    first, other = Marks(3, CPU), Marks(4, CPU)
    assert first.address != other.address
    first.tensor[:] = 7
    assert first.wait() == [7, 7, 7]
    again = Marks(4, CPU)
    assert again.address == first.address
    assert again.tensor.tolist() == [-1] * 4  # nothing of the batch before


def test_a_kernel_that_never_came() -> None:
    marks = Marks(3, CPU)
    marks.tensor[0] = 0
    with pytest.raises(RuntimeError, match="no kernel has looked at batch row 1"):
        marks.wait()


def test_what_nobody_waits_for_is_kept_until_it_was_written() -> None:
    """A step that an exception has ended: its kernel may come later than the next batch."""
    marks = Marks(2, CPU)
    address, tensor = marks.address, marks.tensor
    del marks
    assert [memory.address for memory, _ in module._late] == [address]
    other = Marks(2, CPU)
    assert other.address != address
    tensor[:] = 1  # the kernel has come
    again = Marks(2, CPU)
    assert again.address == address
    assert not module._late


def test_very_many_that_nobody_waits_for(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_MOST_LATE", 3)
    addresses = set()
    for _ in range(3):
        marks = Marks(2, CPU)
        addresses.add(marks.address)
        del marks
    assert len(addresses) == len(module._late) == 3
    assert Marks(2, CPU).address in addresses  # all kernels have ended


def test_a_card_that_is_slow(monkeypatch: Any) -> None:
    """Who has looked long enough waits for the stream of the kernels."""
    marks = Marks(2, CPU)
    marks.device = torch.device("cuda", 1)
    asked = []

    class Stream:
        def synchronize(self) -> None:
            marks.tensor[:2] = 0

    def stream(device: Any) -> Stream:
        asked.append(device)
        return Stream()

    monkeypatch.setattr(module.torch.cuda, "current_stream", stream)
    module._free[2, marks.device] = []
    assert marks.wait() == [0, 0]
    assert asked == [marks.device]


def test_a_default_device_does_not_count() -> None:
    with torch.device("meta"):
        assert Marks(2, CPU).tensor.device == CPU
