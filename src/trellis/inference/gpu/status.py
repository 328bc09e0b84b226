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
_MAX_BUFFERS = 64  # with this number of buffers that kernels may write to, wait for all kernels


class _Buffer(NamedTuple):
    tensor: Tensor  # (a power of two,) int32, pinned if the device is a GPU
    array: Any  # the same memory in NumPy, which reads it faster
    address: int


# Buffers for reuse, by size and device: allocating pinned memory takes milliseconds and stops all
# streams. If wait() was not called, a kernel may still write to a buffer, which then is not reused.
_buffers: dict[tuple[int, torch.device], list[_Buffer]] = {}


def _take_buffer(size: int, device: torch.device) -> _Buffer:
    """Return a buffer that no kernel can still be writing to."""
    buffers = _buffers.setdefault((size, device), [])
    for _ in range(len(buffers)):
        buffer = buffers.pop()
        if _UNKNOWN not in buffer.array.tolist():
            return buffer
        buffers.insert(0, buffer)
    if len(buffers) >= _MAX_BUFFERS:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return buffers.pop()
    # Without device="cpu", torch.set_default_device would decide where the tensor is.
    tensor = torch.zeros(size, dtype=torch.int32, device="cpu", pin_memory=device.type == "cuda")
    return _Buffer(tensor, tensor.numpy(), tensor.data_ptr())


class RowStatus:
    """One integer ≥ 0 for each row of a batch, written by a kernel.

    >>> status = RowStatus(2, torch.device("cpu"))
    >>> status.tensor[:2] = torch.tensor([0, 1])  # a kernel writes this
    >>> status.wait()
    [0, 1]
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        """Take a buffer for `rows` rows on a GPU, or on the CPU for Triton's interpreter."""
        size = 1 << (rows - 1).bit_length()
        self._buffer: _Buffer | None = _take_buffer(size, device)
        self._free = _buffers[size, device]
        self.tensor, array, self.address = self._buffer
        self.device, self._rows = device, array[:rows]
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
        self._release()
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

    def _release(self) -> None:
        """Make the buffer available, also without wait(): its values show if it may be reused."""
        buffer, self._buffer = getattr(self, "_buffer", None), None
        if buffer is not None:
            self._free.append(buffer)

    __del__ = _release
