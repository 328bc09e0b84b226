"""Pages of `trellis report`, byte for byte: tests/app/pages has the pages that were checked by eye.

After a change of the report, `python tests/app/test_report_pages.py` writes them again: look at
each new page in a browser before it is committed.
"""

import re
from pathlib import Path

import pytest
from test_report import corpus

from trellis import CRF, HMM, __version__
from trellis.app.report.report import report
from trellis.plots.interactive import modules_once

FOLDER = Path(__file__).parent / "pages"


def render(model: CRF | HMM, X: list[list[str]], y: list[list[str]], **options: object) -> str:
    """Return the page, without the version of trellis, the scripts and the bits of scores."""
    page = report(model, X, y, **options)  # type: ignore[arg-type]
    assert f"Made with trellis {__version__}." in page
    assert page.count(modules_once()) == min(1, options.get("sentences", 3))  # type: ignore[call-overload]
    page = page.replace(modules_once(), "SCRIPTS")
    page = re.sub(r'"float64":"[^"]+"', '"float64":"SCORES"', page)
    return page.replace(f"trellis {__version__}", "trellis VERSION")


def write_spans() -> str:
    """Return the page of a CRF that predicts spans, with a development set and mistakes."""
    X, y = corpus(12)
    y[5] = ["O"] * len(y[5])
    model = CRF(l2=0.1, max_iter=12).fit(X, y, dev=(X, y))
    return render(model, X, y, sentences=2, title="People & places", source="people.conll")


def write_tags() -> str:
    """Return the page of an HMM that predicts parts of speech, on labels that it does not know."""
    X = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["dogs", "bark"]]
    y = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"]]
    test = [["D", "N", "N"], ["D", "N", "V"], ["X", "V"]]
    return render(HMM().fit(X, y), X, test, sentences=1)


def write_many_labels() -> str:
    """Return the scores of more labels than the table shows at first; some are tied."""
    labels = [f"L{n}" for n in range(24)]
    X = [[f"w{n}", f"v{n}"] for n in range(24)]
    y = [[label, labels[(7 * n) % 24]] for n, label in enumerate(labels)]
    wrong = [[labels[n // 2], second] for n, (_, second) in enumerate(y)]
    page = render(HMM().fit(X, y), X, wrong, sentences=0)
    return page[page.index('<section id="labels">') : page.index('<section id="confusions">')]


PAGES = {"spans": write_spans, "tags": write_tags, "many-labels": write_many_labels}


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_unchanged(name: str) -> None:
    expected = (FOLDER / f"{name}.html").read_text(encoding="utf-8").splitlines()
    assert PAGES[name]().splitlines() == expected


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, write in PAGES.items():
        (FOLDER / f"{name}.html").write_text(write(), encoding="utf-8")
