"""Compare linear-chain inference of trellis with hmmlearn, pytorch-crf and torch-struct.

Times are printed only if both sides give the same numbers.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from chain_hmmlearn import time_long, time_ragged
from chain_memory import probe_memory
from chain_torch import torch_section
from timing import Table, describe_machine, save_json

EXAMPLES = """examples:
  python benchmarks/chain.py                          everything, about three minutes
  python benchmarks/chain.py --quick --only ragged    one section, few repeats
  python benchmarks/chain.py --json chain.json --markdown
  python benchmarks/chain.py --peers-only             when trellis is not built
"""
PACKAGES = ("trellis", "numpy", "hmmlearn", "torch", "pytorch-crf", "torch-struct")


def load_ours() -> ModuleType:
    """Return trellis.inference.chain. Exit with instructions if it is not installed."""
    try:
        return importlib.import_module("trellis.inference.chain")
    except ImportError as error:
        sys.exit(f"trellis cannot be imported ({error}): install it, or use --peers-only")


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="3 repeats instead of 9")
    parser.add_argument("--only", choices=("ragged", "long", "torch"), help="run one section")
    parser.add_argument(
        "--peers-only", action="store_true", help="measure only the peers, not trellis"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also save everything here")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--probe", help=argparse.SUPPRESS)  # used by chain_memory, in a new process
    return parser.parse_args()


def main() -> None:
    """Run the selected sections and print their tables."""
    options = parse_arguments()
    if options.probe:
        probe_memory(options.probe)
        return
    chain = None if options.peers_only else load_ours()
    repeats = 3 if options.quick else 9
    machine = describe_machine(PACKAGES)
    print("\n".join(f"{name}: {value}" for name, value in machine.items()))
    sections: dict[str, Callable[[], list[Table]]] = {
        "ragged": lambda: time_ragged(chain, repeats, options.quick),
        "long": lambda: time_long(chain, repeats),
        "torch": lambda: torch_section(chain, repeats),
    }
    tables = []
    for name, section in sections.items():
        if options.only in (None, name):
            new_tables = section()
            tables += new_tables
            print("\n".join(table.text(options.markdown) for table in new_tables), flush=True)
    if options.json:
        save_json(options.json, machine, tables)


if __name__ == "__main__":
    main()
