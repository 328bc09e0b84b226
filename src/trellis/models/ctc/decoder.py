"""From the frames of a CTC network to text, with a language model's help.

    score(text) = log p(text | frames) + Σ over its words of (α ln p(word | words before) + β)

and α ln p(end | words) when the frames are over. `CTCDecoder` looks for the best text by a beam
search over texts; docs/ctc.md explains it, cpp/core/ctc/word_search.hpp does it.
"""

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.checks import as_positive
from trellis.errors import InfeasibleError, InputError
from trellis.formats.arpa import NGramModel
from trellis.inference import ctc
from trellis.inference.ctc.inputs import Array, Batch, prepare
from trellis.models.ctc.labels import LabelSet, read_labels
from trellis.models.ctc.language_model import (
    read_hot_words,
    read_language,
    read_lexicon,
    read_vocabulary,
)
from trellis.native import resolve_jobs

__all__ = ["Aligned", "CTCDecoder", "Partial", "Stream", "Transcript", "Unit", "Word"]


class Word(NamedTuple):
    """A word and its frames [start, end)."""

    text: str
    start: int
    end: int


class Transcript(NamedTuple):
    """A text that was found, and what its score is made of."""

    text: str
    words: list[Word]
    acoustic: float  # log p(text | frames), over the paths that were found
    lm: float  # what language model, β and hot words add
    score: float  # the sum of both
    state: Any = None  # the language model's behind the last word: a ``start`` to go on from


class Partial(NamedTuple):
    """What a stream has heard so far."""

    text: str  # the best text
    stable: str  # the beginning of it that no later frame can change


class Unit(NamedTuple):
    """A word or a label in an alignment, its frames [start, end), and how sure they are of it."""

    text: str
    start: int
    end: int
    confidence: float  # exp of the mean log-probability over its frames


class Aligned(NamedTuple):
    """When a known text was said."""

    words: list[Unit]
    units: list[Unit]  # the labels that spell it
    score: float  # the log-probability of the best path


class CTCDecoder:
    """Decode CTC emissions to text by beam search with a word n-gram model.

    Parameters
    ----------
    labels
        what each entry of the vocabulary is written as: characters, pieces of words (``▁`` or
        ``##``) or words. See `trellis.models.ctc.labels` for how the blank is found.
    lm
        a path to an ARPA file (packed or not) or a KenLM binary (needs the ``kenlm`` package), an
        `NGramModel`, a ``kenlm.Model``, or None.
    alpha, beta
        the weight of the language model, and what each word adds.
    beam_width, token_min_logp, beam_prune_logp
        how many texts go on after each frame; labels less likely than this are not tried, except
        the best; texts that are worse than the best by more than this are dropped.
    hotwords, hotword_weight
        words that are likely here, and what each of them adds to a score.
    lexicon
        the only words that may be found: a list, or a file with one a line, if need be with a tab
        and the labels that spell it. Words that no labels spell are never found.
    vocabulary
        the words that count as known to the language model; None is all that it has. A KenLM binary
        cannot list its own, and then any beginning of a word is as good as another. With an empty
        list no beginning is known, but whole words are.
    boundary
        whether a text begins with ``<s>`` and ends with ``</s>``, as sentences do.
    unk_score_offset
        added to log10 p of a word that the language model does not know; also the score of a word
        that has begun like no word of its vocabulary.
    n_jobs
        threads for batches; None is all cores.

    Examples
    --------
    >>> import numpy as np
    >>> decoder = CTCDecoder(["", " ", "a", "b"])
    >>> p = np.full((5, 4), 0.02)
    >>> for t, label in enumerate([2, 0, 2, 1, 3]):
    ...     p[t, label] = 0.94
    >>> decoder.decode(np.log(p))
    'aa b'
    >>> best = decoder.decode_beams(np.log(p), k=1)[0]
    >>> best.words
    [Word(text='aa', start=0, end=3), Word(text='b', start=4, end=5)]

    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        lm: str | os.PathLike[str] | NGramModel | Any | None = None,
        alpha: float = 0.5,
        beta: float = 1.5,
        beam_width: int = 100,
        hotwords: Iterable[str] | None = None,
        hotword_weight: float = 10.0,
        lexicon: str | os.PathLike[str] | Iterable[str] | None = None,
        vocabulary: Iterable[str] | None = None,
        boundary: bool = True,
        token_min_logp: float | None = -5.0,
        beam_prune_logp: float | None = -10.0,
        unk_score_offset: float = -10.0,
        blank: int | None = None,
        units: str = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self._labels = read_labels(labels, blank, units)
        self._jobs = resolve_jobs(n_jobs)
        width = as_positive(beam_width, "beam_width")
        prune = _number(beam_prune_logp, "beam_prune_logp", infinite=True)
        if prune > 0:
            raise InputError(f"beam_prune_logp is {prune}: must not be above 0")
        options = (
            _number(alpha, "alpha"),
            _number(beta, "beta"),
            _number(unk_score_offset, "unk_score_offset"),
            _number(hotword_weight, "hotword_weight"),
            _number(token_min_logp, "token_min_logp", infinite=True),
            prune,
            width,
            self._labels.blank,
            self._labels.space,
        )
        language = read_language(lm, bool(boundary))
        words = read_lexicon(lexicon, self._labels)
        known = read_vocabulary(vocabulary)
        if known is None and words and language.foreign:
            known = words.words  # a foreign model does not say which words it has
        pieces = [(text, starts, ends) for text, starts, ends in self._labels.pieces]
        hot = read_hot_words(hotwords)
        self._core = _core.CtcWords(
            pieces, options, language.own, language.foreign, known, hot, bool(boundary)
        )
        if words:
            self._core.allow(words.words, words.spellings)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels as they were given."""
        return self._labels.labels

    @property
    def blank(self) -> int:
        """The index of the blank."""
        return self._labels.blank

    @property
    def units(self) -> str:
        """What the labels are: ``characters``, ``bpe`` or ``words``."""
        return self._labels.units

    def decode(self, log_probs: Array, *, logits: bool = False, start: Any = None) -> str:
        """The best text of ``(T, V)`` log-probabilities, or of any scores with ``logits=True``.

        It follows the text whose `Transcript` has the state ``start``, if one is given.
        """
        ((best,),) = self._decode([log_probs], None, logits, 1, timed=False, start=start)
        return " ".join(best[0])

    def decode_batch(
        self,
        batch: Array | Sequence[Array],
        *,
        lengths: Array | Sequence[int] | None = None,
        logits: bool = False,
    ) -> list[str]:
        """The best text of each: of a list of ``(T, V)``, or of ``(B, T, V)`` with `lengths`.

        Of hypotheses that language model and letters can no longer tell apart, only the best is
        kept, which is faster. `decode_beams` keeps them all.
        """
        found = self._decode(batch, lengths, logits, 1, timed=False)
        return [" ".join(best[0]) for (best,) in found]

    def decode_beams(
        self,
        log_probs: Array,
        *,
        k: int = 10,
        logits: bool = False,
        start: Any = None,
        prune_history: bool = False,
    ) -> list[Transcript]:
        """The `k` best texts, best first, with the times of their words.

        ``start`` is the state of a transcript that they follow. With ``prune_history``, of
        hypotheses that language model and letters can no longer tell apart only the best is kept.
        """
        count, alike = as_positive(k, "k"), bool(prune_history)
        (found,) = self._decode(
            [log_probs], None, logits, count, timed=True, start=start, only_best=alike
        )
        return [_transcript(*best) for best in found]

    def decode_beams_batch(
        self,
        batch: Array | Sequence[Array],
        *,
        lengths: Array | Sequence[int] | None = None,
        k: int = 10,
        logits: bool = False,
        prune_history: bool = False,
    ) -> list[list[Transcript]]:
        """The `k` best texts of each, as `decode_beams`."""
        count, alike = as_positive(k, "k"), bool(prune_history)
        found = self._decode(batch, lengths, logits, count, timed=True, only_best=alike)
        return [[_transcript(*best) for best in row] for row in found]

    def stream(self, *, logits: bool = False) -> "Stream":
        """A decoder that is fed frames as they come."""
        return Stream(self._core, self._labels, logits)

    def align(self, log_probs: Array, text: str, *, logits: bool = False) -> Aligned:
        """When each word and each label of a known text was said.

        >>> import numpy as np
        >>> decoder = CTCDecoder(["", " ", "a", "b"])
        >>> x = np.log([[0.1, 0.1, 0.7, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
        >>> [(word.text, word.start, word.end) for word in decoder.align(x, "a b").words]
        [('a', 0, 1), ('b', 2, 3)]
        """
        if not isinstance(text, str):
            raise InputError(f"text is {type(text).__name__}: must be a str")
        words = text.split()
        x = self._prepare(log_probs, "log_probs").scores[0]
        if logits:
            from scipy.special import log_softmax

            x = log_softmax(x, axis=1)
        spelt = [self._labels.spell(word) for word in words]
        gap = [self._labels.space] if self._labels.space >= 0 else []
        target = [label for i, word in enumerate(spelt) for label in (gap if i else []) + word]
        path = ctc.align(x, target, blank=self._labels.blank, n_jobs=1)
        assert isinstance(path, ctc.Alignment)
        units = [
            Unit(self._labels.labels[label], int(start), int(end), float(confidence))
            for label, start, end, confidence in zip(target, *path[1:4], strict=True)
        ]
        found, done = [], 0
        for word, own in zip(words, spelt, strict=True):
            inside = units[done : done + len(own)]
            found.append(Unit(word, inside[0].start, inside[-1].end, _joint(inside)))
            done += len(own) + len(gap)
        return Aligned(found, units, path.score)

    def _prepare(self, log_probs: Any, name: str) -> Batch:
        x = prepare(log_probs, self._labels.blank, None)
        if not x.single:
            raise InputError(f"{name} has shape {np.shape(log_probs)}: must be (T, V)")
        _check_width(x.scores, self._labels, name)
        return x

    def _decode(
        self,
        batch: Any,
        lengths: Any,
        logits: bool,
        k: int,
        timed: bool,
        start: Any = None,
        only_best: bool | None = None,
    ) -> list[list[Any]]:
        rows = self._rows(batch, lengths)
        double = any(row.dtype == np.float64 for row in rows)
        decode = self._core.decode_float64 if double else self._core.decode_float32
        dtype = np.float64 if double else np.float32
        ready = [np.require(row, dtype, ["C", "A"]) for row in rows]
        alike = not timed if only_best is None else only_best
        try:
            found = decode(ready, bool(logits), k, alike, timed, self._jobs, start)
        except (ValueError, TypeError) as error:
            if start is None:
                raise
            raise InputError(f"start is {start!r:.80}: {error}") from None
        for i, row in enumerate(found):
            if not row:
                raise InfeasibleError(f"sequence {i}: no text is possible at all of its frames")
        return found

    def _rows(self, batch: Any, lengths: Any) -> list[Array]:
        """(T, V) of each sequence."""
        if isinstance(batch, np.ndarray) and batch.ndim == 3:
            x = prepare(batch, self._labels.blank, lengths)
            _check_width(x.scores, self._labels, "batch")
            return [row[:length] for row, length in zip(x.scores, x.lengths, strict=True)]
        if lengths is not None:
            raise InputError("lengths go with a (B, T, V) array")
        if isinstance(batch, np.ndarray) or not isinstance(batch, Sequence):
            raise InputError("a batch is a list of (T, V) arrays or a (B, T, V) array")
        rows = []
        for i, own in enumerate(batch):
            try:
                rows.append(self._prepare(own, "log_probs").scores[0])
            except InputError as error:
                raise InputError(f"sequence {i}: {error}") from None
        return rows


class Stream:
    """Frames in, text out, as they come: `feed` chunks of ``(T, V)``, then `finish`.

    >>> import numpy as np
    >>> stream = CTCDecoder(["", " ", "a", "b"]).stream()
    >>> one = np.log([[0.02, 0.02, 0.94, 0.02], [0.02, 0.94, 0.02, 0.02]])
    >>> stream.feed(one)
    Partial(text='a', stable='')
    >>> stream.finish()[0].text
    'a'
    """

    def __init__(self, words: _core.CtcWords, labels: LabelSet, logits: bool) -> None:
        self._words, self._labels, self._logits = words, labels, bool(logits)
        self._core: _core.CtcStreamFloat64 | None = None
        self._dtype: Any = None
        self._ended = False

    def feed(self, frames: Array) -> Partial:
        """Take some more frames; all chunks must have one dtype."""
        self._check_open()
        x = np.asarray(frames)
        if x.ndim == 2 and len(x) == 0 and x.shape[1] == len(self._labels.pieces):
            return self._partial()
        x = prepare(x, self._labels.blank, None).scores[0]
        _check_width(x, self._labels, "frames")
        if self._core is None:
            self._start(x.dtype)
        if x.dtype != self._dtype:
            raise InputError(f"frames are {x.dtype}, those before {self._dtype}")
        assert self._core is not None
        failed = self._core.feed(np.require(x, requirements=["C", "A"]))
        if failed >= 0:
            self._ended = True
            raise InfeasibleError(f"frame {failed}: no text is possible")
        return self._partial()

    def finish(self, k: int = 10) -> list[Transcript]:
        """The `k` best texts, as `CTCDecoder.decode_beams` of all frames; nothing can follow."""
        count = as_positive(k, "k")
        self._check_open()
        self._ended = True
        if self._core is None:
            self._start(np.dtype(np.float64))
        assert self._core is not None
        return [_transcript(*best) for best in self._core.finish(count)]

    def _start(self, dtype: Any) -> None:
        single = dtype == np.float32
        make = _core.CtcStreamFloat32 if single else _core.CtcStreamFloat64
        self._core, self._dtype = make(self._words, self._logits), dtype

    def _partial(self) -> Partial:
        return Partial("", "") if self._core is None else Partial(*self._core.partial())

    def _check_open(self) -> None:
        if self._ended:
            raise InputError("the stream has ended: take a new one")


def _transcript(
    words: list[str],
    starts: list[int],
    ends: list[int],
    acoustic: float,
    bonus: float,
    state: Any,
) -> Transcript:
    timed = starts if starts else [0] * len(words)
    own = [Word(*word) for word in zip(words, timed, ends if ends else timed, strict=True)]
    return Transcript(" ".join(words), own, acoustic, bonus, acoustic + bonus, state)


def _joint(units: list[Unit]) -> float:
    """The confidence of several units: a mean over all of their frames."""
    frames = [unit.end - unit.start for unit in units]
    logs = [math.log(unit.confidence) if unit.confidence > 0 else -math.inf for unit in units]
    total = sum(n * log for n, log in zip(frames, logs, strict=True))
    return math.exp(total / sum(frames))


def _check_width(x: NDArray[Any], labels: LabelSet, name: str) -> None:
    if x.shape[-1] != len(labels.pieces):
        raise InputError(f"{name} has {x.shape[-1]} scores a frame for {len(labels.pieces)} labels")


def _number(value: Any, name: str, infinite: bool = False) -> float:
    """A finite number; None is -inf where that means something."""
    if value is None and infinite:
        return -math.inf
    if isinstance(value, bool | str):
        raise InputError(f"{name} must be a number, not {value!r}")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number, not {value!r}") from None
    if math.isnan(number) or (math.isinf(number) and not (infinite and number < 0)):
        raise InputError(f"{name} is {number}")
    return number
