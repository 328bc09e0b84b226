"""The two parsers of a command line agree, and a simple command imports little."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from trellis.app.cli import declarations, fast_parser, typer_commands
from trellis.app.cli.main import COMMANDS

LINES = [
    "tag model.trellis",
    "tag model.trellis a.txt b.txt --marginals -u --kbest 3 -j 2",
    "tag model.trellis --output=jsonl -o out.jsonl --columns 0,1 -- -odd.txt",
    "tag model.trellis -",
    "train a.conll b.conll -o m.trellis --l2 0.5 --l1 1e-3 -m memm --resume -q",
    "train a.conll --gazetteer city=a.txt --gazetteer name=b=c.txt --features ner",
    "train a.conll --model neural --words embedding,cnn --dropout 0 --hybrid --epochs 3",
    "train a.conll --label -1 --max-iter -1 --seed 7 --seed 8",
    "eval model.trellis a.conll --json --worst 0 --columns 0",
    "inspect model.trellis --top 5 --label B-PER",
    "report model.trellis a.conll --output page.html",
    "convert a.conll b.jsonl --from conll --to jsonl --scheme BILOU",
    "embed a.txt --dim 10 --subwords --sample 1e-4 --min-count 1 --architecture cbow",
    "neighbors v.vec paris -k 5",
    "neighbors v.vec",
    "analogy v.vec man king woman",
    "analogy v.vec --test questions.txt --restrict 100",
    "similarity v.vec car train",
    "classify m.ftz a.txt --threshold 0.5 -k 2",
    "ctc decode a.npy b.npy --labels l.txt --logits --frame 0.02 --json",
    "ctc align a.npy -l l.txt --text hello --characters",
    "demo -o folder",
]
UNUSUAL = [
    "tag",
    "tag --help",
    "tag model.trellis -j4",
    "tag model.trellis --kbest",
    "tag model.trellis --output --marginals",
    "tag model.trellis --kbest many",
    "tag model.trellis --kbest -1",
    "tag model.trellis --marginals=yes",
    "tag model.trellis --nosuch",
    "tag model.trellis --columns 0;1",
    "train a.conll --gazetteer city",
    "train a.conll --l2 1_000",
    "convert a.conll",
    "convert a.conll b.conll c.conll",
    "analogy v.vec man king",
    "ctc decode a.npy",
    "classify m.ftz --threshold 2",
]


def parsed_fast(line: str) -> Any:
    target = fast_parser.find_module(COMMANDS, line.split())
    assert target is not None
    module, arguments = target
    return fast_parser.parse_options(import_module(module).Options, arguments)


@pytest.mark.parametrize("line", LINES)
def test_the_fast_parser_agrees_with_typer(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = parsed_fast(line)
    assert options is not None
    target = fast_parser.find_module(COMMANDS, line.split())
    assert target is not None
    received: list[Any] = []
    monkeypatch.setattr(import_module(target[0]), "run", received.append)
    assert typer_commands.run_typer(COMMANDS, line.split()) == 0
    assert received == [options]


@pytest.mark.parametrize("line", UNUSUAL)
def test_the_fast_parser_leaves_unusual_lines_to_typer(line: str) -> None:
    assert parsed_fast(line) is None


@pytest.mark.parametrize("line", ["", "nosuch", "--version", "ctc", "ctc nosuch"])
def test_lines_without_a_command_go_to_typer(line: str) -> None:
    assert fast_parser.find_module(COMMANDS, line.split()) is None


def commands(group: declarations.Group) -> list[str]:
    modules = []
    for source in group.commands.values():
        modules += [source] if isinstance(source, str) else commands(source)
    return modules


@pytest.mark.parametrize("module", commands(COMMANDS))
def test_every_command_has_a_help_text_with_an_example(module: str) -> None:
    command = import_module(module)
    assert "**Example" in command.run.__doc__
    for parameter in declarations.flatten(command.Options):
        assert parameter.declaration.help.endswith((".", "?", "...")), parameter.name


LOADED = """
import sys
from trellis.app.cli.main import main
try:
    main()
finally:
    print(sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
    print("scipy.optimize" in sys.modules, file=sys.stderr)
"""


def test_tagging_a_sentence_imports_neither_scikit_learn_nor_the_optimisers(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, "tag", "model.trellis"],
        cwd=folder,
        input=b"lunch with Ann at noon\n",
        capture_output=True,
        check=True,
    )
    assert b"lunch" in ran.stdout
    check_packages(ran.stderr)


def test_check_imports_no_heavy_package(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, "check", "train.conll", "test.conll", "--strict"],
        cwd=folder,
        capture_output=True,
    )
    assert b"scheme: BIO" in ran.stdout
    check_packages(ran.stderr)


def check_packages(stderr: bytes) -> None:
    packages, optimisers = stderr.decode().splitlines()
    assert "'numpy'" in packages
    assert optimisers == "False"
    for package in ("sklearn", "scipy", "typer", "rich", "torch"):
        assert f"'{package}'" not in packages
