"""Shards of tables: row groups of Parquet files, slices of datasets, partitions of dask.bag.

A row is a mapping with the tokens of a sequence and, if the corpus has labels, their labels. A
token that is a list has columns, as in JSON: it becomes a tuple.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trellis.data.shards.stamps import Stamp, check_unchanged, stamp_of
from trellis.errors import FormatError, InputError

__all__ = [
    "BagShard",
    "DatasetShard",
    "ParquetShard",
    "cut_bag",
    "cut_dataset",
    "cut_parquet",
    "digest_rows",
]


@dataclass(frozen=True)
class _Table:
    """The columns of the tokens and of the labels; rows become (X, y)."""

    tokens: str
    labels: str | None

    def _convert(self, rows: Iterable[Any], first: int = 0) -> tuple[list[Any], list[Any] | None]:
        """Return (X, y) of rows; ``first`` is the number of the first row, for errors."""
        X: list[Any] = []
        y: list[Any] = []
        for number, row in enumerate(rows, first):
            x, labels = self._columns_of(row, number)
            X.append(x)
            y.append(labels)
        return X, None if self.labels is None else y

    def _columns_of(self, row: Any, number: int) -> tuple[Any, Any]:
        if not isinstance(row, Mapping):
            if self.labels is None:
                return row, None
            if isinstance(row, tuple | list) and len(row) == 2:
                return row[0], row[1]
            raise self._error(number, f"must be a dict or a pair (tokens, labels), not {row!r:.60}")
        for column in (self.tokens, self.labels):
            if column is not None and row.get(column) is None:
                raise self._error(number, f"has no {column!r}: it has {', '.join(map(str, row))}")
        tokens = row[self.tokens]
        if hasattr(tokens, "shape"):  # an array (length, features)
            length = tokens.shape[0]
        else:
            tokens = [tuple(t) if isinstance(t, list) else t for t in tokens]
            length = len(tokens)
        if self.labels is None:
            return tokens, None
        labels = list(row[self.labels])
        if len(labels) != length:
            raise self._error(number, f"has {length} tokens but {len(labels)} labels")
        return tokens, labels

    def _error(self, number: int, problem: str) -> FormatError:
        return FormatError(f"{self.name}, row {number}: the row {problem}")

    @property
    def name(self) -> str:
        """The source and the place in it, for messages."""
        raise NotImplementedError

    @property
    def labelled(self) -> bool:
        """Whether the rows have labels."""
        return self.labels is not None

    def line_of(self, sequence: int) -> int | None:
        """Return None: a table has no lines."""
        return None


@dataclass(frozen=True)
class ParquetShard(_Table):
    """One row group of a Parquet file."""

    path: str
    group: int
    first: int
    """The number of the first row."""
    stamp: Stamp

    @property
    def name(self) -> str:
        """The file and its row group."""
        return f"{self.path}, row group {self.group}"

    def identity(self) -> tuple[Any, ...]:
        """Return values that differ if the contents may differ."""
        return ("parquet", self.path, self.group, *self.stamp, self.tokens, self.labels)

    def read(self) -> tuple[list[Any], list[Any] | None]:
        """Return (X, y); y is None without labels."""
        columns = [self.tokens] if self.labels is None else [self.tokens, self.labels]
        try:
            check_unchanged(self.path, self.stamp)
            with _open_parquet(self.path) as file:
                table = file.read_row_group(self.group, columns=columns)
        except FormatError:
            raise
        except (OSError, ValueError) as error:  # pyarrow's errors are of these types
            raise FormatError(f"{self.name}: cannot be read: {error}") from None
        return self._convert(table.to_pylist(), self.first)


@dataclass(frozen=True)
class DatasetShard(_Table):
    """Rows [begin, end) of a dataset with slices, such as that of the library ``datasets``."""

    dataset: Any
    begin: int
    end: int

    @property
    def name(self) -> str:
        """The rows."""
        return f"dataset, rows {self.begin} to {self.end}"

    def identity(self) -> tuple[Any, ...]:
        """Return values that differ if the contents may differ."""
        mark = getattr(self.dataset, "_fingerprint", None)
        if mark is None:
            mark = digest_rows(*self.read())
        return ("dataset", mark, self.begin, self.end, self.tokens, self.labels)

    def read(self) -> tuple[list[Any], list[Any] | None]:
        """Return (X, y); numbers of classes become their names."""
        columns: Mapping[str, list[Any]] = self.dataset[self.begin : self.end]
        wanted = [name for name in (self.tokens, self.labels) if name is not None]
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise FormatError(
                f"{self.name}: the dataset has no column {missing[0]!r}: it has "
                f"{', '.join(map(str, columns))}"
            )
        names = self._label_names()
        rows = [
            dict(zip(wanted, values, strict=True))
            for values in zip(*(columns[name] for name in wanted), strict=True)
        ]
        if names is not None and self.labels is not None:
            for row in rows:
                row[self.labels] = [names[n] for n in row[self.labels]]
        return self._convert(rows, self.begin)

    def _label_names(self) -> list[str] | None:
        """Return the names of the classes, if the label column has numbers of classes."""
        features = getattr(self.dataset, "features", None)
        if features is None or self.labels is None or self.labels not in features:
            return None
        feature = getattr(features[self.labels], "feature", None)
        names: list[str] | None = getattr(feature, "names", None)
        return names


@dataclass(frozen=True)
class BagShard(_Table):
    """One partition of a dask.bag."""

    partition: Any
    """The delayed partition."""
    number: int

    @property
    def name(self) -> str:
        """The number of the partition."""
        return f"bag, partition {self.number}"

    def identity(self) -> tuple[Any, ...]:
        """Return values that differ if the contents may differ."""
        return ("bag", str(self.partition.key), self.tokens, self.labels)

    def read(self) -> tuple[list[Any], list[Any] | None]:
        """Return (X, y); y is None without labels."""
        # The partition is computed in the task that reads it, not as a task of the cluster.
        return self._convert(self.partition.compute(scheduler="synchronous"))


def cut_parquet(path: str, tokens: str, labels: str | None) -> list[ParquetShard]:
    """Return one shard for each row group of a file."""
    try:
        stamp = stamp_of(path)
        with _open_parquet(path) as file:
            metadata, names = file.metadata, file.schema_arrow.names
    except (OSError, ValueError) as error:
        raise FormatError(f"{path}: cannot be read: {error}") from None
    for column in (tokens, labels):
        if column is not None and column not in names:
            raise FormatError(
                f"{path}: the file has no column {column!r}: it has {', '.join(names)}"
            )
    shards, first = [], 0
    for group in range(metadata.num_row_groups):
        shards.append(ParquetShard(tokens, labels, path, group, first, stamp))
        first += metadata.row_group(group).num_rows
    return shards


def cut_dataset(dataset: Any, rows: int, tokens: str, labels: str | None) -> list[DatasetShard]:
    """Return shards of ``rows`` rows."""
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InputError(
            f"dataset must have a length and slices, not be {type(dataset).__name__}: a streaming "
            "dataset cannot be cut into shards"
        )
    return [
        DatasetShard(tokens, labels, dataset, begin, min(begin + rows, len(dataset)))
        for begin in range(0, len(dataset), rows)
    ]


def cut_bag(bag: Any, tokens: str, labels: str | None) -> list[BagShard]:
    """Return one shard for each partition."""
    if not hasattr(bag, "to_delayed"):
        raise InputError(f"bag must be a dask.bag.Bag, not {type(bag).__name__}")
    return [BagShard(tokens, labels, part, n) for n, part in enumerate(bag.to_delayed())]


def _open_parquet(path: str) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet files need a package: pip install 'trellis[arrow]'") from None
    return parquet.ParquetFile(path)


def digest_rows(X: Any, y: Any) -> str:
    """Return a checksum of sequences and labels, from their text."""
    digest = hashlib.sha256()
    for rows in (X, y or ()):
        digest.update(b"%d;" % len(rows))
        for row in rows:
            # The text of a large array leaves out most of its numbers.
            values = row.toarray() if hasattr(row, "toarray") else row
            values = values.tolist() if hasattr(values, "tolist") else values
            digest.update(repr(values).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
