"""p(label | text) from a fastText model: the mean h of a text's rows, and the loss's own way.

softmax: exp(wᵧ·h) / Σ exp(w·h)      tree: Π σ(±w·h)      negative sampling, ova: σ(wᵧ·h)

The core does it; fastText adds 1e-5 to every probability that it takes the logarithm of, and so do
we. A threshold is for what they were before. Equal ones, as floats, come in the order of labels.
"""

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

_FEW = 64  # texts that take less time than other threads need to wake up

Answers: TypeAlias = list[list[tuple[int, float]]]
"""(label, probability) of each text, the best first."""


class Predictor:
    """Labels of texts: lists of words, or lines as bytes, from which labels are left out.

    >>> from trellis.formats.fasttext import Args
    >>> rows = np.array([[2.0, 0.0], [0.0, 2.0]], np.float32)
    >>> args = Args(dim=2, minn=0, maxn=0, bucket=0, model="supervised", loss="softmax")
    >>> counts = np.array([2, 1])
    >>> file = FastTextFile(args, [b"a", b"b"], counts, [b"A", b"B"], counts, 3, rows, rows)
    >>> [[(label, round(p, 3)) for label, p in own] for own in Predictor(file).best([["a"]], 2)]
    [[(0, 0.982), (1, 0.018)]]
    """

    def __init__(self, file: FastTextFile) -> None:
        self.file = file
        self._labels = len(file.labels)
        args, output = file.args, file.output
        if isinstance(output, QuantizedMatrix):
            output = output.rows()
        if args.model != "supervised":  # lines can be cut, but there is nothing to predict
            args = args._replace(loss="softmax")
            output = np.zeros((len(file.labels), args.dim), np.float32)
        self._core = _core.TextPredictor(
            file.words,
            file.labels,
            minn=args.minn,
            maxn=args.maxn,
            word_ngrams=args.word_ngrams,
            bucket=args.bucket,
            kept=None if file.prune is None else file.prune[np.argsort(file.prune[:, 1]), 0],
            output=_aligned(output),
            loss=args.loss,
            label_counts=np.asarray(file.label_counts, np.int64),
            **_parts(file.input),
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
        """The k likeliest labels of texts in words, to each of which ``</s>`` is added."""
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
        """The k likeliest labels of lines as fastText reads them, to the first that ends."""
        k, threads = min(k, self._labels), _threads(len(lines), None)
        return self._core.best_of_lines(lines, prefix, k, threshold, threads)

    def split(self, line: bytes, prefix: bytes) -> tuple[list[bytes], list[int]]:
        """Words, the end of the line among them, and numbers of labels."""
        return self._core.split(line, prefix)

    def mean(self, line: bytes, prefix: bytes) -> tuple[NDArray[np.float32], int]:
        """The mean of a line's rows, and how many they are."""
        return self._core.mean(line, prefix)


def _threads(texts: int, n_jobs: int | None) -> int:
    return 1 if texts < _FEW else resolve_jobs(n_jobs)


def _parts(matrix: NDArray[np.float32] | QuantizedMatrix) -> dict[str, Any]:
    """A matrix as the core takes it: codes, or the bytes of floats, which a file may not align."""
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
