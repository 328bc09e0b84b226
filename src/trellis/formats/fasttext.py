"""Read and write the model files of fastText, ``.bin`` and ``.ftz``.

    magic, version · args · size, words, labels, tokens, pruned · (word, 0, count, kind)* · pruned*
    quantised? · input matrix · quantised? · output matrix

All numbers are little-endian. Words and labels can be any bytes except zero, so they are ``bytes``
here. Matrices are views of the mapped file, or codes if the file is quantised.
"""

import os
import struct
from collections import Counter
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis.data.atomic import replacing
from trellis.errors import FormatError, InputError
from trellis.formats.mapped import Cursor, check_finite, map_file
from trellis.formats.quantization import CENTROIDS, ProductQuantizer, QuantizedMatrix

__all__ = ["MAGIC", "Args", "FastTextFile", "Matrix", "read", "write"]

MAGIC = struct.pack("<i", 793712314)
_VERSION = 12
_LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
_MODELS = {1: "cbow", 2: "sg", 3: "supervised"}
_ARGS = "<12id"
_ENTRY = struct.Struct("<qb")
# Limits of arguments: with larger values, n-grams or vectors could fill the memory.
_MAX_ARGS = {"dim": 1 << 24, "word_ngrams": 1 << 10, "minn": 1 << 6, "maxn": 1 << 6}
_BLOCK_ROWS = 1 << 12  # rows converted at a time when writing
_MAX_WORD = 1 << 16  # bytes; the n-grams of a longer word could fill the memory

Matrix: TypeAlias = NDArray[np.float32] | QuantizedMatrix


class Args(NamedTuple):
    """The training arguments, named as in fastText, with its defaults."""

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
    """The contents of a file. The rows of ``input`` are words, then buckets of n-grams."""

    args: Args
    words: list[bytes]
    counts: NDArray[np.int64]
    """``(words,)``"""
    labels: list[bytes]
    label_counts: NDArray[np.int64]
    """``(labels,)``"""
    n_tokens: int
    input: Matrix
    """``(words + buckets, dim)``; in a pruned file, ``(words + remaining buckets, dim)``."""
    output: Matrix
    """``(labels, dim)`` in a supervised model, otherwise ``(words, dim)``."""
    prune: NDArray[np.int32] | None = None
    """``(remaining buckets, 2)``: a bucket, and its row after the words. None if not pruned."""


def read(path: str | os.PathLike[str]) -> FastTextFile:
    """Read and validate a file; raise FormatError, which names the file, if it is invalid."""
    try:
        return _parse(Cursor(map_file(path)))
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def write(path: str | os.PathLike[str], file: FastTextFile) -> None:
    """Write the same bytes as fastText. If this fails, an existing file is not changed.

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
        _check_file(file)
    except FormatError as error:
        raise InputError(f"cannot be written as a fastText file: {error}") from None
    args = file.args
    if args.bucket == 0 and (args.maxn > 0 or args.word_ngrams > 1):
        raise InputError("bucket is 0, but n-grams need buckets: set maxn=0 and word_ngrams=1")
    numbers = [
        *args[:6],
        _find_code(_LOSSES, args.loss),
        _find_code(_MODELS, args.model),
        *args[8:],
    ]
    with replacing(path) as output_file:
        output_file.write(MAGIC + struct.pack("<i", _VERSION) + struct.pack(_ARGS, *numbers))
        _write_dictionary(output_file, file)
        quantized = isinstance(file.input, QuantizedMatrix)
        output_file.write(bytes([quantized]))
        _write_matrix(output_file, file.input)
        output_file.write(bytes([isinstance(file.output, QuantizedMatrix)]))
        _write_matrix(output_file, file.output)


def _parse(cursor: Cursor) -> FastTextFile:
    """Parse the parts in the order of the file."""
    magic, version = cursor.numbers("<4si", "the header")
    if magic != MAGIC:
        raise FormatError("not a fastText model: wrong first bytes")
    if version not in (11, _VERSION):
        raise FormatError(f"fastText version {version} is unknown: only 11 and {_VERSION} are read")
    args = _read_args(cursor)
    # In version 11, supervised models store a maxn that they do not use.
    if version == 11 and args.model == "supervised":
        args = args._replace(maxn=0)
    size, n_words, n_labels, n_tokens, pruned = cursor.numbers("<3i2q", "the dictionary")
    if min(n_words, n_labels) < 0 or size != n_words + n_labels:
        raise FormatError(
            f"the dictionary has {size} entries, but {n_words} words and {n_labels} labels"
        )
    words, counts = _read_entries(cursor, n_words, 0, "word")
    labels, label_counts = _read_entries(cursor, n_labels, 1, "label")
    prune = cursor.array(np.int32, (pruned, 2), "the prune table") if pruned >= 0 else None
    quantized = _read_flag(cursor, "whether the input is quantised")
    input = _read_matrix(cursor, quantized, "the input matrix")
    # fastText ignores this flag if the input is not quantised.
    quantized &= _read_flag(cursor, "whether the output is quantised")
    output = _read_matrix(cursor, quantized, "the output matrix")
    cursor.finish()
    file = FastTextFile(args, words, counts, labels, label_counts, n_tokens, input, output, prune)
    _check_file(file)
    return file


def _read_args(cursor: Cursor) -> Args:
    """Read the arguments, with names for loss and model."""
    numbers = list(cursor.numbers(_ARGS, "the arguments"))
    for position, names, what in ((6, _LOSSES, "loss"), (7, _MODELS, "model")):
        if numbers[position] not in names:
            raise FormatError(f"{what} {numbers[position]} is unknown")
        numbers[position] = names[numbers[position]]
    return Args(*numbers)


def _read_flag(cursor: Cursor, what: str) -> bool:
    """Read a Boolean."""
    (value,) = cursor.numbers("<B", what)
    if value > 1:
        raise FormatError(f"{what} must be 0 or 1, not {value}")
    return bool(value)


def _read_entries(
    cursor: Cursor, count: int, kind: int, what: str
) -> tuple[list[bytes], NDArray[np.int64]]:
    """Read words (kind 0) or labels (kind 1), and their counts."""
    if count * (_ENTRY.size + 1) > cursor.left:
        raise FormatError(f"{count} {what}s do not fit into the remaining {cursor.left} bytes")
    strings: list[bytes] = []
    counts = np.empty(count, np.int64)
    for i in range(count):
        strings.append(cursor.string(f"{what} {i}"))
        counts[i], stored_kind = cursor.numbers("<qb", f"{what} {i}")
        if stored_kind != kind:
            raise FormatError(
                f"entry {_shorten(strings[-1])} has type {stored_kind}, expected {kind} ({what})"
            )
    return strings, counts


def _read_matrix(cursor: Cursor, quantized: bool, what: str) -> Matrix:
    """Read a matrix of floats or of codes."""
    if quantized:
        return _read_quantized(cursor, what)
    rows, columns = cursor.numbers("<2q", what)
    return cursor.array(np.float32, (rows, columns), what)


def _read_quantized(cursor: Cursor, what: str) -> QuantizedMatrix:
    """Read a matrix of codes, and its centroids."""
    has_norms = _read_flag(cursor, f"whether {what} has norms")
    rows, columns, size = cursor.numbers("<2qi", what)
    codes = cursor.array(np.uint8, (size,), f"the codes of {what}")
    quantizer = _read_quantizer(cursor, what)
    if quantizer.dim != columns or rows * quantizer.groups != size:
        raise FormatError(
            f"{what}: {size} codes in groups of {quantizer.dsub} of {quantizer.dim} columns "
            f"cannot be {rows} rows of {columns}"
        )
    codes = codes.reshape(rows, quantizer.groups)
    if not has_norms:
        return QuantizedMatrix(codes, quantizer)
    norm_codes = cursor.array(np.uint8, (rows,), f"the norms of {what}")
    norm_quantizer = _read_quantizer(cursor, f"the norms of {what}")
    if norm_quantizer.dim != 1:
        raise FormatError(f"{what}: the norms have {norm_quantizer.dim} columns, expected 1")
    return QuantizedMatrix(codes, quantizer, norm_codes, norm_quantizer)


def _read_quantizer(cursor: Cursor, what: str) -> ProductQuantizer:
    """Read the centroids of a quantised matrix."""
    dim, groups, width, last_width = cursor.numbers("<4i", f"the quantiser of {what}")
    are_positive = min(dim, groups, width, last_width) > 0 and last_width <= width
    if not are_positive or (groups - 1) * width + last_width != dim:
        raise FormatError(
            f"{what}: {groups} groups of {width} columns, the last of {last_width}, are not {dim} "
            "columns"
        )
    return ProductQuantizer(
        dim, width, cursor.array(np.float32, (dim * CENTROIDS,), f"the centroids of {what}")
    )


def _check_file(file: FastTextFile) -> None:
    """Validate the sizes, the indices and the numbers; raise FormatError."""
    _check_args(file.args)
    _check_entries(file.words, file.counts, "word")
    _check_entries(file.labels, file.label_counts, "label")
    if file.n_tokens < 0:
        raise FormatError(f"the number of tokens is {file.n_tokens}: must be at least 0")
    _check_prune(file)
    dim = file.args.dim
    _check_matrix(file.input, _count_input_rows(file), dim, "the input matrix")
    count = len(file.labels if file.args.model == "supervised" else file.words)
    _check_matrix(file.output, (count, count), dim, "the output matrix")


def _check_args(args: Args) -> None:
    for name, value in args._asdict().items():
        if isinstance(value, str):
            continue
        minimum, maximum = int(name == "dim"), _MAX_ARGS.get(name, 2**31 - 1)
        if not minimum <= value <= maximum:  # this condition is also true for NaN
            raise FormatError(f"{name} is {value}: must be in {minimum}..{maximum}")


def _check_entries(strings: list[bytes], counts: NDArray[np.int64], what: str) -> None:
    if len(strings) != len(counts):
        raise FormatError(f"there are {len(strings)} {what}s, but {len(counts)} counts")
    if len(counts) and counts.min() < 0:
        i = int(counts.argmin())
        raise FormatError(f"{what} {i} has the count {counts[i]}: must be at least 0")
    if len(set(strings)) < len(strings):
        repeated, _ = Counter(strings).most_common(1)[0]
        raise FormatError(f"{what} {_shorten(repeated)} occurs twice")
    for i, string in enumerate(strings):
        if len(string) > _MAX_WORD or b"\0" in string:
            raise FormatError(f"{what} {i} has a zero byte or is longer than {_MAX_WORD} bytes")


def _check_prune(file: FastTextFile) -> None:
    prune = file.prune
    if prune is None:
        return
    if not isinstance(file.input, QuantizedMatrix):
        raise FormatError("the file is pruned, but its input matrix is not quantised")
    for column, end, what in ((0, file.args.bucket, "bucket"), (1, len(prune), "row")):
        values = prune[:, column]
        is_wrong = (values < 0) | (values >= end)
        if is_wrong.any():
            value = values[int(is_wrong.argmax())]
            raise FormatError(f"the prune table has {what} {value}: must be below {end}")
        if len(np.unique(values)) < len(values):
            raise FormatError(f"the prune table contains a {what} twice")


def _count_input_rows(file: FastTextFile) -> tuple[int, int]:
    """Return the smallest and the largest valid number of rows of the input matrix."""
    args, n_words = file.args, len(file.words)
    if file.prune is not None:
        return n_words + len(file.prune), n_words + len(file.prune)
    # Without n-grams the buckets are not used, but some versions of fastText store them.
    has_ngrams = args.maxn > 0 or args.word_ngrams > 1
    return n_words + (args.bucket if has_ngrams else 0), n_words + args.bucket


def _check_matrix(matrix: Matrix, row_range: tuple[int, int], dim: int, what: str) -> None:
    """Validate the shape and the numbers of a matrix."""
    n_rows, n_columns = matrix.shape
    minimum, maximum = row_range
    if n_columns != dim or not minimum <= n_rows <= maximum:
        raise FormatError(f"{what} is {n_rows} × {n_columns}: must be {maximum} × {dim}")
    if not isinstance(matrix, QuantizedMatrix):
        return check_finite(matrix, what)
    check_finite(matrix.quantizer.centroids, f"the centroids of {what}")
    if matrix.norm_quantizer is not None:
        check_finite(matrix.norm_quantizer.centroids, f"the norms of {what}")
    return None


def _shorten(string: bytes) -> str:
    """Return the beginning of a string for an error message."""
    return repr(string[:80])


def _find_code(names: dict[int, str], name: str) -> int:
    """Return the code of a loss or a model in the file."""
    code = next((code for code, known_name in names.items() if known_name == name), None)
    if code is None:
        raise InputError(f"{name!r} must be one of {', '.join(names.values())}")
    return code


def _write_dictionary(output_file: BinaryIO, file: FastTextFile) -> None:
    n_words, n_labels = len(file.words), len(file.labels)
    n_pruned = -1 if file.prune is None else len(file.prune)
    output_file.write(
        struct.pack("<3i2q", n_words + n_labels, n_words, n_labels, file.n_tokens, n_pruned)
    )
    for strings, counts, kind in (
        (file.words, file.counts, 0),
        (file.labels, file.label_counts, 1),
    ):
        pairs = zip(strings, counts.tolist(), strict=True)
        output_file.writelines(string + b"\0" + _ENTRY.pack(count, kind) for string, count in pairs)
    if file.prune is not None:
        _write_array(output_file, file.prune, "<i4")


def _write_matrix(output_file: BinaryIO, matrix: Matrix) -> None:
    n_rows, n_columns = matrix.shape
    if not isinstance(matrix, QuantizedMatrix):
        output_file.write(struct.pack("<2q", n_rows, n_columns))
        return _write_array(output_file, matrix, "<f4")
    has_norms = matrix.norm_codes is not None
    output_file.write(struct.pack("<B2qi", has_norms, n_rows, n_columns, matrix.codes.size))
    _write_array(output_file, matrix.codes, "u1")
    _write_quantizer(output_file, matrix.quantizer)
    if matrix.norm_codes is not None and matrix.norm_quantizer is not None:
        _write_array(output_file, matrix.norm_codes, "u1")
        _write_quantizer(output_file, matrix.norm_quantizer)
    return None


def _write_quantizer(output_file: BinaryIO, quantizer: ProductQuantizer) -> None:
    last_width = quantizer.dim - (quantizer.groups - 1) * quantizer.dsub
    output_file.write(
        struct.pack("<4i", quantizer.dim, quantizer.groups, quantizer.dsub, last_width)
    )
    _write_array(output_file, quantizer.centroids, "<f4")


def _write_array(output_file: BinaryIO, array: NDArray[Any], dtype: str) -> None:
    for begin in range(0, len(array), _BLOCK_ROWS):
        output_file.write(np.ascontiguousarray(array[begin : begin + _BLOCK_ROWS], dtype).data)
