"""Pass 1 over a corpus: the attributes, the labels and the numbers of sequences of its shards.

The surveys of shards are merged in the order of the shards. The result equals that of a single pass
over all data, because attributes are numbered in the order of their first occurrence.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.checks import check_not_empty
from trellis.data.shards.corpus import Corpus, Shard
from trellis.engines.base import Engine
from trellis.engines.storage import Shared
from trellis.engines.tasks import errors_name_shard
from trellis.errors import InputError
from trellis.features.merging import Attributes, attributes_of, merge
from trellis.features.vectorizer import FeatureMap
from trellis.models.chain.labels import Label, encode
from trellis.sequences import count_positions, label_lists, sequences

__all__ = ["Prototype", "Survey", "first_sequences", "read_labelled", "survey"]


@dataclass(frozen=True)
class Prototype:
    """The feature map before it has learned the corpus."""

    features: FeatureMap
    any_type: bool
    """True if a function of the user takes sequences of any type."""


@dataclass(frozen=True, eq=False)
class Survey:
    """What pass 1 finds in one shard, or in consecutive shards."""

    attributes: Attributes | None
    """None without a sequence."""
    labels: frozenset[Label]
    is_partial: bool
    """True if some label is unknown."""
    sequences: tuple[int, ...]
    """The number of sequences of each shard."""
    tokens: int

    def __add__(self, other: Survey) -> Survey:
        attributes = self.attributes or other.attributes
        if self.attributes is not None and other.attributes is not None:
            attributes = merge(self.attributes, other.attributes)
        return Survey(
            attributes,
            self.labels | other.labels,
            self.is_partial or other.is_partial,
            self.sequences + other.sequences,
            self.tokens + other.tokens,
        )


def survey(engine: Engine, corpus: Corpus, prototype: Prototype) -> Survey:
    """Return the survey of a corpus."""
    shared = Shared(prototype)
    with engine.holding(shared):
        result: Survey = engine.sum(_survey_shard, corpus.shards, shared, name="vocabulary")
    return result


def _survey_shard(shard: Shard, shared: Shared) -> Survey:
    prototype: Prototype = shared.value
    X, y, lengths = read_labelled(shard, prototype.any_type)
    features = copy.deepcopy(prototype.features)
    attributes = None
    if X:
        features.learn(X)
        attributes = attributes_of(features)
    encoded = encode(y, lengths)
    return Survey(
        attributes,
        frozenset(encoded.classes),
        encoded.allowed is not None,
        (len(X),),
        int(lengths.sum()),
    )


def read_labelled(shard: Shard, any_type: bool) -> tuple[list[Any], list[Any], NDArray[np.int64]]:
    """Return X, y and the lengths of the sequences of a shard."""
    X, y = shard.read()
    if y is None:
        raise InputError("the corpus has no labels, which training needs")
    X, y = sequences(X, any_type=any_type), label_lists(y)
    lengths = count_positions(X)
    if len(X):
        check_not_empty(lengths)
    return X, y, lengths


def first_sequences(corpus: Corpus) -> list[Any]:
    """Return the sequences of the first shard that has one; they decide the kind of features."""
    for number, shard in enumerate(corpus.shards):
        with errors_name_shard(number, shard):
            X = shard.read()[0]
        if X:
            return X
    raise InputError("the corpus is empty: at least one sequence is needed")
