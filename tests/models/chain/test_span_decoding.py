"""predict_spans and predict(decode=…) agree with the enumeration of all labellings."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from labellings import all_paths, bio, random_data, score, state_part
from labellings import probabilities as labelling_probabilities

import trellis
from trellis.data import tags
from trellis.errors import InputError
from trellis.inference import chain
from trellis.models import spans as model_spans
from trellis.models.chain.decoding import DECODERS, Decoding
from trellis.models.spans import SpanChance, SpanDecoding

AUDIT_X = [["Ann", "lives", "in", "New", "York"], ["Bob", "left", "Rome"], ["New", "Rome", "York"]]
AUDIT_Y = [
    ["B-PER", "O", "O", "B-LOC", "I-LOC"],
    ["B-PER", "O", "B-LOC"],
    ["B-LOC", "I-LOC", "I-LOC"],
]


class Fixed(SpanDecoding, Decoding):
    """A model with random scores; a sequence is an array of unary scores."""

    def __init__(self, classes: list[str], constraints: str | None = None, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.classes_, self.n_jobs, n = np.array(classes), 1, len(classes)
        self.matrix, self.start, self.end = rng.normal(size=(n, n)), *rng.normal(size=(2, n))
        if constraints:
            allowed = tags.allowed_transitions(classes, constraints)
            self.matrix = np.where(allowed.matrix, self.matrix, -np.inf)
            self.start = np.where(allowed.start, self.start, -np.inf)
            self.end = np.where(allowed.end, self.end, -np.inf)

    def make(self, seed: int, lengths: Any, spread: float = 2.0) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [rng.normal(0.0, spread, (length, len(self.classes_))) for length in lengths]

    def _check_fitted(self) -> None:
        pass

    def _compute_scores(self, X: list[Any]) -> chain.Scores:
        return chain.Scores(X, self.matrix, self.start, self.end)

    def to_parts(self) -> Any:
        raise NotImplementedError


def enumerate_labellings(model: Any, x: Any, known: Any = None) -> list[tuple[float, list[str]]]:
    """Return (p, labels) of each labelling with p > 0 that agrees with the known labels."""
    classes = model.classes_.tolist()
    labellings = [[classes[n] for n in path] for path in all_paths(len(x), len(classes))]
    for t, value in enumerate(known or []):
        members = value if isinstance(value, set) else {value}
        labellings = [y for y in labellings if value is None or y[t] in members]
    p = np.exp(model.log_likelihood([x] * len(labellings), labellings))
    return [(q, y) for q, y in zip((p / p.sum()).tolist(), labellings, strict=True) if q > 0.0]


def span_chances(labellings: Any, scheme: str) -> dict[Any, float]:
    chances: dict[Any, float] = {}
    for p, labels in labellings:
        for span in tags.spans(labels, scheme):
            chances[tuple(span)] = chances.get(tuple(span), 0.0) + p
    return chances


def expected_f1(labellings: Any, chances: Any, scheme: str) -> float:
    n_true = sum(sum(p.values()) for p in chances)
    spans = [tags.spans(labels, scheme) for labels in labellings]
    n_correct = sum(
        p.get(tuple(s), 0.0) for p, row in zip(chances, spans, strict=True) for s in row
    )
    total = sum(map(len, spans)) + n_true
    return float(2 * n_correct / total) if total else 0.0


# ---- probabilities of spans


def test_the_probability_counts_every_labelling_that_is_read_as_the_span() -> None:
    """I-LOC after O starts a span too. Only labellings with B-LOC were counted."""
    crf = trellis.CRF(l2=1.0).fit(AUDIT_X, AUDIT_Y)
    (_, span) = crf.predict_spans([["Ann", "left", "York"]])[0]
    assert span[:3] == ("LOC", 2, 3)
    labellings = enumerate_labellings(crf, ["Ann", "left", "York"])
    assert span.probability == pytest.approx(
        span_chances(labellings, "BIO")["LOC", 2, 3], abs=1e-10
    )
    assert span.probability == pytest.approx(0.708, abs=5e-4)
    only_b = sum(p for p, y in labellings if y[2] == "B-LOC")
    assert span.probability > only_b + 0.2


@pytest.mark.parametrize("constraints", [None, "BIO"])
@pytest.mark.parametrize("kind", ["crf", "memm", "hmm", "neural"])
def test_every_model_by_enumeration(kind: str, constraints: str | None) -> None:
    model: Any
    if kind == "hmm":
        model = trellis.HMM(smoothing=0.0 if constraints else 0.1)
    elif kind == "neural":
        pytest.importorskip("torch")
        from trellis.nn.tagger import NeuralTagger

        model = NeuralTagger(
            epochs=4, hidden=8, word_dim=8, device="cpu", random_state=0, constraints=constraints
        )
    else:
        model = {"crf": trellis.CRF, "memm": trellis.MEMM}[kind](l2=0.3, constraints=constraints)
    model.fit(AUDIT_X, AUDIT_Y)
    X = [["Ann", "left", "York"], ["New", "York"], [], ["lives"]]
    labellings = [enumerate_labellings(model, x) if x else [(1.0, [])] for x in X]
    chances = [span_chances(row, "BIO") for row in labellings]
    for x, spans, p, best in zip(X, model.predict_spans(X), chances, model.predict(X), strict=True):
        assert [span[:3] for span in spans] == tags.spans(best)
        for span in spans:
            assert type(span) is SpanChance
            assert span.probability == pytest.approx(p[span[:3]], abs=1e-10), x
    likely = model.predict_spans(X, min_probability=0.5)
    for spans, p in zip(likely, chances, strict=True):
        expected = {span: q for span, q in p.items() if q >= 0.5}
        assert {span[:3]: span.probability for span in spans} == pytest.approx(expected, abs=1e-10)
    # Decoders: the labelling is allowed, and none is better.
    for labels, row in zip(model.predict(X, decode="marginal"), labellings, strict=True):
        gain = [expected_correct(y, row) for _, y in row]
        assert labels in [y for _, y in row]
        assert expected_correct(labels, row) == pytest.approx(max(gain), abs=1e-10)
    mbr = model.predict(X, decode="mbr")
    best_value = max(
        expected_f1(choice, chances, "BIO")
        for choice in product(*(unique_readings(row, "BIO") for row in labellings))
    )
    assert expected_f1(mbr, chances, "BIO") == pytest.approx(best_value, abs=1e-10)
    assert list(map(len, mbr)) == list(map(len, X))
    assert model.predict(X, decode="viterbi") == model.predict(X)


def expected_correct(labels: list[str], labellings: Any) -> float:
    return float(
        sum(p * sum(a == b for a, b in zip(labels, y, strict=True)) for p, y in labellings)
    )


def unique_readings(labellings: Any, scheme: str) -> list[list[str]]:
    """Return one labelling for each set of spans."""
    readings = {tuple(tags.spans(labels, scheme)): labels for _, labels in labellings}
    return list(readings.values())


def test_crf_with_edges_and_constraints_by_hand() -> None:
    """The probabilities of labellings do not come from the library here."""
    X, _ = random_data(4, 2, [4, 3, 4])
    y = [["B-X", "I-X", "O", "O"], ["B-Y", "I-Y", "O"], ["O", "B-X", "B-Y", "I-Y"]]
    for constraints, legal in ((None, None), ("BIO", bio)):
        model = trellis.CRF(state_part, l2=0.2, constraints=constraints).fit(X, y)
        classes = model.classes_.tolist()
        for x, spans in zip(X, model.predict_spans(X), strict=True):
            p = labelling_probabilities(score(model, model.coef_, x), classes, legal)
            labellings = [
                (float(q), [classes[n] for n in path])
                for q, path in zip(p, all_paths(len(x), len(classes)), strict=True)
            ]
            expected = span_chances(labellings, "BIO")
            assert spans
            for span in spans:
                assert span.probability == pytest.approx(expected[span[:3]], abs=1e-10)


# ---- decoders

MBR_CASES = [
    ("BIO", ["B-X", "I-X", "O"], None),
    ("BIO", ["B-X", "I-X", "O"], "BIO"),
    ("BIOES", ["B-X", "E-X", "I-X", "O", "S-X"], "BIOES"),
    ("IOB1", ["B-X", "I-X", "I-Y", "O"], "IOB1"),
    ("plain", ["X", "Y", "O"], None),  # two touching X are one span
    ("plain", ["X", "Y"], None),  # every labelling has spans
]


@pytest.mark.parametrize(("scheme", "classes", "constraints"), MBR_CASES, ids=str)
def test_mbr_by_enumeration(scheme: str, classes: list[str], constraints: str | None) -> None:
    for seed in range(6):
        model = Fixed(classes, constraints, seed)
        X = model.make(seed, [3, 2, 1], spread=1.0 if scheme == "plain" else 2.0)
        free = set(classes) - {"I-X", "E-X"}
        for known in (None, [[None, free, None], [None, None], [{classes[0], classes[-1]}]]):
            labellings = [
                enumerate_labellings(model, x, None if known is None else known[i])
                for i, x in enumerate(X)
            ]
            chances = [span_chances(row, scheme) for row in labellings]
            best = max(
                expected_f1(choice, chances, scheme)
                for choice in product(*(unique_readings(row, scheme) for row in labellings))
            )
            predicted = model.predict(X, known, decode="mbr")
            assert expected_f1(predicted, chances, scheme) == pytest.approx(best, abs=1e-10)
            for labels, row in zip(predicted, labellings, strict=True):
                # The most probable of the labellings with these spans.
                spans = tags.spans(labels, scheme)
                same = [(p, y) for p, y in row if tags.spans(y, scheme) == spans]
                assert labels == max(same)[1]


def test_mbr_of_improbable_spans() -> None:
    """All spans have p < 0.01, the first limit: they are read again down to the second."""
    classes = [f"B-{n}" for n in range(119)] + ["O"]
    model = Fixed(classes)
    model.matrix[:] = model.start[:] = model.end[:] = 0.0
    X = [np.zeros((2, 120))]
    X[0][:, 7] = 0.01  # B-7
    assert model.predict_marginals(X)[0].max() < 0.01
    assert model.predict(X, decode="mbr") == [["B-7", "B-7"]]
    assert model.predict(X) == [["B-7", "B-7"]]
    X[0][:, 119] = 5.0
    assert model.predict(X) == [["O", "O"]]
    assert model.predict(X, decode="mbr") == [["B-7", "B-7"]]


def test_mbr_of_nothing() -> None:
    model = Fixed(["B-X", "I-X", "O"])
    assert model.predict([], decode="mbr") == []
    assert model.predict([np.zeros((0, 3))], decode="mbr") == [[]]
    outside = np.full((2, 3), -np.inf)
    outside[:, 2] = 0.0
    assert model.predict([outside], decode="mbr") == [["O", "O"]]
    X = model.make(0, [3, 2, 4])
    labels = model.predict(X, decode="mbr")
    assert model.predict([*X, *[np.zeros((0, 3))] * 99], decode="mbr") == [*labels, *[[]] * 99]
    predicted = model.predict(model.make(0, [2, 3]), decode="mbr")
    assert np.concatenate([predicted, predicted]).shape == (4,)  # as scikit-learn joins folds


@pytest.mark.parametrize("constraints", [None, "BIO"])
def test_marginal_by_enumeration(constraints: str | None) -> None:
    model = Fixed(["B-X", "B-Y", "I-X", "I-Y", "O"], constraints, 3)
    X = model.make(1, [4, 1, 3], spread=1.0)
    known = [[None, "B-X", None, {"I-X", "I-Y", "O"}], [None], [None, None, None]]
    differs = False
    for limits in (None, known):
        predicted = model.predict(X, limits, decode="marginal")
        differs |= predicted != model.predict(X, limits)
        for i, (x, labels) in enumerate(zip(X, predicted, strict=True)):
            row = enumerate_labellings(model, x, None if limits is None else limits[i])
            assert labels in [y for _, y in row]
            best = max(expected_correct(y, row) for _, y in row)
            assert expected_correct(labels, row) == pytest.approx(best, abs=1e-10)
    assert differs


@pytest.mark.parametrize("decode", DECODERS)
def test_slices_do_not_change_the_labels(decode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Fixed(["B-X", "I-X", "O"], seed=2)
    X = model.make(5, [3, 0, 2, 4, 1, 5, 2])
    together = model.predict(X, decode=decode)
    spans = model.predict_spans(X, min_probability=0.1)
    monkeypatch.setattr("trellis.models.chain.decoding._SLICE_POSITIONS", 4)
    assert model.predict(X, decode=decode) == together
    assert [[s[:3] for s in row] for row in model.predict_spans(X, min_probability=0.1)] == [
        [s[:3] for s in row] for row in spans
    ]


def test_wrong_arguments() -> None:
    model = trellis.CRF(l2=1.0).fit(AUDIT_X, AUDIT_Y)
    with pytest.raises(InputError, match="decode must be one of viterbi, marginal, mbr, not 'map'"):
        model.predict(AUDIT_X, decode="map")
    with pytest.raises(InputError, match="X has 3 sequences, known has 1"):
        model.predict(AUDIT_X, [[None]], decode="mbr")
    for wrong in (-0.1, 1.1, np.nan, "x"):
        with pytest.raises(InputError, match="min_probability"):
            model.predict_spans(AUDIT_X, min_probability=wrong)
    with pytest.raises(InputError, match="scheme 'nonsense' is not one of"):
        model.predict_spans(AUDIT_X, "nonsense")


# ---- thresholds


def test_spans_above_a_threshold() -> None:
    """Of spans that overlap the most probable one; a larger threshold removes spans only."""
    for scheme, classes, constraints in MBR_CASES:
        model = Fixed(classes, constraints, 1)
        X = model.make(2, [4, 3], spread=1.0)
        chances = [span_chances(enumerate_labellings(model, x), scheme) for x in X]
        for limit in (0.0, 0.05, 0.2, 0.5, 1.0):
            result = model.predict_spans(X, scheme, min_probability=limit)
            for spans, p, x in zip(result, chances, X, strict=True):
                assert spans == sorted(spans, key=lambda span: span.start)
                assert all(s.probability == pytest.approx(p[s[:3]], abs=1e-10) for s in spans)
                expected: list[Any] = []
                for span, q in sorted(p.items(), key=lambda item: -item[1]):
                    labels = None
                    if q >= limit and not any(span[1] < s[2] and s[1] < span[2] for s in expected):
                        labels = try_tags([*expected, span], len(x), scheme)
                    if labels is not None:
                        expected.append(span)
                assert {s[:3] for s in spans} == set(expected)


def try_tags(spans: list[Any], length: int, scheme: str) -> list[str] | None:
    """Return the tags of spans; None if two spans touch and the scheme cannot separate them."""
    try:
        return tags.from_spans(spans, length, scheme)
    except InputError:
        return None


def test_the_smallest_probability_of_spans() -> None:
    model = Fixed(["B-X", "O"])
    x = np.array([[0.0, 40.0]])  # p(B-X) is about 1e-17
    model.start[:] = model.end[:] = 0.0
    assert model.predict_spans([x], min_probability=0.0) == [[]]
    assert model_spans._MIN_PROBABILITIES == (0.01, 1e-12)
    x = np.array([[0.0, 25.0]])  # about 1e-11
    assert len(model.predict_spans([x], min_probability=0.0)[0]) == 1
