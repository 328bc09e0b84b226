"""Vectors.load detects the format of a file. Other programs can read files of Vectors.save."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_files import (
    MODELS,
    keyed_vectors,
    needs_data,
    read_by_gensim,
    some_file,
    some_rows,
    some_words,
)

from trellis import Vectors
from trellis.errors import FormatError, InputError
from trellis.formats import fasttext, native


@pytest.fixture
def v() -> Vectors:
    return Vectors(some_words(40), some_rows(40, 6))


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("v.trellis", None),
        ("v.vec", None),
        ("v.txt", None),
        ("v.bin", None),
        ("v.vec.gz", None),
        ("v.bin.xz", None),
        ("v", "glove"),
        ("v.any", "binary"),
        ("v.any", "trellis"),
    ],
)
def test_round_trip(v: Vectors, name: str, format: str | None, tmp_path: Path) -> None:
    v.save(tmp_path / name, format)
    again = Vectors.load(tmp_path / name)
    assert again.words == v.words
    assert again.matrix.tobytes() == v.matrix.tobytes()
    assert again.nearest(v.words[0]) == v.nearest(v.words[0])
    few = Vectors.load(tmp_path / name, limit=3)
    assert (few.words, few.matrix.tolist()) == (v.words[:3], v.matrix[:3].tolist())


def test_native_files_are_mapped(v: Vectors, tmp_path: Path) -> None:
    v.save(tmp_path / "v.trellis")
    again = Vectors.load(tmp_path / "v.trellis")
    assert not again.matrix.flags.writeable
    assert not again.matrix.flags.owndata


def test_gensim_reads_word2vec_files(v: Vectors, tmp_path: Path) -> None:
    for name in ("v.bin", "v.txt"):
        v.save(tmp_path / name)
        peer = read_by_gensim(tmp_path / name)
        neighbors = [word for word, _ in peer.most_similar(v.words[0])]
        assert neighbors == [near.word for near in v.nearest(v.words[0])]


def test_load_files_of_gensim(v: Vectors, tmp_path: Path) -> None:
    peer = keyed_vectors()(6)
    peer.add_vectors(v.words, v.matrix)
    peer.save(str(tmp_path / "kv"))
    again = Vectors.load(tmp_path / "kv", limit=9)
    assert again.words == v.words[:9]
    assert np.array_equal(again.matrix, v.matrix[:9])


def test_load_fasttext_files_of_gensim(tmp_path: Path) -> None:
    keyed_vectors()
    from gensim.models import FastText
    from gensim.models.fasttext import save_facebook_model

    text = [["one", "two", "three", "four"] * 3] * 5
    peer = FastText(text, vector_size=5, min_count=1, bucket=50, workers=1, seed=1)
    save_facebook_model(peer, str(tmp_path / "model.bin"))
    v = Vectors.load(tmp_path / "model.bin")
    for word in [*v.words, "unseen"]:
        np.testing.assert_allclose(v[word], peer.wv[word], atol=1e-6)


def test_fasttext_without_ngrams(tmp_path: Path) -> None:
    file = some_file(bucket=0)
    args = file.args._replace(minn=0, maxn=0)
    fasttext.write(tmp_path / "m.bin", replace(file, args=args))
    v = Vectors.load(tmp_path / "m.bin")
    assert np.array_equal(v.matrix, file.input)
    assert not v["unseen"].any()


@needs_data
def test_words_that_are_not_utf8() -> None:
    path = MODELS / "fasttext" / "pang_lee_polarity_fasttext.bin"
    with pytest.raises(FormatError, match="pass errors='replace'"):
        Vectors.load(path)
    assert len(Vectors.load(path, errors="replace")) == 1694


def test_unpaired_surrogate_has_no_vector(tmp_path: Path) -> None:
    fasttext.write(tmp_path / "m.bin", some_file())
    with pytest.raises(InputError, match="cannot be encoded as UTF-8"):
        Vectors.load(tmp_path / "m.bin")["\ud800"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"matrix": some_rows(3, 4)}, r"shape \(3, 4\): must be \(2, any\)"),
        ({"matrix": some_rows(2, 4).astype(float)}, "dtype float64"),
        ({"matrix": np.full((2, 4), np.inf, np.float32)}, "inf at"),
        ({"words.ends": np.array([0, 2, 1])}, "offsets must start at 0"),
        ({"words.bytes": np.frombuffer(b"aa", np.uint8)}, "a string occurs twice"),
        ({"words.bytes": np.frombuffer(b"\xff\xfe", np.uint8)}, "not UTF-8"),
    ],
)
def test_forged_native_files(change: dict[str, Any], match: str, tmp_path: Path) -> None:
    data, ends = native.pack_strings(["a", "b"])
    tensors = {"matrix": some_rows(2, 4), "words.bytes": data, "words.ends": ends} | change
    native.write(tmp_path / "v.trellis", "vectors", {}, tensors)
    with pytest.raises(FormatError, match=match) as caught:
        Vectors.load(tmp_path / "v.trellis")
    assert str(tmp_path) in str(caught.value)


def test_native_files_without_vectors(tmp_path: Path) -> None:
    native.write(tmp_path / "m.trellis", "crf", {}, {})
    with pytest.raises(FormatError, match="crf"):
        Vectors.load(tmp_path / "m.trellis")
    native.write(tmp_path / "m.trellis", "vectors", {}, {})
    with pytest.raises(FormatError, match=r"'words\.bytes' is missing"):
        Vectors.load(tmp_path / "m.trellis")


def test_unknown_formats_and_missing_files(v: Vectors, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the suffix is not"):
        v.save(tmp_path / "v.dat")
    with pytest.raises(InputError, match=r"format must be one of .* not 'csv'"):
        v.save(tmp_path / "v.dat", "csv")
    with pytest.raises(FileNotFoundError):
        Vectors.load(tmp_path / "v.dat")
    with pytest.raises(FormatError, match="not a regular file"):
        Vectors.load(tmp_path)
