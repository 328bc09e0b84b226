"""Render docs/benchmarks.md and docs/notes/benchmarks.md from the results of the benchmarks.

    python benchmarks/chain.py --json benchmarks/results/chain.json   # measure
    python benchmarks/page.py                                         # render the pages
    python benchmarks/page.py --check                                 # exit with 1 if they differ

The text of a page is its template in benchmarks/results. A line of a template such as

    {{ table chain | Ragged batch, marginals, one thread, ms | L; hmmlearn; ours }}

is replaced by a table of results/chain.json, with all of its columns or with those listed, and with
its notes; `rows` in place of `table` leaves the notes out. `{{ machine chain }}` is replaced by the
date, the command and the machine. `{{ trainings crf_train }}` and `{{ ends crf_train }}` are
replaced by one table of all trainings in the file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from timing import format_rows

RESULTS = Path(__file__).resolve().parent / "results"
DOCS = RESULTS.parent.parent / "docs"
PAGES = {"page.md": DOCS / "benchmarks.md", "notes.md": DOCS / "notes" / "benchmarks.md"}
WIDTH = 100  # columns of prose; tables may be wider
HEAD = "<!-- Made by `python benchmarks/page.py`: edit benchmarks/results instead. -->"

DIRECTIVE = re.compile(r"^\{\{ (\w+) ([\w-]+)(?: \| (.*?))? \}\}$")
MAIN = "chain"  # its machine is described once; files measured on the same CPU do not repeat it
_NOT_PACKAGES = ("date", "commit", "cpu", "gpu", "cores", "load", "system", "python", "compiler")


@cache
def read_results(name: str) -> dict[str, Any]:
    """Return the JSON document that a benchmark wrote."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def find_table(name: str, title: str) -> dict[str, Any]:
    """Return the table with this title."""
    tables = read_results(name)["tables"]
    for table in tables:
        if table["title"] == title:
            return dict(table)
    titles = "; ".join(table["title"] for table in tables)
    raise SystemExit(f"results/{name}.json has no table {title!r}; it has: {titles}")


def render_table(name: str, argument: str) -> list[str]:
    """Return the lines of a table and its notes."""
    title = argument.partition(" | ")[0]
    return render_rows(name, argument) + render_notes(find_table(name, title)["notes"])


def render_rows(name: str, argument: str) -> list[str]:
    """Return the lines of a table."""
    title, *chosen = argument.split(" | ")
    table = find_table(name, title)
    columns, rows = table["columns"], table["rows"]
    if chosen:
        indices = [columns.index(column) for column in chosen[0].split("; ")]
        columns = [columns[i] for i in indices]
        rows = [[row[i] for i in indices] for row in rows]
    return format_rows(columns, rows, markdown=True)


def wrap(text: str, indent: str = "") -> list[str]:
    """Return the lines of a paragraph; words with hyphens stay whole."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def render_notes(notes: list[str]) -> list[str]:
    """Return the notes of a table as a list, after an empty line."""
    lines = [] if not notes else [""]
    for note in notes:
        lines += wrap(f"- {note}", indent="  ")
    return lines


def render_machine(name: str, argument: str) -> list[str]:
    """Return a paragraph with the date, the command, the machine and the versions of packages."""
    del argument
    document = read_results(name)
    machine = document["machine"]
    date = datetime.date.fromisoformat(machine["date"][:10])
    parts = [f"Measured on {date.day} {date:%B %Y} by `{document['command']}`"]
    if "gpu" in machine:
        parts.append(f"one {machine['gpu']}")
    elif name == MAIN or machine["cpu"] != read_results(MAIN)["machine"]["cpu"]:
        parts.append(f"{machine['cores']} cores of {machine['cpu']}")
    if "commit" in machine:
        parts.append(f"commit {machine['commit']}")
    if packages := [f"{k} {v}" for k, v in machine.items() if k not in _NOT_PACKAGES]:
        parts.append(", ".join(packages))
    return wrap("; ".join(parts) + ".")


def rows_by_side(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of a table as dicts, by their column "side"."""
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    return {row["side"]: row for row in rows}


def render_trainings(name: str, argument: str) -> list[str]:
    """Return one table of the speed of all trainings: a row per training, a column per side."""
    del argument
    rows = []
    for table in read_results(name)["tables"]:
        if "ms an iteration" not in table["columns"]:
            continue
        sides = rows_by_side(table)
        times = [row["ms an iteration"] for row in sides.values()]
        ratios = [sides[side]["CRFsuite / this"] for side in ("ours 1", "ours 2")]
        minima = [sides[side]["at minima"] for side in ("ours 1", "ours 2")]
        rows.append([table["title"], *times, *ratios, *minima])
    columns = ["training, ms per iteration", "CRFsuite", "ours 1", "ours 2"]
    columns += ["ratio 1", "ratio 2", "ratio 1, minima", "ratio 2, minima"]
    return format_rows(columns, rows, markdown=True)


def render_ends(name: str, argument: str) -> list[str]:
    """Return one table of the final losses of all trainings: CRFsuite, and ours on one thread."""
    del argument
    rows = []
    for table in read_results(name)["tables"]:
        if "evaluations" not in table["columns"]:
            continue
        sides = rows_by_side(table)
        peer, ours = sides["CRFsuite"], sides["ours 1"]
        title = table["title"].partition(": where")[0]
        counts = [ours[key] for key in ("iterations", "evaluations", "weights", "not 0")]
        rows.append([title, peer["loss"], ours["loss"], ours["difference"], *counts])
    columns = ["training", "loss of CRFsuite", "loss of ours", "relative difference"]
    columns += ["iterations", "evaluations", "weights", "not 0"]
    return format_rows(columns, rows, markdown=True)


RENDERERS: dict[str, Callable[[str, str], list[str]]] = {
    "table": render_table,
    "rows": render_rows,
    "machine": render_machine,
    "trainings": render_trainings,
    "ends": render_ends,
}


def render_page(template: str) -> str:
    """Return the text of a page: its template, with every directive replaced."""
    lines = [HEAD]
    for line in (RESULTS / template).read_text(encoding="utf-8").splitlines():
        match = DIRECTIVE.match(line)
        if match:
            kind, name, argument = match.groups()
            lines += RENDERERS[kind](name, argument or "")
        elif line.startswith("{{"):
            expected = "{{ table FILE | TITLE }}"
            raise SystemExit(f"results/{template}: {line!r} is not a line such as {expected!r}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages, or check that they are up to date."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, exit with 1 if stale")
    options = parser.parse_args()
    for template, path in PAGES.items():
        text = render_page(template)
        if not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path} is stale: run python benchmarks/page.py")


if __name__ == "__main__":
    main()
