"""``trellis ngram``: train an n-gram language model on text."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.app.cli.options import Jobs, Quiet, read_default
from trellis.app.terminal import check_writable, format_duration, print_status, show_progress
from trellis.data.files import PACKED_SUFFIXES
from trellis.models.ngrams import FALLBACK, NGramSummary, NGramTrainer, Progress

__all__ = ["Options", "run"]


def _read_numbers(text: str, convert: Callable[[str], Any], flag: str) -> list[Any]:
    """Return the numbers of a list such as 0,0,1."""
    try:
        return [convert(number) for number in text.split(",")]
    except ValueError:
        raise UsageError(f"{flag} is {text!r}: must be numbers such as 0,0,1") from None


@dataclass
class Options:
    """Options of ``trellis ngram``."""

    files: Annotated[
        list[Path],
        Argument(
            help="Text files with one sentence per line, possibly compressed; - is standard input.",
            metavar="FILE",
        ),
    ]
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            help=f"ARPA file to write; compressed if its name ends in {', '.join(PACKED_SUFFIXES)}."
            " - is standard output.",
        ),
    ] = Path("lm.arpa")
    order: Annotated[int, Option(help="Number of words of the longest n-grams, 1 to 32.")] = (
        read_default(NGramTrainer, "order")
    )
    prune: Annotated[
        str,
        Option(
            help="Leave out n-grams that occur at most so often: a number for each length, "
            "for example 0,0,1; the last one also counts for longer n-grams.",
            metavar="LIST",
        ),
    ] = str(read_default(NGramTrainer, "prune"))
    discount_fallback: Annotated[
        str | None,
        Option(
            help="Discounts where they cannot be estimated from the text: up to three numbers, "
            f"for example {','.join(f'{amount:g}' for amount in FALLBACK)}.",
            metavar="LIST",
        ),
    ] = None
    characters: Annotated[
        bool, Option("--characters", help="Count characters instead of words; a space becomes |.")
    ] = False
    skip_symbols: Annotated[
        bool, Option("--skip-symbols", help="Treat <s>, </s> and <unk> in the text as spaces.")
    ] = False
    memory: Annotated[
        str, Option(help="Memory for n-grams, for example 512M or 4G; the rest is sorted on disk.")
    ] = read_default(NGramTrainer, "memory")
    folder: Annotated[
        Path | None, Option(help="Folder for temporary files; default: that of the system.")
    ] = None
    decimals: Annotated[int, Option(help="Decimals of the logarithms in the file, 1 to 15.")] = (
        read_default(NGramTrainer, "decimals")
    )
    jobs: Jobs = None
    quiet: Quiet = False

    def __post_init__(self) -> None:
        fallback = self.discount_fallback
        self.thresholds: list[int] = _read_numbers(self.prune, int, "--prune")
        self.discounts: list[float] | None = (
            None if fallback is None else _read_numbers(fallback, float, "--discount-fallback")
        )


def run(options: Options) -> None:
    """Train an n-gram language model with modified Kneser-Ney smoothing, as KenLM's lmplz does.

    **Examples**

    `trellis ngram text.txt --order 5 -o lm.arpa`

    `trellis ngram news.txt.xz books.txt.gz --prune 0,0,1 --memory 4G -o lm.arpa.gz`

    `zcat text.gz | trellis ngram - --order 3 -o - | head`
    """
    to_stdout = str(options.output) == "-"
    if not to_stdout:
        check_writable(options.output, *options.files)
    trainer = NGramTrainer(
        options.order,
        prune=options.thresholds,
        discount_fallback=options.discounts,
        characters=options.characters,
        skip_symbols=options.skip_symbols,
        memory=options.memory,
        folder=options.folder,
        decimals=options.decimals,
        n_jobs=options.jobs,
    )
    for path in options.files:
        if str(path) != "-":
            path.stat()  # a missing file raises now, not after the other files have been read
    start = time.monotonic()
    target = cast(Any, sys.stdout.buffer if to_stdout else options.output)
    sources = [sys.stdin.buffer if str(path) == "-" else path for path in options.files]
    with show_progress("training", options.quiet) as update:

        def draw(progress: Progress) -> None:
            update(progress.fraction, f"{progress.stage}  {progress.tokens:,} words")

        summary = trainer.write(sources, target, callback=draw)
    _report(summary, options, time.monotonic() - start)


def _report(summary: NGramSummary, options: Options, seconds: float) -> None:
    """Print the size of the model, and warn about discounts that are not estimates."""
    fallbacks = [str(n) for n, level in enumerate(summary.levels, 1) if level.fallback]
    if fallbacks:
        print_status(
            f"warning: the discounts of n-grams of length {', '.join(fallbacks)} cannot be "
            "estimated; those of --discount-fallback are used",
            quiet=options.quiet,
        )
    sizes = " ".join(f"{n}: {level.kept:,}" for n, level in enumerate(summary.levels, 1))
    print_status(
        f"{options.output}: {summary.tokens:,} words in {summary.lines:,} lines, "
        f"{summary.types:,} different; n-grams {sizes}; {format_duration(seconds)}",
        quiet=options.quiet,
    )
