"""p(label | text) of a fastText model; h is the mean of the rows of the text.

softmax: exp(wᵧ·h) / Σ exp(w·h)      tree: Π σ(±w·h)      negative sampling, ova: σ(wᵧ·h)

The core computes the probabilities. As in fastText, 1e-5 is added to a probability before its
logarithm is taken, and a threshold applies to the probability before this addition. Labels of equal
probability (as float32) are in the order of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import InputError
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix
from trellis.native import resolve_jobs

__all__ = ["Predictor"]

_FEW_TEXTS = 64  # for fewer texts, starting threads takes longer than the predictions

Answers: TypeAlias = list[list[tuple[int, float]]]
"""(label number, probability) pairs of each text, best first."""


class Predictor:
    """Predicts the labels of texts. A text is a list of words, or a line as bytes.

    >>> from trellis.formats.fasttext import Args
    >>> rows = np.array([[2.0, 0.0], [0.0, 2.0]], np.float32)
    >>> args = Args(dim=2, minn=0, maxn=0, bucket=0, model="supervised", loss="softmax")
    >>> counts = np.array([2, 1])
    >>> file = FastTextFile(args, [b"a", b"b"], counts, [b"A", b"B"], counts, 3, rows, rows)
    >>> [[(label, round(p, 3)) for label, p in best] for best in Predictor(file).best([["a"]], 2)]
    [[(0, 0.982), (1, 0.018)]]
    """

    def __init__(self, file: FastTextFile) -> None:
        self.file = file
        self._labels = len(file.labels)
        args, output = file.args, file.output
        if isinstance(output, QuantizedMatrix):
            output = output.rows()
        if args.model != "supervised":  # for a model without labels, `split` and `mean` still work
            args = args._replace(loss="softmax")
            output = np.zeros((len(file.labels), args.dim), np.float32)
        self._core = _core.TextPredictor(
            file.words,
            file.labels,
            minn=args.minn,
            maxn=args.maxn,
            word_ngrams=args.word_ngrams,
            bucket=args.bucket,
            # The buckets of a pruned file, in the order of their rows.
            kept=None if file.prune is None else file.prune[np.argsort(file.prune[:, 1]), 0],
            output=_align(output),
            loss=args.loss,
            label_counts=np.asarray(file.label_counts, np.int64),
            **_input_arguments(file.input),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Predictor, (self.file,)

    def best(
        self,
        texts: Sequence[Sequence[str]],
        k: int,
        threshold: float = 0.0,
        n_jobs: int | None = None,
    ) -> Answers:
        """Return the k most probable labels of each text, with the word ``</s>`` appended to it."""
        try:
            threads = _choose_threads(len(texts), n_jobs)
            return self._core.best(texts, min(k, self._labels), threshold, threads)
        except InputError:  # the message already names the text
            raise
        except ValueError as error:
            raise InputError(str(error)) from None

    def best_of_lines(
        self, lines: list[bytes], prefix: bytes, k: int, threshold: float = 0.0
    ) -> Answers:
        """Return the k most probable labels of each line.

        Labels in the line, and text after a line end, are ignored.
        """
        k, threads = min(k, self._labels), _choose_threads(len(lines), None)
        return self._core.best_of_lines(lines, prefix, k, threshold, threads)

    def split(self, line: bytes, prefix: bytes) -> tuple[list[bytes], list[int]]:
        """Return the words of a line, including the line end, and the numbers of its labels."""
        return self._core.split(line, prefix)

    def mean(self, line: bytes, prefix: bytes) -> tuple[NDArray[np.float32], int]:
        """Return the mean of the rows of a line, (dim,), and the number of rows."""
        return self._core.mean(line, prefix)


def _choose_threads(n_texts: int, n_jobs: int | None) -> int:
    return 1 if n_texts < _FEW_TEXTS else resolve_jobs(n_jobs)


def _input_arguments(matrix: NDArray[np.float32] | QuantizedMatrix) -> dict[str, Any]:
    """Return the arguments of the core for the input matrix of codes or floats.

    Floats are passed as bytes, because the floats of a mapped file can be unaligned.
    """
    if not isinstance(matrix, QuantizedMatrix):
        floats = matrix if matrix.strides[1] == 4 else np.ascontiguousarray(matrix)
        unused_arguments = dict.fromkeys(("centroids", "norm_codes", "norms"))
        return {"input": floats.view(np.uint8), "width": 0, **unused_arguments}
    norm_quantizer = matrix.norm_quantizer
    return {
        "input": np.ascontiguousarray(matrix.codes),
        "centroids": _align(matrix.quantizer.centroids),
        "width": matrix.quantizer.dsub,
        "norm_codes": matrix.norm_codes,
        "norms": None if norm_quantizer is None else _align(norm_quantizer.centroids),
    }


def _align(floats: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.require(floats, np.float32, ["C", "A"])
