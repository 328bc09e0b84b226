"""Row status that a kernel writes and the host waits for, here without a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trellis.inference.gpu import status as module  # noqa: E402
from trellis.inference.gpu.status import RowStatus  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def no_buffers(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_buffers", {})


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 9])
def test_any_number_of_rows(rows: int) -> None:
    status = RowStatus(rows, CPU)
    assert status.tensor.numel() >= rows
    assert status.tensor.data_ptr() == status.address
    status.tensor[:rows] = torch.arange(rows)
    assert status.wait() == list(range(rows))


def test_buffer_is_reused_after_wait() -> None:
    first, other = RowStatus(3, CPU), RowStatus(4, CPU)
    assert first.address != other.address
    first.tensor[:] = 7
    assert first.wait() == [7, 7, 7]
    again = RowStatus(4, CPU)
    assert again.address == first.address
    assert again.tensor.tolist() == [-1] * 4  # values of the previous batch are gone


def test_kernel_that_was_not_launched() -> None:
    status = RowStatus(3, CPU)
    status.tensor[0] = 0
    with pytest.raises(RuntimeError, match="no kernel has written the status of batch row 1"):
        status.wait()


def test_buffer_without_wait_is_reused_after_the_kernel() -> None:
    """After an exception a kernel may still run when the next batch starts."""
    status = RowStatus(2, CPU)
    address, tensor = status.address, status.tensor
    del status
    other = RowStatus(2, CPU)
    assert other.address != address
    tensor[:] = 1  # the kernel has run
    again = RowStatus(2, CPU)
    assert again.address == address
    assert again.tensor.tolist() == [-1, -1]


def test_many_buffers_without_wait(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_MAX_BUFFERS", 3)
    addresses = set()
    for _ in range(3):
        status = RowStatus(2, CPU)
        addresses.add(status.address)
        del status
    assert len(addresses) == 3
    assert RowStatus(2, CPU).address in addresses  # all kernels have finished


def test_slow_gpu(monkeypatch: Any) -> None:
    """After some time of polling, wait() sleeps until a kernel has written the status."""
    status = RowStatus(2, CPU)
    status.device = torch.device("cuda", 1)
    devices = []

    class Stream:
        def query(self) -> bool:
            status.tensor[: len(devices)] = 0  # one row more each time
            return False

    def stream(device: Any) -> Stream:
        devices.append(device)
        return Stream()

    monkeypatch.setattr(module.torch.cuda, "current_stream", stream)
    assert status.wait() == [0, 0]
    assert devices == [status.device] * 2


def test_gpu_that_has_finished_without_the_status(monkeypatch: Any) -> None:
    status = RowStatus(2, CPU)
    status.device = torch.device("cuda", 1)
    finished = SimpleNamespace(query=lambda: True)
    monkeypatch.setattr(module.torch.cuda, "current_stream", lambda device: finished)
    with pytest.raises(RuntimeError, match="no kernel has written the status of batch row 0"):
        status.wait()


def test_default_device_is_ignored() -> None:
    with torch.device("meta"):
        assert RowStatus(2, CPU).tensor.device == CPU
