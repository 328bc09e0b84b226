"""The model file of CRFsuite, ``lCRF``: header · features · labels · attributes · references.

Every number is validated against the size of the file before it is used, and every part against the
others. The hash tables of the file are ignored: they only speed up looking up names in the file.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "model.crfsuite"
>>> data, ends = pack_strings(["w=Rome"])
>>> parts = Parts(["O", "LOC"], data, ends, *map(np.array, ([0], [1], [2.5], [0], [1], [-0.5])))
>>> write(path, parts)
>>> read(path).labels, read(path).state_weight
(['O', 'LOC'], array([2.5]))
"""

import mmap
import os
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.data.atomic import replacing
from trellis.data.files import check_regular
from trellis.errors import FormatError, InputError
from trellis.formats.strings import Names, pack_strings

__all__ = ["MAGIC", "Model", "Names", "Parts", "encode", "parse", "read", "write"]

Array: TypeAlias = NDArray[Any]

MAGIC = b"lCRF"
_HEADER = 48  # bytes of the header
_CHUNK = 12  # bytes of the header of a chunk: name, size, count
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_RECORDS = 24 + 8 * 256  # bytes of the header and the hash tables of a dictionary
_BYTE_ORDER = (
    0x62445371  # stored as an integer: a reader with another byte order sees another number
)
_BLOCK = 1 << 16  # features validated at a time, so that temporary arrays stay small
_MAX_LABELS = 1 << 14  # label pairs must fit into int32, and their table into memory


class Model(NamedTuple):
    """The contents of a model file: labels, names of attributes, and weights."""

    labels: list[str]
    attributes: Names
    state_attribute: NDArray[np.int32]
    """``(states,)``, ascending; the labels of one attribute ascend too."""
    state_label: NDArray[np.uint16]
    """``(states,)``"""
    state_weight: NDArray[np.float64]
    """``(states,)``"""
    before: NDArray[np.int32]
    """``(bigrams,)``: the previous label."""
    after: NDArray[np.int32]
    """``(bigrams,)``: the next label."""
    bigram_weight: NDArray[np.float64]
    """``(bigrams,)``"""
    header: dict[str, int]


class Parts(NamedTuple):
    """A model to write: attribute i is ``names[ends[i] : ends[i + 1]]``, in UTF-8."""

    labels: list[str]
    names: NDArray[np.uint8]
    ends: NDArray[np.int64]
    state_attribute: Array
    state_label: Array
    state_weight: Array
    before: Array
    after: Array
    bigram_weight: Array


def read(path: str | os.PathLike[str], encoding: str = "utf-8") -> Model:
    """Read a model file; raise FormatError, which names the file, if it is invalid."""
    check_regular(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_size <= _HEADER:
            raise FormatError(f"{path}: {status.st_size} bytes are too few for a CRFsuite model")
        data = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
    return parse(data, str(path), encoding)


def parse(data: Any, name: str = "model", encoding: str = "utf-8") -> Model:
    """Parse a model from bytes; errors start with ``name``."""
    try:
        return _Reader(np.frombuffer(data, np.uint8)).model(encoding)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from None


class _Reader:
    """Reads a model from bytes. All offsets are Python integers, which do not overflow."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        if len(data) <= _HEADER:
            raise FormatError(f"{len(data)} bytes are too few for a CRFsuite model")
        if data[:4].tobytes() != MAGIC:
            raise FormatError(f"not a CRFsuite model: starts with {data[:4].tobytes()!r}")
        if data[8:12].tobytes() != b"FOMC":
            raise FormatError(f"a CRFsuite model of unknown type {data[8:12].tobytes()!r}")
        fields = self.integers(4, 11, "header")
        names = ("size", "", "version", "num_features", "num_labels", "num_attrs")
        offsets = ("off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs")
        self.header = dict(zip((*names, *offsets), fields.tolist(), strict=True))
        del self.header[""]
        if self.header["size"] != len(data):
            raise FormatError(
                f"the header has size {self.header['size']}, but the file has {len(data)} bytes"
            )
        if self.header["version"] != 100:
            raise FormatError(f"version {self.header['version']} is unknown: only 100 can be read")

    def integers(self, begin: int, count: int, what: str) -> NDArray[np.uint32]:
        """Return ``count`` consecutive uint32."""
        if begin < 0 or count < 0 or begin + 4 * count > len(self.data):
            raise FormatError(
                f"{what}: {count} numbers at byte {begin} extend beyond the end of the file"
            )
        return np.frombuffer(self.data, "<u4", count, begin)

    def integers_at(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the uint32 at each offset. The offsets are not validated."""
        values = np.zeros(len(offsets), np.int64)
        for k in range(4):  # byte by byte, because the offsets need not be aligned
            values |= self.data[offsets + k].astype(np.int64) << (8 * k)
        return values

    def model(self, encoding: str) -> Model:
        """Read and validate the model."""
        sizes = self.header["num_labels"], self.header["num_attrs"]
        if sizes[0] > _MAX_LABELS:
            raise FormatError(f"the model has {sizes[0]} labels: at most {_MAX_LABELS} can be read")
        features = self.features(*sizes)
        labels = self.names("off_labels", sizes[0], "label").decoded("label", encoding)
        if len(set(labels)) != len(labels):
            raise FormatError("two labels have the same name")
        attributes = self.names("off_attrs", sizes[1], "attribute")
        if encoding != "utf-8":
            data, ends = pack_strings(attributes.decoded("attribute", encoding))
            attributes = Names(data, ends[:-1], np.diff(ends))
        self.check_order(features)
        n_states = int(np.count_nonzero(features["type"] == 0))
        states, bigrams = features[:n_states], features[n_states:]
        self.check_references(states["source"], 0, sizes[1], "off_attrrefs", b"AFRF")
        self.check_references(bigrams["source"], n_states, sizes[0], "off_labelrefs", b"LFRF")
        return Model(
            labels,
            attributes,
            states["source"].astype(np.int32),
            states["target"].astype(np.uint16),
            states["weight"].astype(np.float64),
            bigrams["source"].astype(np.int32),
            bigrams["target"].astype(np.int32),
            bigrams["weight"].astype(np.float64),
            self.header,
        )

    def features(self, n_labels: int, n_attributes: int) -> Array:
        """Read and validate the weights, a structured array of `_FEATURE`."""
        offset = self.header["off_features"]
        count = self.chunk(offset, b"FEAT")
        if offset + _CHUNK + _FEATURE.itemsize * count > len(self.data):
            raise FormatError(
                f"{count} features at byte {offset} extend beyond the end of the file"
            )
        features = np.frombuffer(self.data, _FEATURE, count, offset + _CHUNK)
        for begin in range(0, count, _BLOCK):
            block = features[begin : begin + _BLOCK]
            n_sources = np.where(block["type"] == 0, n_attributes, n_labels)
            for is_wrong, problem in (
                (block["type"] > 1, "is of an unknown type"),
                (block["source"] >= n_sources, "has an attribute or label that does not exist"),
                (block["target"] >= n_labels, "has a target label that does not exist"),
                (~np.isfinite(block["weight"]), "has a weight that is not finite"),
            ):
                if is_wrong.any():
                    raise FormatError(f"feature {begin + int(np.argmax(is_wrong))} {problem}")
        return features

    def chunk(self, offset: int, name: bytes) -> int:
        """Validate the header of a chunk and return its number of entries."""
        size, count = self.integers(offset + 4, 2, name.decode()).tolist()
        stored_name = self.data[offset : offset + 4].tobytes()
        if stored_name != name:
            raise FormatError(f"expected {name.decode()} at byte {offset}, found {stored_name!r}")
        if size < _CHUNK or offset + size > len(self.data):
            raise FormatError(
                f"{name.decode()}: its {size} bytes extend beyond the end of the file"
            )
        return int(count)

    @staticmethod
    def check_order(features: Array) -> None:
        """Raise FormatError unless the features are sorted by type, source and target."""
        is_ascending = np.zeros(max(len(features) - 1, 0), np.bool_)
        for field in ("target", "source", "type"):
            before, after = features[field][:-1], features[field][1:]
            is_ascending = (after > before) | ((after == before) & is_ascending)
        if not is_ascending.all():
            raise FormatError(
                f"feature {int(np.argmin(is_ascending)) + 1} is out of order, or occurs twice"
            )

    def names(self, field: str, count: int, what: str) -> Names:
        """Return the strings of a dictionary.

        A record is: number of the string · length · string · zero byte. An array at ``backward``
        has the offset of each record.
        """
        begin = self.header[field]
        size, flag, order, entries, backward = self.integers(begin + 4, 5, f"{what}s").tolist()
        if self.data[begin : begin + 4].tobytes() != b"CQDB" or order != _BYTE_ORDER or flag != 0:
            raise FormatError(f"{what}s: there is no dictionary at byte {begin}")
        if size < _RECORDS or begin + size > len(self.data):
            raise FormatError(
                f"{what}s: the {size} bytes of the dictionary extend beyond the end of the file"
            )
        if entries != count:
            raise FormatError(
                f"{what}s: the dictionary has {entries} entries, but the header has {count}"
            )
        if count and not _RECORDS <= backward <= size - 4 * count:
            raise FormatError(f"{what}s: the list of offsets is outside the dictionary")
        offsets = self.integers(begin + backward, count, f"{what}s").astype(np.int64)
        self.raise_if_any(
            (offsets < _RECORDS) | (offsets + 8 > size), f"{what} # is outside the dictionary"
        )
        numbers, lengths = self.integers_at(begin + offsets), self.integers_at(begin + offsets + 4)
        ends = offsets + 8 + lengths
        self.raise_if_any(numbers != np.arange(count), f"{what} # has a wrong number")
        self.raise_if_any(
            (lengths < 1) | (ends > size), f"{what} # extends beyond the end of the dictionary"
        )
        ranks = np.argsort(offsets, kind="stable")
        self.raise_if_any(ends[ranks][:-1] > offsets[ranks][1:], f"two {what}s overlap")
        self.raise_if_any(
            self.data[begin + ends - 1] != 0, f"{what} # does not end with a zero byte"
        )
        return Names(self.data, begin + offsets + 8, lengths - 1)

    @staticmethod
    def raise_if_any(is_wrong: NDArray[np.bool_], what: str) -> None:
        """Raise FormatError if an item is wrong; its index replaces ``#`` in ``what``."""
        if is_wrong.any():
            raise FormatError(what.replace("#", str(int(np.argmax(is_wrong)))))

    def check_references(
        self, source: Array, number: int, count: int, field: str, name: bytes
    ) -> None:
        """Validate the table that lists the features of each source (attribute or label) by number.

        The features are sorted by source, so their numbers must count up from ``number``.
        """
        begin, what = self.header[field], name.decode()
        entries = self.chunk(begin, name)
        if entries < count:
            raise FormatError(f"{what}: the table has {entries} entries, but {count} are needed")
        offsets = self.integers(begin + _CHUNK, count, what).astype(np.int64)
        self.raise_if_any(
            offsets + 4 > len(self.data), f"{what}: entry # is beyond the end of the file"
        )
        sizes = self.integers_at(offsets)
        expected = np.bincount(source, minlength=count)
        self.raise_if_any(
            sizes != expected, f"{what}: the size of entry # contradicts the features"
        )
        self.raise_if_any(
            offsets + 4 + 4 * sizes > len(self.data),
            f"{what}: entry # extends beyond the end of the file",
        )
        ends = np.cumsum(sizes)
        first = 0
        while first < count:  # entries with about `_BLOCK` references at a time
            start = int(ends[first] - sizes[first])
            last = max(first + 1, int(np.searchsorted(ends, start + _BLOCK, side="right")))
            block = slice(first, last)
            # Reference i is at byte ``shift[i] + 4 i``.
            shift = np.repeat(offsets[block] + 4 - 4 * (ends[block] - sizes[block]), sizes[block])
            index = np.arange(start, start + len(shift))
            is_wrong = self.integers_at(shift + 4 * index) != number + index
            self.raise_if_any(is_wrong, f"{what}: an entry refers to a feature of another entry")
            first = last


# ---- writing


def write(path: str | os.PathLike[str], parts: Parts) -> None:
    """Write a file for CRFsuite. If this fails, an existing file is not changed."""
    blocks = encode(parts)
    with replacing(Path(path)) as file:
        for block in blocks:
            file.write(block)


def encode(parts: Parts) -> list[bytes]:
    """Return the bytes of the file. As in CRFsuite, weights of 0 are not stored."""
    parts = _drop_zeros(parts)
    labels = pack_strings(parts.labels)
    for kind, data in (("label", labels[0]), ("attribute", parts.names)):
        if np.any(data == 0):
            raise InputError(
                f"the name of a {kind} contains a zero byte, which CRFsuite cannot store"
            )
    n_states, n_bigrams = len(parts.state_weight), len(parts.bigram_weight)
    features = np.empty(n_states + n_bigrams, _FEATURE)
    features["type"] = np.repeat([0, 1], [n_states, n_bigrams])
    features["source"] = np.concatenate([parts.state_attribute, parts.before])
    features["target"] = np.concatenate([parts.state_label, parts.after])
    features["weight"] = np.concatenate([parts.state_weight, parts.bigram_weight])
    blocks = [bytes(_HEADER), _encode_chunk(b"FEAT", features.tobytes(), len(features))]
    offsets = [_HEADER]
    for data, ends in (labels, (parts.names, parts.ends)):
        offsets.append(sum(map(len, blocks)))
        blocks.append(_core.make_cqdb(np.ascontiguousarray(data), ends).tobytes())
    counts = len(parts.labels), len(parts.ends) - 1
    # CRFsuite expects two additional empty entries, for the start and the end of a sequence.
    tables = (
        (b"LFRF", _References(parts.before, n_states, counts[0], 2)),
        (b"AFRF", _References(parts.state_attribute, 0, counts[1], 0)),
    )
    for name, references in tables:
        blocks.append(bytes(-sum(map(len, blocks)) % 4))
        offsets.append(sum(map(len, blocks)))
        blocks.append(_encode_references(name, references, offsets[-1]))
    size = sum(map(len, blocks))
    if size >= 1 << 32:
        raise InputError(f"a CRFsuite model cannot have {size} bytes: its offsets have 32 bits")
    numbers = np.array([100, 0, *counts, *offsets], "<u4").tobytes()
    blocks[0] = MAGIC + np.array([size], "<u4").tobytes() + b"FOMC" + numbers
    return blocks


def _drop_zeros(parts: Parts) -> Parts:
    """Return the parts without weights of 0, and without attributes that have no other weight."""
    states, bigrams = np.asarray(parts.state_weight) != 0, np.asarray(parts.bigram_weight) != 0
    attribute = np.asarray(parts.state_attribute)[states]
    used_attributes, numbers = np.unique(attribute, return_inverse=True)
    name_sizes = np.diff(parts.ends)
    is_used = np.zeros(len(name_sizes), np.bool_)
    is_used[used_attributes] = True
    return Parts(
        parts.labels,
        parts.names[np.repeat(is_used, name_sizes)],
        np.concatenate([[0], np.cumsum(name_sizes[is_used])]).astype(np.int64),
        numbers,
        np.asarray(parts.state_label)[states],
        np.asarray(parts.state_weight)[states],
        np.asarray(parts.before)[bigrams],
        np.asarray(parts.after)[bigrams],
        np.asarray(parts.bigram_weight)[bigrams],
    )


def _encode_chunk(name: bytes, body: bytes, count: int) -> bytes:
    return name + np.array([_CHUNK + len(body), count], "<u4").tobytes() + body


class _References(NamedTuple):
    """A table of the features of each source (attribute or label), for `_encode_references`."""

    source: Array
    """``(features,)``, ascending."""
    first: int
    """Number of the first feature."""
    n_sources: int
    """Number of sources."""
    empty: int
    """Number of empty entries at the end."""


def _encode_references(name: bytes, references: _References, begin: int) -> bytes:
    """Return the chunk at offset ``begin``: the offsets of the entries, then the entries.

    An entry is the number of features of a source, followed by their indices.
    """
    source, first, count, empty = references
    sizes = np.bincount(source, minlength=count)
    table = np.empty(len(source) + count, "<u4")
    begins = np.concatenate([[0], np.cumsum(sizes + 1)])[:-1] if count else np.zeros(0, np.int64)
    table[begins] = sizes
    is_number = np.ones(len(table), np.bool_)
    is_number[begins] = False
    table[is_number] = np.arange(first, first + len(source))
    offsets = np.zeros(count + empty, "<u4")
    offsets[:count] = begin + _CHUNK + 4 * (count + empty) + 4 * begins
    return _encode_chunk(name, offsets.tobytes() + table.tobytes(), count + empty)
