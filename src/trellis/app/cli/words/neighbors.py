"""``trellis neighbors``: print the nearest words of each word."""

import sys
from dataclasses import dataclass
from typing import Annotated

from rich.text import Text

from trellis.app.cli.declarations import Argument
from trellis.app.cli.options import Jobs, Json
from trellis.app.terminal import show, show_json
from trellis.app.word_vectors import (
    Count,
    Limit,
    VectorFile,
    as_records,
    load_vectors,
    neighbor_table,
)

__all__ = ["Options", "run"]


@dataclass
class Options:
    """Options of ``trellis neighbors``."""

    vectors: VectorFile
    words: Annotated[
        list[str] | None,
        Argument(help="Words to look up; default: the words on standard input.", metavar="WORD"),
    ] = None
    k: Count = 10
    limit: Limit = None
    as_json: Json = False
    jobs: Jobs = None


def run(options: Options) -> None:
    """Print the words with the highest cosine similarity to each word.

    **Examples**

    `trellis neighbors wiki.vec paris -k 5`

    `trellis neighbors cc.en.300.bin unbelievableness`
    """
    vectors = load_vectors(options.vectors, options.limit, options.jobs)
    words = options.words or [word for line in sys.stdin for word in line.split()]
    # One call searches for all words, which is much faster than one call per word.
    neighbors = vectors.nearest_each(words, options.k)
    pairs = list(zip(words, neighbors, strict=True))
    if options.as_json:
        show_json(
            [{"word": word, "near": as_records(word_neighbors)} for word, word_neighbors in pairs]
        )
        return
    for number, (word, word_neighbors) in enumerate(pairs):
        if len(pairs) > 1:
            show(Text(f"\n{word}" if number else word, style="bold"))
        show(neighbor_table(word_neighbors))
