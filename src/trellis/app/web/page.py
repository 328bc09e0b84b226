"""The requests of the page: what each takes, and the function that answers it."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from trellis.app.web.api import MAX_TEXT, declare_sequence
from trellis.app.web.browsing import SORTS, browse, score_slices
from trellis.app.web.correcting import Corrections
from trellis.app.web.explaining import explain
from trellis.app.web.http.application import Endpoint
from trellis.app.web.http.errors import RequestError
from trellis.app.web.http.messages import Limits
from trellis.app.web.http.schema import (
    Choice,
    Flag,
    Items,
    Member,
    Nullable,
    Optional,
    Real,
    Record,
    Text,
    Whole,
)
from trellis.app.web.http.workers import Workers
from trellis.app.web.pictures import describe_emissions, find_neighbors
from trellis.app.web.retraining import Retraining
from trellis.app.web.served import Emissions
from trellis.app.web.session import Session
from trellis.app.web.static_files import FOLDERS
from trellis.plots.interactive import inline_page

__all__ = ["Page"]

_MAX_ROWS = 1_000
_MAX_LENGTH = 1 << 30
_WORD = Text(1_000)
_MODEL = Whole(0, 999)
_FILTER = Record(
    gold=Optional(Nullable(_WORD)),
    predicted=Optional(Nullable(_WORD)),
    label=Optional(Nullable(_WORD)),
    text=Optional(Nullable(_WORD)),
    min_length=Optional(Whole(0, _MAX_LENGTH), 0),
    max_length=Optional(Whole(0, _MAX_LENGTH), _MAX_LENGTH),
    min_probability=Optional(Real(), 0.0),
    max_probability=Optional(Real(), 1.0),
    errors_only=Optional(Flag(), False),
    disagreements_only=Optional(Flag(), False),
)


class Page:
    """The endpoints of the page, for the models, the data and the corrections of a server."""

    def __init__(
        self,
        session: Session,
        corrections: Corrections,
        retraining: Retraining,
        workers: Workers,
        limits: Limits,
    ) -> None:
        self.session, self.corrections, self.retraining = session, corrections, retraining
        self.workers, self.limits = workers, limits
        self.audio = _number_audio(session.models)
        """The recording of each model that has one, by its path in a URL."""

    def endpoints(self) -> dict[str, Endpoint]:
        """Return the endpoints by path."""
        sequence = declare_sequence(self.limits)
        source: dict[str, Member] = {
            "model": Optional(_MODEL, 0),
            "text": Optional(Text(MAX_TEXT)),
            "tokens": Optional(sequence.kinds["array"]),
            "index": Optional(Nullable(Whole(0, _MAX_LENGTH))),
        }
        position = Whole(0, _MAX_LENGTH)
        edge: dict[str, Member] = {"position": position, "label": _WORD, "runner_up": _WORD}
        listing: dict[str, Member] = {
            "model": Optional(_MODEL, 0),
            "other": Optional(Nullable(_MODEL)),
            "filter": Optional(_FILTER, _FILTER.read({}, "filter")),
            "sort": Optional(Choice(*SORTS), "index"),
            "offset": Optional(position, 0),
            "count": Optional(Whole(0, _MAX_ROWS), 50),
        }
        slice_ = Record(
            kind=Choice("word", "label", "unseen", "length"), value=Optional(Nullable(_WORD))
        )
        slices: dict[str, Member] = {"model": Optional(_MODEL, 0), "slices": Items(slice_, 50)}
        save: dict[str, Member] = {
            "index": Optional(Nullable(Whole(0, _MAX_LENGTH))),
            "tokens": sequence.kinds["array"],
            "labels": Items(Nullable(_WORD), self.limits.max_tokens),
            "format": Optional(Choice("conll", "jsonl"), "conll"),
        }
        word: dict[str, Member] = {
            "model": _MODEL,
            "word": _WORD,
            "count": Optional(Whole(1, 500), 20),
        }
        return {
            "/page/state": self._make(self._state, Record()),
            "/page/scores": self._make(self._scores, Record(**source)),
            "/page/explain": self._make(
                self._explain, Record(**source, **edge, previous=Optional(Nullable(_WORD)))
            ),
            "/page/browse": self._make(self._browse, Record(**listing)),
            "/page/slices": self._make(self._slices, Record(**slices)),
            "/page/save": self._make(self._save, Record(**save)),
            "/page/train": self._make(self._train, Record(model=Optional(_MODEL, 0))),
            "/page/training": self._make(self._training, Record()),
            "/page/ctc": self._make(self._ctc, Record(model=_MODEL)),
            "/page/neighbors": self._make(self._neighbors, Record(**word)),
            "/page/bundle": self._make(self._bundle, Record(entry=Choice("main"))),
        }

    def _make(self, function: Callable[[dict[str, Any]], Any], body: Record) -> Endpoint:
        """Return an endpoint whose function runs in a worker thread."""

        def call(values: dict[str, Any]) -> Awaitable[Any]:
            return self.workers.run(function, values)

        return Endpoint(call, body)

    def _state(self, values: dict[str, Any]) -> dict[str, Any]:
        path = self.session.data_path
        data = None
        if path is not None:
            data = {"name": path.name, "size": len(self.session.read_data().X)}
        return {
            "models": [
                {
                    "name": model.name,
                    "kind": model.kind,
                    "labels": model.labels,
                    "needs": model.needs,
                    "description": model.describe(),
                }
                for model in self.session.models
            ],
            "data": data,
            "can_save": self.corrections.folder is not None,
            "can_train": self.retraining.is_possible,
        }

    def _scores(self, values: dict[str, Any]) -> dict[str, Any]:
        x, gold = self._read(values)
        chain = self.session.chain(values["model"])
        return {"model": values["model"], **chain.payload(x, gold)}

    def _explain(self, values: dict[str, Any]) -> dict[str, Any]:
        x, _ = self._read(values)
        return explain(self.session.chain(values["model"]), x, values)

    def _read(self, values: dict[str, Any]) -> tuple[list[Any], list[str] | None]:
        """Return the tokens that a request means, and their true labels if they are known."""
        chain = self.session.chain(values["model"])
        sources = [name for name in ("text", "tokens", "index") if values[name] is not None]
        if len(sources) != 1:
            raise RequestError(400, "pass one of text, tokens and index")
        gold = None
        if values["index"] is not None:
            x, gold = self.session.sequence(values["model"], values["index"])
        else:
            x = chain.read_sequence(values[sources[0]], sources[0])
        chain.check_size([len(x)], self.limits)
        return x, gold

    def _browse(self, values: dict[str, Any]) -> dict[str, Any]:
        return browse(self.session, values)

    def _slices(self, values: dict[str, Any]) -> dict[str, Any]:
        return score_slices(self.session, values)

    def _save(self, values: dict[str, Any]) -> dict[str, Any]:
        tokens = [tuple(t) if isinstance(t, list) else t for t in values["tokens"]]
        if values["index"] is not None:
            # The page shows the first column of a token; the file needs all of them.
            X = self.session.read_data().X
            x = X[values["index"]] if values["index"] < len(X) else []
            tokens = x if len(x) == len(tokens) else tokens
        return self.corrections.add(tokens, values["labels"], values["format"])

    def _train(self, values: dict[str, Any]) -> dict[str, Any]:
        return self.retraining.start(values["model"])

    def _training(self, values: dict[str, Any]) -> dict[str, Any]:
        return self.retraining.state()

    def _ctc(self, values: dict[str, Any]) -> dict[str, Any]:
        number = values["model"]
        url = f"/page/audio/{number}"
        return describe_emissions(self._get(number), url if url in self.audio else None)

    def _neighbors(self, values: dict[str, Any]) -> dict[str, Any]:
        return find_neighbors(self._get(values["model"]), values["word"], values["count"])

    def _bundle(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"html": inline_page("index.html", FOLDERS)}

    def _get(self, number: int) -> Any:
        if number >= len(self.session.models):
            raise RequestError(422, f"model is {number}: there is no such model")
        return self.session.models[number]


def _number_audio(models: list[Any]) -> dict[str, Path]:
    return {
        f"/page/audio/{number}": model.audio
        for number, model in enumerate(models)
        if isinstance(model, Emissions) and model.audio is not None
    }
