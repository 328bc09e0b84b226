"""N-gram language models in the ARPA format: log p(w | w₁ … wₙ), with back-off.

>>> from pathlib import Path
>>> import tempfile
>>> words = ["-99 <s> -0.5", "-0.5 </s>", "-0.3 yes -0.2", "-1.0 no"]
>>> slash = chr(92)  # a backslash
>>> lines = [f"{slash}data{slash}", "ngram 1=4", "ngram 2=1", f"{slash}1-grams:", *words]
>>> lines += [f"{slash}2-grams:", "-0.1 <s> yes", f"{slash}end{slash}"]
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "tiny.arpa")
...     _ = path.write_text(chr(10).join(lines))
...     lm = read(path)
>>> lm.order, "yes" in lm, "maybe" in lm
(2, True, False)
>>> round(lm.score("yes"), 2)  # p(yes | <s>) = 10^-0.1, p(</s> | yes) = 10^(-0.2 - 0.5)
-0.8
"""

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from trellis import _core
from trellis.checks import is_text
from trellis.data.files import Source, blocks, lines, name_of
from trellis.errors import FormatError, InputError

__all__ = ["FullScore", "NGramModel", "Perplexity", "read"]

MAX_EXPONENT = 308.0  # a larger power of 10 is not a finite float


class FullScore(NamedTuple):
    """The score of one word."""

    log10: float
    length: int
    """Length of the n-gram that was found in the model."""
    oov: bool
    """True if the word is not in the vocabulary."""


class Perplexity(NamedTuple):
    """How well a model predicts a text; see `NGramModel.text_perplexity`."""

    value: float
    """10^(-Σ log10 p / n), where n counts the words and one ``</s>`` for each line."""
    without_unknown: float
    """The same without the words that are not in the vocabulary; NaN if nothing remains."""
    words: int
    """Number of words, without ``</s>``."""
    unknown: int
    """Number of words that are not in the vocabulary."""


class NGramModel:
    """An n-gram model with back-off. Scores are log10, as in KenLM."""

    def __init__(self, core: _core.NgramModel, path: str | None = None) -> None:
        self._core = core
        self.path = path
        """Path of the file, or None."""

    def __reduce__(self) -> tuple[Any, ...]:
        # As in kenlm.Model, only the path is pickled: another process reads the file again.
        if self.path is None or not os.path.isfile(self.path):
            raise InputError(
                f"the language model cannot be pickled: its file {self.path} no longer exists, "
                "or was a pipe"
            )
        return read, (os.path.abspath(self.path),)

    def __copy__(self) -> "NGramModel":
        return NGramModel(self._core, self.path)

    def __deepcopy__(self, memo: dict[int, Any]) -> "NGramModel":
        return NGramModel(self._core, self.path)  # the core is never changed, so it is shared

    @property
    def core(self) -> _core.NgramModel:
        """The native model, for decoders."""
        return self._core

    @property
    def order(self) -> int:
        """The length of the longest n-grams."""
        return self._core.order

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of n-grams of each length."""
        return tuple(self._core.counts)

    @property
    def vocabulary(self) -> int:
        """Number of words, including ``<s>``, ``</s>`` and ``<unk>``."""
        return self.counts[0]

    def words(self) -> list[str]:
        """Return the words of the vocabulary in the order of the file, without ``<unk>``."""
        return self._core.words()

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and is_text(word) and word in self._core

    def __repr__(self) -> str:
        return f"NGramModel(order={self.order}, counts={self.counts})"

    def score(self, sentence: str | Sequence[str], bos: bool = True, eos: bool = True) -> float:
        """log10 p(sentence): after ``<s>`` if `bos`, with ``</s>`` at the end if `eos`."""
        return sum(word.log10 for word in self.full_scores(sentence, bos, eos))

    def full_scores(
        self, sentence: str | Sequence[str], bos: bool = True, eos: bool = True
    ) -> list[FullScore]:
        """Return the score of each word, and of ``</s>`` if `eos`."""
        words = _check_words(sentence)
        return [FullScore(*word) for word in self._core.full_scores(words, bool(bos), bool(eos))]

    def start(self, bos: bool = True) -> int:
        """Return the state before the first word: after ``<s>`` if `bos`, or without a history."""
        return self._core.start(bool(bos))

    def step(self, state: int, word: str) -> tuple[float, int]:
        """Return log10 p(word | state) and the next state, an opaque number."""
        if not is_text(word):
            raise InputError(f"word is {word!r:.80}: must be a str without unpaired surrogates")
        try:
            log10, next_state, _ = self._core.step(state, word)
        except (ValueError, TypeError):
            raise InputError(f"state is {state!r:.80}: must be a state of this model") from None
        return log10, next_state

    def perplexity(self, sentence: str | Sequence[str]) -> float:
        """10^(-score / n), where n counts the words and ``</s>``."""
        words = _check_words(sentence)
        return float(10.0 ** (-self.score(words) / (len(words) + 1)))

    def text_perplexity(self, text: Source) -> Perplexity:
        """Return the perplexity of a text: a path, an open file or lines, one sentence per line.

        As in KenLM, an empty line is a sentence too.
        """
        total = unknown_total = 0.0
        scored = unknown = line_count = 0
        for line in lines(text):
            line_count += 1
            for log10, _, is_unknown in self._core.full_scores(line.split(), True, True):
                scored += 1
                total += log10
                if is_unknown:
                    unknown += 1
                    unknown_total += log10
        if not scored:
            raise InputError("the text has no lines, so its perplexity is undefined")
        known = scored - unknown
        return Perplexity(
            _to_perplexity(total, scored),
            _to_perplexity(total - unknown_total, known) if known else math.nan,
            scored - line_count,
            unknown,
        )


def read(path: str | os.PathLike[str]) -> NGramModel:
    """Read an ARPA file, possibly compressed; raise FormatError if it is invalid."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {type(path).__name__}: must be a str or a path")
    reader = _core.ArpaReader()
    has_header = False
    try:
        for block in blocks(path):
            has_header = has_header or b"\\data\\" in block
            reader.feed(block)
        return NGramModel(reader.finish(), os.fspath(path))
    except FormatError:
        raise
    except ValueError as error:
        hint = "" if has_header else "; not a language model in ARPA format"
        raise FormatError(f"{name_of(path)}, {error}{hint}") from None


def _to_perplexity(log10: float, count: int) -> float:
    """Return 10^(-log10 / count); inf if that is too large for a float."""
    exponent = -log10 / count
    return 10.0**exponent if exponent < MAX_EXPONENT else math.inf


def _check_words(sentence: Any) -> list[str]:
    """Return the words of a sentence; raise InputError if they are not valid text."""
    words = sentence.split() if isinstance(sentence, str) else sentence
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise InputError(f"a sentence must be a str or a list of str, not {sentence!r:.80}")
    for word in words:
        if not is_text(word):
            raise InputError(f"{word!r:.80} contains an unpaired surrogate: it is not valid text")
    return list(words)
