"""fastText's arguments: names, aliases, defaults and valid ranges."""

import math
import os
from collections.abc import Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any

from trellis.checks import integer_in_range, number_in_range
from trellis.errors import InputError
from trellis.formats.fasttext import Args

__all__ = [
    "NAMES",
    "SUPERVISED",
    "UNSUPERVISED",
    "loss_name",
    "model_name",
    "of_file",
    "read_arguments",
]

loss_name = Enum("loss_name", ["hs", "ns", "softmax", "ova"])
model_name = Enum("model_name", ["cbow", "skipgram", "supervised"])


def count_threads() -> int:
    """Return fastText's default number of threads: one core is left free."""
    return max(1, (os.cpu_count() or 2) - 1)


UNSUPERVISED: dict[str, Any] = {
    "model": "skipgram",
    "lr": 0.05,
    "dim": 100,
    "ws": 5,
    "epoch": 5,
    "minCount": 5,
    "minCountLabel": 0,
    "minn": 3,
    "maxn": 6,
    "neg": 5,
    "wordNgrams": 1,
    "loss": "ns",
    "bucket": 2_000_000,
    "thread": count_threads(),
    "lrUpdateRate": 100,
    "t": 1e-4,
    "label": "__label__",
    "verbose": 2,
    "pretrainedVectors": "",
}
AUTOTUNE: dict[str, Any] = {
    "autotuneValidationFile": "",
    "autotuneMetric": "f1",
    "autotunePredictions": 1,
    "autotuneDuration": 300,
    "autotuneModelSize": "",
}
SUPERVISED: dict[str, Any] = {
    **{name: value for name, value in UNSUPERVISED.items() if name != "model"},
    "lr": 0.1,
    "minCount": 1,
    "minn": 0,
    "maxn": 0,
    "loss": "softmax",
    "seed": 0,
    **AUTOTUNE,
}
NAMES = tuple(name for name in UNSUPERVISED if name != "model")
"""The arguments that a model has as attributes."""
_ALIASES = {
    "min_count": "minCount",
    "word_ngrams": "wordNgrams",
    "lr_update_rate": "lrUpdateRate",
    "label_prefix": "label",
    "pretrained_vectors": "pretrainedVectors",
}
_MIN_INTEGERS = {
    "dim": 1,
    "ws": 1,
    "epoch": 1,
    "minCount": 0,
    "minCountLabel": 0,
    "minn": 0,
    "maxn": 0,
    "neg": 1,
    "wordNgrams": 0,
    "bucket": 0,
    "thread": 0,
}
_NOT_NEGATIVE = ("lr", "t")


def read_arguments(
    defaults: dict[str, Any], positional: Sequence[Any], named: dict[str, Any]
) -> tuple[Any, SimpleNamespace]:
    """Return the input and all other arguments of a call. Their order is that of fastText.

    >>> path, args = read_arguments(SUPERVISED, ("train.txt", 0.5), {"word_ngrams": 2, "dim": 16})
    >>> path, args.lr, args.wordNgrams, args.dim, args.epoch
    ('train.txt', 0.5, 2, 16, 5)
    """
    names = ("input", *defaults)
    if len(positional) > len(names):
        raise TypeError(f"got {len(positional)} positional arguments: must be at most {len(names)}")
    arguments = dict(zip(names, positional, strict=False))
    for alias, value in named.items():
        name = _ALIASES.get(alias, alias)
        if name not in names:
            raise TypeError(f"unexpected keyword argument '{alias}'")
        if name in arguments:
            raise TypeError(f"multiple values for argument '{name}'")
        arguments[name] = value
    if "input" not in arguments:
        raise TypeError("missing argument 'input': must be the path of a text file")
    args = SimpleNamespace(**{**defaults, **arguments})
    for name, value in AUTOTUNE.items():
        if getattr(args, name, value) != value:
            raise InputError(f"{name} is {getattr(args, name)!r}: autotune is not supported")
    _validate_arguments(args)
    return args.__dict__.pop("input"), args


def _validate_arguments(args: SimpleNamespace) -> None:
    """Raise InputError if an argument is invalid."""
    for name, minimum in _MIN_INTEGERS.items():
        integer_in_range(getattr(args, name), minimum, math.inf, name)
    for name in _NOT_NEGATIVE:
        number_in_range(getattr(args, name), 0.0, math.inf, name)
    try:
        loss_name[args.loss]
        model_name[getattr(args, "model", "supervised")]
    except KeyError as error:
        raise InputError(f"{error} is not the name of a loss or of a model") from None
    if args.maxn == 0 and args.wordNgrams <= 1:
        args.bucket = 0  # as in fastText: there are no n-grams, so no buckets are needed


def of_file(args: Args) -> SimpleNamespace:
    """Return the arguments that a file stores, and the defaults of all other arguments."""
    stored_arguments = {
        "dim": args.dim,
        "ws": args.ws,
        "epoch": args.epoch,
        "minCount": args.min_count,
        "neg": args.neg,
        "wordNgrams": args.word_ngrams,
        "loss": loss_name[args.loss],
        "bucket": args.bucket,
        "minn": args.minn,
        "maxn": args.maxn,
        "lrUpdateRate": args.lr_update_rate,
        "t": args.t,
    }
    return SimpleNamespace(
        **{**(SUPERVISED if args.model == "supervised" else UNSUPERVISED), **stored_arguments}
    )
