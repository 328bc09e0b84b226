"""Compression of a fastText classifier: fewer rows, and product codes instead of floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix, quantize

__all__ = ["Compression", "quantized"]

_END = b"</s>"
_OUTPUT_DSUB = 2  # dimensions per code of the output matrix; fastText's constant


class Compression(NamedTuple):
    """Settings of the compression of a classifier."""

    cutoff: int
    """Number of input rows to keep: the rows of largest length are kept. 0 keeps all rows."""
    dsub: int
    """Number of dimensions per code of the input rows."""
    norms: bool
    """True encodes the lengths of rows separately."""
    output: bool
    """True encodes the output matrix too."""
    seed: int


def quantized(
    file: FastTextFile,
    compression: Compression,
    retrain: Callable[[FastTextFile], FastTextFile] | None = None,
) -> FastTextFile:
    """Return the file with product codes. ``retrain`` trains the rows that the cutoff keeps."""
    cutoff, dsub, norms, output, seed = compression
    if as_integer(cutoff, "cutoff") < 0 or as_integer(dsub, "dsub") < 1:
        raise InputError(f"cutoff is {cutoff}, must be >= 0; dsub is {dsub}, must be >= 1")
    if isinstance(file.input, QuantizedMatrix):
        raise InputError("the model is already quantised: quantize needs a model with float rows")
    if 0 < cutoff < file.input.shape[0]:
        file = _prune(file, cutoff)
        file = file if retrain is None else retrain(file)
    assert not isinstance(file.input, QuantizedMatrix)
    input_codes = quantize(file.input, dsub=dsub, norms=norms, random_state=seed)
    new_output = file.output
    if output and not isinstance(new_output, QuantizedMatrix):
        output_dsub = min(_OUTPUT_DSUB, file.args.dim)
        new_output = quantize(new_output, dsub=output_dsub, norms=norms, random_state=seed)
    return replace(file, input=input_codes, output=new_output)


def _prune(file: FastTextFile, cutoff: int) -> FastTextFile:
    """Return the file with the ``cutoff`` rows of largest length. The row of ``</s>`` stays."""
    assert not isinstance(file.input, QuantizedMatrix)
    lengths = np.linalg.norm(file.input, axis=1)
    if _END in file.words:  # every text ends with this word, so its row must stay
        lengths[file.words.index(_END)] = np.inf
    # The remaining rows stay in order: words, then buckets. A stable sort gives the same rows each
    # time.
    kept_rows = np.sort(np.argsort(-lengths, kind="stable")[:cutoff])
    words = kept_rows[kept_rows < len(file.words)]
    buckets = kept_rows[kept_rows >= len(file.words)] - len(file.words)
    prune_table = np.stack([buckets, np.arange(len(buckets))], axis=1).astype(np.int32)
    return replace(
        file,
        words=[file.words[i] for i in words.tolist()],
        counts=file.counts[words],
        input=np.ascontiguousarray(file.input[kept_rows]),
        prune=prune_table,
    )
