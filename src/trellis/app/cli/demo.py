"""`trellis demo`: everything once, on the corpus that comes with the package."""

import time
from pathlib import Path
from typing import Any, cast

from rich.text import Text

from trellis.app import tag, terminal
from trellis.app.report.report import report
from trellis.app.terminal import bar, duration
from trellis.data import samples, text
from trellis.data.corpus import Sequence
from trellis.errors import InputError
from trellis.features import Window
from trellis.formats.atomic import replacing
from trellis.metrics import span_scores
from trellis.models.chain.crf import CRF
from trellis.plots import lattice

__all__ = ["run"]

UTTERANCES = (
    "find me a quiet Lebanese place near the harbour for six on Saturday",
    "play something slow by Marisa Okoye while I cook",
    "put lunch with Tomás on Thursday at half past twelve",
    "I need two blue raincoats, size M, under 60 euros",
    "any trains from Utrecht to Basel tomorrow evening?",
)


def run(folder: Path) -> None:
    """Train, evaluate, tag, and write a model, a page and a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    screen = terminal.console()
    X, y = samples.load("train")
    sentences, slots = samples.load("test")
    screen.print(
        f"The corpus of trellis: {len(X)} requests to learn from, {len(sentences)} held out, whose "
        f"sentence patterns were never seen."
    )
    model = _trained(X, y, (sentences, slots))
    found = span_scores(slots, cast(Any, model.predict(sentences)))
    screen.print(
        f"Slots found in the held-out requests: precision {100 * found.precision:.1f}, recall "
        f"{100 * found.recall:.1f}, F1 {100 * found.f1:.1f}. It is a small corpus.\n"
    )
    write = tag.inline(model)
    for line in UTTERANCES:
        tokens: Any = text.tokenize(line)
        best: Any = model.predict([tokens])[0]
        screen.print(Text.from_ansi(write(Sequence(tokens, tokens, 1, line), best)))
    model.save(folder / "model.trellis")
    page = report(model, sentences, slots, title="The trellis demo", source="trellis.data.samples")
    with replacing(folder / "report.html") as file:
        file.write(page.encode())
    made = ["model.trellis", "report.html", "trellis.svg"]
    drawing = picture(model, UTTERANCES[0])
    drawing.save(folder / "trellis.svg")
    try:
        drawing.save(folder / "trellis.png")
        made.append("trellis.png")
    except InputError as error:  # the package that draws it is not there
        screen.print(f"\nno {folder / 'trellis.png'}: {error}", soft_wrap=True)
    screen.print(f"\nIn {folder}: {', '.join(made)}. Next: [bold]trellis --help[/bold]")


def picture(model: Any, line: str) -> Any:
    """The trellis of one sentence with its two best paths."""
    tokens = text.tokenize(line)
    best, second = model.predict_kbest([tokens], 2)[0]
    return lattice(
        tokens,
        [str(label) for label in model.classes_],
        model.predict_marginals([tokens])[0],
        best.labels,
        second.labels,
    )


def _trained(X: Any, y: Any, dev: Any) -> CRF:
    model = CRF(Window(lower=2), l2=0.1, constraints="BIO", scoring="span_f1")
    began = time.perf_counter()
    with bar("training") as show:
        model.fit(
            X,
            y,
            dev=dev,
            dev_every=5,
            callback=lambda p: show(None, f"iteration {p.iteration}  loss {p.loss:,.1f}"),
        )
    screen = terminal.console()
    screen.print(
        f"A CRF of {len(model.coef_):,} weights: {model.n_iter_} iterations in "
        f"{duration(time.perf_counter() - began)}."
    )
    return model
