"""CRFsuite's model files: what is written is what CRFsuite writes; what is wrong is said."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corpus_files import needs_corpus
from foreign_files import MODELS, crfsuite_model
from native_files import peak_memory

import trellis
from trellis.errors import FormatError, InputError
from trellis.formats import crfsuite
from trellis.formats.strings import pack_strings

SHARED = sorted((MODELS / "crfsuite").glob("*.crfsuite"))


def parts_of(model: crfsuite.Model, **changes: Any) -> crfsuite.Parts:
    names, ends = pack_strings(model.attributes.decoded("attribute"))
    parts = crfsuite.Parts(model.labels, names, ends, *model[2:8])
    return parts._replace(**changes)


@needs_corpus("models/crfsuite")
@pytest.mark.parametrize("path", SHARED, ids=lambda p: p.stem)
def test_rewriting_a_file_of_crfsuite_gives_the_same_bytes(path: Path) -> None:
    model = crfsuite.read(path)
    assert b"".join(crfsuite.encode(parts_of(model))) == path.read_bytes()


@pytest.mark.parametrize("sizes", [(1, 1), (3, 12), (7, 400), (40, 2000)])
def test_round_trip(sizes: tuple[int, int]) -> None:
    data = crfsuite_model(1, *sizes)
    model = crfsuite.parse(data)
    assert b"".join(crfsuite.encode(parts_of(model))) == data
    keys = model.state_attribute * sizes[0] + model.state_label
    assert (np.diff(keys) > 0).all()


def test_crfsuite_finds_every_name_in_our_files(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    path = tmp_path / "m"
    path.write_bytes(crfsuite_model(3, 5, 3000))
    model = crfsuite.read(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    info = tagger.info()
    assert tagger.labels() == model.labels
    names = model.attributes.decoded("attribute")
    assert list(info.attributes) == names
    # a name that its hash tables did not find would leave the scores at zero
    ours = trellis.load(path).predict_marginals([[[name]] for name in names])
    for name, table in zip(names, ours, strict=True):
        tagger.set([[name]])
        theirs = [tagger.marginal(label, 0) for label in model.labels]
        np.testing.assert_allclose(table[0], theirs, atol=1e-12)


def test_zeros_and_attributes_without_weights_are_left_out() -> None:
    names, ends = pack_strings(["a", "b", "c"])
    weights = map(np.array, ([0, 1, 2], [0, 0, 1], [1.0, 0.0, 2.0], [0, 1], [1, 0], [0.0, 3.0]))
    data = b"".join(crfsuite.encode(crfsuite.Parts(["x", "y"], names, ends, *weights)))
    model = crfsuite.parse(data)
    assert model.attributes.decoded("attribute") == ["a", "c"]
    assert model.state_attribute.tolist() == [0, 1]
    assert model.bigram_weight.tolist() == [3.0]


def test_an_empty_model() -> None:
    nothing = [np.zeros(0, np.int64)] * 6
    data = b"".join(crfsuite.encode(crfsuite.Parts([], *pack_strings([]), *nothing)))
    assert crfsuite.parse(data).labels == []


def test_features_out_of_order() -> None:
    data = bytearray(crfsuite_model(2, 3, 6))
    at = 48 + 12
    data[at : at + 40] = data[at + 20 : at + 40] + data[at : at + 20]
    with pytest.raises(FormatError, match="feature 1 is out of order"):
        crfsuite.parse(bytes(data))
    data[at : at + 20] = data[at + 20 : at + 40]
    with pytest.raises(FormatError, match="feature 1 is out of order, or occurs twice"):
        crfsuite.parse(bytes(data))


def with_number(at: int, value: int) -> bytes:
    data = crfsuite_model()
    return data[:at] + struct.pack("<I", value) + data[at + 4 :]


HUGE = 2**32 - 1
FEATURE = 48 + 12


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "too few"),
        (b"lCRF" + bytes(44), "too few"),
        (b"abcd" + crfsuite_model()[4:], "not a CRFsuite model"),
        (crfsuite_model()[:-1], "header has size .* but the file has"),
        (crfsuite_model() + b"\0", "header has size .* but the file has"),
        (crfsuite_model()[:8] + b"XXXX" + crfsuite_model()[12:], "unknown type"),
        (with_number(12, 101), "version 101"),
        (with_number(20, HUGE), "too many|labels"),
        (with_number(20, 2), "no label|attribute or label"),
        (with_number(24, HUGE), "attribute"),
        (with_number(24, 1), "attribute or label that does not exist"),
        (with_number(28, HUGE), "beyond the end of the file"),
        (with_number(28, 0), "expected FEAT"),
        (with_number(32, 4), "no dictionary"),
        (with_number(36, HUGE), "beyond the end of the file"),
        (with_number(40, 4), "expected LFRF"),
        (with_number(44, HUGE), "beyond the end of the file"),
        (with_number(48 + 8, HUGE), "beyond the end of the file"),
        (with_number(FEATURE, 7), "feature 0 is of an unknown type"),
        (with_number(FEATURE + 4, 999), "feature 0 has an attribute or label that"),
        (with_number(FEATURE + 8, 999), "feature 0 has a target label that"),
        (with_number(FEATURE + 16, 0x7FF80000), "feature 0 has a weight that is not finite"),
    ],
)
def test_error_messages(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "bad.crfsuite"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=f"bad.crfsuite: .*({what})"):
        crfsuite.read(path)


def test_names_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_bytes(crfsuite_model().replace("é".encode(), b"\xe9\xe9"))
    with pytest.raises(FormatError, match="not UTF-8"):
        trellis.load(path)
    model = trellis.load(path, encoding="latin-1")
    assert model.features_.names()[0] == "w[-1]=éé0"


@pytest.mark.parametrize("field", ["labels", "names"])
def test_zero_bytes_in_names_are_rejected(field: str) -> None:
    parts = parts_of(crfsuite.parse(crfsuite_model()))
    changed = (
        ["a", "b\0", "c"] if field == "labels" else np.where(parts.names == 119, 0, parts.names)
    )
    with pytest.raises(InputError, match="zero byte"):
        crfsuite.encode(parts._replace(**{field: changed}))


def test_memory_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(crfsuite_model(0, 10, 60_000))
    size = path.stat().st_size
    assert peak_memory(lambda: trellis.load(path)) < 2 * size + (8 << 20)


def test_an_empty_name() -> None:
    names, ends = pack_strings(["", "b"])
    weights = map(np.array, ([0, 1], [0, 1], [1.0, 2.0], [0], [1], [3.0]))
    data = b"".join(crfsuite.encode(crfsuite.Parts(["", "y"], names, ends, *weights)))
    model = crfsuite.parse(data)
    assert model.labels == ["", "y"]
    assert model.attributes.decoded("attribute") == ["", "b"]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_dictionary_at_the_end_of_the_file(missing: int) -> None:
    data = bytearray(crfsuite_model())
    fields = struct.unpack_from("<11I", data, 4)
    begin = fields[8]  # of the attributes
    (size,) = struct.unpack_from("<I", data, begin + 4)
    moved = data[begin : begin + size]
    end = len(data)
    data += moved[: size - missing]
    struct.pack_into("<I", data, 4, len(data))
    struct.pack_into("<I", data, 4 + 4 * 8, end)
    if missing:
        with pytest.raises(FormatError, match=r"attributes: the .* extend beyond the end of the f"):
            crfsuite.parse(bytes(data))
    else:
        names = crfsuite.parse(bytes(crfsuite_model())).attributes.decoded("attribute")
        assert crfsuite.parse(bytes(data)).attributes.decoded("attribute") == names


def test_a_loaded_model_has_no_history(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(crfsuite_model())
    model = trellis.load(tmp_path / "m")
    assert (model.n_iter_, model.objective_, model.converged_) == (0, 0.0, False)
    assert (model.losses_, model.dev_scores_) == ([], [])


class Huge(bytes):
    """A block whose length makes the file as long as a limit."""

    size = 0

    def __len__(self) -> int:
        return self.size


def test_files_beyond_offsets_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(crfsuite.parse(crfsuite_model()))
    blocks = crfsuite.encode(parts)
    others = sum(map(len, blocks[:-1]))
    encode_references = crfsuite._encode_references

    def encode(name: bytes, *arguments: Any) -> bytes:
        return Huge() if name == b"AFRF" else encode_references(name, *arguments)

    monkeypatch.setattr(crfsuite, "_encode_references", encode)
    Huge.size = (1 << 32) - 1 - others
    assert len(crfsuite.encode(parts)) == len(blocks)
    Huge.size += 1
    with pytest.raises(InputError, match="cannot have 4294967296 bytes: its offsets have 32 bits"):
        crfsuite.encode(parts)
