"""The instruction set that trained a model: recorded in it, fixed by TRELLIS_ISA."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import forged_models
import pytest

import trellis
from trellis import native
from trellis.errors import FormatError
from trellis.formats import native as files

# Vectors are not trained; they are the result of a model.
TRAINED = [name for name in forged_models.CASES if name != "vectors"]


@pytest.mark.parametrize("name", TRAINED)
def test_models_record_the_instruction_set(name: str, tmp_path: Path) -> None:
    if "tagger" in name:
        pytest.importorskip("torch", reason="PyTorch is not installed")
    previous, path = native.isa(), tmp_path / "model.trellis"
    oldest = native.available_isas()[0]
    native.use_isa(oldest)
    try:
        model = forged_models.CASES[name].make()
    finally:
        native.use_isa(previous)
    assert model.isa_ == oldest
    model.save(path)
    loaded = trellis.load(path)
    assert loaded.isa_ == oldest  # not the one that loads the file
    loaded.save(path)
    assert trellis.load(path).isa_ == oldest
    if hasattr(type(model), "load"):
        assert type(model).load(path).isa_ == oldest


def test_files_of_older_versions_have_no_record(tmp_path: Path) -> None:
    model = forged_models.CASES["logistic"].make()
    path = tmp_path / "model.trellis"
    files.write(path, model.kind, *model.to_parts())
    loaded = trellis.load(path)
    assert loaded.isa_ is None
    loaded.save(path)
    assert "isa" not in files.read(path).meta


@pytest.mark.parametrize("value", [3, ["v2"], "x" * 1000])
def test_a_wrong_record_is_refused(value: object, tmp_path: Path) -> None:
    model = forged_models.CASES["logistic"].make()
    meta, tensors = model.to_parts()
    files.write(tmp_path / "model.trellis", model.kind, meta | {"isa": value}, tensors)
    with pytest.raises(FormatError, match="isa must be the name of an instruction set"):
        trellis.load(tmp_path / "model.trellis")


SCRIPT = """
import sys, trellis
X, y = [["a", "b", "c"], ["b", "a"]] * 9, [["X", "Y", "Z"], ["Y", "X"]] * 9
trellis.CRF(max_iter=5).fit(X, y).save(sys.argv[1])
"""


def test_the_environment_variable_fixes_the_instruction_set(tmp_path: Path) -> None:
    for isa in native.available_isas():
        path = tmp_path / isa
        environment = {**os.environ, "TRELLIS_ISA": isa.removeprefix("x86-64-")}
        subprocess.run([sys.executable, "-c", SCRIPT, str(path)], env=environment, check=True)
        assert trellis.load(path).isa_ == isa
