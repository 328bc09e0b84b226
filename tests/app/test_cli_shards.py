"""`trellis train` and `trellis tag` with --workers and --engine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis.data import Corpus, conll

Run = Callable[..., Any]
TEXT = "".join(
    f"w{n % 7} NN B-P\nsings VB O\nin IN O\nYork NNP B-Q\nCity NNP I-Q\n\n" for n in range(40)
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "a.conll").write_text(TEXT)
    (tmp_path / "b.conll").write_text(TEXT.replace("w3", "Rome"))
    (tmp_path / "dev.conll").write_text(TEXT[: TEXT.index("w5")])
    return ["a.conll", "b.conll"]


def test_train_and_tag(run: Run, tmp_path: Path, files: list[str]) -> None:
    options = ["--workers", "1", "--shard", "800", "--max-iter", "6", "--constraints", "auto"]
    ran = run("train", *files, "--dev", "dev.conll", *options, "-o", "m.trellis")
    assert (ran.code, ran.err.splitlines()[0].partition(";")[0]) == (
        0,
        "6 shards, 80 sequences, 400 tokens, 4 labels",
    )
    assert not (tmp_path / "m.trellis.checkpoint").exists()
    model = trellis.load(tmp_path / "m.trellis")
    assert model.constraints == "BIO"
    assert model.dev_scores_
    same = trellis.CRF(max_iter=6, constraints="BIO", scoring="span_f1", random_state=0)
    same.fit(Corpus.text(files, shard=800))
    np.testing.assert_array_equal(model.coef_, same.coef_)
    assert model.corpus_layout_ == same.corpus_layout_

    arguments = ["m.trellis", "a.conll", "--workers", "1", "--shard", "800", "--to", "out"]
    ran = run("tag", *arguments)
    assert ran.code == 0
    assert "3 files in out" in ran.err
    tagged = "".join((tmp_path / "out" / f"{n:06d}.conll").read_text() for n in range(3))
    assert tagged == run("tag", "m.trellis", "a.conll").out
    assert run("tag", *arguments).code == 0  # finished files are not written again
    assert run("tag", "m.trellis", *files, *arguments[2:]).code == 1
    X, _ = conll.read(tmp_path / "out" / "000000.conll", columns=[0, 1])
    assert X[0][0] == ("w0", "NN")


@pytest.mark.slow
def test_a_cluster(run: Run, tmp_path: Path, files: list[str]) -> None:
    pytest.importorskip("distributed")
    sys.path.insert(0, str(Path(__file__).parents[1] / "engines"))
    from clusters import cluster

    with cluster(1) as client:
        address = client.scheduler.address.replace("tcp://", "dask://")
        ran = run("train", "a.conll", "--engine", address, "--max-iter", "3", "-o", "m.trellis")
        assert ran.code == 0
        assert run("tag", "m.trellis", "a.conll", "--engine", address, "-o", "out").code == 0
    local = trellis.CRF(max_iter=3, random_state=0).fit(Corpus.text("a.conll"))
    np.testing.assert_array_equal(trellis.load("m.trellis").coef_, local.coef_)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "--workers"),
        (["--workers", "2", "--engine", "dask://a:1"], "cannot be used together"),
        (["--engine", "a:1"], "must be dask://HOST:PORT"),
        (["--workers", "1", "--shard", "big"], "shard is 'big'"),
        (["--workers", "1", "--tune", "3"], "--tune cannot be used with --engine or --workers"),
        (["--shard", "1MB"], "--shard needs --engine or --workers"),
        (["--workers", "1", "--order", "2"], "--order 2 cannot be used with --engine or --workers"),
        (["--workers", "1", "--best"], "--best cannot be used with --engine or --workers"),
        (["--workers", "1", "--unknown", "_"], "--unknown cannot be used with"),
        (["--workers", "1", "--model", "hmm"], "do not apply to --model hmm"),
        (["--workers", "1", "--solver", "sgd"], "--solver sgd cannot be used with --engine"),
    ],
)
def test_wrong_options_of_train(
    run: Run, files: list[str], arguments: list[str], message: str
) -> None:
    ran = run("train", "a.conll", *arguments)
    assert ran.code != 0
    assert message in ran.err
    assert not Path("model.trellis").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.conll", "--workers", "1"], "and a folder: --to FOLDER"),
        (["--workers", "1", "-o", "out"], "need files"),
        (["a.conll", "--workers", "1", "-o", "out", "--marginals"], "write labels only"),
        (["a.conll", "--workers", "1", "-o", "out", "--min-probability", "0.5"], "cannot be used"),
        (["a.conll", "--workers", "1", "-o", "out", "--decode", "mbr"], "--decode mbr cannot"),
        (["a.conll", "--shard", "1MB", "-o", "out"], "--shard needs --engine or --workers"),
        (["none.conll", "--workers", "1", "-o", "out"], "none.conll"),
    ],
)
def test_wrong_options_of_tag(
    run: Run, files: list[str], arguments: list[str], message: str
) -> None:
    assert run("train", "a.conll", "--max-iter", "1", "-o", "m.trellis").code == 0
    ran = run("tag", "m.trellis", *arguments)
    assert ran.code != 0
    assert message in ran.err
    assert not Path("out").exists()


def test_a_broken_line(run: Run, tmp_path: Path, files: list[str]) -> None:
    lines = TEXT.split("\n")
    lines[150] = "broken"
    (tmp_path / "a.conll").write_text("\n".join(lines))
    ran = run("train", "a.conll", "--workers", "1", "--shard", "400")
    assert ran.code == 1
    assert f"shard 3 ({tmp_path / 'a.conll'}, bytes 1" in ran.err
    assert "a.conll, line 151: the row has 1 columns" in ran.err
    assert not (tmp_path / "model.trellis").exists()


def test_the_first_file_has_no_sequence(run: Run, tmp_path: Path, files: list[str]) -> None:
    """The number of columns is that of the first sequence, not of the first shard."""
    (tmp_path / "0.conll").write_text("\n\n")
    options = ["--workers", "1", "--max-iter", "2"]
    assert run("train", "0.conll", "a.conll", *options, "-o", "m.trellis").code == 0
    assert trellis.load("m.trellis").describe().columns == 2


@pytest.mark.parametrize("name", ["a.txt", "a.data"])
def test_formats_are_those_of_tag_without_shards(
    run: Run, tmp_path: Path, files: list[str], name: str
) -> None:
    assert run("train", "a.conll", "--max-iter", "1", "-o", "m.trellis").code == 0
    for n, text in enumerate((TEXT, "Ann sings in York.\n")):
        (tmp_path / name).write_text(text)
        alone = run("tag", "m.trellis", name)
        ran = run("tag", "m.trellis", name, "--workers", "1", "-o", f"out{n}")
        assert ran.code == alone.code, (ran.err, alone.err)
        if alone.code == 0:
            assert (tmp_path / f"out{n}" / "000000.conll").read_text() == alone.out
        else:
            assert ran.err.replace(f"{tmp_path}/", "") == alone.err
