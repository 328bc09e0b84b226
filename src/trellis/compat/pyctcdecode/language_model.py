"""pyctcdecode's language models: ``score(state, word) = alpha ln p(word | state) + beta``.

A `LanguageModel` contains a model that trellis reads from an ARPA file, or a ``kenlm.Model``.
States are objects of the model: callers store them and pass them to the next call.
"""

from __future__ import annotations

import abc
import json
import logging
import os
import re
import shutil
from bisect import bisect_left
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar

from trellis.compat.pyctcdecode.constants import (
    AVG_TOKEN_LEN,
    DEFAULT_ALPHA,
    DEFAULT_BETA,
    DEFAULT_HOTWORD_WEIGHT,
    DEFAULT_SCORE_LM_BOUNDARY,
    DEFAULT_UNK_LOGP_OFFSET,
    LOG_BASE_CHANGE_FACTOR,
)
from trellis.data.atomic import replacing
from trellis.data.files import lines
from trellis.errors import FormatError, InputError
from trellis.formats import arpa
from trellis.models.ctc.language_model import is_kenlm, open_kenlm, read_hot_words, read_vocabulary

__all__ = [
    "AbstractLanguageModel",
    "HotwordScorer",
    "LanguageModel",
    "MultiLanguageModel",
    "load_unigram_set_from_arpa",
]

logger = logging.getLogger(__name__)


def load_unigram_set_from_arpa(arpa_path: str) -> set[str]:
    """Return the words of an ARPA file that have a back-off weight.

    pyctcdecode uses only these words. No n-gram of the file continues the other words.
    """
    words, in_unigrams = set(), False
    for line in lines(arpa_path):
        text = line.strip()
        if text == "\\1-grams:":
            in_unigrams = True
        elif in_unigrams and text.startswith("\\"):
            break
        elif in_unigrams and len(parts := text.split("\t")) == 3:  # probability, word, back-off
            words.add(parts[1])
    if not words:
        raise FormatError(f"{arpa_path}: no word has a back-off weight: pass unigrams")
    return words


class PrefixIndex:
    """A set of words that can be searched by prefix.

    >>> known = PrefixIndex(["hodor", "tyrion"])
    >>> known.has_node("hod"), known.has_node("dor")
    (True, False)
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._words = sorted(set(words))  # words with the same prefix are adjacent

    def has_node(self, text: str) -> bool:
        """Return whether a word starts with the text; named as in pygtrie."""
        return next(self.words(text), None) is not None

    def words(self, text: str) -> Any:
        """Yield the words that start with the text."""
        for i in range(bisect_left(self._words, text), len(self._words)):
            if not self._words[i].startswith(text):
                return
            yield self._words[i]


class HotwordScorer:
    """Computes the bonus of hot words. Hot words are words that are expected in the texts.

    >>> scorer = HotwordScorer.build_scorer(["hodor"], weight=10.0)
    >>> scorer.score("hodor said hodor"), scorer.score_partial_token("ho"), "x" in scorer
    (20.0, 4.0, False)
    """

    def __init__(
        self,
        match_ptn: re.Pattern[str],
        char_trie: PrefixIndex,
        weight: float = DEFAULT_HOTWORD_WEIGHT,
    ) -> None:
        self._match_ptn = match_ptn
        self._char_trie = char_trie
        self._weight = weight

    def __contains__(self, item: str) -> bool:
        return self._char_trie.has_node(item)

    def score(self, text: str) -> float:
        """Return the bonus of all hot words in a text."""
        return self._weight * len(self._match_ptn.findall(text))

    def score_partial_token(self, token: str) -> float:
        """Return the bonus of a partial word.

        It is weight · len(token) / len(w), where w is the shortest hot word that starts with the
        partial word; 0 if there is no such hot word.
        """
        shortest = min(map(len, self._char_trie.words(token)), default=0)
        return self._weight * len(token) / shortest if shortest else 0.0

    @classmethod
    def build_scorer(
        cls, hotwords: Iterable[str] | None = None, weight: float = DEFAULT_HOTWORD_WEIGHT
    ) -> HotwordScorer:
        """Return a scorer for words; phrases are split into words."""
        words = read_hot_words(hotwords)
        pattern = rf"(?<!\S)(?:{'|'.join(map(re.escape, words))})(?!\S)" if words else r"(?!)"
        return cls(re.compile(pattern), PrefixIndex(words), weight)


class AbstractLanguageModel(abc.ABC):
    """Interface of a language model; scores are weighted natural logarithms."""

    @property
    @abc.abstractmethod
    def order(self) -> int:
        """Length of the longest n-grams."""

    @abc.abstractmethod
    def get_start_state(self) -> Any:
        """Return the state before the first word."""

    @abc.abstractmethod
    def score_partial_token(self, partial_token: str) -> float:
        """Return the score of a partial word."""

    @abc.abstractmethod
    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        """Return the score of a word after a state, and the next state."""

    def save_to_dir(self, filepath: str) -> None:
        """Save the model to a folder."""
        raise NotImplementedError(f"{type(self).__name__} has no save_to_dir")

    @classmethod
    def load_from_dir(cls, filepath: str) -> AbstractLanguageModel:
        """Load the model from a folder."""
        raise NotImplementedError(f"{cls.__name__} has no load_from_dir")

    def reset_params(self, **params: Any) -> None:  # noqa: B027  not every model has parameters
        """Change parameters of the model."""


class LanguageModel(AbstractLanguageModel):
    """A word n-gram model: a ``kenlm.Model``, an `NGramModel`, or the path of the file of a model.

    ``unigrams`` are the known words. Without them, every partial word gets the penalty of an
    unknown word, as in pyctcdecode.
    """

    JSON_ATTRS = ("alpha", "beta", "unk_score_offset", "score_boundary")
    _ATTRS_SERIALIZED_FILENAME = "attrs.json"
    _UNIGRAMS_SERIALIZED_FILENAME = "unigrams.txt"
    _SUFFIXES: ClassVar[set[str]] = {".arpa", ".bin", ".binary"}

    def __init__(
        self,
        kenlm_model: Any,
        unigrams: Collection[str] | None = None,
        alpha: float = DEFAULT_ALPHA,
        beta: float = DEFAULT_BETA,
        unk_score_offset: float = DEFAULT_UNK_LOGP_OFFSET,
        score_boundary: bool = DEFAULT_SCORE_LM_BOUNDARY,
    ) -> None:
        if isinstance(kenlm_model, str | os.PathLike):
            kenlm_model = _open_model(kenlm_model)
        self._kenlm_model = kenlm_model
        words = read_vocabulary(unigrams)
        if words is None:
            logger.warning("without unigrams, every partial word is scored as an unknown word")
        self._unigram_set = {word for word in words or () if word in kenlm_model}
        if words and len(self._unigram_set) < 0.1 * len(words):
            logger.warning("less than a tenth of the unigrams are words of the language model")
        self._char_trie = PrefixIndex(self._unigram_set)
        self.alpha, self.beta = alpha, beta
        self.unk_score_offset, self.score_boundary = unk_score_offset, score_boundary

    def reset_params(self, **params: Any) -> None:
        """Set alpha, beta, unk_score_offset or score_boundary."""
        for name in self.JSON_ATTRS:
            value = params.get(name)
            type_ = bool if name == "score_boundary" else float
            if value is None:
                continue
            if not isinstance(value, type_):
                raise InputError(f"{name} must be a {type_.__name__}, not {value!r:.80}")
            setattr(self, name, value)

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return int(self._kenlm_model.order)

    def get_start_state(self) -> Any:
        """Return the state after ``<s>``; without ``score_boundary``, an empty context."""
        model = self._kenlm_model
        if isinstance(model, arpa.NGramModel):
            return model.start(self.score_boundary)
        state = _new_state()
        (model.BeginSentenceWrite if self.score_boundary else model.NullContextWrite)(state)
        return state

    def _score_step(self, state: Any, word: str) -> tuple[float, Any]:
        """Return log10 p(word | state) and the next state."""
        model = self._kenlm_model
        if isinstance(model, arpa.NGramModel):
            return model.step(state, word)
        next_state = _new_state()
        return float(model.BaseScore(state, word, next_state)), next_state

    def score_partial_token(self, partial_token: str) -> float:
        """Return 0 if a known word starts with the text, otherwise a penalty."""
        if self._char_trie.has_node(partial_token):
            return 0.0
        return self.unk_score_offset * max(1.0, len(partial_token) / AVG_TOKEN_LEN)

    def score(self, prev_state: Any, word: str, is_last_word: bool = False) -> tuple[float, Any]:
        """Return the score of a word and the next state.

        The score of the last word includes the score of the end of the text.
        """
        log10, next_state = self._score_step(prev_state, word)
        # Without unigrams, the words of the model itself are the known words.
        is_known = word in self._unigram_set or (
            not self._unigram_set and word in self._kenlm_model
        )
        if not is_known:
            log10 += self.unk_score_offset
        if is_last_word and self.score_boundary:
            log10 += self._score_step(next_state, "</s>")[0]
        return self.alpha * log10 * LOG_BASE_CHANGE_FACTOR + self.beta, next_state

    # ---- files: attrs.json, unigrams.txt and the language model itself

    @property
    def serializable_attrs(self) -> dict[str, Any]:
        """The content of attrs.json."""
        return {name: getattr(self, name) for name in self.JSON_ATTRS}

    def save_to_dir(self, filepath: str, unigram_encoding: str | None = None) -> None:
        """Save the model to a folder; the file of the language model is copied."""
        path = self._kenlm_model.path
        if path is None:
            raise InputError(
                "the language model was not loaded from a file: only models from files can be saved"
            )
        source = Path(os.fsdecode(path))
        folder = Path(filepath)
        with replacing(folder / self._ATTRS_SERIALIZED_FILENAME) as file:
            file.write(json.dumps(self.serializable_attrs).encode())
        words = "".join(f"{word}\n" for word in sorted(self._unigram_set))
        encoding = unigram_encoding or "utf-8"
        with replacing(folder / self._UNIGRAMS_SERIALIZED_FILENAME) as file:
            file.write(words.encode(encoding))
        with open(source, "rb") as model, replacing(folder / source.name) as file:
            shutil.copyfileobj(model, file)
        shutil.copystat(source, folder / source.name)

    @staticmethod
    def parse_directory_contents(filepath: str) -> dict[str, str]:
        """Return the paths of a saved model's files by role: json_attrs, unigrams, kenlm.

        Hidden files are ignored; any other file is an error.
        """
        names = sorted(
            file_name for file_name in os.listdir(filepath) if not file_name.startswith((".", "__"))
        )
        attrs = LanguageModel._ATTRS_SERIALIZED_FILENAME
        unigrams = LanguageModel._UNIGRAMS_SERIALIZED_FILENAME
        models = [name for name in names if name not in (attrs, unigrams)]
        if len(names) != 3 or len(models) != 1:
            raise FormatError(
                f"{filepath}: the folder must contain {attrs}, {unigrams} and one language model "
                f"file; it contains {names}"
            )
        if os.path.splitext(models[0])[1] not in LanguageModel._SUFFIXES:
            raise FormatError(f"{filepath}: {models[0]} must end in .arpa, .bin or .binary")
        files = {"json_attrs": attrs, "unigrams": unigrams, "kenlm": models[0]}
        return {role: os.path.join(filepath, name) for role, name in files.items()}

    @classmethod
    def load_from_dir(cls, filepath: str, unigram_encoding: str | None = None) -> LanguageModel:
        """Load the model from a folder."""
        files = cls.parse_directory_contents(filepath)
        try:
            attrs = json.loads(Path(files["json_attrs"]).read_bytes())
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{files['json_attrs']}: {error}") from None
        if not isinstance(attrs, dict) or set(attrs) != set(cls.JSON_ATTRS):
            raise FormatError(
                f"{files['json_attrs']}: must have exactly the keys {', '.join(cls.JSON_ATTRS)}"
            )
        for name, value in attrs.items():
            must_be_bool = name == "score_boundary"
            # bool is a subclass of int, so both types are tested.
            if isinstance(value, bool) != must_be_bool or not isinstance(value, int | float):
                expected = "true or false" if must_be_bool else "a number"
                raise FormatError(
                    f"{files['json_attrs']}: {name} is {value!r:.80}: must be {expected}"
                )
        words = list(lines(files["unigrams"], unigram_encoding or "utf-8"))
        return cls(files["kenlm"], words, **attrs)


class MultiLanguageModel(AbstractLanguageModel):
    """The mean of several language models."""

    def __init__(self, language_models: list[LanguageModel]) -> None:
        if len(language_models) < 2:
            raise InputError(
                f"language_models has {len(language_models)} models: must have at least 2"
            )
        self._language_models = language_models

    @property
    def order(self) -> int:
        """The largest order of all models."""
        return max(lm.order for lm in self._language_models)

    def get_start_state(self) -> list[Any]:
        """Return the list of the start states of all models."""
        return [lm.get_start_state() for lm in self._language_models]

    def score_partial_token(self, partial_token: str) -> float:
        """Return the mean score of a partial word."""
        scores = [lm.score_partial_token(partial_token) for lm in self._language_models]
        return sum(scores) / len(scores)

    def score(
        self, prev_state: list[Any], word: str, is_last_word: bool = False
    ) -> tuple[float, list[Any]]:
        """Return the mean score of a word, and the list of the next states."""
        results = [
            lm.score(state, word, is_last_word=is_last_word)
            for state, lm in zip(prev_state, self._language_models, strict=True)
        ]
        states = [state for _, state in results]
        return sum(score for score, _ in results) / len(results), states


def _open_model(path: str | os.PathLike[str]) -> Any:
    return open_kenlm(path) if is_kenlm(path) else arpa.read(path)


def _new_state() -> Any:
    """Return an empty state of KenLM."""
    import kenlm  # optional package: imported only if the model is a kenlm.Model

    return kenlm.State()
