"""``trellis similarity``: print the cosine similarity of two words, or score a test file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.app.cli.options import Json
from trellis.app.terminal import show, show_json
from trellis.app.word_vectors import Limit, Restrict, VectorFile, load_vectors

__all__ = ["Options", "run"]


@dataclass
class Options:
    """Options of ``trellis similarity``."""

    vectors: VectorFile
    words: Annotated[list[str] | None, Argument(help="Two words to compare.", metavar="WORD")] = (
        None
    )
    test: Annotated[
        Path | None,
        Option(
            help="Print the correlation with the human scores in a file of word pairs.",
            metavar="FILE",
        ),
    ] = None
    restrict: Restrict = None
    limit: Limit = None
    as_json: Json = False

    def __post_init__(self) -> None:
        if len(self.words or []) != (2 if self.test is None else 0):
            raise UsageError("expected two words, or --test FILE without words")


def run(options: Options) -> None:
    """Print the cosine similarity of two words, or its correlation with human scores.

    **Examples**

    `trellis similarity wiki.vec car train`

    `trellis similarity wiki.vec --test wordsim353.tsv`
    """
    words, test = options.words or [], options.test
    vectors = load_vectors(options.vectors, options.limit)
    if test is None:
        cosine = vectors.similarity(*words)
        if options.as_json:
            show_json({"words": words, "cosine": cosine})
        else:
            show(f"{cosine:.4f}")
        return
    # As in fastText, an unseen word gets a vector from its n-grams. With --restrict, it counts as
    # unknown, and its pairs are skipped.
    with_unseen = options.restrict is None
    scores = vectors.evaluate_similarity(test, restrict=options.restrict, with_unseen=with_unseen)
    if options.as_json:
        show_json(scores._asdict())
        return
    show(f"Spearman {scores.spearman:.4f}, Pearson {scores.pearson:.4f}")
    show(f"{scores.pairs:,} pairs, {scores.skipped:,} skipped because a word has no vector")
