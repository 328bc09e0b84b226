"""p(label | text) of a fastText model, from the mean h of the rows of a text.

softmax: exp(wᵧ·h) / Σ exp(w·h)      tree: Π σ(±w·h)      negative sampling, ova: σ(wᵧ·h)

The core computes it. fastText adds 1e-5 to a probability before it takes the logarithm, and so does
trellis; a threshold applies to the probability without it. Labels of equal probability (as float32)
are in the order of the file.
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

_FEW = 64  # fewer texts take less time than starting other threads

Answers: TypeAlias = list[list[tuple[int, float]]]
"""(label number, probability) pairs of each text, best first."""


class Predictor:
    """Predicts the labels of texts: lists of words, or lines as bytes (their labels are ignored).

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
        if args.model != "supervised":  # `split` and `mean` work, but there are no labels
            args = args._replace(loss="softmax")
            output = np.zeros((len(file.labels), args.dim), np.float32)
        self._core = _core.TextPredictor(
            file.words,
            file.labels,
            minn=args.minn,
            maxn=args.maxn,
            word_ngrams=args.word_ngrams,
            bucket=args.bucket,
            # Buckets that a pruned file has kept, in the order of their rows.
            kept=None if file.prune is None else file.prune[np.argsort(file.prune[:, 1]), 0],
            output=_aligned(output),
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
        """Return the k most probable labels of each text; ``</s>`` is added to its words."""
        try:
            threads = _threads(len(texts), n_jobs)
            return self._core.best(texts, min(k, self._labels), threshold, threads)
        except InputError:  # it names the text
            raise
        except ValueError as error:
            raise InputError(str(error)) from None

    def best_of_lines(
        self, lines: list[bytes], prefix: bytes, k: int, threshold: float = 0.0
    ) -> Answers:
        """Return the k most probable labels of each line; text after a line end is ignored."""
        k, threads = min(k, self._labels), _threads(len(lines), None)
        return self._core.best_of_lines(lines, prefix, k, threshold, threads)

    def split(self, line: bytes, prefix: bytes) -> tuple[list[bytes], list[int]]:
        """Return the words of a line, including the line end, and the numbers of its labels."""
        return self._core.split(line, prefix)

    def mean(self, line: bytes, prefix: bytes) -> tuple[NDArray[np.float32], int]:
        """Return the mean of the rows of a line, (dim,), and the number of rows."""
        return self._core.mean(line, prefix)


def _threads(texts: int, n_jobs: int | None) -> int:
    return 1 if texts < _FEW else resolve_jobs(n_jobs)


def _input_arguments(matrix: NDArray[np.float32] | QuantizedMatrix) -> dict[str, Any]:
    """Return the arguments of the core for the input matrix: codes, or floats.

    Floats are passed as bytes, because those of a mapped file can be unaligned.
    """
    if not isinstance(matrix, QuantizedMatrix):
        floats = matrix if matrix.strides[1] == 4 else np.ascontiguousarray(matrix)
        absent = dict.fromkeys(("centroids", "norm_codes", "norms"))
        return {"input": floats.view(np.uint8), "width": 0, **absent}
    norms = matrix.norm_quantizer
    return {
        "input": np.ascontiguousarray(matrix.codes),
        "centroids": _aligned(matrix.quantizer.centroids),
        "width": matrix.quantizer.dsub,
        "norm_codes": matrix.norm_codes,
        "norms": None if norms is None else _aligned(norms.centroids),
    }


def _aligned(floats: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.require(floats, np.float32, ["C", "A"])
