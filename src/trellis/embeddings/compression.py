"""A smaller fastText classifier: the longest rows alone, and codes instead of numbers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trellis.checks import as_integer
from trellis.errors import InputError
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix, quantize

__all__ = ["quantized"]

_END = b"</s>"


def quantized(
    file: FastTextFile,
    cutoff: int,
    dsub: int,
    norms: bool,
    output: bool,
    seed: int,
    retrain: Callable[[FastTextFile], FastTextFile] | None = None,
) -> FastTextFile:
    """The file with codes; ``cutoff`` keeps so many rows of the input, the longest (0: all).

    Rows that are fewer than before are trained again by ``retrain``.
    """
    if as_integer(cutoff, "cutoff") < 0 or as_integer(dsub, "dsub") < 1:
        raise InputError(f"cutoff is {cutoff} and dsub {dsub}: at least 0 and 1")
    if isinstance(file.input, QuantizedMatrix):
        raise InputError("the model is quantised already")
    if 0 < cutoff < file.input.shape[0]:
        file = _pruned(file, cutoff)
        file = file if retrain is None else retrain(file)
    assert not isinstance(file.input, QuantizedMatrix)
    codes = quantize(file.input, dsub=dsub, norms=norms, random_state=seed)
    coded_output = file.output
    if output and not isinstance(coded_output, QuantizedMatrix):
        coded_output = quantize(
            coded_output, dsub=min(2, file.args.dim), norms=norms, random_state=seed
        )
    return replace(file, input=codes, output=coded_output)


def _pruned(file: FastTextFile, cutoff: int) -> FastTextFile:
    """The longest rows; the end of a line always stays."""
    assert not isinstance(file.input, QuantizedMatrix)
    lengths = np.linalg.norm(file.input, axis=1)
    if _END in file.words:
        lengths[file.words.index(_END)] = np.inf
    kept = np.sort(np.argsort(-lengths, kind="stable")[:cutoff])
    words = kept[kept < len(file.words)]
    buckets = kept[kept >= len(file.words)] - len(file.words)
    prune = np.stack([buckets, np.arange(len(buckets))], axis=1).astype(np.int32)
    return replace(
        file,
        words=[file.words[i] for i in words.tolist()],
        counts=file.counts[words],
        input=np.ascontiguousarray(file.input[kept]),
        prune=prune,
    )
