"""``trellis report``: write an HTML page about a model and its mistakes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from trellis.app.cli.declarations import Option
from trellis.app.cli.options import DataOptions, Jobs, LabelledFile, ModelFile, Quiet
from trellis.app.model_files import open_sequence_model, read_labelled
from trellis.app.report.report import report
from trellis.app.terminal import check_writable, print_status
from trellis.app.unseen_labels import warn_of_unseen_labels
from trellis.data.atomic import replacing

__all__ = ["Options", "run"]


@dataclass
class Options:
    """Options of ``trellis report``."""

    model: ModelFile
    data: LabelledFile
    output: Annotated[Path, Option("--output", "-o", help="HTML file to write.")] = Path(
        "report.html"
    )
    reading: DataOptions = field(default_factory=DataOptions)
    jobs: Jobs = None
    quiet: Quiet = False


def run(options: Options) -> None:
    """Write an HTML page about a model: scores, learning curve, transitions, features, trellises.

    **Example**

    `trellis report model.trellis test.conll -o report.html`
    """
    check_writable(options.output, options.model, options.data)
    model = open_sequence_model(options.model, options.jobs)
    X, y = read_labelled(model, options.model, options.data, options.reading)
    warn_of_unseen_labels(
        options.data, y, model.classes_, options.reading, counts_spans=False, quiet=options.quiet
    )
    page = report(model, X, y, title=options.model.name, source=options.data.name)
    with replacing(options.output) as file:
        file.write(page.encode())
    print_status(f"{options.output}: {len(page) / 1e3:.0f} kB", quiet=options.quiet)
