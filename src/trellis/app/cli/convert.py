"""``trellis convert``: convert data or a model to another format, or data to another scheme."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from trellis.app.cli.declarations import Argument, Option
from trellis.app.cli.options import Encoding, LabelColumn, Quiet, TokenColumns, parse_columns
from trellis.app.terminal import check_writable, print_status
from trellis.data import corpus, files, tags
from trellis.data.atomic import replacing
from trellis.data.corpus import Columns
from trellis.errors import InputError
from trellis.models.files import is_model

__all__ = ["Options", "run"]

_MODEL_FORMATS = {".trellis": "trellis", ".crfsuite": "crfsuite"}


@dataclass
class Options:
    """Options of ``trellis convert``."""

    source: Annotated[
        Path, Argument(help="File to read: data with labels, or a model.", metavar="FROM")
    ]
    target: Annotated[Path, Argument(help="File to write.", metavar="TO")]
    source_format: Annotated[
        str | None,
        Option(
            "--from",
            help="Format of FROM: conll, conllu, jsonl or markup; default: detected from the file "
            "name or the first lines.",
        ),
    ] = None
    target_format: Annotated[
        str | None,
        Option(
            "--to",
            help="Format of TO: conll, jsonl or markup for data, trellis or crfsuite for a model; "
            "default: detected from the file name.",
        ),
    ] = None
    scheme: Annotated[
        str | None,
        Option(help="Tagging scheme of the data to write, such as BIO, BILOU, BIOES or IOB1."),
    ] = None
    columns: TokenColumns = None
    label: LabelColumn = None
    encoding: Encoding = "utf-8"
    quiet: Quiet = False
    layout: Columns = field(init=False)

    def __post_init__(self) -> None:
        self.layout = parse_columns(self.columns, self.label, self.encoding)


def run(options: Options) -> None:
    """Convert data or a model to another format, or data to another tagging scheme.

    Reads models of CRFsuite, CRF++ (text format) and Wapiti; writes models of CRFsuite.

    **Examples**

    `trellis convert train.conll train.jsonl`

    `trellis convert train.jsonl train.conll --scheme BILOU`

    `trellis convert names.crfsuite names.trellis`
    """
    target = options.target
    check_writable(target)
    format = options.target_format or _MODEL_FORMATS.get(target.suffix.lower())
    if format is not None and format in _MODEL_FORMATS.values():
        if options.source_format or options.scheme:
            raise InputError(f"{target}: --from and --scheme apply to data, not to models")
        _convert_model(options.source, target, format, options.quiet)
        return
    format = format or corpus.format_by_name(target)
    if format is None:
        raise InputError(
            f"{target}: the format cannot be detected from the file name: add --to conll, jsonl or "
            "markup for data, --to trellis or crfsuite for a model"
        )
    if options.source.is_file() and is_model(options.source):
        raise InputError(
            f"{options.source}: the file is a model: --to must be trellis or crfsuite, not {format}"
        )
    if format not in corpus.WRITABLE:
        raise InputError(
            f"{target}: {format} cannot be written: add --to {', '.join(corpus.WRITABLE[:-1])} or "
            f"{corpus.WRITABLE[-1]}"
        )
    X, y = corpus.read(options.source, options.source_format, options.layout)
    y, scheme = _convert_tags(y, options.scheme, options.source)
    try:
        # The target may be the same file as the source, so it is replaced at the end.
        with replacing(target) as file, files.packed(file, target) as stream:
            corpus.write(stream, X, y, format, scheme)
    except InputError as error:
        raise InputError(f"{options.source}: {error}") from None
    print_status(
        f"{target}: {len(X):,} sequences, {sum(map(len, X)):,} tokens", quiet=options.quiet
    )


def _convert_tags(
    y: list[list[str]], scheme: str | None, source: Path
) -> tuple[list[list[str]], str]:
    """Return the labels in ``scheme`` (None: unchanged), and the name of their scheme.

    Labels that already seem to be in ``scheme`` are converted, too: IOB1 data may be detected as
    BIO, but contain an I-X after O, which is converted to B-X.
    """
    source_scheme = tags.detect({label for labels in y for label in labels}, otherwise="plain")
    if not scheme:
        return y, source_scheme
    if source_scheme == "plain" and scheme != "plain":
        raise InputError(
            f"{source}: its labels have no tagging scheme, so --scheme {scheme} is impossible"
        )
    return [tags.convert(labels, source_scheme, scheme) for labels in y], scheme


def _convert_model(source: Path, target: Path, format: str, quiet: bool) -> None:
    # Imported here: the conversion of data needs no models.
    from trellis.app.model_files import open_sequence_model
    from trellis.models.foreign import save_crfsuite

    model = open_sequence_model(source)
    if format == "crfsuite":
        save_crfsuite(model, target)
    else:
        model.save(target)
    labels, weights = len(model.classes_), model.describe().weights or 0
    print_status(f"{target}: {labels:,} labels, {weights:,} weights", quiet=quiet)
