"""The ``trellis`` command: the list of commands, and the exit code.

Exit codes: 0, success; 1, the input or a file is wrong, with one line on standard error; 2, the
command line is wrong; 128 + n, ended by signal n.
"""

import signal
import sys
from typing import Annotated, Any

import typer

import trellis
from trellis.app.cli.command import Group, build_group
from trellis.errors import TrellisError

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = Group(
    "trellis",
    "Label sequences with CRFs, MEMMs, HMMs and neural networks; train word vectors and text "
    "classifiers; decode speech and handwriting.",
    {
        "train": "trellis.app.cli.train",
        "tag": "trellis.app.cli.tag",
        "eval": "trellis.app.cli.evaluate",
        "inspect": "trellis.app.cli.inspect",
        "report": "trellis.app.cli.report",
        "convert": "trellis.app.cli.convert",
        "embed": "trellis.app.cli.embed",
        "neighbors": "trellis.app.cli.neighbors",
        "analogy": "trellis.app.cli.analogy",
        "similarity": "trellis.app.cli.similarity",
        "classify": "trellis.app.cli.classify",
        "ctc": Group(
            "ctc",
            "Decode and align the CTC output of a speech or handwriting network.",
            {
                "decode": "trellis.app.cli.ctc.decode",
                "align": "trellis.app.cli.ctc.align",
            },
        ),
        "demo": "trellis.app.cli.demo",
    },
)

# Typer contains a copy of Click since 0.26 and used the package Click before.
_UsageError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _print_version(requested: bool) -> None:
    if requested:
        print(f"trellis {trellis.__version__}")
        raise typer.Exit


def _read_common_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


app = build_group(COMMANDS, _read_common_options)


def main() -> None:
    """Entry point of the process: run the command line and exit."""
    from trellis.estimator import run_without_sklearn

    # Before any model is imported: a command needs no scikit-learn, which takes a second to load.
    run_without_sklearn()
    if hasattr(signal, "SIGPIPE"):  # the reader is gone, as in `trellis … | head`: exit quietly
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code; an error becomes one line on standard error."""
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
        file = f"{error.filename}: " if error.filename else ""
        return _fail(f"{file}{error.strerror or error}", 1)
    except MemoryError:
        return _fail("not enough memory", 1)


def _fail(message: str, code: int) -> int:
    print(f"trellis: {message}", file=sys.stderr)
    return code
