"""Layers for PyTorch: the CRF, a softmax over whole sequences, and the CTC loss.

>>> import torch
>>> from trellis.nn import CRF
>>> crf = CRF(num_tags=3, batch_first=True)
>>> emissions, tags = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=torch.long)
>>> loss = -crf(emissions, tags, reduction="token_mean")
>>> crf.decode(emissions, lengths=torch.tensor([4, 2]))[1].__len__()
2
"""

from importlib import import_module
from typing import Any

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("trellis.nn needs PyTorch: pip install 'trellis[torch]'") from error

_NAMES = {"CRF": "crf", "CTCLoss": "ctc", "ctc_loss": "ctc", "ctc_posterior": "ctc"}

__all__ = ["CRF", "CTCLoss", "ctc_loss", "ctc_posterior"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
