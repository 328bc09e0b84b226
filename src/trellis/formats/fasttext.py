"""fastText's model files, ``.bin`` and ``.ftz``: arguments · dictionary · input and output matrix.

    magic, version · args · size, words, labels, tokens, pruned · (word, 0, count, kind)* · pruned*
    quantised? · input · quantised? · output

All numbers are little-endian. A word is any bytes but zero, so words and labels are bytes here.
Matrices are views of the mapped file, or codes where the file is quantised.
"""

import os
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError, InputError
from trellis.formats.atomic import replacing
from trellis.formats.mapped import Cursor, check_finite, map_file
from trellis.formats.quantization import CENTROIDS, ProductQuantizer, QuantizedMatrix

__all__ = ["MAGIC", "Args", "FastTextFile", "Matrix", "read", "write"]

MAGIC = struct.pack("<i", 793712314)
_VERSION = 12
_LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
_MODELS = {1: "cbow", 2: "sg", 3: "supervised"}
_ARGS = "<12id"
_ENTRY = struct.Struct("<qb")
_MOST = {"dim": 1 << 24, "word_ngrams": 1 << 10, "minn": 1 << 6, "maxn": 1 << 6}
_ROWS = 1 << 12  # written at a time
_LONGEST_WORD = 1 << 16  # bytes: a word's n-grams must not fill the memory

Matrix: TypeAlias = NDArray[np.float32] | QuantizedMatrix


class Args(NamedTuple):
    """How a model was trained, under fastText's names in ours; the defaults are fastText's."""

    dim: int = 100
    ws: int = 5
    epoch: int = 5
    min_count: int = 5
    neg: int = 5
    word_ngrams: int = 1
    loss: str = "ns"
    """"hs", "ns", "softmax" or "ova"."""
    model: str = "sg"
    """"cbow", "sg" or "supervised"."""
    bucket: int = 2_000_000
    minn: int = 3
    maxn: int = 6
    lr_update_rate: int = 100
    t: float = 1e-4


@dataclass(frozen=True)
class FastTextFile:
    """What a file holds. Input rows: words, then buckets (or what pruning left of them)."""

    args: Args
    words: list[bytes]
    counts: NDArray[np.int64]
    labels: list[bytes]
    label_counts: NDArray[np.int64]
    n_tokens: int
    input: Matrix
    output: Matrix
    """A row for each label of a supervised model, otherwise for each word."""
    prune: NDArray[np.int32] | None = None
    """Rows of (bucket, its row after the words'); other buckets are gone. None: all are there."""


def read(path: str | os.PathLike[str]) -> FastTextFile:
    """The file, all of its sizes and numbers checked; FormatError says what is wrong."""
    try:
        return _parse(Cursor(map_file(path)))
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def write(path: str | os.PathLike[str], file: FastTextFile) -> None:
    """The bytes that fastText would write; the file appears whole or not at all.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tiny.bin"
    >>> rows = np.eye(2, dtype=np.float32)
    >>> counts = np.array([7, 5])
    >>> args = Args(dim=2, bucket=0, minn=0, maxn=0)
    >>> write(path, FastTextFile(args, [b"a", b"b"], counts, [], counts[:0], 12, rows, rows))
    >>> read(path).words
    [b'a', b'b']
    """
    try:
        _check(file)
    except FormatError as error:
        raise InputError(f"cannot be written as a fastText file: {error}") from None
    args = file.args
    if args.bucket == 0 and (args.maxn > 0 or args.word_ngrams > 1):
        raise InputError("bucket is 0, by which fastText would divide: set maxn=0, word_ngrams=1")
    numbers = [*args[:6], _code(_LOSSES, args.loss), _code(_MODELS, args.model), *args[8:]]
    with replacing(path) as out:
        out.write(MAGIC + struct.pack("<i", _VERSION) + struct.pack(_ARGS, *numbers))
        _write_dictionary(out, file)
        quantized = isinstance(file.input, QuantizedMatrix)
        out.write(bytes([quantized]))
        _write_matrix(out, file.input)
        out.write(bytes([isinstance(file.output, QuantizedMatrix)]))
        _write_matrix(out, file.output)


def _parse(cursor: Cursor) -> FastTextFile:
    magic, version = cursor.numbers("<4si", "the header")
    if magic != MAGIC:
        raise FormatError("not a fastText model: its first bytes are others")
    if version not in (11, _VERSION):
        raise FormatError(f"fastText's version {version}: only 11 and {_VERSION} are known")
    args = _args(cursor)
    if version == 11 and args.model == "supervised":
        args = args._replace(maxn=0)
    size, n_words, n_labels, n_tokens, pruned = cursor.numbers("<3i2q", "the dictionary")
    if min(n_words, n_labels) < 0 or size != n_words + n_labels:
        raise FormatError(f"{size} entries cannot be {n_words} words and {n_labels} labels")
    words, counts = _entries(cursor, n_words, 0, "word")
    labels, label_counts = _entries(cursor, n_labels, 1, "label")
    prune = cursor.array(np.int32, (pruned, 2), "the prune table") if pruned >= 0 else None
    quantized = _flag(cursor, "whether the input is quantised")
    input = _matrix(cursor, quantized, "the input matrix")
    # fastText looks at this flag in quantised models only
    quantized &= _flag(cursor, "whether the output is quantised")
    output = _matrix(cursor, quantized, "the output matrix")
    cursor.finish()
    file = FastTextFile(args, words, counts, labels, label_counts, n_tokens, input, output, prune)
    _check(file)
    return file


def _args(cursor: Cursor) -> Args:
    numbers = list(cursor.numbers(_ARGS, "the arguments"))
    for place, names, what in ((6, _LOSSES, "loss"), (7, _MODELS, "model")):
        if numbers[place] not in names:
            raise FormatError(f"{what} {numbers[place]} is unknown")
        numbers[place] = names[numbers[place]]
    return Args(*numbers)


def _flag(cursor: Cursor, what: str) -> bool:
    (value,) = cursor.numbers("<B", what)
    if value > 1:
        raise FormatError(f"{what} must be 0 or 1, not {value}")
    return bool(value)


def _entries(
    cursor: Cursor, count: int, kind: int, what: str
) -> tuple[list[bytes], NDArray[np.int64]]:
    if count * (_ENTRY.size + 1) > cursor.left:
        raise FormatError(f"{count} {what}s cannot be in the {cursor.left} bytes left")
    strings: list[bytes] = []
    counts = np.empty(count, np.int64)
    for i in range(count):
        strings.append(cursor.string(f"{what} {i}"))
        counts[i], found = cursor.numbers("<qb", f"{what} {i}")
        if found != kind:
            raise FormatError(f"entry {_shown(strings[-1])} is of kind {found}: {what}s are {kind}")
    return strings, counts


def _matrix(cursor: Cursor, quantized: bool, what: str) -> Matrix:
    if quantized:
        return _quantized(cursor, what)
    rows, columns = cursor.numbers("<2q", what)
    return cursor.array(np.float32, (rows, columns), what)


def _quantized(cursor: Cursor, what: str) -> QuantizedMatrix:
    has_norms = _flag(cursor, f"whether {what} has norms")
    rows, columns, size = cursor.numbers("<2qi", what)
    codes = cursor.array(np.uint8, (size,), f"the codes of {what}")
    quantizer = _quantizer(cursor, what)
    if quantizer.dim != columns or rows * quantizer.groups != size:
        raise FormatError(
            f"{what}: {size} codes in groups of {quantizer.dsub} of {quantizer.dim} columns "
            f"cannot be {rows} rows of {columns}"
        )
    codes = codes.reshape(rows, quantizer.groups)
    if not has_norms:
        return QuantizedMatrix(codes, quantizer)
    norm_codes = cursor.array(np.uint8, (rows,), f"the norms of {what}")
    norms = _quantizer(cursor, f"the norms of {what}")
    if norms.dim != 1:
        raise FormatError(f"{what}: norms of {norms.dim} columns")
    return QuantizedMatrix(codes, quantizer, norm_codes, norms)


def _quantizer(cursor: Cursor, what: str) -> ProductQuantizer:
    dim, groups, width, last = cursor.numbers("<4i", f"the quantiser of {what}")
    fits = min(dim, groups, width, last) > 0 and last <= width
    if not fits or (groups - 1) * width + last != dim:
        raise FormatError(
            f"{what}: {groups} groups of {width} columns, the last of {last}, cannot be {dim}"
        )
    return ProductQuantizer(
        dim, width, cursor.array(np.float32, (dim * CENTROIDS,), f"the centroids of {what}")
    )


def _check(file: FastTextFile) -> None:
    """Sizes first, then indices, then numbers."""
    _check_args(file.args)
    _check_entries(file.words, file.counts, "word")
    _check_entries(file.labels, file.label_counts, "label")
    if file.n_tokens < 0:
        raise FormatError(f"{file.n_tokens} tokens")
    _check_prune(file)
    _check_matrix(file.input, *_input_rows(file), file.args.dim, "the input matrix")
    rows = len(file.labels if file.args.model == "supervised" else file.words)
    _check_matrix(file.output, rows, rows, file.args.dim, "the output matrix")


def _check_args(args: Args) -> None:
    for name, value in args._asdict().items():
        if isinstance(value, str):
            continue
        most = _MOST.get(name, 2**31 - 1)
        if not (name == "dim") <= value <= most:  # NaN fails too
            raise FormatError(f"{name} is {value}: must be in {int(name == 'dim')}..{most}")


def _check_entries(strings: list[bytes], counts: NDArray[np.int64], what: str) -> None:
    if len(strings) != len(counts):
        raise FormatError(f"{len(strings)} {what}s have {len(counts)} counts")
    if len(counts) and counts.min() < 0:
        i = int(counts.argmin())
        raise FormatError(f"{what} {i} has the count {counts[i]}")
    if len(set(strings)) < len(strings):
        first: set[bytes] = set()
        again = next(s for s in strings if s in first or first.add(s))  # type: ignore[func-returns-value]
        raise FormatError(f"{what} {_shown(again)} occurs twice")
    for i, string in enumerate(strings):
        if len(string) > _LONGEST_WORD or b"\0" in string:
            raise FormatError(f"{what} {i} has a zero or is longer than {_LONGEST_WORD} bytes")


def _check_prune(file: FastTextFile) -> None:
    prune = file.prune
    if prune is None:
        return
    if not isinstance(file.input, QuantizedMatrix):
        raise FormatError("pruned, but its input matrix is not quantised")
    for column, end, what in ((0, file.args.bucket, "bucket"), (1, len(prune), "row")):
        values = prune[:, column]
        wrong = (values < 0) | (values >= end)
        if wrong.any():
            value = values[int(wrong.argmax())]
            raise FormatError(f"the prune table has {what} {value}, of {end}")
        if len(np.unique(values)) < len(values):
            raise FormatError(f"the prune table has a {what} twice")


def _input_rows(file: FastTextFile) -> tuple[int, int]:
    """The fewest and the most that there may be."""
    args, words = file.args, len(file.words)
    if file.prune is not None:
        return words + len(file.prune), words + len(file.prune)
    used = args.maxn > 0 or args.word_ngrams > 1  # otherwise some versions kept empty buckets
    return words + (args.bucket if used else 0), words + args.bucket


def _check_matrix(matrix: Matrix, fewest: int, most: int, dim: int, what: str) -> None:
    rows, columns = matrix.shape
    if columns != dim or not fewest <= rows <= most:
        raise FormatError(f"{what} is {rows} × {columns}: must be {most} × {dim}")
    if not isinstance(matrix, QuantizedMatrix):
        return check_finite(matrix, what)
    check_finite(matrix.quantizer.centroids, f"the centroids of {what}")
    if matrix.norm_quantizer is not None:
        check_finite(matrix.norm_quantizer.centroids, f"the norms of {what}")
    return None


def _shown(string: bytes) -> str:
    return repr(string[:80])


def _code(names: dict[int, str], name: str) -> int:
    code = next((code for code, known in names.items() if known == name), None)
    if code is None:
        raise InputError(f"{name!r} is none of {', '.join(names.values())}")
    return code


def _write_dictionary(out: BinaryIO, file: FastTextFile) -> None:
    words, labels = len(file.words), len(file.labels)
    pruned = -1 if file.prune is None else len(file.prune)
    out.write(struct.pack("<3i2q", words + labels, words, labels, file.n_tokens, pruned))
    for strings, counts, kind in (
        (file.words, file.counts, 0),
        (file.labels, file.label_counts, 1),
    ):
        pairs = zip(strings, counts.tolist(), strict=True)
        out.writelines(string + b"\0" + _ENTRY.pack(count, kind) for string, count in pairs)
    if file.prune is not None:
        _write_array(out, file.prune, "<i4")


def _write_matrix(out: BinaryIO, matrix: Matrix) -> None:
    rows, columns = matrix.shape
    if not isinstance(matrix, QuantizedMatrix):
        out.write(struct.pack("<2q", rows, columns))
        return _write_array(out, matrix, "<f4")
    has_norms = matrix.norm_codes is not None
    out.write(struct.pack("<B2qi", has_norms, rows, columns, matrix.codes.size))
    _write_array(out, matrix.codes, "u1")
    _write_quantizer(out, matrix.quantizer)
    if matrix.norm_codes is not None and matrix.norm_quantizer is not None:
        _write_array(out, matrix.norm_codes, "u1")
        _write_quantizer(out, matrix.norm_quantizer)
    return None


def _write_quantizer(out: BinaryIO, quantizer: ProductQuantizer) -> None:
    last = quantizer.dim - (quantizer.groups - 1) * quantizer.dsub
    out.write(struct.pack("<4i", quantizer.dim, quantizer.groups, quantizer.dsub, last))
    _write_array(out, quantizer.centroids, "<f4")


def _write_array(out: BinaryIO, array: NDArray[Any], dtype: str) -> None:
    for begin in range(0, len(array), _ROWS):
        out.write(np.ascontiguousarray(array[begin : begin + _ROWS], dtype).data)
