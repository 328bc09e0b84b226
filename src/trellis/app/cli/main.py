"""The ``trellis`` command: the list of commands, and the exit code.

Exit codes: 0 is success. 1 means that the input or a file is wrong; one line on standard error
explains it. 1 also means that standard input or output is needed but closed, or that the disk is
full. 2 means that the command line is wrong. 128 + n means that signal n ended the command; a
closed pipe (``trellis tag … | head``) is 141, without a message.
"""

import contextlib
import signal
import sys
import warnings
from importlib import import_module
from typing import Any

from trellis.app.cli.declarations import Group
from trellis.app.cli.fast_parser import find_module, parse_options
from trellis.app.streams import discard_output, explain, reopen_closed
from trellis.app.terminal import InterruptedWorkError
from trellis.errors import TrellisError
from trellis.estimator import run_without_sklearn

__all__ = ["COMMANDS", "main", "run_command"]

# `trellis --help` lists the commands in this order: sequence models, word vectors, language models,
# CTC, demo.
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
        "serve": "trellis.app.cli.serve",
        "compare": "trellis.app.cli.compare",
        "check": "trellis.app.cli.check",
        "convert": "trellis.app.cli.convert",
        "embed": "trellis.app.cli.words.embed",
        "neighbors": "trellis.app.cli.words.neighbors",
        "analogy": "trellis.app.cli.words.analogy",
        "similarity": "trellis.app.cli.words.similarity",
        "classify": "trellis.app.cli.words.classify",
        "ngram": "trellis.app.cli.ngram",
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


def main() -> None:
    """Run the command line of the process and exit."""
    reopen_closed()
    # This call must come before the import of any model. No command needs scikit-learn, and
    # importing it takes a second.
    run_without_sklearn()
    if hasattr(signal, "SIGPIPE"):  # in `trellis … | head`, exit without an error
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    code = run_command(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        discard_output()
        code = code or _fail(explain(error), 1)
    sys.exit(code)


def run_command(arguments: list[str]) -> int:
    """Run a command and return its exit code; an error becomes one line on standard error."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return _dispatch(arguments)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except InterruptedWorkError as error:
        return _fail(str(error), error.exit_code)
    except TrellisError as error:
        return _fail(str(error), 1)
    except OSError as error:
        return _fail(explain(error), 1)
    except MemoryError:
        return _fail("not enough memory", 1)


def _dispatch(arguments: list[str]) -> int:
    """Parse the words with the fast parser, or else with Typer, and run the command."""
    if target := find_module(COMMANDS, arguments):
        module = import_module(target[0])
        options = parse_options(module.Options, target[1])
        if options is not None:
            return module.run(options) or 0
    # Imported here, because importing Typer takes as long as tagging a sentence.
    from trellis.app.cli.typer_commands import run_typer

    return run_typer(COMMANDS, arguments)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line. Python's own text names a line of code, not of the data."""
    with contextlib.suppress(OSError):
        print(f"trellis: warning: {message}", file=sys.stderr, flush=True)


def _fail(message: str, code: int) -> int:
    with contextlib.suppress(OSError):  # standard error may be a file on a full disk
        print(f"trellis: {message}", file=sys.stderr, flush=True)
    return code
