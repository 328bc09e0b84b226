"""Numbers of the card for the CPU, without waiting for what the card is given to do after them."""

from typing import Any

import torch
from torch import Tensor

__all__ = ["Fetch"]


class Fetch:
    """A tensor on its way to the CPU.

    ``tensor.cpu()`` waits for all work that was launched before it. A copy into pinned memory,
    started as soon as the numbers are under way, has arrived by the time that they are asked for.

    >>> marks = Fetch(torch.tensor([0, 2]))
    >>> marks.array()
    array([0, 2])
    """

    def __init__(self, tensor: Tensor) -> None:
        self._host, self._done = tensor, None
        if tensor.is_cuda:
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._done.record(torch.cuda.current_stream(tensor.device))

    def array(self) -> Any:
        """The numbers, once they are there, as NumPy has them."""
        if self._done is not None:
            self._done.synchronize()
        return self._host.numpy()
