"""Validation of a tagger's settings, before any data are read."""

import math
from typing import Any

import numpy as np
import torch

from trellis.checks import as_positive, one_of, sequences
from trellis.errors import InputError
from trellis.metrics import scorer
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.labels import constraints_for
from trellis.native import resolve_jobs
from trellis.nn.tagger.network import ENCODERS, HEADS, WORDS
from trellis.nn.tagger.optimizer import OPTIMIZERS, SCHEDULES

__all__ = ["check_fit_arguments", "check_settings", "choose_device"]

PRECISIONS = ("bf16", "fp16")
_SIZES = ("word_dim", "char_dim", "char_hidden", "hidden", "layers", "epochs", "batch_size")
_UPPER_BOUNDS = {
    "dropout": 1.0,
    "word_dropout": math.inf,
    "weight_decay": math.inf,
    "learning_rate": math.inf,
    "clip": math.inf,
}


def check_settings(tagger: Any) -> None:
    """Validate the settings of a `NeuralTagger`."""
    names = tagger.words
    if isinstance(names, str) or not names or not all(name in WORDS for name in names):
        raise InputError(f"words must be a tuple of names from {', '.join(WORDS)}, not {names!r}")
    for name in _SIZES:
        as_positive(getattr(tagger, name), name)
    if tagger.patience is not None:
        as_positive(tagger.patience, "patience")
    one_of(tagger.encoder, ENCODERS, "encoder")
    one_of(tagger.optimizer, OPTIMIZERS, "optimizer")
    one_of(tagger.schedule, SCHEDULES, "schedule")
    if tagger.precision is not None:
        one_of(tagger.precision, PRECISIONS, "precision")
    if not callable(tagger.head):
        one_of(tagger.head, HEADS, "head")
    for name, bound in _UPPER_BOUNDS.items():
        if name != "clip" or tagger.clip is not None:
            _check_range(getattr(tagger, name), bound, name)
    resolve_jobs(tagger.n_jobs)
    if tagger.scoring is not None:
        scorer(tagger.scoring)
    if tagger.constraints is not None and tagger.head != "crf":
        raise InputError(f"constraints need head='crf', not {tagger.head!r}")
    if isinstance(tagger.constraints, str):
        constraints_for(tagger.constraints, ["O"])  # this raises for an unknown scheme


def _check_range(value: Any, bound: float, name: str) -> None:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not 0 <= value < bound:
        raise InputError(f"{name} must be at least 0 and below {bound:g}, not {value!r}")


def choose_device(device: Any) -> torch.device:
    """Return the device of this name. None means a GPU if there is one, else the CPU."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError):
        chosen = None
    if chosen is None or chosen.type not in ("cpu", "cuda"):
        raise InputError(f"device must be cpu, cuda or cuda:0, not {device!r}")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device is {device!r}, but PyTorch finds no GPU")
    return chosen


def check_fit_arguments(dev: Any, callback: Any, checkpoint: Any) -> None:
    """Validate the keyword arguments of `NeuralTagger.fit`."""
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function, not {callback!r}")
    if not isinstance(checkpoint, Checkpoint | None):
        raise InputError(f"checkpoint must be a Checkpoint, not {checkpoint!r}")
    if dev is None:
        return
    if not isinstance(dev, tuple | list) or len(dev) != 2:
        raise InputError(f"dev must be a pair (X, y), not {dev!r:.60}")
    if len(sequences(dev[0])) != len(dev[1]):
        raise InputError(f"dev has {len(dev[0])} sequences and {len(dev[1])} label lists")
