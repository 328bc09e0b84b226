"""The public JSON interface: ``/v1/tag``, ``/v1/marginals``, ``/v1/kbest``, ``/v1/explain``.

The declarations here validate requests, and `openapi` makes the document from them.
"""

from functools import partial
from typing import Any

from trellis.app.web.http.application import Endpoint
from trellis.app.web.http.errors import RequestError
from trellis.app.web.http.messages import Limits
from trellis.app.web.http.schema import (
    Flag,
    Items,
    Member,
    OneOf,
    Optional,
    Real,
    Record,
    Table,
    Text,
    Whole,
    are_short_strings,
)
from trellis.app.web.http.workers import Workers
from trellis.app.web.served import ChainModel, name_tokens
from trellis.models.chain.inspection import Explanations

__all__ = ["MAX_TEXT", "build_api", "declare_sequence"]

MAX_TEXT = 100_000  # characters of a text
_MAX_WORD = 1_000  # characters of a token or a feature
_MAX_FEATURES = 10_000  # of a token
_MAX_PATHS = 100

_MODEL = Optional(Whole(0, 999, "Number of the model, in the order of the command line."), 0)
_LABELS = Items(Text(_MAX_WORD), 1 << 20, text="One label per token.")


def declare_sequence(limits: Limits) -> OneOf:
    """Return the declaration of a sequence: a text, or a list of tokens."""
    features = Table(OneOf(number=Real(), string=Text(_MAX_WORD), boolean=Flag()), _MAX_FEATURES)
    token = OneOf(
        "A word; or a list with one string per column, or with names of features; or an object of "
        "features and their values.",
        string=Text(_MAX_WORD),
        array=Items(Text(_MAX_WORD), _MAX_FEATURES),
        object=features,
    )
    # Texts of words are the ordinary case, and checked faster.
    return OneOf(
        "A text, which is split into tokens; or a list of tokens.",
        string=Text(MAX_TEXT),
        array=_Tokens(token, limits.max_tokens),
    )


class _Tokens(Items):
    """An array of tokens. If all are strings, they are checked at once."""

    def read(self, value: Any, where: str) -> Any:
        """Return the tokens."""
        if type(value) is list and len(value) <= self.max and are_short_strings(value, _MAX_WORD):
            return value
        return super().read(value, where)


def build_api(models: list[Any], workers: Workers, limits: Limits) -> dict[str, Endpoint]:
    """Return the endpoints of the interface by path."""
    interface = _Interface(models, workers, limits)
    sequence = declare_sequence(limits)
    sequences = Items(sequence, limits.max_tokens, 1, text="The sequences.")
    tokens = Items(Items(Text(_MAX_WORD), 1 << 20), 1 << 20, text="The tokens of each sequence.")
    probabilities = Items(Items(Items(Real(), 1 << 20), 1 << 20), 1 << 20)
    path = Record(labels=_LABELS, probability=Real("p(labels | tokens)."))
    contribution = Record(
        feature=Text(_MAX_WORD), value=Real(), chosen=Real("Score for the label."), runner_up=Real()
    )
    decision = Record(
        position=Whole(0, 1 << 20),
        label=Text(_MAX_WORD),
        probability=Real(),
        runner_up=Text(_MAX_WORD),
        runner_up_probability=Real(),
        contributions=Items(contribution, 1 << 20),
    )
    batch: dict[str, Member] = {"sequences": sequences, "model": _MODEL}
    return {
        "/v1/tag": Endpoint(
            interface.tag,
            Record(**batch),
            "The most probable labels of each sequence.",
            Record(tokens=tokens, labels=Items(_LABELS, 1 << 20)),
            streams=True,
        ),
        "/v1/marginals": Endpoint(
            interface.marginals,
            Record(**batch),
            "The probability of each label at each token: [sequence][token][label].",
            Record(tokens=tokens, labels=_LABELS, marginals=probabilities),
            streams=True,
        ),
        "/v1/kbest": Endpoint(
            interface.kbest,
            Record(**batch, k=Optional(Whole(1, _MAX_PATHS, "Number of labellings."), 5)),
            "The k most probable labellings of each sequence, best first.",
            Record(tokens=tokens, paths=Items(Items(path, _MAX_PATHS), 1 << 20)),
            streams=True,
        ),
        "/v1/explain": Endpoint(
            interface.explain,
            Record(sequence=sequence, model=_MODEL),
            "Why each label was chosen, and not the runner-up: the score of each feature for both.",
            Record(tokens=Items(Text(_MAX_WORD), 1 << 20), decisions=Items(decision, 1 << 20)),
            streams=True,
        ),
    }


class _Interface:
    """The functions of the endpoints."""

    def __init__(self, models: list[Any], workers: Workers, limits: Limits) -> None:
        self.models, self.workers, self.limits = models, workers, limits

    async def tag(self, values: dict[str, Any]) -> dict[str, Any]:
        chain, X = self._read(values)
        labels = await self.workers.compute(("tag", chain.key), chain.model.predict, X)
        return {"tokens": list(map(name_tokens, X)), "labels": _as_text(chain, labels)}

    async def marginals(self, values: dict[str, Any]) -> dict[str, Any]:
        chain, X = self._read(values)
        compute = partial(_round_marginals, chain.model)
        rows = await self.workers.compute(("marginals", chain.key), compute, X)
        tokens = list(map(name_tokens, X))
        return {"tokens": tokens, "labels": chain.labels, "marginals": rows}

    async def kbest(self, values: dict[str, Any]) -> dict[str, Any]:
        chain, X = self._read(values)
        k = values["k"]
        if any(k * len(x) * len(chain.labels) > 1 << 25 for x in X):
            raise RequestError(413, f"k = {k} is too large for sequences of this length")
        compute = partial(_find_paths, chain.model, k)
        paths = await self.workers.compute(("kbest", chain.key, k), compute, X)
        return {"tokens": list(map(name_tokens, X)), "paths": paths}

    async def explain(self, values: dict[str, Any]) -> dict[str, Any]:
        values = {"sequences": [values["sequence"]], "model": values["model"]}
        chain, (x,) = self._read(values)
        if not hasattr(chain.model, "explain"):
            raise RequestError(422, f"{chain.name} has no features to explain")
        decisions = await self.workers.run(chain.model.explain, x) if x else []
        return {"tokens": name_tokens(x), "decisions": _describe_decisions(decisions)}

    def _read(self, values: dict[str, Any]) -> tuple[ChainModel, list[Any]]:
        """Return the model, and the sequences in the form that it takes."""
        number = values["model"]
        model = self.models[number] if number < len(self.models) else None
        if not isinstance(model, ChainModel):
            raise RequestError(422, f"model {number} is not a sequence model of this server")
        X = [
            model.read_sequence(value, f"sequences[{n}]")
            for n, value in enumerate(values["sequences"])
        ]
        model.check_size(list(map(len, X)), self.limits)
        return model, X


def _as_text(chain: ChainModel, labels: list[list[Any]]) -> list[list[str]]:
    """Return labels as strings; most models have no others."""
    if chain.model.classes_.dtype.kind == "U":
        return labels
    return [list(map(str, row)) for row in labels]


def _round_marginals(model: Any, X: list[Any]) -> list[Any]:
    """Return marginals with six decimals: more would be noise in the answer."""
    return [p.round(6).tolist() for p in model.predict_marginals(X)]


def _find_paths(model: Any, k: int, X: list[Any]) -> list[Any]:
    return [
        [{"labels": list(map(str, path.labels)), "probability": path.probability} for path in paths]
        for paths in model.predict_kbest(X, k)
    ]


def _describe_decisions(decisions: Explanations | list[Any]) -> list[dict[str, Any]]:
    return [
        {
            "position": decision.position,
            "label": str(decision.label),
            "probability": decision.probability,
            "runner_up": str(decision.runner_up),
            "runner_up_probability": decision.runner_up_probability,
            "contributions": [entry._asdict() for entry in decision.contributions],
        }
        for decision in decisions
    ]
