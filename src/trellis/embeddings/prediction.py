"""p(label | text) from a fastText model: the mean h of a text's rows, and the loss's own way.

softmax: exp(wᵧ·h) / Σ exp(w·h)      tree: Π σ(±w·h)      negative sampling, ova: σ(wᵧ·h)
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax

from trellis import _core
from trellis.embeddings.subword_rows import SubwordRows
from trellis.formats.fasttext import FastTextFile
from trellis.formats.quantization import QuantizedMatrix

__all__ = ["Predictor"]

_TEXTS = 4096  # at a time
_ADDED = 1e-5  # by fastText, to every probability it takes the logarithm of

Texts = Sequence[Sequence[bytes]]
Floats = NDArray[np.float64]


class Predictor:
    """Labels of texts, whose words are bytes and end with ``</s>``."""

    def __init__(self, file: FastTextFile) -> None:
        self.rows = SubwordRows(file)
        self.file = file
        output = file.output
        if isinstance(output, QuantizedMatrix):
            output = output.rows(np.arange(output.shape[0]))
        self._output = np.asarray(output, np.float64)
        self._sides: Any = None

    def best(self, texts: Texts, k: int, threshold: float) -> list[list[tuple[int, float]]]:
        """The k likeliest labels of each text, and their probabilities.

        The threshold is for what they were before fastText added to them.
        """
        found: list[list[tuple[int, float]]] = []
        least = threshold + _ADDED
        for begin in range(0, len(texts), _TEXTS):
            hidden, known = self.hidden(texts[begin : begin + _TEXTS])
            p = self.probabilities(hidden)
            k = min(k, p.shape[1])
            # as floats of fastText: what differs less may come in another order in another batch
            single = -p.astype(np.float32)
            top = np.argsort(single, axis=1, kind="stable")[:, :k] if k > 1 else _least(single)
            for own, probabilities, has in zip(
                top, np.take_along_axis(p, top, 1), known, strict=True
            ):
                pairs = zip(own.tolist(), probabilities.tolist(), strict=True)
                found.append([(i, q) for i, q in pairs if has and q >= least])
        return found

    def probabilities(self, hidden: Floats) -> Floats:
        """A row for each hidden vector: labels' probabilities, as fastText states them."""
        scores = hidden @ self._output.T
        p: Floats
        if self.file.args.loss == "softmax":
            p = softmax(scores, axis=1) + _ADDED
        elif self.file.args.loss == "hs":
            left, right = self._tree()
            steps = np.log(expit(-scores) + _ADDED) @ left + np.log(expit(scores) + _ADDED) @ right
            p = np.exp(steps)
        else:
            p = expit(scores) + _ADDED
        return p

    def hidden(self, texts: Texts) -> tuple[Floats, NDArray[np.bool_]]:
        """The mean of each text's rows, and whether it has any."""
        ids = list(self.ids(texts))
        counts = np.array([len(own) for own in ids], np.int64)
        begin = np.concatenate([[0], np.cumsum(counts)])
        rows = np.concatenate(ids) if ids else np.empty(0, np.int64)
        return self.rows.means(begin, rows).astype(np.float64), counts > 0

    def ids(self, texts: Texts) -> Iterator[NDArray[np.int64]]:
        """The input rows of each text: of its words, their characters and runs of them."""
        args = self.file.args
        words = [word for text in texts for word in text]
        begin, ids = self.rows.ids(words)
        hashes = _core.word_hashes(words) if args.word_ngrams > 1 else None
        first = 0
        for text in texts:
            last = first + len(text)
            own = ids[begin[first] : begin[last]]
            if hashes is not None and args.bucket:
                grams = _core.word_ngram_ids(hashes[first:last], args.word_ngrams, args.bucket)
                own = np.concatenate([own, self.rows.bucket_rows(grams)[0]])
            yield own
            first = last

    def _tree(self) -> tuple[Any, Any]:
        """(nodes, labels): 1 where the way to a label goes left, and right, at a node."""
        if self._sides is None:
            begin, node, right, _ = _core.huffman(np.asarray(self.file.label_counts, np.int64))
            label = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
            shape = (len(self._output), len(begin) - 1)
            self._sides = tuple(
                sparse.csr_array((np.ones(m.sum()), (node[m], label[m])), shape=shape).toarray()
                for m in (right == 0, right == 1)
            )
        sides: tuple[Any, Any] = self._sides
        return sides


def _least(rows: NDArray[np.float32]) -> NDArray[np.intp]:
    return rows.argmin(axis=1)[:, None] if rows.shape[1] else np.empty((len(rows), 0), np.intp)
