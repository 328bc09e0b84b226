"""The report page: complete, without external files, correct numbers, any text is escaped."""

import re
from html.parser import HTMLParser
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis
from trellis import CRF, HMM, MEMM
from trellis.app.report import html
from trellis.app.report.evaluation import Evaluation
from trellis.app.report.report import report
from trellis.app.report.sentences import _choose_examples
from trellis.errors import InputError
from trellis.metrics import accuracy, sequence_accuracy, span_f1
from trellis.models.description import Description
from trellis.plots.interactive import modules_once

VOID = {"meta"}
HOSTILE = ["<script>alert(1)</script>", "a & b", "\"q\" 'r'", "</style><b>", "\x00\x1f", "-->"]
NAMES, PLACES = ["Ann", "Bob", "Carla", "Dan"], ["Rome", "Oslo", "Bonn"]
PATTERNS = [
    (["{n}", "{n}", "went", "to", "{p}", "."], ["B-PER", "I-PER", "O", "O", "B-LOC", "O"]),
    (["in", "{p}", ",", "{n}", "sings"], ["O", "B-LOC", "O", "B-PER", "O"]),
    (["{p}", "knows", "no", "{n}", "at", "all", "."], ["B-LOC", "O", "O", "B-PER", "O", "O", "O"]),
]


def corpus(count: int) -> tuple[list[list[str]], list[list[str]]]:
    names, places = cycle(NAMES), cycle(PLACES)
    X, y = [], []
    for tokens, labels in islice(cycle(PATTERNS), count):
        X.append([t.format(n=next(names), p=next(places)) for t in tokens])
        y.append(list(labels))
    y[1] = [
        "O",
        "B-PER",
        "O",
        "B-LOC",
        "O",
    ]  # contradicts the other sentences, so no model predicts it
    return X, y


@pytest.fixture(scope="module")
def data() -> tuple[list[list[str]], list[list[str]]]:
    return corpus(30)


@pytest.fixture(scope="module")
def crf(data: Any) -> CRF:
    return CRF(l2=0.1, max_iter=20).fit(*data, dev=data)


class Page(HTMLParser):
    """Parse a page: its elements, texts and anchors; unbalanced tags are an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "tags left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)">', page)


def test_page_sections(crf: CRF, data: Any) -> None:
    page = report(crf, *data, title="People & places", source="people.conll")
    parsed = Page(page)
    assert sections(page) == [
        "labels",
        "confusions",
        "trellises",
        "worst",
        "learning",
        "transitions",
        "features",
    ]
    assert parsed.values("href") == [f"#{anchor}" for anchor in sections(page)]
    assert "<h1>People &amp; places</h1>" in page
    assert "<title>People &amp; places</title>" in page
    text = " ".join(parsed.texts)
    assert "evaluated on people.conll: 30 sequences, 180 tokens" in text
    for fact in ("CRF, conditional random field", "2 kinds of spans (BIO)", "lbfgs, l2 = 0.1"):
        assert fact in text
    assert f"{len(crf.coef_):,}" in parsed.texts
    assert f"{len(crf.features_):,}" in parsed.texts
    assert report(crf, *data, title="People & places", source="people.conll") == page


def test_headline_numbers(crf: CRF, data: Any) -> None:
    X, y = data
    guess = crf.predict(X)
    cards = re.findall(r"<b>([\d.]+)<small> %", report(crf, X, y))
    assert cards[0] == f"{100 * span_f1(y, guess):.2f}"
    assert cards[3] == f"{100 * accuracy(y, guess):.2f}"
    assert cards[4] == f"{100 * sequence_accuracy(y, guess):.2f}"
    assert len(cards) == 5


def test_the_page_loads_no_external_files(crf: CRF, data: Any) -> None:
    page = report(crf, *data)
    parsed = Page(page)
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert "url(" not in page
    assert "@import" not in page
    assert not {"link", "img", "iframe", "object", "use", "image"} & set(parsed.tags)
    assert {"src", "xlink:href", "onload", "onclick"}.isdisjoint(k for k, _ in parsed.attributes)
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'content="width=device-width, initial-scale=1"' in page


def remove_lattices(page: str) -> str:
    """Return a page without the scripts of the lattices. Their data have no < of their own."""
    assert modules_once() in page
    page = page.replace(modules_once(), "")
    return re.sub(r'<script type="application/json" id="sequence-\d+">[^<]+</script>', "", page)


@pytest.mark.parametrize(
    "model", [CRF(max_iter=5), MEMM(max_iter=5), HMM()], ids=["CRF", "MEMM", "HMM"]
)
def test_hostile_texts_are_escaped(model: Any) -> None:
    X, y = [HOSTILE, HOSTILE[::-1]] * 3, [HOSTILE, HOSTILE] * 3
    page = remove_lattices(report(model.fit(X, y), X, y, title=HOSTILE[0], source=HOSTILE[3]))
    parsed = Page(page)
    assert "script" not in parsed.tags
    assert parsed.tags.count("style") == 1
    assert page.count("<b>") == 2  # the two headline numbers
    assert "<script" not in page
    assert "\x00" not in page
    assert any("<script>alert(1)</script>" in text for text in parsed.texts)


def test_hostile_span_labels_are_escaped() -> None:
    tags = [f"B-{name}" for name in HOSTILE]
    X = [HOSTILE, ["x", "y", *HOSTILE[2:]]] * 2
    model = CRF(max_iter=3).fit(X, [tags] * 4)
    page = remove_lattices(report(model, X, [tags[::-1], tags] * 2))
    parsed = Page(page)
    assert "script" not in parsed.tags
    assert "<small>&lt;script&gt;alert(1)&lt;/script&gt;</small>" in page


def test_plain_labels_have_no_span_scores(data: Any) -> None:
    X, _ = data
    y = [["NAME" if w[0].isupper() else "word" for w in words] for words in X]
    y[0][0] = "word"
    page = report(HMM().fit(X, y), X, y)
    Page(page)
    assert "span F1" not in page
    assert "token accuracy" in page
    assert "hidden Markov model" in page
    assert "learning" not in sections(page)  # an HMM has no learning curve
    assert "Probabilities of a label" in page
    assert "with their probabilities" in page


def test_a_model_without_mistakes(crf: CRF, data: Any) -> None:
    X, _ = data
    page = report(crf, X, crf.predict(X))
    Page(page)
    assert "confusions" not in sections(page)
    assert "worst" not in sections(page)
    assert "Correct, but uncertain" in page
    assert "<h3>Wrong</h3>" not in page


def test_models_from_files(crf: CRF, data: Any, tmp_path: Path) -> None:
    crf.save(tmp_path / "model.trellis")
    page = report(trellis.load(tmp_path / "model.trellis"), *data)
    Page(page)
    assert "transitions" in sections(page)


class Bare:
    """A model with the required methods only."""

    def __init__(self, classes: list[Any]) -> None:
        self.classes_ = np.array(classes, dtype=object)
        self.losses_: list[tuple[int, float]] = []
        self.dev_scores_: list[tuple[int, float]] = []

    def predict(self, X: Any) -> list[list[Any]]:
        return [[self.classes_[0]] * len(x) for x in X]

    def predict_marginals(self, X: Any) -> list[Any]:
        return [np.full((len(x), len(self.classes_)), 1 / len(self.classes_)) for x in X]

    def predict_kbest(self, X: Any, k: int) -> list[list[Any]]:
        labelling = type("Labelling", (), {})
        out = []
        for labels in self.predict(X):
            parsed = labelling()
            parsed.labels, parsed.probability = labels, 1.0
            out.append([parsed])
        return out

    def log_likelihood(self, X: Any, y: Any) -> Any:
        return np.array([-float(len(labels)) for labels in y])

    def transition_scores(self) -> Any:
        return np.zeros((len(self.classes_), len(self.classes_)))

    def describe(self) -> Description:
        return Description(
            columns=None, settings={}, losses=self.losses_, dev_scores=self.dev_scores_
        )


def test_sections_without_data_are_left_out(data: Any) -> None:
    X, y = data
    page = report(Bare(["O", "B-PER", "I-PER", "B-LOC"]), X, y)
    Page(page)
    assert sections(page) == ["labels", "confusions", "trellises", "worst"]
    assert "the second best" not in page
    model: Any = Bare(["O", "B-PER", "I-PER", "B-LOC"])
    model.losses_, model.dev_scores_ = [(1, 5.0), (2, 3.0), (3, float("inf"))], [(1, 0.5)]
    page = report(model, X, y)
    assert "learning" in sections(page)
    assert page.count('class="curve"') == 1


def test_labels_that_the_model_does_not_know(data: Any) -> None:
    X, y = data
    changed = [list(labels) for labels in y]
    changed[4][1] = "B-ORG"
    page = report(CRF(max_iter=5).fit(X, y), X, changed)
    assert "Sequence 4 · log p(true labels) = −∞, because the model does not know B-ORG" in page
    assert page.index("Sequence 4 ·") < page.index("Sequence 1 ·")


@pytest.mark.parametrize(
    "sequence",
    [
        lambda words: [{"word": word, "bias": 1.0} for word in words],
        lambda words: [["bias", f"w={word}"] for word in words],
        lambda words: [(word, "X") for word in words],
    ],
    ids=["dicts", "names", "columns"],
)
def test_words_of_every_token_type(data: Any, sequence: Any) -> None:
    X, y = [sequence(words) for words in data[0]], data[1]
    page = report(CRF(max_iter=5).fit(X, y), X, y)
    assert "<bdi>in</bdi>" in page
    assert "<bdi>Oslo</bdi>" in page


def test_arrays_and_numeric_labels() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 3)) for _ in range(8)]
    y = [[int(row[0] > 0) for row in x] for x in X]
    page = report(CRF(max_iter=5).fit(X, y), X, [labels[::-1] for labels in y])
    Page(page)
    assert "<bdi>5</bdi>" in page
    assert "trellises" in sections(page)


def test_many_labels_are_folded_away() -> None:
    labels = [f"L{n:03}" for n in range(50)]
    X = [[f"w{n}" for n in range(50)]] * 2
    page = report(CRF(max_iter=2).fit(X, [labels] * 2), X, [labels, labels[::-1]])
    Page(page)
    assert "<summary>30 rarer labels</summary>" in page  # in the table of scores
    assert "<summary>38 rarer labels</summary>" in page  # in the feature section
    assert "The 30 most frequent of 50 labels." in page
    assert page.count('class="cell"') == 900


def test_the_choice_of_sentences(crf: CRF, data: Any) -> None:
    X, y = data
    case = Evaluation.of(crf, X, y)
    chosen = _choose_examples(case, 6)
    assert [title for title, _ in chosen[:3]] == [
        "Correct, but uncertain",
        "Wrong",
        "Correct and certain",
    ]
    doubt, wrong, sure = (parsed for _, parsed in chosen[:3])
    assert len({parsed.n for _, parsed in chosen}) == 6
    assert wrong.n == 1
    right = [n for n in range(30) if case.y[n] == case.predicted[n]]
    assert doubt.n in right
    assert sure.n in right
    seconds = {n: crf.predict_kbest([X[n]], 2)[0][1].probability for n in right}
    assert doubt.probabilities[1] == pytest.approx(max(seconds.values()))
    assert sure.span_labels == 2
    assert _choose_examples(case, 0) == []
    assert len(_choose_examples(case, 1000)) == 30
    page = report(crf, X, y, sentences=0)
    assert "trellises" not in sections(page)
    assert report(crf, X, y, sentences=5).count('class="best"') == 5


@pytest.mark.parametrize(("length", "drawn"), [(1, 1), (3, 1), (40, 1), (90, 0)])
def test_sentences_of_unusual_lengths(length: int, drawn: int) -> None:
    X, y = [["a"] * length, []], [["X"] * length, []]
    page = report(HMM().fit(X[:1], [["X", *["Y"] * (length - 1)]]), X, y)
    Page(page)
    assert page.count('class="best"') == drawn


def test_spans_are_marked_in_both_lines(crf: CRF, data: Any) -> None:
    page = report(crf, *data)
    worst = page[page.index('<section id="worst">') :]
    right, predicted = re.findall(
        r'<div class="row"><span>(\w+)</span><div>(.*?)</div></div>', worst
    )[:2]
    assert right[0] == "true"
    assert predicted[0] == "predicted"
    assert re.findall(r'<mark class="(c\d)"><bdi>(\w+)</bdi><small>(\w+)', right[1]) == [
        ("c1", "Oslo", "PER"),
        ("c0", "Bob", "LOC"),
    ]
    assert re.findall(r'<mark class="(c\d) wrong"><bdi>(\w+)</bdi><small>(\w+)', predicted[1]) == [
        ("c0", "Oslo", "LOC"),
        ("c1", "Bob", "PER"),
    ]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([["in"]], [], "X has 1 sequences, y has 0"),
        ([], [], "X has no tokens"),
        ([[]], [[]], "X has no tokens"),
        ([["in", "Oslo"]], [["O"]], "sequence 0 has 2 positions and 1 labels"),
        ([["in"]], [[None]], "sequence 0, position 0: the label is None"),
        ([["in"]], [[{"O", "B-LOC"}]], "sequence 0, position 0: the label is"),
    ],
)
def test_invalid_data(crf: CRF, X: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        report(crf, X, y)


def test_parts_of_html() -> None:
    assert html.number(float("-inf"), 1) == "−∞"
    assert html.bar(2.0) == '<span class="bar"><i style="width:100.0%"></i></span>'
    assert html.bar(-1.0, "minus") == '<span class="bar minus"><i style="width:0.0%"></i></span>'
    table = html.table(["<a>"], [["<b>x</b>"]])
    assert "<th>&lt;a&gt;</th>" in table
    assert "<td><b>x</b></td>" in table
