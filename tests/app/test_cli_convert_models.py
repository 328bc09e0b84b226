"""`trellis convert` for models."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import process

import trellis
from trellis import CRF
from trellis.models.foreign import save_crfsuite

X = [[["w=Ann", "cap"], ["w=left"]], [["w=Bob", "cap"]]]
Y = [["PER", "O"], ["PER"]]


def test_conversion_and_back_is_lossless(tmp_path: Path) -> None:
    save_crfsuite(CRF(l2=0.1).fit(X, Y), tmp_path / "a.crfsuite")
    done = process("convert", "a.crfsuite", "b.trellis", folder=tmp_path)
    assert (done.code, done.err) == (0, "b.trellis: 2 labels, 8 weights\n")
    assert trellis.load(tmp_path / "b.trellis").predict(X) == Y
    assert process("convert", "b.trellis", "c", "--to", "crfsuite", folder=tmp_path).code == 0
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a.crfsuite").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data.conll", "x.trellis"], "data.conll: "),
        (["a.trellis", "x.crfsuite", "--scheme", "BIO"], "apply to data, not to models"),
        (["none", "x.trellis"], "none"),
        (
            ["hmm.trellis", "x.crfsuite"],
            "a CRFsuite file can store only models of type CRF, not HMM",
        ),
    ],
)
def test_models_that_cannot_be_converted(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    CRF().fit(X, Y).save(tmp_path / "a.trellis")
    trellis.HMM().fit([["a"]], [["x"]]).save(tmp_path / "hmm.trellis")
    (tmp_path / "data.conll").write_text("a O\n")
    done = process("convert", *arguments, folder=tmp_path)
    assert done.code == 1
    assert message in done.err
    assert "Traceback" not in done.err
    assert not [*tmp_path.glob("x.*")]
