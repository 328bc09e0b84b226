"""Check the neural layers on a GPU, then compare their times with the peers.

    python benchmarks/gpu.py                  everything, about ten minutes
    python benchmarks/gpu.py checks crf       only these parts: checks, crf, ctc

The script stops at the first failed check, so that no wrong result is timed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import gpu_checks
import gpu_crf
import gpu_ctc
import torch
from timing import Table, describe_machine, save_json

PARTS = {"checks": gpu_checks.main, "crf": gpu_crf.main, "ctc": gpu_ctc.main}


def main() -> None:
    """Run the parts named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--json", type=Path, metavar="PATH", help="save the tables for page.py")
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        sys.exit(f"unknown part {unknown[0]}, expected one of {', '.join(PARTS)}")
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA GPU")
    tables: list[Table] = []
    for part in parts:
        tables += PARTS[part]() or []
    if options.json:
        machine = describe_machine(("trellis", "torch", "triton"))
        save_json(options.json, {**machine, "gpu": torch.cuda.get_device_name()}, tables)


if __name__ == "__main__":
    main()
