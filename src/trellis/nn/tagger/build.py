"""From the settings of a tagger to its network, once they are known to make sense."""

import math
from typing import Any

import numpy as np
import torch

from trellis.checks import as_integer, sequences
from trellis.errors import InputError
from trellis.metrics import scorer
from trellis.models.chain.checkpoint import Checkpoint
from trellis.models.chain.labels import constraints_for
from trellis.native import resolve_jobs
from trellis.nn.tagger.network import ENCODERS, HEADS, Network, make_head
from trellis.nn.tagger.training import OPTIMIZERS, SCHEDULES
from trellis.nn.words.base import ConcatWords, WordEncoder
from trellis.nn.words.chars import CharCNN, CharRNN
from trellis.nn.words.tables import NGramEmbedding, WordEmbedding, as_vectors

__all__ = [
    "WORDS",
    "build_network",
    "build_words",
    "check_settings",
    "check_watch",
    "choose_device",
]

WORDS = ("embedding", "cnn", "rnn", "ngrams")
_PRECISIONS = (None, "bf16", "fp16")


def check_settings(tagger: Any) -> None:
    """Raise for settings that no data can make right."""
    parts = tagger.words
    if isinstance(parts, str) or not parts or not all(part in WORDS for part in parts):
        raise InputError(f"words must be some of {', '.join(WORDS)}, as a tuple, not {parts!r}")
    for name in ("word_dim", "char_dim", "char_hidden", "hidden", "layers", "epochs", "batch_size"):
        if as_integer(getattr(tagger, name), name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(tagger, name)}")
    if tagger.patience is not None and as_integer(tagger.patience, "patience") < 1:
        raise InputError(f"patience must be at least 1, or None, not {tagger.patience}")
    choices: dict[str, Any] = {"encoder": tuple(ENCODERS), "optimizer": OPTIMIZERS}
    choices |= {"schedule": SCHEDULES, "precision": _PRECISIONS}
    if not callable(tagger.head):
        choices["head"] = HEADS
    for name, known in choices.items():
        if getattr(tagger, name) not in known:
            wanted = ", ".join(map(str, known))
            raise InputError(f"{name} must be one of {wanted}, not {getattr(tagger, name)!r}")
    _check_numbers(tagger)
    resolve_jobs(tagger.n_jobs)
    if tagger.scoring is not None:
        scorer(tagger.scoring)
    if tagger.constraints is not None and tagger.head != "crf":
        raise InputError(f"constraints are for head='crf', not {tagger.head!r}")
    if isinstance(tagger.constraints, str):
        constraints_for(tagger.constraints, ["O"])


def _check_numbers(tagger: Any) -> None:
    ranges = {
        "dropout": (0.0, 1.0),
        "word_dropout": (0.0, math.inf),
        "weight_decay": (0.0, math.inf),
        "learning_rate": (0.0, math.inf),
        "clip": (0.0, math.inf),
    }
    for name, (least, end) in ranges.items():
        value = getattr(tagger, name)
        if name == "clip" and value is None:
            continue
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not number or not least <= value < end:
            raise InputError(f"{name} must be at least {least:g} and below {end:g}, not {value!r}")


def choose_device(wish: Any) -> torch.device:
    """The one that is asked for; None is a card if there is one."""
    if wish is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wish)
    except (RuntimeError, TypeError):
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"device must be cpu, cuda or cuda:0, not {wish!r}")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device is {wish!r}, but PyTorch finds no card here")
    return device


def build_words(
    tagger: Any, sparse: bool, vectors: Any = None, table_dim: int | None = None
) -> WordEncoder:
    """The encoders of words that the settings ask for, which have learned nothing yet.

    ``table_dim`` is that of vectors which a file has instead.
    """
    made: list[WordEncoder] = []
    for part in tagger.words:
        if part == "embedding":
            given = as_vectors(vectors)
            dim = given.dim if given is not None else table_dim or tagger.word_dim
            made.append(
                WordEmbedding(
                    dim,
                    vectors=given,
                    unknown_dropout=tagger.word_dropout,
                    lowercase=tagger.lowercase,
                    sparse=sparse,
                )
            )
        elif part == "cnn":
            made.append(CharCNN(tagger.char_dim, tagger.char_widths, tagger.char_hidden))
        elif part == "rnn":
            made.append(CharRNN(tagger.char_dim, max(1, tagger.char_hidden // 2)))
        else:
            made.append(NGramEmbedding(tagger.word_dim, sparse=sparse))
    return ConcatWords(*made)


def build_network(tagger: Any, words: WordEncoder, labels: list[Any]) -> Network:
    """The whole network for these labels."""
    encoder = ENCODERS[tagger.encoder](words.dim, tagger.hidden, tagger.layers, tagger.dropout)
    head = make_head(tagger.head, labels, tagger.constraints)
    return Network(words, encoder, head, len(labels), tagger.dropout)


def check_watch(dev: Any, callback: Any, checkpoint: Any) -> None:
    """Raise if these cannot be what `fit` takes under their names."""
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function, not {callback!r}")
    if not isinstance(checkpoint, Checkpoint | None):
        raise InputError(f"checkpoint must be a Checkpoint, not {checkpoint!r}")
    if dev is None:
        return
    if not isinstance(dev, tuple | list) or len(dev) != 2:
        raise InputError("dev must be a pair (X, y)")
    if len(sequences(dev[0])) != len(dev[1]):
        raise InputError(f"dev has {len(dev[0])} sequences and {len(dev[1])} label lists")
