"""CRFsuite's model file ``lCRF``: 48 bytes of header · features · labels · attributes · references.

Every number is checked against the size of the file before it is used, and every part against the
others: what `read` accepts is a model. The hash tables, which only serve to look names up in the
file, are not looked at: trellis has its own.

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
import stat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import FormatError, InputError
from trellis.formats.atomic import replacing
from trellis.formats.strings import Names, pack_strings

__all__ = ["Names", "Parts", "encode", "parse", "read", "write"]

Array: TypeAlias = NDArray[Any]

MAGIC = b"lCRF"
_HEADER = 48
_CHUNK = 12
_FEATURE = np.dtype([("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_RECORDS = 24 + 8 * 256  # header and hash tables of a dictionary
_BYTE_ORDER = 0x62445371
_BLOCK = 1 << 16  # features that are looked at together
_MOST_LABELS = 1 << 14  # a square of labels must fit into int32, and into memory


class Model(NamedTuple):
    """What a file holds: labels, names of attributes, and weights by numbers of these."""

    labels: list[str]
    attributes: Names
    state_attribute: NDArray[np.int32]
    """Ascending, and for each attribute the labels ascend."""
    state_label: NDArray[np.uint16]
    state_weight: NDArray[np.float64]
    before: NDArray[np.int32]
    after: NDArray[np.int32]
    bigram_weight: NDArray[np.float64]
    header: dict[str, int]


class Parts(NamedTuple):
    """What is to be written: attribute i is ``names[ends[i] : ends[i + 1]]``, in UTF-8."""

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
    """The model in a file; FormatError, which names the file, if it holds none."""
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FormatError(f"{path}: not a regular file")
        if status.st_size <= _HEADER:
            raise FormatError(f"{path}: {status.st_size} bytes are too few for a CRFsuite model")
        data = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
    return parse(data, str(path), encoding)


def parse(data: Any, name: str = "model", encoding: str = "utf-8") -> Model:
    """The model in a buffer of bytes; errors begin with ``name``."""
    try:
        return _Reader(np.frombuffer(data, np.uint8)).model(encoding)
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from None


class _Reader:
    """All offsets are Python integers, which do not overflow."""

    def __init__(self, data: NDArray[np.uint8]) -> None:
        self.data = data
        if len(data) <= _HEADER:
            raise FormatError(f"{len(data)} bytes are too few for a CRFsuite model")
        if data[:4].tobytes() != MAGIC:
            raise FormatError(f"not a CRFsuite model: begins with {data[:4].tobytes()!r}")
        if data[8:12].tobytes() != b"FOMC":
            raise FormatError(f"a CRFsuite model of unknown type {data[8:12].tobytes()!r}")
        fields = self.integers(4, 11, "header")
        names = ("size", "", "version", "num_features", "num_labels", "num_attrs")
        offsets = ("off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs")
        self.header = dict(zip((*names, *offsets), fields.tolist(), strict=True))
        del self.header[""]
        if self.header["size"] != len(data):
            raise FormatError(
                f"its header says {self.header['size']} bytes, but there are {len(data)}"
            )
        if self.header["version"] != 100:
            raise FormatError(f"version {self.header['version']} is not known, only 100")

    def integers(self, at: int, count: int, what: str) -> NDArray[np.uint32]:
        """A stretch of uint32."""
        if at < 0 or count < 0 or at + 4 * count > len(self.data):
            raise FormatError(f"{what}: {count} numbers at byte {at} end behind the file")
        return np.frombuffer(self.data, "<u4", count, at)

    def scattered(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """The uint32 at each of these places, which must lie inside."""
        found = np.zeros(len(at), np.int64)
        for k in range(4):
            found |= self.data[at + k].astype(np.int64) << (8 * k)
        return found

    def model(self, encoding: str) -> Model:
        counts = self.header["num_labels"], self.header["num_attrs"]
        if counts[0] > _MOST_LABELS:
            raise FormatError(f"{counts[0]} labels are too many")
        features = self.features(*counts)
        labels = self.names("off_labels", counts[0], "label").decoded("label", encoding)
        if len(set(labels)) != len(labels):
            raise FormatError("two labels have the same name")
        attributes = self.names("off_attrs", counts[1], "attribute")
        if encoding != "utf-8":
            data, ends = pack_strings(attributes.decoded("attribute", encoding))
            attributes = Names(data, ends[:-1], np.diff(ends))
        self.check_order(features)
        first = int(np.count_nonzero(features["type"] == 0))
        states, bigrams = features[:first], features[first:]
        self.check_references(states["source"], 0, counts[1], "off_attrrefs", b"AFRF")
        self.check_references(bigrams["source"], first, counts[0], "off_labelrefs", b"LFRF")
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

    def features(self, labels: int, attributes: int) -> Array:
        at = self.header["off_features"]
        count = self.chunk(at, b"FEAT")
        if at + _CHUNK + _FEATURE.itemsize * count > len(self.data):
            raise FormatError(f"{count} features at byte {at} end behind the file")
        found = np.frombuffer(self.data, _FEATURE, count, at + _CHUNK)
        for begin in range(0, count, _BLOCK):
            part = found[begin : begin + _BLOCK]
            sources = np.where(part["type"] == 0, attributes, labels)
            for wrong, what in (
                (part["type"] > 1, "is of an unknown type"),
                (part["source"] >= sources, "is of no attribute or label that there is"),
                (part["target"] >= labels, "is for no label that there is"),
                (~np.isfinite(part["weight"]), "has a weight that is not finite"),
            ):
                if wrong.any():
                    raise FormatError(f"feature {begin + int(np.argmax(wrong))} {what}")
        return found

    def chunk(self, at: int, name: bytes) -> int:
        """How many entries the chunk says it has."""
        size, count = self.integers(at + 4, 2, name.decode()).tolist()
        found = self.data[at : at + 4].tobytes()
        if found != name:
            raise FormatError(f"expected {name.decode()} at byte {at}, found {found!r}")
        if size < _CHUNK or at + size > len(self.data):
            raise FormatError(f"{name.decode()}: its {size} bytes end behind the file")
        return int(count)

    @staticmethod
    def check_order(features: Array) -> None:
        """By type, then by source, then by target: as CRFsuite writes them, each once."""
        rises = np.zeros(max(len(features) - 1, 0), np.bool_)
        for field in ("target", "source", "type"):
            before, after = features[field][:-1], features[field][1:]
            rises = (after > before) | ((after == before) & rises)
        if not rises.all():
            raise FormatError(
                f"feature {int(np.argmin(rises)) + 1} is out of order, or there twice"
            )

    def names(self, field: str, count: int, what: str) -> Names:
        """The strings of a dictionary."""
        at = self.header[field]
        size, flag, order, found, backward = self.integers(at + 4, 5, f"{what}s").tolist()
        if self.data[at : at + 4].tobytes() != b"CQDB" or order != _BYTE_ORDER or flag != 0:
            raise FormatError(f"{what}s: there is no dictionary at byte {at}")
        if size < _RECORDS or at + size > len(self.data):
            raise FormatError(f"{what}s: the {size} bytes of the dictionary end behind the file")
        if found != count:
            raise FormatError(f"{what}s: the dictionary has {found}, the header says {count}")
        if count and not _RECORDS <= backward <= size - 4 * count:
            raise FormatError(f"{what}s: their places lie outside the dictionary")
        places = self.integers(at + backward, count, f"{what}s").astype(np.int64)
        self.raise_for((places < _RECORDS) | (places + 8 > size), f"{what} # is nowhere")
        own, lengths = self.scattered(at + places), self.scattered(at + places + 4)
        ends = places + 8 + lengths
        self.raise_for(own != np.arange(count), f"{what} # has the number of another one")
        self.raise_for((lengths < 1) | (ends > size), f"{what} # ends behind the dictionary")
        order_ = np.argsort(places, kind="stable")
        self.raise_for(ends[order_][:-1] > places[order_][1:], f"two {what}s overlap")
        self.raise_for(self.data[at + ends - 1] != 0, f"{what} # has no end")
        return Names(self.data, at + places + 8, lengths - 1)

    @staticmethod
    def raise_for(wrong: NDArray[np.bool_], what: str) -> None:
        if wrong.any():
            raise FormatError(what.replace("#", str(int(np.argmax(wrong)))))

    def check_references(
        self, source: Array, number: int, count: int, field: str, name: bytes
    ) -> None:
        """For each source, the table must list its features, which count from ``number`` on."""
        at, what = self.header[field], name.decode()
        listed = self.chunk(at, name)
        if listed < count:
            raise FormatError(f"{what}: {listed} entries for {count}")
        places = self.integers(at + _CHUNK, count, what).astype(np.int64)
        self.raise_for(places + 4 > len(self.data), f"{what}: entry # lies behind the file")
        sizes = self.scattered(places)
        due = np.bincount(source, minlength=count)
        self.raise_for(sizes != due, f"{what}: entry # does not fit the features")
        self.raise_for(
            places + 4 + 4 * sizes > len(self.data), f"{what}: entry # ends behind the file"
        )
        ends = np.cumsum(sizes)
        first = 0
        while first < count:  # so many entries at a time that their references fill a block
            begin = int(ends[first] - sizes[first])
            last = max(first + 1, int(np.searchsorted(ends, begin + _BLOCK, side="right")))
            some, own = sizes[first:last], ends[first:last]
            shift = np.repeat(places[first:last] + 4 - 4 * (own - some), some)
            index = np.arange(begin, begin + len(shift))
            wrong = self.scattered(shift + 4 * index) != number + index
            self.raise_for(wrong, f"{what}: a reference is not to a feature of its entry")
            first = last


# ---- writing


def write(path: str | os.PathLike[str], parts: Parts) -> None:
    """A file that CRFsuite reads; what is written appears whole or not at all."""
    made = encode(parts)
    with replacing(Path(path)) as file:
        for block in made:
            file.write(block)


def encode(parts: Parts) -> list[bytes]:
    """The bytes of the file, in order. Weights that are 0 are left out, as CRFsuite does."""
    parts = _pruned(parts)
    labels = pack_strings(parts.labels)
    for what, data in (("label", labels[0]), ("attribute", parts.names)):
        if np.any(data == 0):
            raise InputError(f"the name of a {what} has a NUL in it, which CRFsuite cannot hold")
    states, bigrams = len(parts.state_weight), len(parts.bigram_weight)
    features = np.empty(states + bigrams, _FEATURE)
    features["type"] = np.repeat([0, 1], [states, bigrams])
    features["source"] = np.concatenate([parts.state_attribute, parts.before])
    features["target"] = np.concatenate([parts.state_label, parts.after])
    features["weight"] = np.concatenate([parts.state_weight, parts.bigram_weight])
    blocks = [bytes(_HEADER), _chunk(b"FEAT", features.tobytes(), len(features))]
    offsets = [_HEADER]
    for data, ends in (labels, (parts.names, parts.ends)):
        offsets.append(sum(map(len, blocks)))
        blocks.append(_core.make_cqdb(np.ascontiguousarray(data), ends).tobytes())
    counts = len(parts.labels), len(parts.ends) - 1
    for name, source, first, count, more in (
        (b"LFRF", parts.before, states, counts[0], 2),  # begin and end have entries, both empty
        (b"AFRF", parts.state_attribute, 0, counts[1], 0),
    ):
        blocks.append(bytes(-sum(map(len, blocks)) % 4))
        offsets.append(sum(map(len, blocks)))
        blocks.append(_references(name, source, first, count, more, offsets[-1]))
    size = sum(map(len, blocks))
    if size >= 1 << 32:
        raise InputError(f"a CRFsuite model cannot have {size} bytes: its offsets are of 32 bits")
    numbers = np.array([100, 0, *counts, *offsets], "<u4").tobytes()
    blocks[0] = MAGIC + np.array([size], "<u4").tobytes() + b"FOMC" + numbers
    return blocks


def _pruned(parts: Parts) -> Parts:
    """Without weights that are 0, and without attributes that then have none."""
    states, bigrams = np.asarray(parts.state_weight) != 0, np.asarray(parts.bigram_weight) != 0
    attribute = np.asarray(parts.state_attribute)[states]
    alive, numbers = np.unique(attribute, return_inverse=True)
    sizes = np.diff(parts.ends)
    kept = np.zeros(len(sizes), np.bool_)
    kept[alive] = True
    return Parts(
        parts.labels,
        parts.names[np.repeat(kept, sizes)],
        np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64),
        numbers,
        np.asarray(parts.state_label)[states],
        np.asarray(parts.state_weight)[states],
        np.asarray(parts.before)[bigrams],
        np.asarray(parts.after)[bigrams],
        np.asarray(parts.bigram_weight)[bigrams],
    )


def _chunk(name: bytes, body: bytes, count: int) -> bytes:
    return name + np.array([_CHUNK + len(body), count], "<u4").tobytes() + body


def _references(name: bytes, source: Array, first: int, count: int, more: int, at: int) -> bytes:
    """Offsets of the entries, then each entry: how many, and their numbers from ``first`` on."""
    sizes = np.bincount(source, minlength=count)
    table = np.empty(len(source) + count, "<u4")
    begins = np.concatenate([[0], np.cumsum(sizes + 1)])[:-1] if count else np.zeros(0, np.int64)
    table[begins] = sizes
    inner = np.ones(len(table), np.bool_)
    inner[begins] = False
    table[inner] = np.arange(first, first + len(source))
    offsets = np.zeros(count + more, "<u4")
    offsets[:count] = at + _CHUNK + 4 * (count + more) + 4 * begins
    return _chunk(name, offsets.tobytes() + table.tobytes(), count + more)
