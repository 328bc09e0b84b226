"""Values that no other test depends on: defaults that are chosen, texts of suggestions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trellis
from trellis.app.checking.findings import Corpus, find_all
from trellis.app.checking.survey import Survey
from trellis.app.cli import demo
from trellis.data import corpus, samples
from trellis.optim import lbfgs


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("C_RF", "'C_RF': did you mean CRF?"),
        ("crf", "'crf': did you mean CRF?"),
        ("_CRF", "'_CRF'"),
        ("q", "'q'"),
        ("nothing_like_it", "'nothing_like_it'"),
    ],
)
def test_suggestions_for_public_names(name: str, ending: str) -> None:
    with pytest.raises(AttributeError) as info:
        getattr(trellis, name)
    assert str(info.value) == f"module 'trellis' has no attribute {ending}"


def rosenbrock(w: Any, gradient: Any) -> float:
    x, y = w
    gradient[:] = -2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)
    return float((1 - x) ** 2 + 100 * (y - x * x) ** 2)


def test_the_line_search_that_lbfgs_chooses() -> None:
    def path(**options: Any) -> list[float]:
        losses: list[float] = []
        start = np.array([-1.2, 1.0])
        lbfgs(rosenbrock, start, callback=lambda p: losses.append(p.loss) and None, **options)
        return losses

    by_name = {
        name: path(linesearch=name)
        for name in ("more-thuente", "backtracking", "strong-backtracking")
    }
    assert len({tuple(losses) for losses in by_name.values()}) == 3
    assert path() == by_name["more-thuente"]
    assert path(l1=0.1) == path(l1=0.1, linesearch="backtracking")


def survey(name: str, *lines: str) -> Survey:
    result = Survey(name, "conll", 99)
    for sequence in corpus.iterate_numbered(list(lines), result.report, "conll"):
        result.add(sequence)
    return result


def test_labels_of_a_later_file_that_are_new() -> None:
    first, second = survey("a", "x A", "y B", ""), survey("b", "x A", "", "y C", "z D", "")
    (unseen,) = [f for f in find_all(Corpus([first, second], "plain")) if f.check == "unseen"]
    assert (unseen.total, unseen.is_problem) == (2, True)
    assert unseen.message == "b: labels that do not occur in a"
    assert [(e.file, e.line, e.text) for e in unseen.examples] == [("b", 3, "'C'"), ("b", 4, "'D'")]
    (unseen,) = [f for f in find_all(Corpus([second, first], "plain")) if f.check == "unseen"]
    assert [example.text for example in unseen.examples] == ["'B'"]


def test_the_training_of_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(demo, "_print", texts.append)
    X, y = samples.load("test")
    model = demo._train(X[:60], y[:60], (X[60:80], y[60:80]))
    assert (model.l2, model.max_iter, model.constraints) == (0.1, 100, "BIO")
    iterations = [iteration for iteration, _ in model.dev_scores_]
    assert iterations[:2] == [10, 20]
    assert all(iteration % 10 == 0 for iteration in iterations[:-1])
    assert texts[0].startswith(f"A CRF of {len(model.coef_):,} weights: {model.n_iter_} iterations")
    demo._print_score(model, (X[:1], y[:1]), "test")
    assert texts[1].endswith("1 requests: test")
