"""The command line of most benchmarks: it runs named sections, and each returns tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from timing import Table, describe_machine, save_json

Section = Callable[[bool], list[Table]]
"""``section(quick) -> tables``"""


def run_sections(doc: str, packages: Sequence[str], sections: Mapping[str, Section]) -> None:
    """Run the chosen sections, and print the tables of each section when it ends."""
    options = _parse_arguments(doc, sections)
    machine = describe_machine(packages)
    print("\n".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    tables: list[Table] = []
    for name in options.only or sections:
        new_tables = sections[name](options.quick)
        tables += new_tables
        print("\n".join(table.text(options.markdown) for table in new_tables), flush=True)
    if options.json:
        save_json(options.json, machine, tables)


def _parse_arguments(doc: str, sections: Mapping[str, Section]) -> argparse.Namespace:
    """Return the options of the command line; `doc` is the help text."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="part of the data, few repeats")
    parser.add_argument("--only", nargs="+", choices=sections, help="run these sections")
    parser.add_argument("--json", type=Path, metavar="PATH", help="save the tables for page.py")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser.parse_args()
