"""Tagged text on a terminal, the demo on a small corpus, and the choice of the output format."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Ran

import trellis
from trellis import CRF
from trellis.app.cli import demo
from trellis.app.tag_output import Labelled, choose_output, make_inline, make_writer
from trellis.data import conll, samples
from trellis.data.corpus import Sequence
from trellis.errors import InputError

LABELS = ["O", "B-LOC", "I-LOC", "B-PER"]
TOKENS = ["Ann", "in", "New", "York", "."]
LINE = "Ann in  New York."
TAGS = ["B-PER", "O", "B-LOC", "I-LOC", "O"]


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", Terminal())


@pytest.mark.parametrize(
    ("output", "format", "on_terminal", "expected"),
    [
        ("jsonl", "conll", True, "jsonl"),
        ("conll", "text", True, "conll"),
        (None, "conll", True, "inline"),
        (None, "conll", False, "conll"),
        (None, "conllu", False, "conll"),
        (None, "jsonl", False, "jsonl"),
        (None, "text", False, "inline"),
        (None, "markup", False, "inline"),
    ],
)
def test_the_output_format(
    output: str | None, format: str, on_terminal: bool, expected: str
) -> None:
    assert choose_output(output, format, on_terminal) == expected


def test_spans_have_colours_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    write = make_writer(LABELS, "inline")
    line = write(Labelled(Sequence(TOKENS, TOKENS, 1, LINE), TAGS, None, None))
    # the labels in alphabetical order are cyan and magenta
    assert line == (
        "\x1b[1;35mAnn\x1b[0m\x1b[2;35m PER\x1b[0m in  "
        "\x1b[1;36mNew York\x1b[0m\x1b[2;36m LOC\x1b[0m.\n"
    )
    marginals = np.full((5, 4), 0.25)
    marginals[0, 3], marginals[2, 1], marginals[3, 2] = 0.875, 0.75, 0.5
    line = write(Labelled(Sequence(TOKENS, TOKENS, 1, LINE), TAGS, marginals, None))
    assert "PER 0.88" in line
    assert "\x1b[2;36m LOC 0.50\x1b[0m" in line  # the lowest probability of its tokens


def test_spans_are_marked_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    model = CRF(max_iter=3).fit([["Ann"], ["in"]], [["B-PER"], ["O"]])
    write: Any = make_inline(model)
    assert write(Sequence(["Ann"], ["Ann"], 1, "Ann"), ["B-PER"]) == "[Ann](PER)"


def test_tokens_with_tabs_are_not_written_as_columns() -> None:
    write = make_writer(LABELS, "conll")
    for token in ("a\tb", "a\nb"):
        with pytest.raises(InputError, match="a token contains a tab or a line break"):
            write(Labelled(Sequence([token], [token], 1), ["O"], None, None))


def test_the_demo_on_a_small_corpus(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def every_eighth(function: Callable[..., Any]) -> Callable[..., Any]:
        def load_some(split: str) -> tuple[Any, Any]:
            X, y = function(split)
            return X[::8], y[::8]

        return load_some

    load, generate = every_eighth(samples.load), every_eighth(samples.generate)
    monkeypatch.setattr(demo.samples, "generate", generate)
    monkeypatch.setattr(demo.samples, "load", load)
    ran = run("demo", "-o", "sub/demo")
    assert (ran.code, ran.err) == (0, "")
    folder = tmp_path / "sub" / "demo"
    assert {"model.trellis", "report.html", "trellis.svg"} <= {p.name for p in folder.iterdir()}
    model = trellis.load(folder / "model.trellis")
    assert (model.l2, model.constraints, model.scoring) == (0.1, "BIO", "span_f1")
    assert "lower[2]" in {template.name for template in model.features_.spec.templates}
    assert "lower[3]" not in {template.name for template in model.features_.spec.templates}
    lines = ran.out.splitlines()
    n_requests = len(load("train")[0]) + len(generate("train")[0])
    assert lines[0] == f"The sample corpus has {n_requests:,} requests for training."
    assert lines[1].startswith(f"A CRF of {len(model.coef_):,} weights: {model.n_iter_} iterations")
    test, unseen = load("test"), generate("unseen")
    both = test[0] + unseen[0], test[1] + unseen[1]
    for line, (X, y) in zip(lines[3:5], (generate("held_out"), both), strict=True):
        scores = trellis.metrics.span_scores(y, model.predict(X))
        assert line.startswith(
            f"  F1 {100 * scores.f1:.1f}  precision {100 * scores.precision:.1f}  recall "
            f"{100 * scores.recall:.1f}  {len(X)} requests: "
        )
    written = [line.replace("[", "").replace("]", "(") for line in lines[5:]]
    for said in demo.UTTERANCES:
        assert any(said.split()[0] in line for line in written), said
    names = "model.trellis, train.conll, dev.conll, report.html, trellis.svg"
    assert lines[-2].startswith(f"In sub/demo: {names}")
    assert lines[-1].endswith(
        "serve sub/demo/model.trellis --data sub/demo/dev.conll --train sub/demo/train.conll "
        "--save sub/demo"
    )
    assert conll.read(folder / "dev.conll") == generate("held_out")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<h1>The trellis demo</h1>" in page
    n_held_out = len(generate("held_out")[0])
    assert f"evaluated on trellis.data.samples: {n_held_out} sequences" in page
    picture = (folder / "trellis.svg").read_text(encoding="utf-8")
    for kind in ("best", "node"):
        assert f'class="{kind}"' in picture
