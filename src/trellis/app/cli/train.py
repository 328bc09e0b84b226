"""The command ``train``: its options, by the kind of model that they are for."""

from pathlib import Path
from typing import Annotated, Any

import typer

from trellis.app.cli.options import Columns, Format, Jobs, Label, Quiet, layout_of

__all__ = ["register"]


def _network(help: str, *names: str, metavar: str | None = None) -> Any:
    """An option of networks, listed apart."""
    panel = "Options of --model neural"
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


def train(
    files: Annotated[list[Path], typer.Argument(help="Training data.", metavar="FILE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.")] = Path(
        "model.trellis"
    ),
    dev: Annotated[Path | None, typer.Option(help="Development data, scored as it goes.")] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            help="crf, memm, hmm, neural, sgd, perceptron, passive-aggressive, arow.",
        ),
    ] = "crf",
    format: Format = None,
    columns: Columns = None,
    label: Label = None,
    template: Annotated[
        Path | None, typer.Option(help="Features by a CRF++ template or Wapiti pattern file.")
    ] = None,
    features: Annotated[
        str, typer.Option(help="auto, words, chunking, chunking-rich, ner, pos.")
    ] = "auto",
    gazetteer: Annotated[
        list[str] | None,
        typer.Option(help="A list of phrases, one a line; may be repeated.", metavar="NAME=FILE"),
    ] = None,
    l1: Annotated[float | None, typer.Option(help="Strength of the L1 penalty (0).")] = None,
    l2: Annotated[float | None, typer.Option(help="Strength of the L2 penalty (1).")] = None,
    tune: Annotated[
        int, typer.Option(help="Try N pairs of l1 and l2 by cross-validation.", metavar="N")
    ] = 0,
    solver: Annotated[
        str | None,
        typer.Option(help="lbfgs, gradient, sgd, perceptron, passive-aggressive, arow."),
    ] = None,
    max_iter: Annotated[int | None, typer.Option(help="Most iterations.")] = None,
    min_count: Annotated[
        float | None, typer.Option(help="Drop features that occur less often with a label.")
    ] = None,
    states: Annotated[str | None, typer.Option(help="Weights of what was seen, or all.")] = None,
    transitions: Annotated[str | None, typer.Option(help="seen, all or none.")] = None,
    constraints: Annotated[
        str | None,
        typer.Option(help="Forbid what a tagging scheme forbids: auto, BIO, BILOU, BIOES ..."),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="Stop after so many scores on --dev without a better one.")
    ] = None,
    dev_every: Annotated[
        int | None, typer.Option(help="Iterations from one score to the next (5).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of all that is random.")] = 0,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            help="Save the state every N iterations; by default as often as takes 5 % of the time.",
            metavar="N",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last saved state, if there is one.")
    ] = False,
    words: Annotated[
        str | None,
        _network("What a word becomes: embedding,cnn; also rnn, ngrams.", metavar="LIST"),
    ] = None,
    vectors: Annotated[
        Path | None, _network("Vectors that the words begin with.", metavar="FILE")
    ] = None,
    word_dim: Annotated[int | None, _network("Numbers in the vector of a word.")] = None,
    encoder: Annotated[str | None, _network("lstm or cnn, over the words.")] = None,
    hidden: Annotated[int | None, _network("Its width, in each direction.")] = None,
    layers: Annotated[int | None, _network("How many of them.")] = None,
    head: Annotated[str | None, _network("crf, softmax or memm.")] = None,
    hybrid: Annotated[
        bool, _network("A linear CRF of --features beside the network.", "--hybrid")
    ] = False,
    dropout: Annotated[float | None, _network("Share of inputs left out in training.")] = None,
    optimizer: Annotated[str | None, _network("adamw or sgd.")] = None,
    learning_rate: Annotated[float | None, _network("At its highest.")] = None,
    batch_size: Annotated[int | None, _network("Sequences a step.")] = None,
    epochs: Annotated[int | None, _network("Most times through the data.")] = None,
    device: Annotated[str | None, _network("cpu or cuda; by default cuda if it is there.")] = None,
    precision: Annotated[str | None, _network("bf16 or fp16, on cuda.")] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Learn a model from files with labels.

    **Examples**

    `trellis train train.conll --dev dev.conll -o model.trellis`

    `trellis train train.md --constraints auto --tune 8`

    `trellis train train.conll --template crfpp.template --model perceptron`

    `trellis train train.conll --dev dev.conll --model neural --vectors words.vec --hybrid`

    `trellis train big.conll -o big.trellis --resume` (after it was stopped: ends in the same bits)
    """
    from trellis.app.train import Job, run

    run(
        Job(
            files,
            output,
            dev=dev,
            model=model,
            format=format,
            layout=layout_of(columns, label),
            template=template,
            features=features,
            gazetteers=_gazetteers(gazetteer or []),
            l1=l1,
            l2=l2,
            solver=solver,
            max_iter=max_iter,
            min_count=min_count,
            states=states,
            transitions=transitions,
            constraints=constraints,
            patience=patience,
            dev_every=dev_every,
            jobs=jobs,
            seed=seed,
            tune=tune,
            checkpoint_every=checkpoint_every,
            resume=resume,
            network=_given(
                words=words.split(",") if words is not None else None,
                vectors=vectors,
                word_dim=word_dim,
                encoder=encoder,
                hidden=hidden,
                layers=layers,
                head=head,
                hybrid=hybrid or None,
                dropout=dropout,
                optimizer=optimizer,
                learning_rate=learning_rate,
                batch_size=batch_size,
                epochs=epochs,
                device=device,
                precision=precision,
            ),
            quiet=quiet,
        )
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(train)


def _given(**options: Any) -> dict[str, Any]:
    """Those that were asked for."""
    return {name: value for name, value in options.items() if value is not None}


def _gazetteers(given: list[str]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for entry in given:
        name, equals, path = entry.partition("=")
        if not (name and equals and path):
            raise typer.BadParameter(f"--gazetteer takes NAME=FILE, not {entry!r}")
        found[name] = Path(path)
    return found
