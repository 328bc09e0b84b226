"""`Corpus`: sequences that need not fit in memory, cut into shards.

The shards depend on the data alone, never on the number of workers, so a sum over shards has the
same bits on any machine.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from trellis.checks import as_positive
from trellis.data import files
from trellis.data.corpus import layout_of
from trellis.data.corpus_formats import Columns
from trellis.data.layout import Layout
from trellis.data.shards import tables, text
from trellis.errors import FormatError, InputError

__all__ = ["Corpus", "Shard"]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Shard(Protocol):
    """A part of a corpus, which any process can read on its own."""

    @property
    def name(self) -> str:
        """The file and the place in it, for messages."""

    @property
    def labelled(self) -> bool:
        """Whether the sequences have labels."""

    def identity(self) -> tuple[Any, ...]:
        """Return values that differ if the contents may differ; cheap to compute."""

    def read(self) -> tuple[list[Any], list[Any] | None]:
        """Return (X, y) in memory; y is None without labels."""

    def line_of(self, sequence: int) -> int | None:
        """Return the line of a sequence of the shard, from 1; None if there are no lines."""


class Corpus:
    r"""Sequences in shards. `Corpus.text` and the other constructors cut a corpus.

    Iteration yields ``(tokens, labels)`` of each sequence, one shard in memory at a time, and can
    be repeated. ``labels`` is None in a corpus without labels.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.conll")
    >>> with open(path, "w") as file:
    ...     size = file.write("Ann B\nsings O\n\n" * 3)
    >>> corpus = Corpus.text(path, shard=20)
    >>> [shard.name.rpartition(", ")[2] for shard in corpus.shards]
    ['bytes 0 to 30', 'bytes 30 to 45']
    >>> next(iter(corpus)), len(list(corpus))
    ((['Ann', 'sings'], ['B', 'O']), 3)
    >>> corpus.load()[1]
    [['B', 'O'], ['B', 'O'], ['B', 'O']]
    """

    def __init__(self, shards: Iterable[Shard], layout: Layout | None = None) -> None:
        self.shards: tuple[Shard, ...] = tuple(shards)
        self.layout = layout
        """The format and the columns of the files, which a model remembers."""
        if not self.shards:
            raise InputError("the corpus is empty: it has no shard")
        if len({shard.labelled for shard in self.shards}) > 1:
            raise InputError("some shards of the corpus have labels and others have none")

    @classmethod
    def text(
        cls,
        paths: Paths,
        shard: int | str = "16MB",
        *,
        format: text.Format = None,
        columns: Columns | None = None,
        labelled: bool = True,
    ) -> Corpus:
        """Return the corpus of text files, compressed or not, in any format of `trellis.data`.

        ``paths`` is a pattern such as ``"part-*.conll.zst"``, or a list of paths. A file is cut at
        the first end of a sequence after each ``shard`` bytes of its decompressed text. ``format``
        may be a function that chooses the format of an open file. To read the last shard of a
        compressed file, all of it is decompressed: for large corpora, write many files of a few
        shards each.
        """
        size = _parse_size(shard)
        columns = columns or Columns()
        shards = [
            part
            for path in _expand(paths)
            for part in text.cut_text(path, size, format, columns, labelled)
        ]
        if not (shards and labelled):
            return cls(shards)
        return cls(shards, layout_of(shards[0].path, shards[0].format, columns))

    @classmethod
    def jsonl(
        cls,
        paths: Paths,
        shard: int | str = "16MB",
        *,
        labelled: bool = True,
    ) -> Corpus:
        """Return the corpus of files with one JSON object a line (see `trellis.data.jsonl`)."""
        return cls.text(paths, shard, format="jsonl", labelled=labelled)

    @classmethod
    def parquet(
        cls, paths: Paths, *, tokens: str = "tokens", labels: str | None = "tags"
    ) -> Corpus:
        """Return the corpus of Parquet files; each row group is a shard.

        ``tokens`` and ``labels`` are the names of the columns; ``labels=None`` means no labels.
        """
        return cls(
            part for path in _expand(paths) for part in tables.cut_parquet(path, tokens, labels)
        )

    @classmethod
    def bag(cls, bag: Any, *, tokens: str = "tokens", labels: str | None = "tags") -> Corpus:
        """Return the corpus of a ``dask.bag``; each partition is a shard.

        An item is a dict with the two columns, or a pair (tokens, labels).
        """
        return cls(tables.cut_bag(bag, tokens, labels))

    @classmethod
    def dataset(
        cls,
        dataset: Any,
        shard: int = 10_000,
        *,
        tokens: str = "tokens",
        labels: str | None = "tags",
    ) -> Corpus:
        """Return the corpus of a dataset of the library ``datasets``; ``shard`` counts rows.

        Any object with a length and slices that are dicts of lists will do. Numbers of classes
        become their names. A token that is a list becomes a tuple of columns; for features of your
        own, write a dict for each token, or an array for each sequence.

        >>> class Rows(dict):
        ...     def __len__(self):
        ...         return 2
        ...     def __getitem__(self, rows):
        ...         return {"tokens": [["Ann"], ["Hush"]][rows], "tags": [["B"], ["O"]][rows]}
        >>> list(Corpus.dataset(Rows(), shard=1))
        [(['Ann'], ['B']), (['Hush'], ['O'])]
        """
        return cls(tables.cut_dataset(dataset, as_positive(shard, "shard"), tokens, labels))

    @property
    def labelled(self) -> bool:
        """Whether the sequences have labels."""
        return self.shards[0].labelled

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for shard in self.shards:
            X, y = shard.read()
            yield from zip(X, [None] * len(X) if y is None else y, strict=True)

    def load(self) -> tuple[list[Any], list[Any] | None]:
        """Return (X, y) of the whole corpus in memory; y is None without labels."""
        parts = [shard.read() for shard in self.shards]
        X = [x for part, _ in parts for x in part]
        return X, [labels for _, y in parts for labels in y or ()] if self.labelled else None

    def fingerprint(self) -> str:
        """Return a checksum of all sequences and labels, and of the borders of the shards.

        It reads the whole corpus. The same data in other files, or compressed, have the same
        fingerprint if the shards have the same borders.
        """
        digest = hashlib.sha256()
        for shard in self.shards:
            digest.update(tables.digest_rows(*shard.read()).encode())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"<Corpus of {len(self.shards)} shards, first {self.shards[0].name}>"


def _expand(paths: Paths) -> list[str]:
    """Return the files of a pattern, sorted by name, or those of a list in its order.

    The paths are absolute, because a worker may have another current folder.
    """
    if not isinstance(paths, str | os.PathLike):
        try:
            names = [os.fspath(path) for path in paths]
        except TypeError:
            raise InputError("a corpus needs a path, a pattern, or a list of paths") from None
    else:
        pattern = os.fspath(paths)
        is_path = os.path.exists(pattern) or not glob.has_magic(pattern)
        names = [pattern] if is_path else sorted(glob.glob(pattern))
        if not names:
            raise InputError(f"{pattern}: no file has a name of this pattern")
    if not names:
        raise InputError("the list of files of the corpus is empty")
    for name in names:
        try:
            files.check_regular(name)
        except OSError as error:
            raise FormatError(f"{name}: cannot be read: {error.strerror or error}") from None
    return [os.path.abspath(name) for name in names]


def _parse_size(size: int | str) -> int:
    """Return a number of bytes.

    >>> _parse_size("64MB"), _parse_size("1.5 GiB")
    (64000000, 1610612736)
    """
    if not isinstance(size, str):
        return as_positive(size, "shard")
    number = size.rstrip("BbGgIiKkMm ")
    unit = size[len(number) :].strip().upper()
    try:
        value = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        raise InputError(f"shard is {size!r}: must be a size such as 64MB, or bytes") from None
    if not 1 <= value < 2**62:
        raise InputError(f"shard is {size!r}: must be at least one byte")
    return int(value)
