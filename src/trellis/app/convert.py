"""`trellis convert`: a corpus from one format, or tagging scheme, to another."""

from pathlib import Path

from trellis.app.terminal import check_writable, say
from trellis.data import corpus, tags
from trellis.errors import InputError

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
    target_format = target_format or corpus.format_of(target, labelled=False)
    X, y = corpus.read(source, source_format, layout)
    found = tags.detect({label for own in y for label in own}, otherwise="plain")
    if scheme and scheme != found:
        if found == "plain":
            raise InputError(f"{source}: its labels are of no scheme, and cannot become {scheme}")
        y = [tags.convert(own, found, scheme) for own in y]
    corpus.write(target, X, y, target_format, scheme or found)
    say(f"{target}: {len(X):,} sequences, {sum(map(len, X)):,} tokens", quiet=quiet)
