"""Training of n-gram models: `trellis ngram` and KenLM's lmplz, in turns, on the same text.

    python benchmarks/ngram.py --lmplz kenlm/build/bin/lmplz            # 100 MB of text, order 5
    python benchmarks/ngram.py --lmplz … --lines 30000 --repeats 3      # a part of it

Both programs run as processes with the same budget of memory for sorting. Every line of the two
files is compared: the same n-grams in the same order, and logarithms that differ by less than 1e-5.
The perplexity is that of the last hundredth of the lines, which neither has seen; each file is
read and scored by `trellis.formats.arpa` in its own process. Peak memory is that of the process
(maximum resident set), vocabulary, program and Python included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from corpora import require
from timing import Table, WrongResultError, describe_machine, save_json

CORPUS = "text/wiki100.txt.xz"
TOLERANCE = 1e-5  # of logarithms to base 10


class Usage(NamedTuple):
    """What a process has used."""

    seconds: float
    cpu: float
    megabytes: float


def run(command: list[str]) -> Usage:
    """Run a process and measure it."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    messages = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{command[0]} failed: {messages}")
    return Usage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def compare(ours: Path, peer: Path) -> tuple[int, float]:
    """Return the number of n-grams and the largest difference of a logarithm."""
    ngrams, largest = 0, 0.0
    with open(ours, encoding="utf-8") as a, open(peer, encoding="utf-8") as b:
        for line_a, line_b in itertools.zip_longest(a, b, fillvalue=""):
            fields_a, fields_b = line_a.rstrip("\n").split("\t"), line_b.rstrip("\n").split("\t")
            if len(fields_a) != len(fields_b) or fields_a[1:2] != fields_b[1:2]:
                raise WrongResultError(f"{line_a!r} is not {line_b!r}")
            if len(fields_a) == 1:
                if line_a != line_b:
                    raise WrongResultError(f"{line_a!r} is not {line_b!r}")
                continue
            ngrams += 1
            for text_a, text_b in zip(fields_a[::2], fields_b[::2], strict=True):
                largest = max(largest, abs(float(text_a) - float(text_b)))
    if largest > TOLERANCE:
        raise WrongResultError(f"logarithms differ by {largest}")
    return ngrams, largest


def measure_perplexity(model: Path, text: Path) -> float:
    """Return the perplexity of a text, computed in a new process."""
    program = (
        "import sys; from trellis.formats import arpa; "
        "print(arpa.read(sys.argv[1]).text_perplexity(sys.argv[2]).value)"
    )
    command = [sys.executable, "-c", program, str(model), str(text)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def split_corpus(folder: Path, count: int | None) -> tuple[Path, Path]:
    """Write the lines for training and those that are held back."""
    with lzma.open(require(CORPUS)) as file:
        lines = list(itertools.islice(file, count))
    held_back = max(1, len(lines) // 100)
    training, test = folder / "training.txt", folder / "test.txt"
    training.write_bytes(b"".join(lines[:-held_back]))
    test.write_bytes(b"".join(lines[-held_back:]))
    return training, test


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lmplz", required=True, help="KenLM's program")
    parser.add_argument("--lines", type=int, help="use the first lines of the corpus only")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--memory", default="1G", help="budget of both programs")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", help="for the text, the models and temporary files")
    parser.add_argument("--json", type=Path, metavar="PATH", help="save the table for page.py")
    return parser.parse_args()


def main() -> None:
    """Print a table with a row for each program."""
    options = parse_arguments()
    machine = describe_machine(("trellis",))
    print(json.dumps(machine, indent=1), flush=True)
    table = Table(
        f"Training of {options.order}-grams, memory {options.memory}",
        ("program", "seconds", "CPU seconds", "peak MB", "perplexity"),
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        training, test = split_corpus(folder, options.lines)
        ours, peer = folder / "ours.arpa", folder / "peer.arpa"
        order, memory = str(options.order), options.memory
        ours_command = f"-m trellis ngram {training} -q -o {ours} --folder {name}".split()
        peer_command = f"-o {order} -S {memory} -T {name} --text {training} --arpa {peer}".split()
        commands = {
            "trellis ngram": [sys.executable, *ours_command, "--order", order, "--memory", memory],
            "lmplz": [options.lmplz, *peer_command],
        }
        usages: dict[str, list[Usage]] = {program: [] for program in commands}
        for _ in range(options.repeats):
            for program, command in commands.items():
                usages[program].append(run(command))
        ngrams, difference = compare(ours, peer)
        for program, model in zip(commands, (ours, peer), strict=True):
            best = min(usages[program])
            perplexity = f"{measure_perplexity(model, test):.4f}"
            table.add(program, best.seconds, best.cpu, f"{best.megabytes:.0f}", perplexity)
        size = training.stat().st_size / 1e6
        table.notes.append(f"{size:.1f} MB of text, {ngrams:,} n-grams")
        table.notes.append(f"logarithms differ by at most {difference:.1e}")
    print(table.text(False))
    if options.json:
        save_json(options.json, machine, [table])


if __name__ == "__main__":
    main()
