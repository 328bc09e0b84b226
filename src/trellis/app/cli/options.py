"""Options that several commands have."""

from typing import Annotated, Any

import typer

__all__ = ["Columns", "Format", "Jobs", "Json", "Label", "Quiet", "layout_of"]

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; all cores by default.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
Format = Annotated[
    str | None,
    typer.Option(
        help="conll, conllu, jsonl, markup, text or tokens; by default what the name or the first "
        "line says.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns of conll files that make a token, from 0: 0,1.", metavar="LIST"),
]
Label = Annotated[
    str | None,
    typer.Option(
        "--label", help="Column of the label: a number in conll (-1), a name in conllu (upos)."
    ),
]


def layout_of(columns: str | None, label: str | None) -> Any:
    """What ``--columns`` and ``--label`` say."""
    from trellis.data.corpus import Columns

    if columns is None:
        return Columns(None, label)
    try:
        return Columns(tuple(int(n) for n in columns.split(",")), label)
    except ValueError:
        raise typer.BadParameter(f"--columns takes numbers such as 0,1, not {columns!r}") from None
