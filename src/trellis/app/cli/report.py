"""`trellis report`: the page about a model, as a file."""

from pathlib import Path

from trellis.app.evaluate import read_for
from trellis.app.models import open_model
from trellis.app.report.report import report
from trellis.app.terminal import check_writable, say
from trellis.data import corpus
from trellis.formats.atomic import replacing

__all__ = ["run"]


def run(
    model: Path,
    data: Path,
    output: Path,
    *,
    format: str | None = None,
    layout: corpus.Columns | None = None,
    jobs: int | None = None,
    quiet: bool = False,
) -> None:
    """Write the page."""
    check_writable(output, model, data)
    found = open_model(model, jobs)
    X, y = read_for(found, model, data, format, layout)
    page = report(found, X, y, title=model.name, source=data.name)
    with replacing(output) as file:
        file.write(page.encode())
    say(f"{output}: {len(page) / 1e3:.0f} kB", quiet=quiet)
