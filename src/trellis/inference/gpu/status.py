"""Per-row status flags that a kernel writes, readable before later kernels finish.

A copy from the GPU waits for all kernels launched before it. Pinned host memory needs no copy: a
kernel writes the status of a row there as soon as it has validated the row. For a small batch this
happens before Python has launched the remaining kernels.
"""

from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["RowStatus"]

_UNKNOWN = -1
_SPIN = 2e-4  # seconds to poll before synchronising the stream, which lets other threads run
_MAX_PENDING = 64  # with this number of pending buffers, wait for all kernels


class _Buffer(NamedTuple):
    tensor: Tensor  # (a power of two,) int32, pinned if the device is a GPU
    array: Any  # the same memory in NumPy, which reads it faster
    address: int
    device: torch.device  # the device of the kernels that write to the buffer


class _Pool:
    """Buffers for reuse: allocating pinned memory takes milliseconds and stops all streams."""

    def __init__(self) -> None:
        self.free: dict[tuple[int, torch.device], list[_Buffer]] = {}
        self.pending: list[tuple[_Buffer, int]] = []  # a kernel may still write to the first rows

    def take(self, rows: int, device: torch.device) -> _Buffer:
        """Return a buffer with space for `rows` numbers that no kernel writes to."""
        size = 1 << (rows - 1).bit_length()
        free = self.free.setdefault((size, device), [])
        if not free and self.pending:
            self._recover()
        if free:
            return free.pop()
        pinned = device.type == "cuda"
        # Without device="cpu", torch.set_default_device would decide where the tensor is.
        tensor = torch.empty(size, dtype=torch.int32, device="cpu", pin_memory=pinned)
        return _Buffer(tensor, tensor.numpy(), tensor.data_ptr(), device)

    def give_back(self, buffer: _Buffer) -> None:
        """Make a buffer that has been read available for reuse."""
        self.free.setdefault((len(buffer.array), buffer.device), []).append(buffer)

    def _recover(self) -> None:
        """Free the pending buffers whose kernels have finished. If there are many, wait for all."""
        pending, self.pending = self.pending, []
        if len(pending) >= _MAX_PENDING:
            for device in {buffer.device for buffer, _ in pending if buffer.device.type == "cuda"}:
                torch.cuda.synchronize(device)
            pending = [(buffer, 0) for buffer, _ in pending]
        for buffer, rows in pending:
            if _UNKNOWN in buffer.array[:rows].tolist():
                self.pending.append((buffer, rows))
            else:
                self.give_back(buffer)


_pool = _Pool()


class RowStatus:
    """One integer ≥ 0 for each row of a batch, written by a kernel.

    >>> status = RowStatus(2, torch.device("cpu"))
    >>> status.tensor[:2] = torch.tensor([0, 1])  # a kernel writes this
    >>> status.wait()
    [0, 1]
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        """Take a buffer for `rows` rows on a GPU, or on the CPU for Triton's interpreter."""
        self._buffer: _Buffer | None = _pool.take(rows, device)
        self.tensor, array, self.address, self.device = self._buffer
        self._rows = array[:rows]
        self._rows.fill(_UNKNOWN)

    def wait(self) -> list[int]:
        """Wait for the status of all rows and return it. It can be called only once.

        The kernel must have been launched on the current stream of the device.
        """
        start = None
        while _UNKNOWN in (status := self._rows.tolist()):
            now = perf_counter()
            start = start or now
            if now - start > _SPIN:
                status = self._synchronize()
                break
        buffer, self._buffer = self._buffer, None
        assert buffer is not None
        _pool.give_back(buffer)
        return list(status)

    def _synchronize(self) -> list[int]:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        status: list[int] = self._rows.tolist()
        if _UNKNOWN in status:
            raise RuntimeError(
                f"no kernel has written the status of batch row {status.index(_UNKNOWN)}"
            )
        return status

    def __del__(self, pool: _Pool = _pool) -> None:
        """Keep the buffer as pending if wait() was not called: a kernel may still write to it."""
        buffer = getattr(self, "_buffer", None)
        if buffer is not None:
            pool.pending.append((buffer, len(self._rows)))
