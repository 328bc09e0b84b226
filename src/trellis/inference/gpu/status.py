"""Per-row status flags that a kernel writes, readable before later kernels finish.

A copy from the GPU waits for all kernels launched before it. Pinned host memory needs no copy: a
kernel writes the status of a row there as soon as it has validated the row. For a small batch this
happens before Python has launched the remaining kernels.
"""

from time import perf_counter, sleep
from typing import Any, TypeAlias

import torch
from torch import Tensor

__all__ = ["RowStatus"]

_UNKNOWN = -1
_SPIN = 2e-4  # seconds to poll without a pause; the pauses after that let other threads run
_MAX_BUFFERS = 64  # if kernels may still write to this many buffers, wait for all kernels

# Buffers for reuse, by size and device: allocating pinned memory takes milliseconds and stops all
# streams. A buffer to which a kernel may still write, because wait() was not called, is not reused.
# A buffer is an int32 tensor whose size is a power of two, in pinned memory if the device is a GPU;
# and a NumPy array of the same memory, because NumPy reads the values faster.
_Buffer: TypeAlias = tuple[Tensor, Any]
_buffers: dict[tuple[int, torch.device], list[_Buffer]] = {}


def _take_buffer(size: int, device: torch.device) -> _Buffer:
    """Return a buffer that no kernel can still be writing to."""
    buffers = _buffers.setdefault((size, device), [])
    for _ in range(len(buffers)):
        buffer = buffers.pop()
        if _UNKNOWN not in buffer[1].tolist():
            return buffer
        buffers.insert(0, buffer)
    if len(buffers) >= _MAX_BUFFERS:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return buffers.pop()
    # Without device="cpu", torch.set_default_device would decide where the tensor is.
    tensor = torch.zeros(size, dtype=torch.int32, device="cpu", pin_memory=device.type == "cuda")
    return tensor, tensor.numpy()


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
        self.tensor, array = self._buffer
        self.address, self.device = self.tensor.data_ptr(), device
        self._rows = array[:rows]
        self._rows.fill(_UNKNOWN)

    def wait(self) -> list[int]:
        """Wait for the status of all rows and return it. It can be called only once.

        The kernel must have been launched on the current stream of the device.
        """
        start = perf_counter()
        while _UNKNOWN in self._rows.tolist():
            if perf_counter() - start > _SPIN:
                on_gpu = self.device.type == "cuda"
                if not on_gpu or torch.cuda.current_stream(self.device).query():
                    break  # all kernels have finished
                sleep(_SPIN)
        status: list[int] = self._rows.tolist()
        if _UNKNOWN in status:
            row = status.index(_UNKNOWN)
            raise RuntimeError(f"no kernel has written the status of batch row {row}")
        self._release()
        return status

    def _release(self) -> None:
        """Put the buffer back into the list, even if wait() was not called.

        A kernel may then still write to it. `_take_buffer` sees this by values that are unknown.
        """
        buffer, self._buffer = getattr(self, "_buffer", None), None
        if buffer is not None:
            self._free.append(buffer)

    __del__ = _release
