"""Arguments, loading and tables of the commands about word vectors."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trellis.app.cli.declarations import Argument, Option
from trellis.embeddings.vectors import Neighbor, Vectors

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "Count",
    "Limit",
    "Restrict",
    "VectorFile",
    "as_records",
    "load_vectors",
    "make_table",
    "neighbor_table",
]

VectorFile = Annotated[
    Path,
    Argument(
        help="Word vectors: a file of trellis, word2vec, GloVe, fastText or gensim.",
        metavar="VECTORS",
    ),
]
Count = Annotated[int, Option("-k", help="Number of words to print.", metavar="K", min=1)]
Limit = Annotated[
    int | None, Option(help="Read only the first N words of the file.", metavar="N", min=1)
]
Restrict = Annotated[
    int | None,
    Option(help="With --test: use only the first N words.", metavar="N", min=1),
]


def load_vectors(path: Path, limit: int | None, jobs: int | None = None) -> Vectors:
    """Return the vectors of a file. Invalid UTF-8 in words is replaced by U+FFFD."""
    vectors = Vectors.load(path, errors="replace", limit=limit)
    vectors.n_jobs = jobs
    return vectors


def as_records(neighbors: list[Neighbor]) -> list[dict[str, Any]]:
    """Return the neighbours as dictionaries for JSON."""
    return [neighbor._asdict() for neighbor in neighbors]


def neighbor_table(neighbors: list[Neighbor]) -> "Table":
    """Return a table of words and cosines."""
    from rich.text import Text

    table = make_table("word", "cosine")
    for neighbor in neighbors:
        table.add_row(Text(neighbor.word), f"{neighbor.score:.4f}")
    return table


def make_table(first: str, *numbers: str) -> "Table":
    """Return an empty table with a text column ``first`` and number columns ``numbers``."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
