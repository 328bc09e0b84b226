"""``trellis check``: look for mistakes in labelled data."""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from trellis.app.checking.findings import CHECKS, Corpus, Finding, find_all
from trellis.app.checking.survey import Survey, survey_file
from trellis.app.cli.declarations import Argument, Option, UsageError
from trellis.app.cli.options import DataOptions, Json, UnknownLabel
from trellis.app.terminal import show_json, show_rows
from trellis.data import tags
from trellis.data.files import Source

__all__ = ["Options", "run"]


@dataclass
class Options:
    """Options of ``trellis check``."""

    files: Annotated[
        list[Path],
        Argument(help="Data files with labels, the training data first.", metavar="FILE"),
    ]
    reading: DataOptions = field(default_factory=DataOptions)
    scheme: Annotated[
        str | None,
        Option(
            help="Tagging scheme of the labels, such as BIO, or plain; default: the scheme that "
            "fits best."
        ),
    ] = None
    unknown: UnknownLabel = None
    skip: Annotated[
        str | None,
        Option(help=f"Checks to leave out, for example duplicates,rare: {', '.join(CHECKS)}."),
    ] = None
    max_tokens: Annotated[
        int, Option(help="List sequences with more tokens.", metavar="N", min=1)
    ] = 250
    min_count: Annotated[int, Option(help="List labels with fewer tokens.", metavar="N", min=0)] = 5
    limit: Annotated[
        int, Option(help="Number of places to list for each finding.", metavar="N", min=1)
    ] = 3
    strict: Annotated[
        bool, Option("--strict", help="Exit with code 1 also if there are only notes.")
    ] = False
    as_json: Json = False
    skipped: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.skipped = tuple(self.skip.split(",")) if self.skip else ()
        for name in self.skipped:
            if name not in CHECKS:
                raise UsageError(f"--skip is {name!r}: must be one of {', '.join(CHECKS)}")


def run(options: Options) -> int:
    """Check labelled data: lines that cannot be read, tags that break the scheme, and more.

    Prints problems and notes; a note may be right. The exit code is 0 if there is no problem, and
    1 if there is one, or if a file cannot be read. Each file is read once, so it may be a pipe;
    a hyphen is standard input.

    **Examples**

    `trellis check train.conll`

    `trellis check train.conll dev.conll test.conll --skip duplicates,rare`

    `trellis check train.conllu.gz --label xpos --json`
    """
    if options.scheme is not None:
        tags.spans([], options.scheme)  # raises InputError for an unknown scheme
    reading = options.reading
    surveys = [
        survey_file(
            _choose_source(path), reading.format, reading.layout, options.limit, options.unknown
        )
        for path in options.files
    ]
    corpus = Corpus(surveys, options.scheme, options.max_tokens, options.min_count)
    findings = find_all(corpus, options.skipped)
    counts = Counter("problem" if finding.is_problem else "note" for finding in findings)
    if options.as_json:
        show_json(_to_record(corpus, findings, counts))
    else:
        _show(corpus, findings, counts)
    return int(counts["problem"] > 0 or (options.strict and counts["note"] > 0))


def _choose_source(path: Path) -> Source:
    return sys.stdin.buffer if str(path) == "-" else path


def _to_record(corpus: Corpus, findings: list[Finding], counts: Counter[str]) -> dict[str, Any]:
    return {
        "files": [_count(survey) for survey in corpus.surveys],
        "scheme": corpus.scheme,
        "problems": counts["problem"],
        "notes": counts["note"],
        "findings": [
            {
                "check": finding.check,
                "level": "problem" if finding.is_problem else "note",
                "count": finding.total,
                "message": finding.message,
                "examples": [example._asdict() for example in finding.examples],
            }
            for finding in findings
        ],
    }


def _count(survey: Survey) -> dict[str, Any]:
    return {
        "file": survey.name,
        "format": survey.format,
        "sequences": len(survey.lines) + survey.empty_sequences.count,
        "tokens": survey.tokens,
        "labels": len(survey.labels),
        "longest": max(survey.lengths, default=0),
    }


def _show(corpus: Corpus, findings: list[Finding], counts: Counter[str]) -> None:
    sizes = [list(_count(survey).values()) for survey in corpus.surveys]
    header = ["file", "format", "sequences", "tokens", "labels", "longest"]
    show_rows([header, *sizes], right=(2, 3, 4, 5))
    print(f"scheme: {corpus.scheme}\n")
    if findings:
        rows: list[list[Any]] = [["", "check", "count", "finding"]]
        for finding in findings:
            level = "problem" if finding.is_problem else "note"
            rows.append([level, finding.check, finding.total, finding.message])
            rows += [["", "", "", f"  {e.file}:{e.line}: {e.text}"] for e in finding.examples]
        show_rows(rows, right=(2,))
        print()
    names = [("problem", "problems"), ("note", "notes")]
    print(
        ", ".join(
            f"{counts[name]} {name if counts[name] == 1 else plural}" for name, plural in names
        )
    )
