"""``trellis demo``: train, evaluate, tag and draw, on the sample corpus of the package."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from rich.text import Text

from trellis.app.cli.declarations import Option
from trellis.app.report.report import report
from trellis.app.tag_output import make_inline
from trellis.app.terminal import format_duration, make_console, show_progress
from trellis.data import samples, text
from trellis.data.corpus import Sequence
from trellis.errors import InputError
from trellis.features import Window
from trellis.formats.atomic import replacing
from trellis.metrics import span_scores
from trellis.models.chain.crf import CRF
from trellis.plots import lattice

__all__ = ["Options", "run"]

UTTERANCES = (
    "find me a quiet Lebanese place near the harbour for six on Saturday",
    "play something slow by Marisa Okoye while I cook",
    "put lunch with Tomás on Thursday at half past twelve",
    "I need two blue raincoats, size M, under 60 euros",
    "any trains from Utrecht to Basel tomorrow evening?",
)


@dataclass
class Options:
    """Options of ``trellis demo``."""

    output: Annotated[
        Path, Option("--output", "-o", help="Folder for the model, the page and the picture.")
    ] = Path("demo")


def run(options: Options) -> None:
    """Train on a small corpus, evaluate, tag new sentences, and draw a trellis.

    **Example**

    `trellis demo -o demo`
    """
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    X, y = samples.load("train")
    sentences, slots = samples.load("test")
    _print(
        f"The sample corpus has {len(X)} requests for training and {len(sentences)} for testing. "
        "The test requests have sentence patterns that do not occur in training."
    )
    model = _train(X, y, (sentences, slots))
    scores = span_scores(slots, cast(Any, model.predict(sentences)))
    _print(
        f"Slots in the test requests: precision {100 * scores.precision:.1f}, recall "
        f"{100 * scores.recall:.1f}, F1 {100 * scores.f1:.1f}. It is a small corpus.\n"
    )
    write = make_inline(model)
    for line in UTTERANCES:
        tokens: Any = text.tokenize(line)
        labels: Any = model.predict([tokens])[0]
        _print(Text.from_ansi(write(Sequence(tokens, tokens, 1, line), labels)))
    names = _write_files(model, folder, (sentences, slots))
    _print(Text.assemble(f"\nIn {folder}: {', '.join(names)}. Next: ", ("trellis --help", "bold")))


def _write_files(model: CRF, folder: Path, test: tuple[Any, Any]) -> list[str]:
    """Write the model, the report and a picture; return the names of the files."""
    model.save(folder / "model.trellis")
    page = report(model, *test, title="The trellis demo", source="trellis.data.samples")
    with replacing(folder / "report.html") as file:
        file.write(page.encode())
    drawing = _draw(model, UTTERANCES[0])
    drawing.save(folder / "trellis.svg")
    names = ["model.trellis", "report.html", "trellis.svg"]
    try:
        drawing.save(folder / "trellis.png")
        names.append("trellis.png")
    except InputError as error:  # matplotlib is not installed
        _print(f"\n{folder / 'trellis.png'} was not written: {error}")
    return names


def _draw(model: Any, line: str) -> Any:
    """Return a drawing of the trellis of a sentence with its two best paths."""
    tokens = text.tokenize(line)
    best, second = model.predict_kbest([tokens], 2)[0]
    return lattice(
        tokens,
        [str(label) for label in model.classes_],
        model.predict_marginals([tokens])[0],
        best.labels,
        second.labels,
    )


def _train(X: Any, y: Any, dev: Any) -> CRF:
    model = CRF(Window(lower=2), l2=0.1, constraints="BIO", scoring="span_f1")
    start = time.perf_counter()
    with show_progress("training") as update:
        model.fit(
            X,
            y,
            dev=dev,
            dev_every=5,
            callback=lambda p: update(None, f"iteration {p.iteration}  loss {p.loss:,.1f}"),
        )
    seconds = format_duration(time.perf_counter() - start)
    _print(f"A CRF of {len(model.coef_):,} weights: {model.n_iter_} iterations in {seconds}.")
    return model


def _print(message: str | Text) -> None:
    """Print a message; rich does not interpret square brackets in it as styles."""
    make_console().print(message, markup=False, soft_wrap=True)
