"""`trellis convert`: a corpus or a model from one format, or tagging scheme, to another."""

from pathlib import Path

from trellis.app.terminal import check_writable, say
from trellis.data import corpus, files, tags
from trellis.errors import InputError
from trellis.formats.atomic import replacing

__all__ = ["run"]

_MODELS = {".trellis": "trellis", ".crfsuite": "crfsuite"}


def run(
    source: Path,
    target: Path,
    *,
    source_format: str | None = None,
    target_format: str | None = None,
    scheme: str | None = None,
    layout: corpus.Columns | None = None,
    quiet: bool = False,
) -> None:
    """Read one file and write the other."""
    check_writable(target)
    kind = target_format or _MODELS.get(target.suffix.lower())
    if kind is not None and kind in _MODELS.values():
        if source_format or scheme:
            raise InputError(f"{target}: --from and --scheme are for data, not for models")
        _convert_model(source, target, kind, quiet)
        return
    target_format = target_format or corpus.format_by_name(target)
    if target_format is None:
        raise InputError(
            f"{target}: its name says no format: add --to conll, jsonl or markup, "
            "or for a model trellis or crfsuite"
        )
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


def _convert_model(source: Path, target: Path, kind: str, quiet: bool) -> None:
    from trellis.app.models import count_weights, open_model
    from trellis.models.chain.foreign import save_crfsuite

    model = open_model(source)
    if kind == "crfsuite":
        save_crfsuite(model, target)
    else:
        model.save(target)
    labels, weights = len(model.classes_), count_weights(model) or 0
    say(f"{target}: {labels:,} labels, {weights:,} weights", quiet=quiet)
