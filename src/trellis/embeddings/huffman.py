"""The Huffman tree of hierarchical softmax: frequent words have short paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit

from trellis import _core
from trellis.checks import integer_in_range
from trellis.errors import InputError, UnknownWordError

__all__ = ["HuffmanTree"]

_SHOWN_DEPTH = 5  # levels that `print` shows: at most 32 lines


class HuffmanTree:
    """p(w | h) = Πⱼ σ(±h·W[nⱼ]) over the nodes from the root to w: + to the right, − to the left.

    `Word2Vec.huffman_tree` returns the tree of a model, the same as in fastText. Inner node n is
    row n of its output table.

    >>> tree = HuffmanTree(["the", "cat", "dog", "purrs"], [6, 4, 2, 1])
    >>> print(tree)
    2 (13)
    ├─0─ the (6)
    └─1─ 1 (7)
         ├─0─ 0 (3)
         │    ├─0─ purrs (1)
         │    └─1─ dog (2)
         └─1─ cat (4)
    >>> tree.code("dog"), tree.path("dog"), tree.depth, round(tree.mean_depth, 2)
    ('101', [2, 1, 0], 3, 1.77)

    Parameters
    ----------
    words
        Distinct words, most frequent first.
    counts
        Their counts, (words,), in descending order.

    """

    words: list[str]
    counts: NDArray[np.int64]
    children: NDArray[np.int32]
    """(inner nodes, 2): left and right child of each. A child i < len(words) is word i; any other
    child i is inner node i − len(words)."""

    def __init__(self, words: Sequence[str], counts: ArrayLike) -> None:
        self.words, self.counts = list(words), np.array(counts)
        self._index = {word: i for i, word in enumerate(self.words)}
        if not self.words or len(self._index) < len(self.words):
            raise InputError("words is empty or contains a word twice: words must be distinct")
        if self.counts.dtype.kind not in "iu" or self.counts.shape != (len(self.words),):
            raise InputError(
                f"counts has dtype {self.counts.dtype} and shape {self.counts.shape}: "
                f"must be {len(self.words)} integers, one for each word"
            )
        self.counts = self.counts.astype(np.int64)
        try:
            self._begin, self._node, self._right, child = _core.huffman(self.counts)
        except ValueError as error:
            raise InputError(str(error)) from None
        self.children = child.reshape(-1, 2)

    def __repr__(self) -> str:
        return f"HuffmanTree({len(self.words)} words, depth {self.depth})"

    def path(self, word: str) -> list[int]:
        """Return the inner nodes from the root to a word; the root is node len(words) − 2."""
        return [int(node) for node in self._node[self._steps(word)][::-1]]

    def code(self, word: str) -> str:
        """Return the path to a word as text: 1 where it goes to the right child, 0 to the left."""
        return "".join(str(bit) for bit in self._right[self._steps(word)][::-1])

    @property
    def depth(self) -> int:
        """Length of the longest path: the most sigmoids that one prediction computes."""
        return int(np.diff(self._begin).max())

    @property
    def mean_depth(self) -> float:
        """Mean length of a path, Σ count·length / Σ count: no binary tree has a smaller one."""
        return float(self.counts @ np.diff(self._begin) / max(self.counts.sum(), 1))

    def log_probabilities(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Return log p(w | h) of all words, (words,), from the scores h·W[n] of the inner nodes.

        >>> tree = HuffmanTree(["the", "cat", "dog"], [6, 3, 2])
        >>> np.exp(tree.log_probabilities([0.0, 0.0]))
        array([0.5 , 0.25, 0.25])
        """
        node_scores = np.asarray(scores, np.float64)
        if node_scores.shape != (len(self.children),):
            raise InputError(
                f"scores has shape {node_scores.shape}: must be ({len(self.children)},), "
                "one for each inner node"
            )
        n_words = len(self.words)
        log_p = np.zeros(n_words + len(self.children))
        for node in range(len(self.children) - 1, -1, -1):  # children have smaller numbers
            left, right = self.children[node]
            log_p[left] = log_p[n_words + node] + log_expit(-node_scores[node])
            log_p[right] = log_p[n_words + node] + log_expit(node_scores[node])
        return log_p[:n_words]

    def draw(self, depth: int | None = None) -> str:
        """Return the tree as text, down to ``depth`` levels; None for all.

        A line has a word or the number of an inner node, with its count.

        >>> print(HuffmanTree(["the", "cat", "dog"], [6, 3, 2]).draw(depth=1))
        1 (11)
        ├─0─ 0 (5): 2 words
        └─1─ the (6)
        """
        if depth is not None:
            integer_in_range(depth, 0, np.inf, "depth")
        sizes, totals = self._subtrees()
        lines: list[str] = []
        n_words = len(self.words)
        # (node, level, text before its name, text before the names of its children)
        waiting = [(len(sizes) - 1, 0, "", "")]
        while waiting:
            node, level, first, indent = waiting.pop()
            name = self.words[node] if node < n_words else str(node - n_words)
            is_cut = node >= n_words and level == depth
            tail = f": {sizes[node]} words" if is_cut else ""
            lines.append(f"{first}{name} ({totals[node]}){tail}")
            if node >= n_words and not is_cut:
                left, right = self.children[node - n_words].tolist()
                waiting.append((right, level + 1, indent + "└─1─ ", indent + "     "))
                waiting.append((left, level + 1, indent + "├─0─ ", indent + "│    "))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.draw(_SHOWN_DEPTH)

    def _steps(self, word: str) -> slice:
        """Return the slice of a word in the arrays of all paths, which run from word to root."""
        if word not in self._index:
            raise UnknownWordError(f"{word!r} is not in the tree")
        i = self._index[word]
        return slice(self._begin[i], self._begin[i + 1])

    def _subtrees(self) -> tuple[list[int], list[int]]:
        """Return the number of words below each word and node, and the sums of their counts."""
        sizes, totals = [1] * len(self.words), self.counts.tolist()
        for left, right in self.children.tolist():
            sizes.append(sizes[left] + sizes[right])
            totals.append(totals[left] + totals[right])
        return sizes, totals
