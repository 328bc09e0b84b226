"""The command line of most benchmarks: named sections, each of which returns tables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from timing import Table, describe_machine, save_json

Section = Callable[[bool], list[Table]]
"""``section(quick) -> tables``"""


def run_sections(doc: str, packages: Sequence[str], sections: Mapping[str, Section]) -> None:
    """Run the chosen sections, and print the tables of each when it ends."""
    options = _arguments(doc, sections)
    machine = describe_machine(packages)
    print("\n".join(f"{name}: {value}" for name, value in machine.items()), flush=True)
    tables: list[Table] = []
    for name in options.only or sections:
        new_tables = sections[name](options.quick)
        tables += new_tables
        print("\n".join(table.text(options.markdown) for table in new_tables), flush=True)
    if options.json:
        save_json(options.json, machine, tables)


def _arguments(doc: str, sections: Mapping[str, Section]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="part of the data, few repeats")
    parser.add_argument("--only", nargs="+", choices=sections, help="run these sections")
    parser.add_argument("--json", type=Path, metavar="PATH", help="save the tables for page.py")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser.parse_args()
