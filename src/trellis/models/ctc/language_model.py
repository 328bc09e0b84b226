"""Load and validate the language model and the word lists of a CTC decoder."""

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from trellis.checks import is_text
from trellis.data.files import line_error, lines, name_of
from trellis.errors import InputError
from trellis.formats import arpa
from trellis.models.ctc.labels import LabelSet

_KENLM_MAGIC = b"mmap lm http://kheafield.com/code"


class Language(NamedTuple):
    """A language model of the core, or a language model in Python, or no language model."""

    model: arpa.NGramModel | None = None
    """A model whose core the decoder calls without Python."""
    foreign: Callable[[Any], Any] | None = None
    """A function ``(start state) -> session`` of a model in Python, such as kenlm's."""


def read_language(lm: Any, boundary: bool = True) -> Language:
    """Load a language model.

    ``lm`` is a path (an ARPA file, compressed or not, or a KenLM binary), an NGramModel, a
    kenlm.Model, a Language or None. With ``boundary``, sentences start with <s> and end with </s>.
    """
    if lm is None or isinstance(lm, Language):
        return lm or Language()
    if isinstance(lm, arpa.NGramModel):
        return Language(lm)
    if isinstance(lm, str | os.PathLike):
        is_binary = is_kenlm(lm)
        return _from_kenlm(open_kenlm(lm), boundary) if is_binary else Language(arpa.read(lm))
    if hasattr(lm, "BaseScore") and hasattr(lm, "BeginSentenceWrite"):
        return _from_kenlm(lm, boundary)
    raise InputError(f"lm must be a path, an NGramModel or a kenlm.Model, not {type(lm).__name__}")


def is_kenlm(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a KenLM binary; False for a pipe, which can be read only once."""
    if os.path.exists(path) and not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_KENLM_MAGIC)) == _KENLM_MAGIC


def open_kenlm(path: str | os.PathLike[str]) -> Any:
    """Load a KenLM binary with the ``kenlm`` package."""
    try:
        import kenlm
    except ImportError:
        raise InputError(
            f"{name_of(path)} is a KenLM binary: install the package kenlm, or pass an ARPA file"
        ) from None
    return kenlm.Model(os.fspath(path))


def _from_kenlm(model: Any, boundary: bool) -> Language:
    return Language(foreign=partial(_KenlmSession, model, boundary))


class _KenlmSession:
    """A kenlm.Model for one sequence. Each distinct state has a number.

    The decoder in the core calls the public methods. It compares states by their numbers, to merge
    hypotheses with the same language model state.
    """

    def __init__(self, model: Any, boundary: bool, start: Any) -> None:
        import kenlm

        if start is not None and not isinstance(start, kenlm.State):
            raise TypeError("must be a kenlm.State")
        self._model, self._new_state = model, kenlm.State
        self._boundary, self._start = boundary, start
        self._states: list[Any] = []
        self._number: dict[Any, int] = {}

    def _number_of(self, state: Any) -> int:
        """Return the number of a state; a new state gets the next number."""
        number = self._number.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def begin(self) -> int:
        """Return the state at the beginning of a sequence."""
        if self._start is not None:
            return self._number_of(self._start)
        state = self._new_state()
        write_start = (
            self._model.BeginSentenceWrite if self._boundary else self._model.NullContextWrite
        )
        write_start(state)
        return self._number_of(state)

    def kept(self, state: int) -> Any:
        """Return the kenlm.State with this number."""
        return self._states[state]

    def score(self, state: int, word: str) -> tuple[float, int, bool]:
        """Return log10 p(word | state), the next state, and whether the model knows the word."""
        next_state = self._new_state()
        log10 = self._model.BaseScore(self._states[state], word, next_state)
        return float(log10), self._number_of(next_state), word in self._model

    def end(self, state: int) -> float:
        """Return log10 p(end of the sentence | state)."""
        if not self._boundary:
            return 0.0
        return float(self._model.BaseScore(self._states[state], "</s>", self._new_state()))


def read_vocabulary(vocabulary: Any) -> list[str] | None:
    """Return the list of words that the language model knows, or None for None."""
    if vocabulary is None:
        return None
    if isinstance(vocabulary, str) or not isinstance(vocabulary, Iterable):
        raise InputError(f"vocabulary must be a list of words, not {vocabulary!r:.80}")
    words = list(vocabulary)
    for word in words:
        if not is_text(word):
            raise InputError(
                f"vocabulary contains {word!r:.80}: must be a str without unpaired surrogates"
            )
    return words


class Lexicon(NamedTuple):
    """The only words that the decoder may return."""

    words: list[str]
    spellings: list[list[int]] | None
    """The labels of each word; None if the file has no spellings."""


def read_lexicon(lexicon: Any, labels: LabelSet) -> Lexicon | None:
    """Load a lexicon from a list of words or from a file.

    A line of the file is ``word``, or ``word<TAB>labels`` with spaces between the labels.
    """
    if lexicon is None:
        return None
    is_path = isinstance(lexicon, str | os.PathLike)
    name = name_of(lexicon) if is_path else "lexicon"
    entries = lines(lexicon) if is_path else lexicon
    if not isinstance(entries, Iterable):
        raise InputError(f"lexicon must be a path or a list of words, not {type(lexicon).__name__}")
    words, spellings = [], []
    for entry_number, entry in enumerate(entries, 1):
        if not is_text(entry):
            raise InputError(
                f"{name}, entry {entry_number} is {entry!r:.80}: "
                "must be a str without unpaired surrogates"
            )
        word, tab, units = entry.partition("\t")
        word = word.strip()
        if not word and not tab:
            continue
        if not word or len(word.split()) > 1:
            raise line_error(name, entry_number, f"{entry!r:.80} must be one word without spaces")
        words.append(word)
        spellings.append(_parse_spelling(units.split(), labels, name, entry_number))
    if not words:
        raise InputError(f"{name} has no words: at least one is needed")
    if not any(spellings):
        _check_any_can_be_spelt(words, labels)
        return Lexicon(words, None)
    pairs = zip(words, spellings, strict=True)
    return Lexicon(words, [spelling or labels.spell(word) for word, spelling in pairs])


def _check_any_can_be_spelt(words: list[str], labels: LabelSet) -> None:
    """Raise InputError if the labels can spell no word: the decoder could then return nothing.

    Some words may be impossible to spell. The decoder never returns these words.
    """
    first_error: InputError | None = None
    for word in words:
        try:
            labels.spell(word)
            return
        except InputError as error:
            first_error = first_error or error
    raise InputError(f"the labels can spell no word of the lexicon: {first_error}")


def _parse_spelling(units: list[str], labels: LabelSet, name: str, entry_number: int) -> list[int]:
    """Return the indices of the labels of one line of a lexicon."""
    spelling = []
    for unit in units:
        if unit not in labels.labels:
            raise line_error(name, entry_number, f"{unit!r:.80} is not a label")
        spelling.append(labels.labels.index(unit))
        if spelling[-1] in (labels.blank, labels.space):
            raise line_error(
                name,
                entry_number,
                f"{unit!r:.80} is the blank or the word separator: not allowed in a spelling",
            )
    return spelling


def read_hot_words(hotwords: Any) -> list[str]:
    """Return the distinct words of a list of words and phrases."""
    if hotwords is None:
        return []
    if isinstance(hotwords, str) or not isinstance(hotwords, Iterable):
        raise InputError(f"hotwords must be a list of words, not {hotwords!r:.80}")
    words: dict[str, None] = {}
    for phrase in hotwords:
        if not is_text(phrase):
            raise InputError(
                f"hotwords contains {phrase!r:.80}: must be a str without unpaired surrogates"
            )
        words.update(dict.fromkeys(phrase.split()))
    return list(words)
