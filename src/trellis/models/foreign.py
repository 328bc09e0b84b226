"""CRFs that other programs trained, and ours for CRFsuite.

CRFsuite's attributes are ready features, those of CRF++ and Wapiti are read off tokens by their
templates. All become a `CRF` like any other: it can be inspected, saved, and trained further.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError, InputError
from trellis.features import templates, wapiti
from trellis.features.names import from_names
from trellis.features.vectorizer import ReadyFeatures
from trellis.formats import crfpp, crfsuite
from trellis.formats import wapiti as wapiti_file
from trellis.formats.strings import pack_strings
from trellis.models.crf import CRF
from trellis.models.decoding import as_array
from trellis.models.layout import Layout

__all__ = ["HEADS", "from_crfsuite", "load_foreign", "save_crfsuite"]


def load_foreign(path: str | os.PathLike[str], head: bytes, encoding: str = "utf-8") -> CRF | None:
    """The model of another program, by how its file begins; None if it is of none of them."""
    reader = next((read for begin, read in HEADS.items() if head.startswith(begin)), None)
    if reader is None:
        return None
    try:
        crf: CRF = reader(path, encoding)
    except FormatError as error:
        text = str(error)
        raise error if text.startswith(str(path)) else FormatError(f"{path}: {text}") from None
    except InputError as error:
        raise FormatError(f"{path}: {error}") from None
    return crf


def from_crfsuite(model: crfsuite.Model) -> CRF:
    """A CRF with the labels, attributes and weights of CRFsuite's."""
    if not model.labels:
        raise FormatError("it has no labels")
    counts = np.bincount(model.state_attribute, minlength=len(model.attributes.begin))
    layout = Layout(
        len(model.labels),
        _begins(counts),
        model.state_label,
        (model.before * len(model.labels) + model.after).astype(np.int32),
    )
    try:
        features = ReadyFeatures.from_bytes(*model.attributes)
    except InputError as error:
        raise FormatError(f"attributes: {error}") from None
    weights = np.concatenate([model.state_weight, model.bigram_weight])
    return _fitted(CRF(transitions="seen"), model.labels, features, layout, weights)


def _read_crfsuite(path: str | os.PathLike[str], encoding: str) -> CRF:
    return from_crfsuite(crfsuite.read(path, encoding))


def _read_crfpp(path: str | os.PathLike[str], encoding: str) -> CRF:
    model = crfpp.read(path, encoding)
    spec = templates.parse(model.templates)
    plain = {"".join(t.literals) for t in spec.templates if t.edge and not t.parts}
    edges = [i for i, name in enumerate(model.edge_names) if name not in plain]
    features, own, edge_own = from_names(spec, model.names, [model.edge_names[i] for i in edges])
    count = len(model.labels)
    table = model.weights[model.begin[own][:, None] + np.arange(count)]
    square = np.arange(count * count)
    edge_begin = model.edge_begin[edges][edge_own]
    edge_table = model.weights[edge_begin[:, None] + square]
    bigrams = np.zeros(count * count)
    for i in set(range(len(model.edge_names))) - set(edges):
        bigrams += model.weights[model.edge_begin[i] + square]
    rows = [np.nonzero(t) for t in (table, edge_table)]
    return _of_templates(
        CRF(spec),
        model.labels,
        features,
        (rows[0][0], rows[0][1], table[rows[0]]),
        bigrams,
        (rows[1][0], rows[1][1], edge_table[rows[1]]),
    )


def _read_wapiti(path: str | os.PathLike[str], encoding: str) -> CRF:
    model = wapiti_file.read(path, encoding)
    spec = wapiti.parse(model.patterns)
    count = len(model.labels)
    plain = {"".join(t.literals) for t in spec.templates if t.edge and not t.parts}
    bare = np.array([name in plain for name in model.observations], np.bool_)
    state = model.cell < count
    bigram = ~state & bare[model.observation] if len(bare) else ~state
    bigrams = np.zeros(count * count)
    np.add.at(bigrams, model.cell[bigram] - count, model.weights[bigram])
    parts, names = [], []
    for mine, shift in ((state, 0), (~state & ~bigram, count)):
        alive, number = np.unique(model.observation[mine], return_inverse=True)
        names.append([model.observations[i] for i in alive])
        parts.append((number, model.cell[mine] - shift, model.weights[mine]))
    features, own, edge_own = from_names(spec, *names)
    spread = [
        _spread(part, o, len(n)) for part, o, n in zip(parts, (own, edge_own), names, strict=True)
    ]
    return _of_templates(CRF(spec), model.labels, features, spread[0], bigrams, spread[1])


HEADS: dict[bytes, Any] = {
    crfsuite.MAGIC: _read_crfsuite,
    b"version: ": _read_crfpp,
    b"#mdl#": _read_wapiti,
}
"""How the files of other programs begin, and what reads them."""

_Sparse = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]


def _spread(part: _Sparse, name: NDArray[np.int64], names: int) -> _Sparse:
    """Weights of names as weights of attributes, of which several may have one name."""
    number, cell, weight = part
    begins = _begins(np.bincount(number, minlength=names))
    sizes = np.diff(begins)[name]
    at = np.repeat(begins[name] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    return np.repeat(np.arange(len(name)), sizes), cell[at], weight[at]


def _of_templates(
    crf: CRF,
    labels: list[str],
    features: Any,
    states: _Sparse,
    bigrams: NDArray[np.float64],
    edges: _Sparse,
) -> CRF:
    kept = np.flatnonzero(bigrams)
    layout = Layout(
        len(labels),
        _begins(np.bincount(states[0], minlength=len(features))),
        states[1].astype(np.uint16),
        kept.astype(np.int32),
    )
    weights = [states[2], bigrams[kept]]
    if features.has_edges:
        counts = np.bincount(edges[0], minlength=features.edges)
        layout = Layout(
            layout.labels,
            layout.state_begin,
            layout.state_label,
            layout.bigram,
            _begins(counts),
            edges[1].astype(np.int32),
        )
        weights.append(edges[2])
    return _fitted(crf, labels, features, layout, np.concatenate(weights))


def _fitted(
    crf: CRF, labels: list[str], features: Any, layout: Layout, weights: NDArray[np.float64]
) -> CRF:
    """The CRF, with what fit would have set; how it was trained is not known."""
    crf.classes_, crf.features_, crf.layout_ = as_array(tuple(labels)), features, layout
    crf.coef_ = weights
    crf.n_iter_, crf.objective_, crf.converged_ = 0, 0.0, False
    crf.losses_, crf.dev_scores_ = [], []
    layout.native  # noqa: B018  checks all ranges
    return crf


def _begins(counts: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


# ---- for CRFsuite


def save_crfsuite(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted CRF as CRFsuite's model file, for CRFsuite and whatever reads its files.

    >>> import tempfile
    >>> X, y = [[["w=Rome", "cap"], ["w=sleeps"]]], [["LOC", "O"]]
    >>> path = tempfile.mkdtemp() + "/model.crfsuite"
    >>> save_crfsuite(CRF().fit(X, y), path)
    >>> import trellis
    >>> trellis.load(path).predict(X)
    [['LOC', 'O']]
    """
    crfsuite.write(path, _parts(model))


def _parts(model: Any) -> crfsuite.Parts:
    if type(model) is not CRF:
        raise InputError(f"CRFsuite has CRFs only, not {type(model).__name__}")
    model._fitted()
    if model.constraints is not None:
        raise InputError("CRFsuite has no constraints: its file cannot hold this model")
    if model.features_.has_edges:
        raise InputError("CRFsuite has no edge features: its file cannot hold this model")
    labels = model.classes_.tolist()
    for label in labels:
        if not isinstance(label, str):
            raise InputError(f"CRFsuite has labels that are str, not {label!r}")
    layout = model.layout_
    states, bigrams, _ = layout.split(model.coef_)
    if isinstance(model.features_, ReadyFeatures):
        data, ends = model.features_.vocabulary.strings()
        names = data.view(np.uint8)
    else:
        names, ends = pack_strings(model.features_.names())
    before, after = np.divmod(layout.bigram, layout.labels)
    return crfsuite.Parts(
        labels,
        names,
        ends,
        layout.state_attribute,
        layout.state_label,
        states,
        before,
        after,
        bigrams,
    )
