"""Forged files of every kind of model: each raises FormatError, or gives a model that works."""

from __future__ import annotations

import subprocess
import sys

import forged_checkpoints
import forged_models
import pytest
from scale import FULL

from trellis.models.files import MODELS

QUICK = (
    "crf of ready features",
    "hmm",
    "hmm of vectors",
    "logistic",
    "graph",
    "fasttext",
    "classifier, hierarchical",
)
QUICK_CHECKPOINTS = ("lbfgs", "passive-aggressive")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")


@pytest.mark.parametrize("name", forged_models.CASES if FULL else QUICK)
def test_forgeries_are_refused_or_work(name: str) -> None:
    run_script(forged_models.__file__, name)


@pytest.mark.parametrize("name", forged_checkpoints.MODELS if FULL else QUICK_CHECKPOINTS)
def test_forged_checkpoints(name: str) -> None:
    run_script(forged_checkpoints.__file__, name)


def run_script(path: str, name: str) -> None:
    if "tagger" in name:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    run = subprocess.run(
        [sys.executable, path, name], capture_output=True, text=True, timeout=900, check=False
    )
    failures = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    assert not failures, "\n".join(failures[:20])
    assert run.returncode == 0, run.stderr[-3000:]
    assert "forgeries" in run.stdout


def test_every_kind_of_model_has_a_case() -> None:
    kinds = {name.partition(",")[0].partition(" of ")[0] for name in forged_models.CASES}
    spelling = {"graph": "graph-crf", "grid": "grid-crf", "tagger": "neural-tagger"}
    assert {spelling.get(kind, kind) for kind in kinds} == MODELS.keys()
