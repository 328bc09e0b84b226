"""`trellis convert`: a corpus from one format, or tagging scheme, to another."""

from pathlib import Path

from trellis.app.terminal import check_writable, say
from trellis.data import corpus, files, tags
from trellis.errors import InputError
from trellis.formats.atomic import replacing

__all__ = ["run"]


def run(
    source: Path,
    target: Path,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    scheme: str | None = None,
    layout: corpus.Layout | None = None,
    quiet: bool = False,
) -> None:
    """Read one file and write the other."""
    check_writable(target)
    target_format = target_format or corpus.format_by_name(target)
    if target_format is None:
        raise InputError(f"{target}: its name says no format: add --to conll, jsonl or markup")
    X, y = corpus.read(source, source_format, layout)
    found = tags.detect({label for own in y for label in own}, otherwise="plain")
    if scheme and scheme != found:
        if found == "plain":
            raise InputError(f"{source}: its labels are of no scheme, and cannot become {scheme}")
        y = [tags.convert(own, found, scheme) for own in y]
    try:
        with replacing(target) as file, files.packed(file, target) as inside:
            corpus.write(inside, X, y, target_format, scheme or found)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    say(f"{target}: {len(X):,} sequences, {sum(map(len, X)):,} tokens", quiet=quiet)
