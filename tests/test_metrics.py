"""Metrics of labels and spans, compared with seqeval, conlleval and scikit-learn."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from corpus_files import find_corpus, needs_corpus
from hypothesis import given, settings
from hypothesis import strategies as st
from scale import examples
from sklearn import metrics as sklearn_metrics
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score

from trellis import metrics
from trellis.errors import InputError

CORPUS = "chunking/conll2000.test.conll.gz"
LETTERS = {
    "IOB1": "BI",
    "BIO": "BI",
    "IOE1": "IE",
    "IOE2": "IE",
    "BIOES": "BIES",
    "BILOU": "BILU",
}
METRICS = [
    metrics.accuracy,
    metrics.sequence_accuracy,
    metrics.confusion,
    metrics.label_report,
    metrics.span_scores,
    metrics.span_f1,
]

often = settings(max_examples=examples(80), deadline=None)

Pair = tuple[list[list[str]], list[list[str]]]


@st.composite
def labelled(draw: st.DrawFn, alphabet: list[str], min_size: int = 0) -> Pair:
    """Draw true labels and a prediction that differs in places; both may break the scheme."""
    label = st.sampled_from(alphabet)
    y_true = draw(st.lists(st.lists(label, max_size=8), min_size=min_size, max_size=4))
    y_pred = [[draw(st.one_of(st.just(tag), label)) for tag in tags] for tags in y_true]
    return y_true, y_pred


def tags_with(letters: str) -> list[str]:
    return ["O", *map("-".join, product(letters, ["X", "Y", "creative-work"])), *letters]


def conlleval(y_true: list[list[str]], y_pred: list[list[str]]) -> tuple[Counter[str], ...]:
    """Count correct, predicted and true chunks by type in one pass, like conlleval."""
    correct, guessed, true = Counter[str](), Counter[str](), Counter[str]()
    agree = False
    last, last_guess = ("O", ""), ("O", "")
    lines = [[*zip(*pair, strict=True), ("O", "O")] for pair in zip(y_true, y_pred, strict=True)]
    for tag, guess in chain.from_iterable(lines):
        now, now_guess = (tuple(t.partition("-")[::2]) for t in (tag, guess))
        ends, guess_ends = end_of_chunk(last, now), end_of_chunk(last_guess, now_guess)
        if agree and ends and guess_ends and last[1] == last_guess[1]:
            agree = False
            correct[last[1]] += 1
        elif agree and (ends != guess_ends or now[1] != now_guess[1]):
            agree = False
        starts, guess_starts = start_of_chunk(last, now), start_of_chunk(last_guess, now_guess)
        if starts and guess_starts and now[1] == now_guess[1]:
            agree = True
        true[now[1]] += starts
        guessed[now_guess[1]] += guess_starts
        last, last_guess = now, now_guess
    return tuple(+counts for counts in (correct, guessed, true))


def end_of_chunk(before: tuple[str, str], now: tuple[str, str]) -> bool:
    ends = before[0] + now[0] in ("BB", "BO", "IB", "IO", "EE", "EI", "EO")
    return ends or (before[0] != "O" and before[1] != now[1])


def start_of_chunk(before: tuple[str, str], now: tuple[str, str]) -> bool:
    starts = before[0] + now[0] in ("BB", "IB", "OB", "OI", "EE", "EI", "OE")
    return starts or (now[0] != "O" and before[1] != now[1])


@pytest.mark.parametrize("letters", ["BI", "IE"])
@often
@given(data=st.data())
def test_conlleval(letters: str, data: st.DataObject) -> None:
    y_true, y_pred = data.draw(labelled(tags_with(letters)))
    correct, guessed, true = conlleval(y_true, y_pred)
    report = metrics.span_scores(y_true, y_pred)
    assert list(report.per_label) == sorted(true | guessed)
    rows = [(report.per_label[x], correct[x], guessed[x], true[x]) for x in true | guessed]
    rows.append((report.micro, correct.total(), guessed.total(), true.total()))
    for scores, n_correct, n_guessed, n_true in rows:
        precision = n_correct / n_guessed if n_guessed else 0.0
        recall = n_correct / n_true if n_true else 0.0
        f1 = 2 * precision * recall / (precision + recall) if n_correct else 0.0
        assert scores == (precision, recall, f1, n_true)


def test_conlleval_does_not_know_bioes() -> None:
    """E-X B-X is two spans in BIOES. conlleval is older and reads one span; seqeval reads two."""
    tags = [["B-X", "E-X", "B-X", "E-X"]]
    assert conlleval(tags, tags)[2].total() == 1
    assert metrics.span_scores(tags, tags).support == 2


@often
@given(labelled(tags_with("BIES"), min_size=1))
def test_seqeval(pair: Pair) -> None:
    report = metrics.span_scores(*pair)
    assert_equals_seqeval(report, pair)
    assert metrics.span_f1(*pair) == report.f1


@pytest.mark.parametrize("scheme", [s for s in LETTERS if s != "IOE1"])
@often
@given(data=st.data())
def test_seqeval_strict(scheme: str, data: st.DataObject) -> None:
    pair = data.draw(labelled(tags_with(LETTERS[scheme]), min_size=1))
    report = metrics.span_scores(*pair, scheme=scheme, strict=True)
    seqeval = pytest.importorskip("seqeval.scheme")
    name = {"BIO": "IOB2", "BIOES": "IOBES"}.get(scheme, scheme)
    assert_equals_seqeval(report, pair, mode="strict", scheme=getattr(seqeval, name))
    assert metrics.span_f1(*pair, scheme, strict=True) == report.f1


def assert_equals_seqeval(report: metrics.Report, pair: Pair, **options: Any) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    if not report.per_label:  # seqeval raises for an empty report
        assert report.micro == report.macro == report.weighted == (0.0, 0.0, 0.0, 0)
        return
    expected = seqeval.classification_report(*pair, output_dict=True, zero_division=0, **options)
    for name in ("micro", "macro", "weighted"):
        assert getattr(report, name) == pytest.approx(tuple(expected.pop(f"{name} avg").values()))
    scores_by_label = {label or "_": scores for label, scores in report.per_label.items()}
    assert scores_by_label == {label: tuple(scores.values()) for label, scores in expected.items()}


@pytest.mark.filterwarnings("ignore:A single label was found")
@often
@given(labelled(["A", "B", "O", "B-X"], min_size=1))
def test_sklearn(pair: Pair) -> None:
    y_true, y_pred = pair
    flat_true, flat_pred = [[*chain.from_iterable(y)] for y in pair]
    right = sum(a == b for a, b in zip(y_true, y_pred, strict=True))
    assert metrics.sequence_accuracy(y_true, y_pred) == right / len(y_true)
    if not flat_true:
        assert metrics.accuracy(y_true, y_pred) == 0.0
        return
    assert metrics.accuracy(y_true, y_pred) == sklearn_metrics.accuracy_score(flat_true, flat_pred)
    labels, matrix = metrics.confusion(y_true, y_pred)
    assert labels == sorted({*flat_true, *flat_pred})
    expected = sklearn_metrics.confusion_matrix(flat_true, flat_pred, labels=labels)
    np.testing.assert_array_equal(matrix, expected)
    report = metrics.label_report(y_true, y_pred)
    for average, scores_by_label in {
        **dict.fromkeys([None], np.array([*report.per_label.values()])[:, :3].T),
        "micro": report.micro[:3],
        "macro": report.macro[:3],
        "weighted": report.weighted[:3],
    }.items():
        expected = sklearn_metrics.precision_recall_fscore_support(
            flat_true, flat_pred, labels=labels, average=average, zero_division=0
        )
        np.testing.assert_allclose(scores_by_label, expected[:3], rtol=1e-12)
    assert [scores.support for scores in report.per_label.values()] == matrix.sum(1).tolist()
    assert report.support == len(flat_true)


def test_scores_computed_by_hand() -> None:
    y_true = [["B-X", "I-X", "O", "B-Y"], ["B-Y"], []]
    y_pred = [["B-X", "I-X", "O", "B-X"], ["B-Y"], []]
    report = metrics.span_scores(y_true, y_pred)
    assert report.per_label == {"X": (0.5, 1.0, 2 / 3, 1), "Y": (1.0, 0.5, 2 / 3, 2)}
    assert report.micro == (2 / 3, 2 / 3, 2 / 3, 3)
    assert (report.precision, report.recall, report.f1, report.support) == report.micro
    assert report.macro == (0.75, 0.75, 2 / 3, 3)
    assert report.weighted == pytest.approx((2.5 / 3, 2 / 3, 2 / 3, 3))
    assert metrics.accuracy(y_true, y_pred) == 0.8
    assert metrics.sequence_accuracy(y_true, y_pred) == 2 / 3


def test_a_span_counts_once_and_only_in_its_sequence() -> None:
    assert metrics.span_scores([["B-X"], ["O"]], [["O"], ["B-X"]]).f1 == 0.0
    assert metrics.span_scores([["B-X"], ["I-X"]], [["B-X"], ["I-X"]]).support == 2


def test_plain_spans() -> None:
    y_true, y_pred = [["A", "A", "B", "O"]], [["A", "A", "O", "O"]]
    assert metrics.span_scores(y_true, y_pred, scheme="plain").micro == (1.0, 0.5, 2 / 3, 2)


def test_empty_input() -> None:
    for empty in ([], [[]]):
        assert metrics.accuracy(empty, empty) == 0.0
        assert metrics.span_f1(empty, empty) == 0.0
        assert metrics.confusion(empty, empty).matrix.shape == (0, 0)
        assert "micro" in str(metrics.label_report(empty, empty))
    assert metrics.sequence_accuracy([], []) == 0.0
    assert metrics.sequence_accuracy([[]], [[]]) == 1.0


def test_table_of_scores() -> None:
    y_true = [["B-creative-work", "O", "B"]]
    y_pred = [["B-creative-work", "O", "O"]]
    assert str(metrics.span_scores(y_true, y_pred)).splitlines() == [
        "               precision  recall      F1  support",
        "_                 0.0000  0.0000  0.0000        1",
        "creative-work     1.0000  1.0000  1.0000        1",
        "",
        "micro             1.0000  0.5000  0.6667        2",
        "macro             0.5000  0.5000  0.5000        2",
        "weighted          0.5000  0.5000  0.5000        2",
    ]


def test_arrays_and_tuples() -> None:
    y_true, y_pred = [["B-X", "O"], ["B-Y"]], [["B-X", "O"], ["O"]]
    arrays = [[np.array(s) for s in y] for y in (y_true, y_pred)]
    tuples = [tuple(tuple(s) for s in y) for y in (y_true, y_pred)]
    for metric in METRICS:
        for y in (arrays, tuples):
            assert str(metric(*y)) == str(metric(y_true, y_pred))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        ([["O"]], [["O"], ["O"]], "y_true has 1 sequences, y_pred has 2"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], "sequence 1: y_true has 2 labels, y_pred has 1"),
        (["O", "O"], [["O"], ["O"]], "y_true, sequence 0 must be a list of labels, not 'O'"),
        ([["O"], ["O"]], [["O"], 3], "y_pred, sequence 1 must be a list of labels, not 3"),
        ("O", [["O"]], "y_true must be a list of label lists, not 'O'"),
        ([["O"]], None, "y_pred must be a list of label lists, not None"),
        ([["O", None]], [["O", "O"]], "y_true, sequence 0, position 1: label None is not a string"),
        ([["O"], ["O"]], [["O"], [{"O"}]], "y_pred, sequence 1, position 0: label {'O'} is not"),
        ([[0, 1]], [[0, 1]], "y_true, sequence 0, position 0: label 0 is not a string"),
    ],
)
def test_invalid_input(metric: Any, y_true: Any, y_pred: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric(y_true, y_pred)


def test_invalid_tags() -> None:
    with pytest.raises(InputError, match="y_pred, sequence 1, position 2: 'PER' is not a tag"):
        metrics.span_scores([["O"], ["O"] * 3], [["O"], ["O", "O", "PER"]])
    with pytest.raises(InputError, match=r"y_true, sequence 0, position 0: 'S-X' .* scheme BIO"):
        metrics.span_f1([["S-X"]], [["O"]], strict=True)
    with pytest.raises(InputError, match="scheme 'bio' is not one of"):
        metrics.span_scores([["O"]], [["O"]], scheme="bio")


class Memory(BaseEstimator):
    """A tagger that predicts the last tag seen with a word, and `unknown` for a new word."""

    def __init__(self, unknown: str = "O") -> None:
        self.unknown = unknown

    def fit(self, sequences: list[list[str]], y: list[list[str]]) -> Memory:
        words, tags = chain.from_iterable(sequences), chain.from_iterable(y)
        self.tags_ = dict(zip(words, tags, strict=True))
        return self

    def predict(self, sequences: list[list[str]]) -> list[list[str]]:
        return [[self.tags_.get(word, self.unknown) for word in words] for words in sequences]


def test_scorer_in_scikit_learn() -> None:
    words = [["in", "Rome"], ["in", "Oslo", "now"], ["Rome"], ["in", "Bonn"]]
    y = [["O", "S-LOC"], ["O", "S-LOC", "O"], ["S-LOC"], ["O", "S-LOC"]]
    score = metrics.scorer("span_f1", scheme="BIOES", strict=True)
    search = GridSearchCV(Memory(), {"unknown": ["O", "S-LOC"]}, scoring=score, cv=2, refit=True)
    search.fit(words, y)
    assert search.best_params_ == {"unknown": "S-LOC"}
    assert search.score(words, y) == score(search, words, y) == 1.0
    folds = cross_val_score(Memory(), words, y, scoring=metrics.scorer("accuracy"), cv=2)
    assert folds.tolist() == [4 / 5, 2 / 3]  # Oslo and Bonn are unknown words in the second fold
    restored = pickle.loads(pickle.dumps(score))
    assert restored(search, words, y) == 1.0


def test_invalid_scorers() -> None:
    with pytest.raises(
        InputError, match="'f1' is unknown: must be one of accuracy, sequence_accuracy, span_f1"
    ):
        metrics.scorer("f1")
    with pytest.raises(InputError, match=r"'accuracy'.*scheme"):
        metrics.scorer("accuracy", scheme="BIO")
    with pytest.raises(InputError, match="scheme 'bio'"):
        metrics.scorer("span_f1", scheme="bio")


@needs_corpus(CORPUS)
def test_conll2000() -> None:
    """The test set of CoNLL-2000 has 23,852 chunks. Scores of noisy tags equal seqeval's."""
    with gzip.open(find_corpus(CORPUS), "rt", encoding="utf-8") as file:
        blocks = [block.split("\n") for block in file.read().strip().split("\n\n")]
    y_true = [[line.rsplit("\t", 1)[1] for line in block] for block in blocks]
    rng = np.random.default_rng(0)
    labels = sorted({*chain.from_iterable(y_true)})
    y_pred = [
        [tag if rng.random() < 0.95 else str(rng.choice(labels)) for tag in y] for y in y_true
    ]
    perfect = metrics.span_scores(y_true, y_true)
    assert perfect.micro == (1.0, 1.0, 1.0, 23852)
    assert perfect.per_label["NP"].support == 12422
    report = metrics.span_scores(y_true, y_pred)
    assert [counts.total() for counts in conlleval(y_true, y_pred)[1:]] == [
        round(report.recall / report.precision * report.support),
        report.support,
    ]
    assert_equals_seqeval(report, (y_true, y_pred))


# ---- paired bootstrap

BY_NAME = {
    "accuracy": metrics.accuracy,
    "sequence_accuracy": metrics.sequence_accuracy,
    "span_f1": metrics.span_f1,
}


@pytest.mark.parametrize("metric", BY_NAME)
def test_bootstrap_against_all_resamples(metric: str) -> None:
    """Five sequences have 5⁵ resamples: their exact distribution gives interval and p-value."""
    true = [["B-X", "O"], ["B-X", "I-X"], ["O", "B-Y"], ["B-Y"], ["O", "O", "B-X"]]
    a = [["B-X", "O"], ["B-X", "B-X"], ["O", "O"], ["B-Y"], ["O", "O", "O"]]
    b = [["B-X", "O"], ["B-X", "I-X"], ["O", "B-Y"], ["O"], ["O", "O", "B-X"]]
    result = metrics.paired_bootstrap(true, a, b, metric, n_samples=50_000)
    score = BY_NAME[metric]
    assert (result.a, result.b) == pytest.approx((score(true, a), score(true, b)))
    assert result.difference == pytest.approx(result.b - result.a)

    def resampled(rows: tuple[int, ...]) -> float:
        y, y_a, y_b = ([labels[i] for i in rows] for labels in (true, a, b))
        return score(y, y_b) - score(y, y_a)

    differences = np.array([resampled(rows) for rows in product(range(5), repeat=5)])
    extreme = np.abs(differences - result.difference) >= abs(result.difference) - 1e-12
    assert result.p_value == pytest.approx(extreme.mean(), abs=0.01)
    # The distribution has few values, so its quantiles are compared by their ranks.
    assert np.mean(differences < result.low - 1e-12) <= 0.03
    assert np.mean(differences <= result.low + 1e-12) >= 0.02
    assert np.mean(differences > result.high + 1e-12) <= 0.03
    assert np.mean(differences >= result.high - 1e-12) >= 0.02


def test_bootstrap_does_not_depend_on_the_size_of_its_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true = [["A", "B"][: n % 2 + 1] for n in range(30)]
    a = [[["A", "B", "C"][(n + t) % 3] for t in range(len(y))] for n, y in enumerate(true)]
    b = [["A"] * len(y) for y in true]
    expected = metrics.paired_bootstrap(true, a, b, "accuracy", n_samples=100)
    monkeypatch.setattr(metrics, "_DRAWN_COUNTS", 7)
    assert metrics.paired_bootstrap(true, a, b, "accuracy", n_samples=100) == expected
    other = metrics.paired_bootstrap(true, a, b, "accuracy", n_samples=100, random_state=1)
    assert other != expected
    assert other[:3] == expected[:3]


def test_bootstrap_of_equal_predictions() -> None:
    result = metrics.paired_bootstrap([["O"]] * 9, [["O"]] * 9, [["O"]] * 9)
    assert result == (0.0, 0.0, 0.0, 0.0, 0.0, 1.0)  # no spans: F1 is 0
    y = [["B-X"], ["O"]] * 9
    assert metrics.paired_bootstrap(y, y, y) == (1.0, 1.0, 0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (([["O"]], [["O"]], [["O", "O"]]), "y_true has 1 labels, y_pred has 2"),
        (([["O"]], [["O"]], []), "y_pred has 0"),
        (([], [], []), "no sequences"),
        (([["?"]], [["O"]], [["O"]]), "sequence 0"),
    ],
)
def test_bootstrap_of_wrong_labels(arguments: Any, names: str) -> None:
    with pytest.raises(InputError, match=names):
        metrics.paired_bootstrap(*arguments)


@pytest.mark.parametrize(
    "options", [{"metric": "f2"}, {"n_samples": 0}, {"confidence": 2}, {"scheme": "nosuch"}]
)
def test_bootstrap_with_wrong_options(options: Any) -> None:
    with pytest.raises(InputError):
        metrics.paired_bootstrap([["O"]], [["O"]], [["O"]], **options)
