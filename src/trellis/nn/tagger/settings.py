"""Validation of a tagger's settings, before any data are read."""

import math
from typing import Any

import numpy as np
import torch

from trellis.checks import (
    as_positive,
    check_random_state,
    flag,
    integer_in_range,
    one_of,
)
from trellis.errors import InputError
from trellis.metrics import scorer
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.labels import constraints_for
from trellis.native import resolve_jobs
from trellis.nn.tagger.network import ENCODERS, HEADS, WORDS
from trellis.nn.tagger.optimizer import OPTIMIZERS, SCHEDULES
from trellis.nn.words.chars import CELLS

__all__ = ["check_fit_arguments", "check_settings", "choose_device"]

PRECISIONS = ("bf16", "fp16")
_DIMENSIONS = ("word_dim", "char_dim", "char_hidden", "hidden", "layers")
_MAX_DIMENSION = 2**31 - 1
# The time to build a network is quadratic in the number of layers: 5,000 took a minute.
MAX_LAYERS = 64
# The dilation of layer n is 2ⁿ, and each sequence is padded by that many tokens: with 16 layers and
# hidden=64, a sequence takes 32 MB.
MAX_CNN_LAYERS = 16
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
    for name in _DIMENSIONS:
        integer_in_range(getattr(tagger, name), 1, _MAX_DIMENSION, name)
    for name in ("epochs", "batch_size"):
        as_positive(getattr(tagger, name), name)
    if tagger.patience is not None:
        as_positive(tagger.patience, "patience")
    one_of(tagger.encoder, ENCODERS, "encoder")
    limit = MAX_CNN_LAYERS if tagger.encoder == "cnn" else MAX_LAYERS
    if tagger.layers > limit:
        raise InputError(
            f"layers is {tagger.layers}: encoder={tagger.encoder!r} supports at most {limit}"
        )
    flag(tagger.lowercase, "lowercase")
    flag(tagger.char_highway, "char_highway")
    one_of(tagger.char_cell, CELLS, "char_cell")
    if not isinstance(tagger.column, int | str):
        raise InputError(f"column must be an integer or a str, not {tagger.column!r:.60}")
    check_random_state(tagger.random_state)
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
        torch_device = torch.device(device)
    except (RuntimeError, TypeError):
        torch_device = None
    if torch_device is None or torch_device.type not in ("cpu", "cuda"):
        raise InputError(f"device must be cpu, cuda or cuda:0, not {device!r}")
    if torch_device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device is {device!r}, but PyTorch finds no GPU")
    return torch_device


def check_fit_arguments(callback: Any, checkpoint: Any) -> None:
    """Validate the keyword arguments of `NeuralTagger.fit`."""
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function, not {callback!r}")
    if not isinstance(checkpoint, Checkpoint | None):
        raise InputError(f"checkpoint must be a Checkpoint, not {checkpoint!r}")
