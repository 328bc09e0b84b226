"""The commands about words: ``embed``, ``neighbors``, ``analogy``, ``similarity``, ``classify``."""

from pathlib import Path
from typing import Annotated

import typer

from trellis.app.cli.options import Jobs, Json, Quiet

__all__ = ["register"]

Vectors = Annotated[
    Path,
    typer.Argument(
        help="Vectors or a model: .trellis, word2vec, GloVe, fastText's .vec, .bin, .ftz, gensim.",
        metavar="VECTORS",
    ),
]
Count = Annotated[int, typer.Option("-k", help="How many answers.", metavar="K", min=1)]
Limit = Annotated[
    int | None, typer.Option(help="Read the first N words alone.", metavar="N", min=1)
]
Restrict = Annotated[
    int | None, typer.Option(help="With --test: the first N words alone.", metavar="N", min=1)
]


def embed(
    files: Annotated[list[Path], typer.Argument(help="Text, a sentence a line.", metavar="FILE")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help=".trellis, .vec, .txt, .bin or .ftz, by its name."),
    ] = Path("vectors.trellis"),
    architecture: Annotated[str, typer.Option(help="skipgram or cbow.")] = "skipgram",
    subwords: Annotated[
        bool, typer.Option("--subwords", help="fastText: words are made of character n-grams.")
    ] = False,
    supervised: Annotated[
        bool, typer.Option("--supervised", help="Learn the labels that the lines begin with.")
    ] = False,
    loss: Annotated[
        str | None, typer.Option(help="negative, hierarchical, softmax; ova if supervised.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Numbers in a vector.")] = 100,
    window: Annotated[int | None, typer.Option(help="Words to each side (5).")] = None,
    negatives: Annotated[int | None, typer.Option(help="Words drawn against each (5).")] = None,
    sample: Annotated[float | None, typer.Option(help="Drop commoner words (0.001).")] = None,
    min_count: Annotated[int | None, typer.Option(help="Leave out rarer words (5; 1).")] = None,
    minn: Annotated[int | None, typer.Option(help="Shortest character n-gram (3; 0).")] = None,
    maxn: Annotated[int | None, typer.Option(help="Longest character n-gram (6; 0).")] = None,
    bucket: Annotated[int | None, typer.Option(help="Rows of n-grams (2000000).")] = None,
    word_ngrams: Annotated[int | None, typer.Option(help="Runs of words, supervised (1).")] = None,
    epochs: Annotated[int | None, typer.Option(help="Times through the text (5).")] = None,
    alpha: Annotated[float | None, typer.Option(help="Learning rate at first.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of all that is random.")] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Learn vectors of words from text, or with `--supervised` a classifier of texts.

    **Examples**

    `trellis embed wiki.txt -o wiki.vec --dim 300 --epochs 3`

    `trellis embed wiki.txt.xz -o wiki.bin --subwords` (fastText reads it)

    `trellis embed intents.txt -o intents.ftz --supervised --word-ngrams 2`
    """
    from trellis.app.embed import run

    settings = {
        "loss": loss,
        "window": window,
        "negatives": negatives,
        "sample": sample,
        "min_count": min_count,
        "minn": minn,
        "maxn": maxn,
        "bucket": bucket,
        "word_ngrams": word_ngrams,
        "epochs": epochs,
        "alpha": alpha,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    run(
        files,
        output,
        kind="supervised" if supervised else "subwords" if subwords else "words",
        architecture=architecture,
        dim=dim,
        settings=given,
        seed=seed,
        jobs=jobs,
        quiet=quiet,
    )


def neighbors(
    vectors: Vectors,
    words: Annotated[
        list[str] | None, typer.Argument(help="Standard input if none.", metavar="WORD")
    ] = None,
    k: Count = 10,
    limit: Limit = None,
    as_json: Json = False,
    jobs: Jobs = None,
) -> None:
    """Say which words are nearest to each of some words.

    **Examples**

    `trellis neighbors wiki.vec paris -k 5`

    `trellis neighbors cc.en.300.bin unbelievableness`
    """
    from trellis.app.words import neighbors as run

    run(vectors, words or [], k=k, limit=limit, as_json=as_json, jobs=jobs)


def analogy(
    vectors: Vectors,
    words: Annotated[
        list[str] | None, typer.Argument(help="A B C: A is to B as C is to what?", metavar="WORD")
    ] = None,
    k: Count = 5,
    test: Annotated[
        Path | None, typer.Option(help="Score a file of questions instead.", metavar="FILE")
    ] = None,
    restrict: Restrict = None,
    limit: Limit = None,
    as_json: Json = False,
    jobs: Jobs = None,
) -> None:
    """Answer "A is to B as C is to …", or a whole file of such questions.

    **Examples**

    `trellis analogy wiki.vec man king woman`

    `trellis analogy wiki.vec --test questions-words.txt --restrict 60000`
    """
    from trellis.app.words import analogy as run

    if (test is None) != (len(words or []) == 3) or (test is not None and words):
        raise typer.BadParameter("three words, or --test FILE")
    run(vectors, words or [], test, k=k, restrict=restrict, limit=limit, as_json=as_json, jobs=jobs)


def similarity(
    vectors: Vectors,
    words: Annotated[list[str] | None, typer.Argument(help="Two words.", metavar="WORD")] = None,
    test: Annotated[
        Path | None, typer.Option(help="Score a file of pairs instead.", metavar="FILE")
    ] = None,
    restrict: Restrict = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Say how near two words are, or how well that agrees with people.

    **Examples**

    `trellis similarity wiki.vec car train`

    `trellis similarity wiki.vec --test wordsim353.tsv`
    """
    from trellis.app.words import similarity as run

    if (test is None) != (len(words or []) == 2) or (test is not None and words):
        raise typer.BadParameter("two words, or --test FILE")
    run(vectors, words or [], test, restrict=restrict, limit=limit, as_json=as_json)


def classify(
    model: Annotated[
        Path, typer.Argument(help="A classifier: .trellis, .bin or .ftz.", metavar="MODEL")
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Text, one a line; standard input if none.", metavar="FILE"),
    ] = None,
    k: Count = 1,
    threshold: Annotated[
        float, typer.Option(help="Leave out labels less probable than this.", min=0.0, max=1.0)
    ] = 0.0,
    test: Annotated[
        Path | None, typer.Option(help="Score a file with labels instead.", metavar="FILE")
    ] = None,
    as_json: Json = False,
    jobs: Jobs = None,
) -> None:
    """Label texts with a classifier that `trellis embed --supervised` or fastText made.

    Each line of text gets one of labels and probabilities, with tabs between.

    **Examples**

    `echo "quelle heure est-il" | trellis classify lid.176.ftz -k 3`

    `trellis classify intents.ftz --test test.txt`
    """
    from trellis.app.classify import run

    run(model, files or [], test, k=k, threshold=threshold, as_json=as_json, jobs=jobs)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (embed, neighbors, analogy, similarity, classify):
        app.command()(command)
