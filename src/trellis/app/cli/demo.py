"""``trellis demo``: train, evaluate, tag and draw, on the sample corpus of the package."""

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from rich.text import Text

from trellis.app.cli.declarations import Option
from trellis.app.report.report import report
from trellis.app.tag_output import make_inline
from trellis.app.terminal import find_program, format_duration, make_console, show_progress
from trellis.data import conll, samples, text
from trellis.data.atomic import replacing
from trellis.data.corpus import Sequence
from trellis.errors import InputError
from trellis.features import Window
from trellis.metrics import span_scores
from trellis.models.chain.crf import CRF
from trellis.plots import lattice

__all__ = ["Options", "run"]

Corpus = tuple[list[list[str]], list[list[str]]]

UTTERANCES = (
    "find me a quiet Lebanese place near the harbour for six on Saturday",
    "play something slow by Marisa Okoye while I cook",
    "put lunch with Tomás on Thursday at half past twelve",
    "I need a blue raincoat in size M, under 60 euros",
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
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file: --output must be a folder")
    folder.mkdir(parents=True, exist_ok=True)
    train = _join(samples.load("train"), samples.generate("train"))
    held_out = samples.generate("held_out")
    unseen = _join(samples.load("test"), samples.generate("unseen"))
    _print(f"The sample corpus has {len(train[0]):,} requests for training.")
    model = _train(*train, dev=held_out)
    _print("Slots in requests that are not in training:")
    _print_score(model, held_out, "held-out sentences, other names and values in known patterns")
    _print_score(model, unseen, "sentence patterns that do not occur in training")
    _print("")
    write = make_inline(model)
    for line in UTTERANCES:
        tokens: Any = text.tokenize(line)
        labels: Any = model.predict([tokens])[0]
        _print(Text.from_ansi(write(Sequence(tokens, tokens, 1, line), labels)))
    names = _write_files(model, folder, train, held_out)
    _print(f"\nIn {folder}: {', '.join(names)}. Next, in a browser:")
    _print(Text.assemble("  ", (_build_next_command(folder), "bold")))


def _build_next_command(folder: Path) -> str:
    """Return the command that opens the page on the model and the data of the demo."""
    files = {"data": folder / "dev.conll", "train": folder / "train.conll", "save": folder}
    options = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    return shlex.join([*find_program(), "serve", str(folder / "model.trellis"), *options])


def _write_files(model: CRF, folder: Path, train: Corpus, test: Corpus) -> list[str]:
    """Write the model, its data, the report and a picture; return the names of the files."""
    model.save(folder / "model.trellis")
    conll.write(folder / "train.conll", *train)
    conll.write(folder / "dev.conll", *test)
    page = report(model, *test, title="The trellis demo", source="trellis.data.samples")
    with replacing(folder / "report.html") as file:
        file.write(page.encode())
    drawing = _draw(model, UTTERANCES[0])
    drawing.save(folder / "trellis.svg")
    names = ["model.trellis", "train.conll", "dev.conll", "report.html", "trellis.svg"]
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


def _join(a: Corpus, b: Corpus) -> Corpus:
    return a[0] + b[0], a[1] + b[1]


def _train(X: Any, y: Any, dev: Corpus) -> CRF:
    # Half of the requests are in lower case, so the features ignore capitals, except for the shape.
    # The scores on ``dev`` are for the curve in the report. They do not change the training.
    window = Window(words=0, lower=2, lower_affixes=True, bigrams=None)
    model = CRF(window, l2=0.1, max_iter=100, constraints="BIO", scoring="span_f1")
    start = time.perf_counter()
    with show_progress("training") as update:
        model.fit(
            X,
            y,
            dev=dev,
            dev_every=10,
            callback=lambda p: update(None, f"iteration {p.iteration}  loss {p.loss:,.1f}"),
        )
    seconds = format_duration(time.perf_counter() - start)
    _print(f"A CRF of {len(model.coef_):,} weights: {model.n_iter_} iterations in {seconds}.")
    return model


def _print_score(model: CRF, test: Corpus, description: str) -> None:
    X, y = test
    scores = span_scores(y, cast(Any, model.predict(X)))
    _print(
        f"  F1 {100 * scores.f1:.1f}  precision {100 * scores.precision:.1f}  recall "
        f"{100 * scores.recall:.1f}  {len(X)} requests: {description}"
    )


def _print(message: str | Text) -> None:
    """Print a message or a coloured text as one line."""
    make_console().print(message, soft_wrap=True)
