"""What a kernel finds wrong with a batch, told while the kernels behind it still run.

A copy from the card waits for all that was launched before it. Memory of the host that a kernel can
write to does not: the mark of a row is there as soon as the kernel has looked at it, which for a
small batch is before Python has launched the rest.
"""

import torch

__all__ = ["Marks"]

_UNKNOWN = -1
_LOOKS = 256  # about 0.2 ms; who waits longer lets other threads run
_free: dict[tuple[int, bool], list["Marks"]] = {}


class Marks:
    """An integer a row, 0 or more, that a kernel is to write.

    >>> marks = Marks.of(2, torch.device("cpu"))
    >>> marks.memory[:2] = torch.tensor([0, 1])  # the kernel's part
    >>> marks.wait()
    [0, 1]
    """

    def __init__(self, size: int, device: torch.device) -> None:
        self.device = device
        self.memory = torch.empty(size, dtype=torch.int32, pin_memory=device.type == "cuda")
        self.address = self.memory.data_ptr()
        self._all = self._rows = self.memory.numpy()

    @classmethod
    def of(cls, rows: int, device: torch.device) -> "Marks":
        """For a batch of so many rows on a card, or on the CPU as Triton's interpreter has it."""
        size = 1 << (rows - 1).bit_length()
        free = _free.setdefault((size, device.type == "cuda"), [])
        try:
            found = free.pop()
            found.device = device
        except IndexError:
            found = cls(size, device)
        found._rows = found._all[:rows]
        found._rows.fill(_UNKNOWN)
        return found

    def wait(self) -> list[int]:
        """The marks of all rows. To be asked once: then the memory is given to another batch.

        The kernel must have been launched on the device's current stream. Memory that nobody has
        waited for is never used again, as it may still be written to.
        """
        for _ in range(_LOOKS):
            found: list[int] = self._rows.tolist()
            if _UNKNOWN not in found:
                break
        else:
            if self.device.type == "cuda":
                torch.cuda.current_stream(self.device).synchronize()
            found = self._rows.tolist()
            if _UNKNOWN in found:
                raise RuntimeError(f"no kernel has looked at batch row {found.index(_UNKNOWN)}")
        _free[len(self._all), self.device.type == "cuda"].append(self)
        return found
