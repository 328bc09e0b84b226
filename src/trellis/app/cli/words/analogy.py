"""``trellis analogy``: answer "A is to B as C is to …", or score a file of such questions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.text import Text

from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.app.cli.options import Jobs, Json
from trellis.app.terminal import show, show_json
from trellis.app.word_vectors import (
    Count,
    Limit,
    Restrict,
    VectorFile,
    as_records,
    load_vectors,
    make_table,
    neighbor_table,
)
from trellis.embeddings.evaluation import SectionScore
from trellis.embeddings.vectors import Vectors

__all__ = ["Options", "run"]


@dataclass
class Options:
    """Options of ``trellis analogy``."""

    vectors: VectorFile
    words: Annotated[
        list[str] | None,
        Argument(
            help="Three words A B C. The answer D completes: A is to B as C is to D.",
            metavar="WORD",
        ),
    ] = None
    k: Count = 5
    test: Annotated[
        Path | None,
        Option(
            help="Print the scores on a file of questions, instead of an answer.", metavar="FILE"
        ),
    ] = None
    restrict: Restrict = None
    limit: Limit = None
    as_json: Json = False
    jobs: Jobs = None

    def __post_init__(self) -> None:
        if len(self.words or []) != (3 if self.test is None else 0):
            raise UsageError("expected three words, or --test FILE without words")


def run(options: Options) -> None:
    """Answer "A is to B as C is to …", or score a file of such questions.

    **Examples**

    `trellis analogy wiki.vec man king woman`

    `trellis analogy wiki.vec --test questions-words.txt --restrict 60000`
    """
    words, test = options.words or [], options.test
    vectors = load_vectors(options.vectors, options.limit, options.jobs)
    if test is not None:
        _show_scores(vectors, test, options)
        return
    neighbors = vectors.analogy(words[0], words[1], words[2], options.k)
    if options.as_json:
        show_json(as_records(neighbors))
    else:
        show(neighbor_table(neighbors))


def _show_scores(vectors: Vectors, test: Path, options: Options) -> None:
    scores = vectors.evaluate_analogies(test, restrict=options.restrict)
    if options.as_json:
        sections = {name: section._asdict() for name, section in scores.sections.items()}
        show_json({**scores._asdict(), "sections": sections})
        return
    table = make_table("section", "right", "of", "%")
    total = SectionScore(scores.right, scores.asked)
    for name, section in [*scores.sections.items(), ("all", total)]:
        percent = f"{100 * section.right / section.asked:.1f}" if section.asked else ""
        table.add_row(Text(name), f"{section.right:,}", f"{section.asked:,}", percent)
    show(table)
    show(f"\n{scores.skipped:,} questions were skipped, because a word has no vector")
