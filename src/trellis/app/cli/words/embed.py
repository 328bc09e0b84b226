"""``trellis embed``: train word vectors or a text classifier on text files."""

import dataclasses
import inspect
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from trellis.app.cli.declarations import Argument, Option
from trellis.app.cli.options import Jobs, Quiet, read_default
from trellis.app.terminal import check_writable, format_duration, print_status, show_progress
from trellis.embeddings.classifier import TextClassifier
from trellis.embeddings.fasttext import FastText
from trellis.embeddings.training import Progress
from trellis.embeddings.word2vec import Word2Vec
from trellis.errors import InputError

__all__ = ["Options", "run"]

_OUTPUTS: dict[Any, tuple[str, ...]] = {
    Word2Vec: (".trellis", ".vec", ".txt", ".bin"),
    FastText: (".trellis", ".vec", ".txt", ".bin"),
    TextClassifier: (".trellis", ".bin", ".ftz"),
}
"""The suffixes of the files that each model can write."""


def _describe_default(name: str) -> str:
    """Return the default values of a parameter as text: ``default 5, with --supervised 1``."""
    models = {"": Word2Vec, "--subwords": FastText, "--supervised": TextClassifier}
    values = {
        flag: read_default(model, name)
        for flag, model in models.items()
        if name in _list_parameters(model)
    }
    texts = {
        flag: "chosen by the model" if value is None else str(value)
        for flag, value in values.items()
    }
    first, *flags = texts
    differing = [f", with {flag} {texts[flag]}" for flag in flags if texts[flag] != texts[first]]
    return f"default {texts[first]}{''.join(differing)}"


def _list_parameters(model: Any) -> set[str]:
    return set(inspect.signature(model).parameters)


@dataclass
class ModelOptions:
    """Parameters of the models. None means the default value of the model."""

    architecture: Annotated[
        str | None,
        Option(help=f"Architecture: skipgram or cbow; {_describe_default('architecture')}."),
    ] = None
    loss: Annotated[
        str | None,
        Option(help=f"Loss: negative, hierarchical, softmax or ova; {_describe_default('loss')}."),
    ] = None
    window: Annotated[
        int | None,
        Option(help=f"Number of context words on each side; {_describe_default('window')}."),
    ] = None
    negatives: Annotated[
        int | None,
        Option(help=f"Number of negative samples per word; {_describe_default('negatives')}."),
    ] = None
    sample: Annotated[
        float | None,
        Option(help=f"Threshold of subsampling frequent words; {_describe_default('sample')}."),
    ] = None
    min_count: Annotated[
        int | None,
        Option(help=f"Ignore words that occur less often; {_describe_default('min_count')}."),
    ] = None
    minn: Annotated[
        int | None,
        Option(help=f"Length of the shortest character n-grams; {_describe_default('minn')}."),
    ] = None
    maxn: Annotated[
        int | None,
        Option(help=f"Length of the longest character n-grams; {_describe_default('maxn')}."),
    ] = None
    bucket: Annotated[
        int | None, Option(help=f"Number of n-gram vectors; {_describe_default('bucket')}.")
    ] = None
    word_ngrams: Annotated[
        int | None,
        Option(
            help=f"Longest word n-grams, with --supervised; {_describe_default('word_ngrams')}."
        ),
    ] = None
    epochs: Annotated[
        int | None, Option(help=f"Number of passes over the text; {_describe_default('epochs')}.")
    ] = None
    alpha: Annotated[
        float | None, Option(help=f"Initial learning rate; {_describe_default('alpha')}.")
    ] = None


@dataclass
class Options:
    """Options of ``trellis embed``."""

    files: Annotated[
        list[Path], Argument(help="Text files with one sentence per line.", metavar="FILE")
    ]
    output: Annotated[
        Path,
        Option("--output", "-o", help="File to write: .trellis, .vec, .txt, .bin or .ftz."),
    ] = Path("vectors.trellis")
    subwords: Annotated[
        bool, Option("--subwords", help="Use character n-grams, like fastText.")
    ] = False
    supervised: Annotated[
        bool,
        Option(
            "--supervised",
            help="Train a text classifier. Each line starts with its label: `__label__…`.",
        ),
    ] = False
    dim: Annotated[int, Option(help="Number of dimensions of a vector.", min=1)] = read_default(
        Word2Vec, "vector_size"
    )
    parameters: ModelOptions = field(default_factory=ModelOptions)
    seed: Annotated[
        int | None, Option(help="Seed of the random numbers; default: a new seed in each run.")
    ] = None
    jobs: Jobs = None
    quiet: Quiet = False


def run(options: Options) -> None:
    """Train word vectors on text, or with `--supervised` a text classifier.

    **Examples**

    `trellis embed wiki.txt -o wiki.vec --dim 300 --epochs 3`

    `trellis embed wiki.txt.xz -o wiki.bin --subwords` (fastText can read the file)

    `trellis embed intents.txt -o intents.ftz --supervised --word-ngrams 2`
    """
    output = options.output
    check_writable(output, *options.files)
    model = _build_model(options)
    if output.suffix not in _OUTPUTS[type(model)]:
        suffixes = ", ".join(_OUTPUTS[type(model)])
        raise InputError(f"{output}: the file name must end in one of {suffixes}")
    for path in options.files:
        path.stat()  # a missing file raises now, not after training on the other files
    start = time.monotonic()
    with show_progress("training", options.quiet) as update:

        def draw(progress: Progress) -> None:
            speed, loss = progress.words_per_second, progress.loss
            update(progress.fraction, f"{speed:,.0f} words/s  loss {loss:.3f}")

        model.fit(options.files, callback=draw)
    _save(model, output)
    size = f"{len(model.words_):,} words, {options.dim} dimensions"
    speed = f"{format_duration(time.monotonic() - start)}, {model.words_per_second_:,.0f} words/s"
    print_status(f"{output}: {size}; {speed}", quiet=options.quiet)


def _build_model(options: Options) -> Any:
    if options.supervised:
        model: Any = TextClassifier
    else:
        model = FastText if options.subwords else Word2Vec
    values = dataclasses.asdict(options.parameters)
    settings = {name: value for name, value in values.items() if value is not None}
    unknown = sorted(settings.keys() - _list_parameters(model))
    if unknown:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in unknown)
        raise InputError(f"{flags} cannot be used here: {model.__name__} has no such parameter")
    return model(options.dim, n_jobs=options.jobs, random_state=options.seed, **settings)


def _save(model: Any, output: Path) -> None:
    if output.suffix == ".trellis":
        model.save(output)
    elif output.suffix == ".ftz":
        model.quantize().save_fasttext(output)
    elif type(model) is Word2Vec or output.suffix != ".bin":  # FastText derives from Word2Vec
        model.vectors_.save(output)
    else:
        model.save_fasttext(output)
