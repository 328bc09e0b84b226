"""CRFs that other programs trained, and ours for CRFsuite.

CRFsuite's attributes are ready features, those of CRF++ and Wapiti are read off tokens by their
templates. All become a `CRF` like any other: it can be inspected, saved, and trained further.
"""

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError, InputError
from trellis.features import templates, wapiti
from trellis.features.names import from_names
from trellis.features.spec import Spec
from trellis.features.vectorizer import ReadyFeatures
from trellis.formats import crfpp, crfsuite
from trellis.formats import wapiti as wapiti_file
from trellis.formats.strings import pack_strings
from trellis.models.crf import CRF
from trellis.models.decoding import as_array
from trellis.models.layout import Layout

__all__ = ["HEADS", "from_crfsuite", "load_foreign", "save_crfsuite"]

_SPARE = 1 << 16  # weights that names with several readings may add to any model


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
    count = len(model.labels)
    begins = np.concatenate([model.begin, model.edge_begin])
    order = np.argsort(begins)
    edge = order >= len(model.names)
    sizes = np.where(edge, count * count, count)
    kept = model.weights != 0
    name = np.repeat(order.astype(np.int32), sizes)[kept]
    first = np.repeat((begins[order] - np.where(edge, count, 0)).astype(np.int32), sizes)
    cell = (np.arange(len(kept), dtype=np.int32) - first)[kept]
    named = [_Named(model.names + model.edge_names, name, cell, model.weights[kept])]
    spec, labels = templates.parse(model.templates), model.labels
    del model, kept, name, first, cell  # a large model should not be in memory twice
    return _of_names(spec, labels, named.pop())


def _read_wapiti(path: str | os.PathLike[str], encoding: str) -> CRF:
    model = wapiti_file.read(path, encoding)
    named = _Named(model.observations, model.observation, model.cell, model.weights)
    return _of_names(wapiti.parse(model.patterns), model.labels, named)


HEADS: dict[bytes, Any] = {
    crfsuite.MAGIC: _read_crfsuite,
    b"version: ": _read_crfpp,
    b"#mdl#": _read_wapiti,
}
"""How the files of other programs begin, and what reads them."""

_Sparse = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]


class _Named(NamedTuple):
    """Weights other than 0 of names: whose each one is, and for what."""

    names: list[str]
    name: NDArray[Any]
    cell: NDArray[Any]
    """A label, or labels + a pair of labels."""
    weight: NDArray[np.float64]


def _of_names(spec: Spec, labels: list[str], named: _Named) -> CRF:
    """A CRF whose features are read off tokens by templates."""
    count = len(labels)
    plain = {"".join(t.literals) for t in spec.templates if t.edge and not t.parts}
    bare = np.array([name in plain for name in named.names], np.bool_)
    state = named.cell < count
    bigram = ~state & bare[named.name]
    pairs, place = np.unique(named.cell[bigram] - count, return_inverse=True)
    bigrams = np.bincount(place, weights=named.weight[bigram], minlength=len(pairs))
    parts: list[_Sparse] = []
    names = []
    for mine, shift in ((state, 0), (~state & ~bigram, count)):
        own = named.name[mine]
        alive = np.zeros(len(named.names), np.bool_)
        alive[own] = True
        names.append([named.names[i] for i in np.flatnonzero(alive)])
        number = (np.cumsum(alive, dtype=np.int32) - 1)[own]
        parts.append((number, named.cell[mine] - shift, named.weight[mine]))
    del named, state, mine, own, number
    features, *sources = from_names(spec, *names)
    states, edges = map(_spread, parts, sources)
    weights = [states[2], bigrams]
    both: list[Any] = [None, None]
    if features.has_edges:
        counts = np.bincount(edges[0], minlength=features.edges)
        both = [_begins(counts), edges[1].astype(np.int32)]
        weights.append(edges[2])
    layout = Layout(
        count,
        _begins(np.bincount(states[0], minlength=len(features))),
        states[1].astype(np.uint16),
        pairs.astype(np.int32),
        *both,
    )
    return _fitted(CRF(spec), labels, features, layout, np.concatenate(weights))


def _spread(part: _Sparse, name: NDArray[np.int64]) -> _Sparse:
    """Weights of names as weights of attributes, of which several may have one name."""
    number, cell, weight = part
    if len(name) == name[-1:].sum() + 1 and not np.any(np.diff(number) < 0):
        return part  # each has one reading, and they are in order
    order = np.argsort(number, kind="stable")
    begins = _begins(np.bincount(number))
    sizes = np.diff(begins)[name]
    if sizes.sum() > 2 * len(weight) + _SPARE:
        raise FormatError("too many of its features can be read in several ways")
    at = np.repeat(begins[name] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    at = order[at]
    return np.repeat(np.arange(len(name)), sizes), cell[at], weight[at]


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
