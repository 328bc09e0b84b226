"""Build the features that ``--template``, ``--features`` and ``--gazetteer`` describe."""

from pathlib import Path

from trellis import features as presets
from trellis.app.training.options import FeatureOptions
from trellis.data import files
from trellis.errors import FormatError, InputError
from trellis.features import Spec, Window, templates, wapiti

__all__ = ["build_spec"]


def build_spec(options: FeatureOptions, width: int) -> Spec | None:
    """Return the features of tokens with ``width`` columns. None means the model's default."""
    if options.template is not None:
        return _read_template(options.template)
    columns = tuple(f"c{n}" for n in range(1, width))
    gazetteers = {
        name: [line for line in files.lines(path) if line.strip()]
        for name, path in options.gazetteers.items()
    }
    if options.features == "ner":
        return presets.ner(columns, gazetteers)
    if options.features in ("auto", "words"):
        used_columns = () if options.features == "words" else columns
        if not gazetteers and used_columns == columns:
            return None
        return Window(columns=used_columns, gazetteers=gazetteers).spec()
    if gazetteers:
        raise InputError(
            f"--gazetteer requires --features auto, words or ner, not {options.features}"
        )
    spec: Spec = getattr(presets, options.features.replace("-", "_"))()
    if spec.columns > width:
        raise InputError(
            f"--features {options.features} needs {spec.columns} columns, the data have {width}"
        )
    return spec


def _read_template(path: Path) -> Spec:
    """Read a file of CRF++ templates or of Wapiti patterns."""
    # The formats have no header, so both parsers are tried. If both fail, the error of the CRF++
    # parser is raised.
    try:
        spec = templates.parse(path)
    except FormatError as error:
        try:
            spec = wapiti.parse(path)
        except FormatError:
            raise error from None
    if not spec.templates:
        raise FormatError(f"{path}: the file contains no template")
    return spec
