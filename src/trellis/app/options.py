"""Options that several commands have."""

from typing import Annotated

import typer

__all__ = ["Jobs", "Json", "Quiet"]

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; all cores by default.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
