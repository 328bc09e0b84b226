"""The training data of ``trellis train --engine``: shards of files, and facts that options need."""

from dataclasses import dataclass
from typing import Any

from trellis.app.model_files import refuse_model
from trellis.app.training.data import TrainingData
from trellis.app.training.options import Options
from trellis.app.training.partial import find_known
from trellis.data import corpus, tags
from trellis.data.shards.corpus import Corpus, Shard
from trellis.engines.base import Engine
from trellis.errors import InputError
from trellis.models.sharded.survey import first_sequences

__all__ = ["ShardedData", "survey_files"]


@dataclass(frozen=True)
class Counts:
    """The numbers of sequences and tokens of shards, and their distinct labels."""

    sequences: int
    tokens: int
    labels: frozenset[str]

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.sequences + other.sequences,
            self.tokens + other.tokens,
            self.labels | other.labels,
        )


@dataclass(frozen=True)
class ShardedData:
    """A corpus of shards."""

    corpus: Corpus
    counts: Counts
    head: TrainingData
    """The sequences of the first shard that has any, with all labels of the corpus."""

    @property
    def width(self) -> int:
        """The number of columns of a token."""
        return corpus.width_of(self.head.X)

    @property
    def scheme(self) -> str:
        """The tagging scheme of the labels."""
        return tags.detect(self.counts.labels, otherwise="plain")

    def __str__(self) -> str:
        counts = self.counts
        return (
            f"{len(self.corpus.shards):,} shards, {counts.sequences:,} sequences, "
            f"{counts.tokens:,} tokens, {len(counts.labels)} labels"
        )


def survey_files(options: Options, engine: Engine) -> ShardedData:
    """Cut the files into shards, and read each of them once."""
    for path in options.files:
        refuse_model(path)
    shards = Corpus.text(
        options.files,
        options.engine.shard_size,
        format=options.data.format,
        columns=options.data.layout,
    )
    counts: Counts = engine.sum(_count, shards.shards, name="count")
    if not counts.labels:
        raise InputError(f"{options.files[0]}: no label is known at any position")
    head = TrainingData(first_sequences(shards), [sorted(counts.labels)], [], [], shards.layout)
    return ShardedData(shards, counts, head)


def _count(shard: Shard) -> Counts:
    X, y = shard.read()
    labels: list[Any] = y or []
    return Counts(len(X), sum(map(len, X)), frozenset(find_known(labels)))
