"""`predict(Corpus)`: the labels of memory, as one file for each shard, resumable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from small_corpora import make_corpus, make_data

from trellis import CRF, HMM
from trellis.data import Corpus, conll
from trellis.engines import Local
from trellis.errors import FormatError, InputError


@pytest.mark.parametrize("decode", ["viterbi", "marginal"])
def test_predict(tmp_path: Path, decode: str) -> None:
    X, y = make_data()
    shards = make_corpus(X, y, 4)
    for model in (CRF(max_iter=5).fit(X, y), HMM().fit(X, y)):
        expected = model.predict(X, decode=decode)
        assert model.predict(shards, decode=decode) == expected
        folder = tmp_path / type(model).__name__
        paths = model.predict(shards, decode=decode, to=folder, engine=Local(2))
        assert [path.name for path in paths] == [f"{n:06d}.conll" for n in range(4)]
        assert Corpus.text(paths).load() == (X, [list(labels) for labels in expected])


def test_predict_resumes(tmp_path: Path) -> None:
    X, y = make_data()
    shards = make_corpus(X, y, 4)
    model = CRF(max_iter=5).fit(X, y)
    paths = model.predict(shards, to=tmp_path / "out")
    kept = [path.stat().st_mtime_ns for path in paths]
    contents = paths[2].read_bytes()
    paths[2].unlink()
    assert model.predict(shards, to=tmp_path / "out") == paths
    assert paths[2].read_bytes() == contents
    assert [path.stat().st_mtime_ns for path in paths][:2] == kept[:2]
    for other, data in ((CRF(max_iter=6).fit(X, y), shards), (model, make_corpus(X, y, 3))):
        with pytest.raises(InputError, match="output of another model, corpus or decoder"):
            other.predict(data, to=tmp_path / "out")
    with pytest.raises(InputError, match=r"000000\.conll is a file: to must be a folder"):
        model.predict(shards, to=paths[0])
    (tmp_path / "out" / "trellis.json").write_text("{")
    with pytest.raises(FormatError, match="is damaged"):
        model.predict(shards, to=tmp_path / "out")
    (tmp_path / "out" / "trellis.json").unlink()
    with pytest.raises(InputError, match="is not empty"):
        model.predict(shards, to=tmp_path / "out")


def test_a_process_killed_before_its_first_file(tmp_path: Path) -> None:
    X, y = make_data(0, 10)
    model = CRF(max_iter=1).fit(X, y)
    (tmp_path / f".trellis.json.{'0' * 16}.trellis.tmp").touch()  # as `data.atomic` names it
    assert len(model.predict(make_corpus(X, y, 2), to=tmp_path)) == 2


def test_a_relative_output_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_data(0, 10)
    model = CRF(max_iter=1).fit(X, y)
    monkeypatch.chdir(tmp_path)
    paths = model.predict(make_corpus(X, y, 2), to="out")
    assert [path.parent for path in paths] == [tmp_path / "out"] * 2


def test_predict_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    X, y = make_data()
    model = CRF(max_iter=5).fit(X, y)
    X[40] = ["a\tb"] * len(X[40])  # a column file cannot contain it
    with pytest.raises(InputError, match=r"shard 2 \(dataset, rows 30 to 45\): sequence 10"):
        model.predict(make_corpus(X, y, 4), to=tmp_path / "out")
    names = set(os.listdir(tmp_path / "out"))
    assert "000002.conll" not in names
    assert not any(name.endswith(".tmp") for name in names)


def test_predict_jsonl(tmp_path: Path) -> None:
    X, y = make_data(0, 10)
    model = CRF(max_iter=3).fit(X, y)
    path = tmp_path / "a.txt"
    path.write_text("".join(" ".join(x) + "\n" for x in X))
    shards = Corpus.text(path, shard=50, format="tokens", labelled=False)
    paths = model.predict(shards, to=tmp_path / "out")
    assert [x for p in paths for x in conll.read(p)[0]] == X


def test_lines_of_text_without_labels(tmp_path: Path) -> None:
    X, y = make_data()
    model = CRF(max_iter=1).fit(X, y)
    path = tmp_path / "a.conll"
    path.write_text("w O\n\n" * 100 + "w\n\n" + "w O\n\n" * 50)
    shards = Corpus.text(path, shard=100, labelled=False)
    message = r"shard 4 \(.*bytes \d+ to \d+\): .*a\.conll, line 201: the row has 1 columns"
    with pytest.raises(FormatError, match=message):
        model.predict(shards)
    with pytest.raises(FormatError, match=r"a\.conll, line 201: "):
        list(shards)


def test_other_methods_need_sequences() -> None:
    X, y = make_data(0, 10)
    shards = make_corpus(X, y, 2)
    model = CRF(max_iter=1).fit(X, y)
    for call in (model.predict_marginals, model.entropy, HMM().fit, HMM(n_states=2).fit):
        with pytest.raises(InputError, match=r"X is a Corpus, .* write X, y = corpus\.load\(\)"):
            call(shards)


def test_bad_arguments_of_predict() -> None:
    X, y = make_data(0, 10)
    shards = make_corpus(X, y, 2)
    model = CRF(max_iter=1).fit(X, y)
    calls: list[tuple[dict[str, Any], str]] = [
        ({"X": X, "to": "folder"}, "engine and to need a trellis.data.Corpus"),
        ({"X": shards, "known": y}, "known cannot be used with a Corpus"),
        ({"X": shards, "decode": "mbr"}, r"together: use predict\(corpus\.load\(\)\[0\]\)"),
        ({"X": shards, "engine": 3}, "engine must be"),
    ]
    for arguments, message in calls:
        with pytest.raises(InputError, match=message):
            model.predict(**arguments)
