"""Lattices in reports and notebooks, opened from a file in Chromium."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Chromium

from trellis.app.report.report import report
from trellis.data import conll
from trellis.inference import chain


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    browser = Chromium(tmp_path / "profile")
    yield browser
    browser.close()


def check(browser: Chromium, path: Path, count: int) -> None:
    """Open a page; all its lattices must be drawn, without a message or another file."""
    browser.requests()
    browser.urls.clear()
    browser.open(path.as_uri())
    browser.wait(
        "[...document.querySelectorAll('.trellis-lattice')].filter((e) => e.trellis).length === "
        f"{count}"
    )
    assert browser.messages() == []
    urls = {url for url in browser.requests() if not url.startswith(("data:", "chrome"))}
    assert urls == {path.as_uri()}


def test_lattices_outside_the_server(
    browser: Chromium, model: Any, model_path: Path, tmp_path: Path
) -> None:
    X, y = conll.read(model_path.parent / "dev.conll")
    (tmp_path / "report.html").write_text(report(model, X, y, sentences=2))
    check(browser, tmp_path / "report.html", 2)

    html = model._repr_mimebundle_()["text/html"]
    (tmp_path / "model.html").write_text(f"<!DOCTYPE html><meta charset='utf-8'>{html}")
    check(browser, tmp_path / "model.html", 1)

    model.inspect(X[0], gold=y[0]).save(tmp_path / "lattice.html")
    check(browser, tmp_path / "lattice.html", 1)
    labels = browser.texts(".lattice-words small")
    assert labels == model.predict([X[0]])[0]

    # A pinned label: the page decodes like the core.
    t = len(X[0]) // 2
    other = next(label for label in model.classes_.tolist() if label != labels[t])
    browser.run(
        "const {trellis} = document.querySelector('.trellis-lattice'); trellis.pin(...arguments)",
        *(t, model.classes_.tolist().index(other)),
    )
    known = [[None] * t + [other] + [None] * (len(X[0]) - t - 1)]
    scores = model.scores([X[0]], known)
    best = [model.classes_[n] for n in chain.viterbi(scores).labels[0]]
    assert browser.texts(".lattice-words small") == best
