"""Build the features that ``--template``, ``--features``, ``--gazetteer``, ``--clusters`` name."""

from pathlib import Path
from typing import Any, NamedTuple

from trellis import features as presets
from trellis.app.training.options import FeatureOptions
from trellis.data import files
from trellis.errors import FormatError, InputError
from trellis.features import Spec, Window, read_clusters, templates, wapiti

__all__ = ["WordLists", "build_preset", "build_spec", "read_lists"]

_HEAD = 4096  # bytes of a file that show whether it has words and clusters, or vectors


class WordLists(NamedTuple):
    """The contents of ``--gazetteer`` and ``--clusters``, by name, as `Window` takes them."""

    gazetteers: dict[str, list[str]]
    clusters: dict[str, dict[str, str]]


def build_spec(options: FeatureOptions, width: int, encoding: str = "utf-8") -> Spec | None:
    """Return the features of tokens with ``width`` columns. None means the model's default."""
    if options.template is not None:
        return _read_template(options.template)
    return build_preset(options.features, width, read_lists(options, encoding))


def build_preset(name: str, width: int, lists: WordLists) -> Spec | None:
    """Return the features of ``--features NAME``, with lists. None means the model's default."""
    columns = tuple(f"c{n}" for n in range(1, width))
    arguments: dict[str, Any] = lists._asdict()
    if name == "ner":
        return presets.ner(columns, **arguments)
    if name == "pos":
        return presets.pos(**arguments)
    if name in ("auto", "words"):
        used_columns = () if name == "words" else columns
        if not any(lists) and used_columns == columns:
            return None
        return Window(columns=used_columns, **arguments).spec()
    if any(lists):
        raise InputError(
            f"--gazetteer and --clusters require --features auto, words, ner or pos, not {name}"
        )
    spec: Spec = getattr(presets, name.replace("-", "_"))()
    if spec.columns > width:
        raise InputError(f"--features {name} needs {spec.columns} columns, the data have {width}")
    return spec


def read_lists(options: FeatureOptions, encoding: str = "utf-8") -> WordLists:
    """Read the files of gazetteers and of clusters."""
    gazetteers = {
        name: [line for line in files.lines(path, encoding) if line.strip()]
        for name, path in options.gazetteers.items()
    }
    clusters = {
        f"cluster{n}" if n > 1 else "cluster": _read_clusters(path, encoding)
        for n, path in enumerate(options.clusters or [], start=1)
    }
    return WordLists(gazetteers, clusters)


def _read_clusters(path: Path, encoding: str) -> dict[str, str]:
    """Return the cluster of each word of a file of clusters or of vectors."""
    with path.open("rb") as file:
        first_line = file.read(_HEAD).partition(b"\n")[0]
    # Files of vectors are binary, or have spaces between their columns, or many columns.
    if b"\0" not in first_line and first_line.count(b"\t") in (1, 2):
        return read_clusters(path, encoding)
    # Imported here, because most trainings read no vectors.
    from trellis.app.word_vectors import load_vectors
    from trellis.embeddings.vectors import cluster_words

    return cluster_words(load_vectors(path, None))


def _read_template(path: Path) -> Spec:
    """Read a file of CRF++ templates or of Wapiti patterns."""
    # The formats have no header, so both parsers are tried. If both fail, the error of the CRF++
    # parser is raised. A pipe can be read only once, so both parsers get its text.
    source = path if path.is_file() or not path.exists() else "\n".join(files.lines(path))
    try:
        spec = templates.parse(source)
    except FormatError as error:
        try:
            spec = wapiti.parse(source)
        except FormatError:
            raise error from None
    if not spec.templates:
        raise FormatError(f"{path}: the file contains no template")
    return spec
