"""fastText's files: read as fastText reads them, written so that it reads them."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vector_files import FASTTEXT, MODELS, fasttext, needs_data, some_file, some_rows

from trellis.embeddings.subword_rows import SubwordRows
from trellis.errors import FormatError, InputError
from trellis.formats import fasttext as format
from trellis.formats.quantization import QuantizedMatrix, quantize


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.bin"


def same(a: Any, b: Any) -> bool:
    if isinstance(a, QuantizedMatrix):
        norms = (a.norm_codes is None) == (b.norm_codes is None)
        return norms and np.array_equal(a.codes, b.codes) and np.array_equal(a.rows(), b.rows())
    return np.array_equal(a, b)


@needs_data
@pytest.mark.parametrize("name", FASTTEXT)
def test_real_files(name: str, path: Path) -> None:
    source = MODELS / "fasttext" / name
    file = format.read(source)
    expected = json.loads((MODELS / "fasttext" / "expected.json").read_text("utf-8"))[name]
    fields = {
        "ws": file.args.ws,
        "dim": file.args.dim,
        "epoch": file.args.epoch,
        "minCount": file.args.min_count,
        "neg": file.args.neg,
        "wordNgrams": file.args.word_ngrams,
        "bucket": file.args.bucket,
        "minn": file.args.minn,
        "maxn": file.args.maxn,
        "lrUpdateRate": file.args.lr_update_rate,
        "t": file.args.t,
        "loss": f"loss_name.{file.args.loss}",
        "model": f"model_name.{file.args.model.replace('sg', 'skipgram')}",
        "quantized": isinstance(file.input, QuantizedMatrix),
    }
    assert fields == expected["args"]
    assert len(file.words) == expected["nwords"]
    assert [w.decode() for w in file.words[:10]] == expected["words_head"]
    assert [w.decode() for w in file.labels[:10]] == expected["labels_head"]
    format.write(path, file)
    data, again = source.read_bytes(), path.read_bytes()
    assert again[:8] == format.MAGIC + struct.pack("<i", 12)  # one of them is of version 11
    assert again[8:] == data[8:]


@pytest.mark.parametrize("model", ["sg", "cbow", "supervised"])
@pytest.mark.parametrize("kind", ["dense", "codes", "norms", "both"])
def test_round_trip(model: str, kind: str, path: Path) -> None:
    file = some_file(model, words=300, dim=5)
    if kind != "dense":
        file = replace(file, input=quantize(file.input, norms=kind == "norms", random_state=0))
    if kind == "both" and model != "supervised":
        file = replace(file, output=quantize(file.output, norms=True, random_state=0))
    format.write(path, file)
    again = format.read(path)
    assert (again.args, again.words, again.labels, again.n_tokens) == (
        file.args,
        file.words,
        file.labels,
        file.n_tokens,
    )
    assert np.array_equal(again.counts, file.counts)
    assert np.array_equal(again.label_counts, file.label_counts)
    assert same(again.input, file.input)
    assert same(again.output, file.output)


def test_matrices_are_mapped(path: Path) -> None:
    format.write(path, some_file())
    file = format.read(path)
    assert isinstance(file.input, np.ndarray)
    assert file.input.base is not None
    with pytest.raises(ValueError, match="read-only"):
        file.input[0, 0] = 1


def test_pruned_buckets(path: Path) -> None:
    file = some_file("supervised", words=300)
    prune = np.array([[7, 1], [49, 0], [3, 2]], np.int32)
    small = quantize(some_rows(303, 6), random_state=0)
    format.write(path, replace(file, prune=prune, input=small))
    again = format.read(path).prune
    assert again is not None
    assert np.array_equal(again, prune)
    format.write(path, replace(file, prune=prune[:0], input=quantize(some_rows(300, 6))))
    again = format.read(path).prune
    assert again is not None
    assert again.shape == (0, 2)


@pytest.mark.parametrize("kind", ["dense", "codes", "norms"])
def test_fasttext_reads_our_files(kind: str, path: Path) -> None:
    peer = fasttext()
    file = some_file(words=300)
    if kind != "dense":
        file = replace(file, input=quantize(file.input, norms=kind == "norms", random_state=0))
        path = path.with_suffix(".ftz")
    format.write(path, file)
    model = peer.load_model(str(path))
    assert [word.encode() for word in model.words] == file.words
    assert model.is_quantized() == (kind != "dense")
    rows = file.input if isinstance(file.input, np.ndarray) else file.input.rows()
    for word in ["</s>", file.words[5].decode(), "unseen", "日本語"]:
        _, ids = model.get_subwords(word)
        np.testing.assert_allclose(model.get_word_vector(word), rows[ids].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("qout", [False, True])
def test_reading_files_quantized_by_fasttext(norms: bool, qout: bool, tmp_path: Path) -> None:
    peer = fasttext()
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(600)]
    lines = [f"__label__{i % 300} {' '.join(rng.choice(words, 8))}" for i in range(900)]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    train = str(tmp_path / "train.txt")
    model = peer.train_supervised(train, dim=7, epoch=1, minn=2, maxn=3, bucket=1000, thread=1)
    model.quantize(train, qnorm=norms, qout=qout, cutoff=500, retrain=False, dsub=2)
    model.save_model(str(tmp_path / "model.ftz"))
    file = format.read(tmp_path / "model.ftz")
    assert file.prune is not None
    assert isinstance(file.input, QuantizedMatrix)
    assert isinstance(file.output, QuantizedMatrix) == qout
    assert (file.input.norm_codes is None) != norms
    for row in (0, 17, len(file.words) + 3):
        np.testing.assert_allclose(
            file.input.rows(np.array([row]))[0], model.get_input_vector(row), atol=1e-6
        )
    _, ids = SubwordRows(file).ids([b"w1", b"w2", b"unseen", b"</s>"])
    hidden = file.input.rows(ids).mean(axis=0)
    output = file.output
    scores = output.dot(hidden) if isinstance(output, QuantizedMatrix) else output @ hidden
    chances = np.exp(scores - scores.max())
    predicted = {
        label.encode(): p for p, label in model.f.predict("w1 w2 unseen\n", -1, 0.0, "strict")
    }
    expected = [predicted[label] for label in file.labels]
    np.testing.assert_allclose(chances / chances.sum(), expected, atol=2e-5)  # fastText adds 1e-5
    format.write(tmp_path / "again.ftz", file)
    assert (tmp_path / "again.ftz").read_bytes() == (tmp_path / "model.ftz").read_bytes()


def changed(data: bytes, at: int, layout: str, value: Any) -> bytes:
    size = struct.calcsize(layout)
    return data[:at] + struct.pack(layout, value) + data[at + size :]


# places in a file: magic and version, twelve arguments and t, then the dictionary's sizes
ARGUMENT = {name: 8 + 4 * i for i, name in enumerate(format.Args._fields)}
SIZES = {"size": 64, "words": 68, "labels": 72, "tokens": 76, "pruned": 84}


@pytest.mark.parametrize(
    ("at", "layout", "value", "match"),
    [
        (0, "<i", 7, "not a fastText model"),
        (4, "<i", 13, "version 13"),
        (ARGUMENT["loss"], "<i", 9, "loss 9"),
        (ARGUMENT["model"], "<i", 0, "model 0"),
        (ARGUMENT["dim"], "<i", 0, "dim is 0"),
        (ARGUMENT["dim"], "<i", 5, "must be 70 × 5"),
        (ARGUMENT["bucket"], "<i", -1, "bucket is -1"),
        (ARGUMENT["bucket"], "<i", 49, "70 × 6: must be 69 × 6"),
        (ARGUMENT["maxn"], "<i", 2**31 - 1, "maxn is 2147483647"),
        (ARGUMENT["t"], "<d", float("nan"), "t is nan"),
        (SIZES["size"], "<i", 21, "21 entries"),
        (SIZES["words"], "<i", -1, "but -1 words"),
        (SIZES["labels"], "<i", 1, "but 20 words and 1 labels"),
        (SIZES["tokens"], "<q", -5, "number of tokens is -5"),
        (SIZES["pruned"], "<q", 2**62, "the file ends inside the prune table"),
        (92 + 5, "<q", -3, "count -3"),
        (92 + 5 + 8, "<b", 1, "has type 1, expected 0"),
    ],
)
def test_wrong_numbers(at: int, layout: str, value: Any, match: str, path: Path) -> None:
    format.write(path, some_file())
    path.write_bytes(changed(path.read_bytes(), at, layout, value))
    with pytest.raises(FormatError, match=match) as caught:
        format.read(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_giant_matrices_take_no_memory(path: Path) -> None:
    file = some_file()
    format.write(path, file)
    data = path.read_bytes()
    at = data.rindex(struct.pack("<2q", 70, 6))
    for rows, columns in [(2**62, 6), (70, 2**62), (-1, 6), (2**62, 2**62), (71, 6)]:
        path.write_bytes(data[:at] + struct.pack("<2q", rows, columns) + data[at + 16 :])
        with pytest.raises(FormatError):
            format.read(path)


@pytest.mark.parametrize("part", range(0, 100, 3))
def test_truncated_files(part: int, path: Path) -> None:
    format.write(path, some_file("supervised"))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * part // 100])
    with pytest.raises(FormatError, match=r"ends inside|is empty|do not fit into"):
        format.read(path)


def test_extra_bytes_at_the_end(path: Path) -> None:
    format.write(path, some_file())
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(FormatError, match="1 unexpected bytes follow"):
        format.read(path)


def test_numbers_that_are_not_finite(path: Path) -> None:
    format.write(path, some_file())
    path.write_bytes(path.read_bytes()[:-4] + struct.pack("<f", np.nan))
    with pytest.raises(FormatError, match=r"output matrix is nan at \[19, 5\]"):
        format.read(path)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        format.read(tmp_path / "none.bin")
    (tmp_path / "empty.bin").touch()
    with pytest.raises(FormatError, match="empty"):
        format.read(tmp_path / "empty.bin")
    with pytest.raises(FormatError, match="not a regular file"):
        format.read(tmp_path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"words": [b"a"] * 20}, "b'a' occurs twice"),
        ({"words": [b"a\0b", *(b"%d" % i for i in range(19))]}, "word 0 has a zero"),
        ({"words": [b"a"]}, "there are 1 words, but 20 counts"),
        ({"counts": np.arange(-1, 19)}, "count -1"),
        ({"input": some_rows(70, 5)}, "70 × 5: must be 70 × 6"),
        ({"output": some_rows(21, 6)}, "21 × 6: must be 20 × 6"),
        ({"prune": np.zeros((0, 2), np.int32)}, "not quantised"),
        ({"args": format.Args(dim=6, bucket=50, loss="hinge")}, "hinge"),
        ({"args": format.Args(dim=6, bucket=0), "input": some_rows(20, 6)}, "bucket is 0"),
        ({"args": format.Args(dim=6, minn=-1)}, "minn is -1"),
    ],
)
def test_invalid_contents_are_not_written(change: dict[str, Any], match: str, path: Path) -> None:
    with pytest.raises(InputError, match=match):
        format.write(path, replace(some_file(), **change))
    assert not path.exists()


@pytest.mark.parametrize(
    ("prune", "match"),
    [
        ([[50, 0]], "bucket 50: must be below 50"),
        ([[0, 1]], "row 1: must be below 1"),
        ([[3, 0], [3, 1]], "twice"),
    ],
)
def test_wrong_prune_tables(prune: Any, match: str, path: Path) -> None:
    table = np.array(prune, np.int32)
    small = quantize(some_rows(300 + len(table), 6), random_state=0)
    with pytest.raises(InputError, match=match):
        format.write(path, replace(some_file(words=300), prune=table, input=small))
