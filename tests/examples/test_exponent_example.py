"""The experiment on the exponent of negative sampling, on a small text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def exponent(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import exponent

    return exponent


def test_scores_of_each_exponent(exponent: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = [[f"{topic}{i}" for i in range(5)] for topic in "ab"]
    text = [["the", *rng.choice(words[n % 2], 6).tolist()] for n in range(200)]
    judged = tmp_path / "judged.tsv"
    judged.write_text("a0\ta1\t9\nb0\tb1\t8\na0\tb1\t1\na2\tb2\t2\n")
    inverse = tmp_path / "inverse.tsv"
    inverse.write_text("a0\ta1\t1\nb0\tb1\t2\na0\tb1\t9\na2\tb2\t8\n")
    files = {"judged": judged, "inverse": inverse}
    settings = {"vector_size": 12, "epochs": 20, "alpha": 0.1, "sample": 0, "n_jobs": 1}
    scores = exponent.measure(text, files, (0.0, 1.0), (3, 4, 5), **settings)
    assert {name: values.shape for name, values in scores.items()} == {
        "judged": (2, 3),
        "inverse": (2, 3),
    }
    assert (scores["judged"] > 50).all()  # words of one topic are similar
    assert (scores["inverse"] < -50).all()
    drawing = exponent.draw(scores, (0.0, 1.0))
    points = [shape.tip for shape in drawing.shapes if shape.kind == "point"]
    assert points[0] == f"judged: 0, {scores['judged'][0].mean():.6g}"
    assert len(points) == 4
    first, second, last = exponent.show(scores, (0.0, 1.0)).splitlines()
    assert first.split() == ["exponent", "judged", "inverse"]
    assert second.split()[:2] == ["0.00", f"{scores['judged'][0].mean():.2f}"]
    assert last.split()[3] == f"{scores['judged'][1].std():.2f}"


def test_text_of_the_example(exponent: Any, tmp_path: Path) -> None:
    import lzma

    with lzma.open(tmp_path / "text.xz", "wt", encoding="utf-8") as file:
        file.write("The Cat\nsat here\nnever read\n")
    assert exponent.read_text(tmp_path / "text.xz", 2) == [["the", "cat"], ["sat", "here"]]
