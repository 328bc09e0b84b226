"""The pages of benchmark results, and the table of corpora, are up to date."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    variables = {"PATH": "", "HOME": str(ROOT), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_pages_are_rendered_from_the_results() -> None:
    done = run("page.py", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_have_machine_date_and_rows(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["command"].startswith("benchmarks/")
    assert (ROOT / document["command"].split()[0]).exists()
    assert document["machine"]["date"][:2] == "20"
    for table in document["tables"]:
        assert table["rows"]
        assert {len(row) for row in table["rows"]} == {len(table["columns"])}


def test_corpora_are_listed_as_absent_in_an_empty_folder(tmp_path: Path) -> None:
    done = run("corpora.py", TRELLIS_DATA=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "chunking/conll2000: CoNLL-2000 chunking (research only): absent" in done.stdout
    assert "conll2000.zip" in done.stdout


def test_downloaded_files_are_converted_and_verified(tmp_path: Path) -> None:
    unknown = tmp_path / "unknown.txt"
    unknown.write_text("something else\n")
    changed = tmp_path / "wnut17train.conll"
    changed.write_text("word\tO\n\t\nword\tO\n")
    done = run(
        "corpora.py", "prepare", str(unknown), str(changed), TRELLIS_DATA=str(tmp_path / "data")
    )
    assert "not recognised" in done.stdout
    assert "ner/wnut17.train.conll.gz: converted from" in done.stdout
    assert "the checksum differs" in done.stdout
    assert not (tmp_path / "data").exists()
