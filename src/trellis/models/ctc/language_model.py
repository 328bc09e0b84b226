"""Language models and word lists of a CTC decoder, from wherever they come."""

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from trellis import _core
from trellis.checks import is_text
from trellis.data.files import lines, name_of, wrong
from trellis.errors import InputError
from trellis.formats import arpa
from trellis.models.ctc.labels import LabelSet

_KENLM = b"mmap lm http://kheafield.com/code"


class Language(NamedTuple):
    """A model of the core's own, or a maker of sessions with a foreign one, or neither."""

    own: _core.NgramModel | None = None
    foreign: Callable[[Any], Any] | None = None


def read_language(lm: Any, boundary: bool = True) -> Language:
    """A path (ARPA, packed or not; KenLM's binaries), an NGramModel, a kenlm.Model, a Language."""
    if lm is None or isinstance(lm, Language):
        return lm or Language()
    if isinstance(lm, arpa.NGramModel):
        return Language(own=lm.core)
    if isinstance(lm, str | os.PathLike):
        binary = is_kenlm(lm)
        return _kenlm(open_kenlm(lm), boundary) if binary else Language(own=arpa.read(lm).core)
    if hasattr(lm, "BaseScore") and hasattr(lm, "BeginSentenceWrite"):
        return _kenlm(lm, boundary)
    raise InputError(f"lm is {type(lm).__name__}: must be a path, an NGramModel or a kenlm.Model")


def is_kenlm(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a KenLM binary."""
    with open(path, "rb") as file:
        return file.read(len(_KENLM)) == _KENLM


def open_kenlm(path: str | os.PathLike[str]) -> Any:
    """A KenLM binary, by the ``kenlm`` package."""
    try:
        import kenlm
    except ImportError:
        raise InputError(
            f"{name_of(path)} is a KenLM binary: pip install kenlm, or pass the ARPA file"
        ) from None
    return kenlm.Model(os.fspath(path))


def _kenlm(model: Any, boundary: bool) -> Language:
    return Language(foreign=lambda start: _KenlmSession(model, boundary, start))


class _KenlmSession:
    """A kenlm.Model for one sequence: states by number, equal ones once."""

    def __init__(self, model: Any, boundary: bool, start: Any) -> None:
        import kenlm

        if start is not None and not isinstance(start, kenlm.State):
            raise TypeError("must be a kenlm.State")
        self._model, self._new = model, kenlm.State
        self._boundary, self._start = boundary, start
        self._states: list[Any] = []
        self._number: dict[Any, int] = {}

    def _keep(self, state: Any) -> int:
        number = self._number.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def begin(self) -> int:
        if self._start is not None:
            return self._keep(self._start)
        state = self._new()
        write = self._model.BeginSentenceWrite if self._boundary else self._model.NullContextWrite
        write(state)
        return self._keep(state)

    def kept(self, state: int) -> Any:
        return self._states[state]

    def score(self, state: int, word: str) -> tuple[float, int, bool]:
        after = self._new()
        log10 = self._model.BaseScore(self._states[state], word, after)
        return float(log10), self._keep(after), word in self._model

    def end(self, state: int) -> float:
        if not self._boundary:
            return 0.0
        return float(self._model.BaseScore(self._states[state], "</s>", self._new()))


def read_vocabulary(vocabulary: Any) -> list[str] | None:
    """The words that count as known, or None."""
    if vocabulary is None:
        return None
    if isinstance(vocabulary, str) or not isinstance(vocabulary, Iterable):
        raise InputError(f"vocabulary must be a list of words, not {vocabulary!r:.80}")
    words = list(vocabulary)
    for word in words:
        if not is_text(word):
            raise InputError(f"a word of the vocabulary is {word!r:.80}: must be text")
    return words


class Lexicon(NamedTuple):
    """The words that may be said, and how each is spelt if that is given."""

    words: list[str]
    spellings: list[list[int]] | None


def read_lexicon(lexicon: Any, labels: LabelSet) -> Lexicon | None:
    """Words, or a file with one a line: ``word`` or ``word<TAB>labels with spaces between``."""
    if lexicon is None:
        return None
    is_path = isinstance(lexicon, str | os.PathLike)
    name = name_of(lexicon) if is_path else "lexicon"
    entries = lines(lexicon) if is_path else lexicon
    if not isinstance(entries, Iterable):
        raise InputError(f"lexicon is {type(lexicon).__name__}: must be a path or a list of words")
    words, spellings, spelt = [], [], False
    for number, entry in enumerate(entries, 1):
        if not is_text(entry):
            raise InputError(f"{name}, entry {number} is {entry!r:.80}: must be text")
        word, tab, units = entry.partition("\t")
        word = word.strip()
        if not word and not tab:
            continue
        if not word or len(word.split()) > 1:
            raise wrong(name, number, f"{entry!r:.80} is not one word")
        words.append(word)
        spellings.append(_spelling(units.split(), labels, name, number))
        spelt = spelt or bool(spellings[-1])
    if not words:
        raise InputError(f"{name} has no words")
    if not spelt:
        _check_some_can_be_spelt(words, labels)
        return Lexicon(words, None)
    full = [own or labels.spell(word) for word, own in zip(words, spellings, strict=True)]
    return Lexicon(words, full)


def _check_some_can_be_spelt(words: list[str], labels: LabelSet) -> None:
    """A word that no labels spell is never found; a lexicon of nothing else is a mistake."""
    first: InputError | None = None
    for word in words:
        try:
            labels.spell(word)
            return
        except InputError as error:
            first = first or error
    raise InputError(f"no word of the lexicon can be spelt: {first}")


def _spelling(units: list[str], labels: LabelSet, name: str, number: int) -> list[int]:
    found = []
    for unit in units:
        if unit not in labels.labels:
            raise wrong(name, number, f"{unit!r:.80} is no label")
        found.append(labels.labels.index(unit))
        if found[-1] in (labels.blank, labels.space):
            raise wrong(name, number, f"{unit!r:.80} is the blank or parts words")
    return found


def read_hot_words(hotwords: Any) -> list[str]:
    """The words of a list of words and phrases, each once."""
    if hotwords is None:
        return []
    if isinstance(hotwords, str) or not isinstance(hotwords, Iterable):
        raise InputError(f"hotwords must be a list of words, not {hotwords!r:.80}")
    found: dict[str, None] = {}
    for phrase in hotwords:
        if not is_text(phrase):
            raise InputError(f"a hot word is {phrase!r:.80}: must be text")
        found.update(dict.fromkeys(phrase.split()))
    return list(found)
