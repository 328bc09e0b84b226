"""What a kernel finds wrong with a batch, told while the kernels behind it still run.

A copy from the card waits for all that was launched before it. Memory of the host that a kernel can
write to does not: the mark of a row is there as soon as the kernel has looked at it, which for a
small batch is before Python has launched the rest.
"""

from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Marks"]

_UNKNOWN = -1
_AWAKE = 2e-4  # s to look again and again; who waits longer lets other threads run
_MOST_LATE = 64


class _Memory(NamedTuple):
    tensor: Tensor
    array: Any  # the same to NumPy
    address: int
    device: torch.device  # of the kernels that write to it


_free: dict[tuple[int, torch.device], list[_Memory]] = {}
_late: list["tuple[_Memory, int]"] = []  # with rows that a kernel may still write to


class Marks:
    """An integer a row, 0 or more, that a kernel is to write.

    >>> marks = Marks(2, torch.device("cpu"))
    >>> marks.tensor[:2] = torch.tensor([0, 1])  # the kernel's part
    >>> marks.wait()
    [0, 1]
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        """For a batch of so many rows on a card, or on the CPU as Triton's interpreter has it."""
        self._memory: _Memory | None = _take(rows, device)
        self.tensor, array, self.address, self.device = self._memory
        self._rows = array[:rows]
        self._rows.fill(_UNKNOWN)

    def wait(self) -> list[int]:
        """The marks of all rows. To be asked once: then the memory is given to another batch.

        The kernel must have been launched on the device's current stream.
        """
        begin = None
        while True:
            found: list[int] = self._rows.tolist()
            if _UNKNOWN not in found:
                break
            now = perf_counter()
            begin = begin or now
            if now - begin > _AWAKE:
                found = self._waited()
                break
        memory, self._memory = self._memory, None
        assert memory is not None
        _free[len(memory.array), self.device].append(memory)
        return found

    def _waited(self) -> list[int]:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        found: list[int] = self._rows.tolist()
        if _UNKNOWN in found:
            raise RuntimeError(f"no kernel has looked at batch row {found.index(_UNKNOWN)}")
        return found

    def __del__(self, late: Any = _late) -> None:
        """Nobody has waited, but a kernel may still write: the memory must not be anyone else's."""
        memory = getattr(self, "_memory", None)
        if memory is not None:
            late.append((memory, len(self._rows)))


def _take(rows: int, device: torch.device) -> _Memory:
    """Memory that no kernel writes to."""
    size = 1 << (rows - 1).bit_length()
    free = _free.setdefault((size, device), [])
    if not free and _late:
        _recover()
    try:
        return free.pop()
    except IndexError:
        pinned = device.type == "cuda"
        # not where torch.set_default_device says
        tensor = torch.empty(size, dtype=torch.int32, device="cpu", pin_memory=pinned)
        return _Memory(tensor, tensor.numpy(), tensor.data_ptr(), device)


def _recover() -> None:
    """Take back what kernels have written to by now; of very many, after waiting for all cards."""
    given, _late[:] = _late[:], []
    if len(given) >= _MOST_LATE:
        for device in {memory.device for memory, _ in given if memory.device.type == "cuda"}:
            torch.cuda.synchronize(device)
        given = [(memory, 0) for memory, _ in given]
    for memory, rows in given:
        if _UNKNOWN in memory.array[:rows].tolist():
            _late.append((memory, rows))
        else:
            _free.setdefault((len(memory.array), memory.device), []).append(memory)
