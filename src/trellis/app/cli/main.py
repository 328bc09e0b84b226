"""The command ``trellis``: what can be asked for, with examples. The work is in the other files.

Exit codes: 0, all is done; 1, the input or a file is wrong, said in one line; 2, the command is not
understood; 128 + n, signal n ended it.
"""

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import trellis
from trellis.app.cli import train as cli_train
from trellis.app.cli import words as cli_words
from trellis.app.cli.ctc import ctc
from trellis.app.cli.options import Columns, Format, Jobs, Json, Label, Quiet, layout_of
from trellis.errors import TrellisError

__all__ = ["app", "main"]

# Typer has had a copy of Click of its own since 0.26, and used Click itself before.
_UsageError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")

app = typer.Typer(
    name="trellis",
    help="Label sequences: CRFs, MEMMs and HMMs; vectors of words, and classifiers of texts.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
)
app.add_typer(ctc)

Model = Annotated[Path, typer.Argument(help="A model that `trellis train` made.", metavar="MODEL")]


def _version(asked: bool) -> None:
    if asked:
        print(f"trellis {trellis.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    pass


cli_train.register(app)


@app.command()
def tag(
    model: Model,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="What to label; standard input if none.", metavar="FILE"),
    ] = None,
    format: Format = None,
    columns: Columns = None,
    output: Annotated[
        str | None,
        typer.Option(help="conll, jsonl or inline; by default inline on a terminal."),
    ] = None,
    target: Annotated[
        Path | None, typer.Option("-o", "--to", help="A file instead of standard output.")
    ] = None,
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Also say how probable each label is.")
    ] = False,
    kbest: Annotated[
        int, typer.Option(help="The K best labellings of each.", metavar="K", min=0)
    ] = 0,
    unbuffered: Annotated[
        bool, typer.Option("--unbuffered", "-u", help="Answer each sequence at once.")
    ] = False,
    jobs: Jobs = None,
) -> None:
    """Label files of any size, or standard input, in order and in constant memory.

    **Examples**

    `echo "wake me at seven" | trellis tag model.trellis`

    `trellis tag model.trellis test.conll --marginals > tagged.conll`

    `trellis tag model.trellis notes.txt --output jsonl --kbest 3`
    """
    from trellis.app.tag import run

    run(
        model,
        files or [],
        format=format,
        layout=layout_of(columns, None),
        output=output,
        target=target,
        marginals=marginals,
        kbest=kbest,
        jobs=jobs,
        unbuffered=unbuffered,
    )


@app.command("eval")
def evaluate(
    model: Model,
    data: Annotated[Path, typer.Argument(help="Data with labels.", metavar="FILE")],
    format: Format = None,
    columns: Columns = None,
    label: Label = None,
    confusions: Annotated[int, typer.Option(help="How many mistakes to list.", min=0)] = 10,
    worst: Annotated[int, typer.Option(help="How many sentences to show.", min=0)] = 5,
    as_json: Json = False,
    jobs: Jobs = None,
) -> None:
    """Say how good a model is: scores of each label, confusions, worst sentences.

    **Examples**

    `trellis eval model.trellis test.conll`

    `trellis eval model.trellis test.conll --json | jq .micro.f1`
    """
    from trellis.app.evaluate import run

    run(
        model,
        data,
        format=format,
        layout=layout_of(columns, label),
        confusions=confusions,
        worst=worst,
        jobs=jobs,
        as_json=as_json,
    )


@app.command()
def inspect(
    model: Model,
    top: Annotated[int, typer.Option(help="How many features of each label.", min=0)] = 10,
    label: Annotated[str | None, typer.Option(help="Features of this label alone.")] = None,
    as_json: Json = False,
) -> None:
    """Look into a model: size, training record, transitions, top features.

    **Examples**

    `trellis inspect model.trellis`

    `trellis inspect model.trellis --label B-LOC --top 50`
    """
    from trellis.app.inspect import run

    run(model, top=top, label=label, as_json=as_json)


@app.command()
def report(
    model: Model,
    data: Annotated[Path, typer.Argument(help="Data with labels.", metavar="FILE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path(
        "report.html"
    ),
    format: Format = None,
    columns: Columns = None,
    label: Label = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
) -> None:
    """Write one page about a model: scores, learning curve, transitions, features, trellises.

    **Example**

    `trellis report model.trellis test.conll -o report.html`
    """
    from trellis.app.report.page import run

    run(
        model,
        data,
        output,
        format=format,
        layout=layout_of(columns, label),
        jobs=jobs,
        quiet=quiet,
    )


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Data with labels, or a model.", metavar="FROM")],
    target: Annotated[Path, typer.Argument(help="The file to write.", metavar="TO")],
    source_format: Annotated[str | None, typer.Option("--from", help="Format of FROM.")] = None,
    target_format: Annotated[
        str | None,
        typer.Option("--to", help="Format of TO: conll, jsonl, markup; trellis, crfsuite."),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help="Tagging scheme to write: BIO, BILOU, BIOES, IOB1 ...")
    ] = None,
    columns: Columns = None,
    label: Label = None,
    quiet: Quiet = False,
) -> None:
    """Turn data, or a model, from one format into another; data also by tagging scheme.

    Models of CRFsuite, CRF++ (as text) and Wapiti are read; CRFsuite's are written.

    **Examples**

    `trellis convert train.conll train.jsonl`

    `trellis convert train.jsonl train.conll --scheme BILOU`

    `trellis convert names.crfsuite names.trellis`
    """
    from trellis.app.convert import run

    run(
        source,
        target,
        source_format=source_format,
        target_format=target_format,
        scheme=scheme,
        layout=layout_of(columns, label),
        quiet=quiet,
    )


cli_words.register(app)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what it makes.")] = (
        Path("demo")
    ),
) -> None:
    """Train on the corpus that comes with trellis, evaluate, tag, and draw.

    **Example**

    `trellis demo -o demo`
    """
    from trellis.app.demo import run

    run(output)


def main() -> None:
    """Run the command, and turn every error into one line."""
    if hasattr(signal, "SIGPIPE"):  # whoever reads the output may see enough before its end
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    from trellis.app.terminal import InterruptedWorkError

    try:
        code = app(arguments, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except _UsageError as error:
        error.show()
        return int(error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except InterruptedWorkError as error:
        return _fail(str(error), error.exit_code)
    except TrellisError as error:
        return _fail(str(error), 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", 1)
    except MemoryError:
        return _fail("not enough memory", 1)


def _fail(message: str, code: int) -> int:
    print(f"trellis: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
