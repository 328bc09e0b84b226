"""fastText's arguments: names, other names, defaults, and what they are here."""

import os
from collections.abc import Sequence
from enum import Enum
from types import SimpleNamespace
from typing import Any

from trellis.embeddings.training import check_number
from trellis.errors import InputError
from trellis.formats.fasttext import Args

__all__ = ["NAMES", "SUPERVISED", "UNSUPERVISED", "loss_name", "model_name", "of_file", "read"]

loss_name = Enum("loss_name", ["hs", "ns", "softmax", "ova"])
model_name = Enum("model_name", ["cbow", "skipgram", "supervised"])

_THREADS = max(1, (os.cpu_count() or 2) - 1)
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
    "thread": _THREADS,
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
"""What a model has as attributes."""
_ALSO = {
    "min_count": "minCount",
    "word_ngrams": "wordNgrams",
    "lr_update_rate": "lrUpdateRate",
    "label_prefix": "label",
    "pretrained_vectors": "pretrainedVectors",
}
_LEAST: dict[str, float] = {
    "lr": 0.0,
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
    "t": 0.0,
}


def read(
    defaults: dict[str, Any], given: Sequence[Any], named: dict[str, Any]
) -> tuple[Any, SimpleNamespace]:
    """The input, and all other arguments; positions are fastText's.

    >>> path, args = read(SUPERVISED, ("train.txt", 0.5), {"word_ngrams": 2, "dim": 16})
    >>> path, args.lr, args.wordNgrams, args.dim, args.epoch
    ('train.txt', 0.5, 2, 16, 5)
    """
    places = ("input", *defaults)
    if len(given) > len(places):
        raise TypeError(f"{len(given)} arguments: there are {len(places)}")
    found = dict(zip(places, given, strict=False))
    for name, value in named.items():
        own = _ALSO.get(name, name)
        if own not in places:
            raise TypeError(f"unexpected keyword argument '{name}'")
        if own in found:
            raise TypeError(f"multiple values for argument '{own}'")
        found[own] = value
    if "input" not in found:
        raise TypeError("missing argument 'input', the path of a file of texts")
    args = SimpleNamespace(**{**defaults, **found})
    for name, value in AUTOTUNE.items():
        if getattr(args, name, value) != value:
            raise InputError(
                f"{name}={getattr(args, name)!r}: autotune is not there; search by hand"
            )
    _check(args)
    return args.__dict__.pop("input"), args


def _check(args: SimpleNamespace) -> None:
    for name, least in _LEAST.items():
        check_number(args, name, least)
    try:
        loss_name[args.loss]
        model_name[getattr(args, "model", "supervised")]
    except KeyError as error:
        raise InputError(f"{error} is no name of a loss or of a model") from None
    if args.maxn == 0 and args.wordNgrams <= 1:
        args.bucket = 0  # as in fastText: nothing would be in them


def of_file(args: Args) -> SimpleNamespace:
    """What a file tells of the arguments; the others are the defaults."""
    known = {
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
        **{**(SUPERVISED if args.model == "supervised" else UNSUPERVISED), **known}
    )
