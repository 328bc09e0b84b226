"""The models of a server: sequence models, emissions of CTC networks, and word vectors."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.app.cli.ctc.emissions import EmissionOptions, build_decoder, read_emissions
from trellis.app.model_files import open_sequence_model
from trellis.app.web.http.errors import RequestError
from trellis.app.web.http.messages import Limits
from trellis.data import tags, text
from trellis.embeddings.vectors import Vectors
from trellis.errors import FormatError, InputError
from trellis.formats import arrays
from trellis.models.files import load
from trellis.plots.interactive import sentence_payload

__all__ = ["MAX_CELLS", "ChainModel", "Emissions", "WordVectors", "open_model"]

MAX_CELLS = 1 << 25  # labels² · tokens of a request: 256 MB of pair marginals
_ARRAYS = (".npy", ".npz")


@dataclass
class ChainModel:
    """A fitted sequence model and what a request needs to know about it."""

    name: str
    model: Any
    path: Path
    kind: ClassVar[str] = "chain"
    labels: list[str] = field(init=False)
    columns: int | None = field(init=False)
    """Number of columns of a token; None if tokens are ready features."""
    spans: str | None = field(init=False)
    """The tagging scheme of the labels, or None if they are not tags of spans."""

    def __post_init__(self) -> None:
        # Requests are answered in several threads. A second level of threads would only compete.
        self.model.n_jobs = 1
        self.labels = [str(label) for label in self.model.classes_]
        self.columns = self.model.describe().columns
        scheme = tags.detect(self.labels, otherwise="plain")
        self.spans = None if scheme == "plain" else scheme

    @property
    def key(self) -> int:
        """A number that no other model has while a request waits for this one.

        The number of the model in requests would not do: training replaces it while they wait.
        """
        return id(self.model)

    @property
    def needs(self) -> str:
        """The kind of tokens: ``text``, ``columns`` or ``features``."""
        return {None: "features", 1: "text"}.get(self.columns, "columns")

    def describe(self) -> list[tuple[str, str]]:
        """Return what the page says about it, as names and values."""
        facts = self.model.describe()
        rows = [("model", type(self.model).__name__), ("labels", f"{len(self.labels):,}")]
        if facts.weights is not None:
            rows.append(("weights", f"{facts.weights:,}"))
        rows += list(facts.settings.items())
        if facts.steps:
            rows.append((f"{facts.unit}s", f"{facts.steps:,}"))
        if facts.loss is not None:
            rows.append(("loss", f"{facts.loss:,.4g}"))
        return rows

    def read_sequence(self, value: Any, where: str = "the sequence") -> list[Any]:
        """Return the tokens of a text or of a list; raise RequestError if they do not fit.

        A token is a string, a list with one string per column, or for a model of ready features a
        list of names or an object of names and values.
        """
        if isinstance(value, str):
            if self.columns != 1:
                raise RequestError(422, f"{where} is text, but the model needs {self._expected()}")
            return text.tokenize(value)
        if self.columns == 1 and set(map(type, value)) <= {str}:
            return value  # type: ignore[no-any-return]  # the ordinary case, checked at once
        return [self._read_token(token, where, t) for t, token in enumerate(value)]

    def _read_token(self, token: Any, where: str, t: int) -> Any:
        if self.columns is None:
            fits = isinstance(token, list | dict)
        elif self.columns == 1:
            fits = isinstance(token, str)
        else:
            fits = isinstance(token, list) and len(token) == self.columns
            token = tuple(token) if fits else token
        if not fits:
            raise RequestError(422, f"{where}[{t}]: the model needs {self._expected()}")
        return token

    def _expected(self) -> str:
        if self.columns is None:
            return "tokens of features: a list of names, or an object of names and values"
        if self.columns == 1:
            return "tokens that are strings"
        return f"tokens of {self.columns} columns: a list of {self.columns} strings each"

    def check_size(self, lengths: list[int], limits: Limits) -> None:
        """Raise RequestError if sequences of these lengths are too much work for one request."""
        total = sum(lengths)
        if total > limits.max_tokens:
            raise RequestError(
                413, f"the request has {total:,} tokens, at most {limits.max_tokens:,} are allowed"
            )
        if len(self.labels) ** 2 * total > MAX_CELLS:
            raise RequestError(
                413,
                f"{total:,} tokens and {len(self.labels):,} labels are too many for one request: "
                f"labels² · tokens must be at most {MAX_CELLS:,}",
            )

    def payload(self, x: list[Any], gold: list[str] | None = None) -> dict[str, Any]:
        """Return the scores of a sentence, with which the page runs the recursions."""
        if not x:
            raise RequestError(422, "the text has no tokens")
        if getattr(self.model, "order", 1) > 1:
            # The scores have a column for each pair of labels, and the page could not pin a label.
            raise RequestError(
                422,
                f"{self.name} has order {self.model.order}: the page shows models of first order; "
                "the JSON interface has tags, marginals and the best paths of this model",
            )
        return sentence_payload(
            name_tokens(x),
            self.labels,
            self.model.scores([x]),
            name=self.name,
            columns=name_columns(x),
            gold=gold,
            spans=self.spans,
        )


@dataclass
class Emissions:
    """Log-probabilities of a CTC network for one recording, and the recording."""

    name: str
    scores: NDArray[np.float64]
    """(frames, symbols) log p."""
    decoder: Any
    audio: Path | None = None
    kind: ClassVar[str] = "ctc"

    @property
    def labels(self) -> list[str]:
        """The symbols."""
        return list(self.decoder.labels)

    @property
    def needs(self) -> str:
        """Emissions take no text."""
        return "features"

    def describe(self) -> list[tuple[str, str]]:
        """Return what the page says about it, as names and values."""
        frames, symbols = self.scores.shape
        facts = [("frames", f"{frames:,}"), ("symbols", f"{symbols:,}")]
        return facts if self.audio is None else [*facts, ("audio", self.audio.name)]


@dataclass
class WordVectors:
    """Vectors of words."""

    name: str
    vectors: Vectors
    kind: ClassVar[str] = "vectors"

    @property
    def labels(self) -> list[str]:
        """Vectors have no labels."""
        return []

    @property
    def needs(self) -> str:
        """A word."""
        return "text"

    def describe(self) -> list[tuple[str, str]]:
        """Return what the page says about it, as names and values."""
        return [("words", f"{len(self.vectors):,}"), ("dimensions", f"{self.vectors.dim:,}")]


def open_model(
    path: Path, symbols: list[str] | None = None
) -> ChainModel | Emissions | WordVectors:
    """Return the model of a file: of trellis or of another program, emissions, or word vectors."""
    if path.suffix.lower() in _ARRAYS:
        return _open_emissions(path, symbols)
    try:
        model = load(path)
    except ImportError:
        model = open_sequence_model(path)  # raises the error that says what to install
    except FormatError as error:
        try:  # word vectors as text, of gensim, …
            return WordVectors(path.name, Vectors.load(path, errors="replace"))
        except FormatError:
            raise error from None
    if hasattr(model, "nearest"):
        return WordVectors(path.name, model)
    if not hasattr(model, "describe"):
        raise InputError(
            f"{path}: the model is a {type(model).__name__}: trellis serve shows models of "
            "sequences, emissions of CTC networks and word vectors"
        )
    facts = model.describe()
    if facts.columns is None and facts.linear is None:
        raise InputError(
            f"{path}: this {type(model).__name__} takes numbers: trellis serve needs one of words"
        )
    return ChainModel(path.name, model, path)


def _open_emissions(path: Path, symbols: list[str] | None) -> Emissions:
    """Read emissions; without names, symbol 0 is the blank and the others are numbered."""
    if symbols is None:
        widths = {array.shape[-1] for array in arrays.read(path).values() if array.ndim >= 2}
        if len(widths) != 1:
            raise FormatError(f"{path}: must contain one array of shape (frames, symbols)")
        symbols = ["", *map(str, range(1, widths.pop()))]
    decoder = build_decoder(symbols, EmissionOptions(units="words" if not symbols else "auto"))
    utterances = read_emissions([path], len(symbols))
    if len(utterances) > 1:
        raise FormatError(f"{path}: has {len(utterances)} utterances: save one to a file")
    scores = np.asarray(utterances[0].emissions, dtype=np.float64)
    return Emissions(path.name, scores, decoder)


def name_tokens(x: list[Any]) -> list[str]:
    """Return a string for each token: the word, or all features."""
    if set(map(type, x)) <= {str}:  # the ordinary case, checked at once
        return x
    return [
        token if isinstance(token, str) else token[0] if isinstance(token, tuple) else _show(token)
        for token in x
    ]


def _show(features: Any) -> str:
    return " ".join(map(str, features)) if isinstance(features, list) else json.dumps(features)


def name_columns(x: list[Any]) -> dict[str, list[str]] | None:
    """Return the further columns of the tokens by name, or None if there are none."""
    if not x or not isinstance(x[0], tuple) or len(x[0]) < 2:
        return None
    return {f"column {n}": [token[n] for token in x] for n in range(1, len(x[0]))}
