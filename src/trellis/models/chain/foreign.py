"""CRFs that other programs trained, and ours for CRFsuite.

CRFsuite's attributes are ready features, those of CRF++ and Wapiti are read off tokens by their
templates. All become a `CRF` like any other: it can be inspected, saved, and trained further.
"""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis import _core
from trellis.errors import FormatError, InputError
from trellis.features import templates, wapiti
from trellis.features.names import from_names
from trellis.features.spec import Spec
from trellis.features.vectorizer import ReadyFeatures
from trellis.formats import crfpp, crfsuite
from trellis.formats import wapiti as wapiti_file
from trellis.formats.strings import Names, pack_strings
from trellis.formats.text_models import TextModel
from trellis.models.chain.crf import CRF
from trellis.models.chain.labels import as_array
from trellis.models.chain.weights import WeightLayout

__all__ = ["HEADS", "from_crfsuite", "load_foreign", "save_crfsuite"]

_SPARE = 1 << 16  # weights that names with several readings may add to any model
_BLOCK = 1 << 18  # weights that are looked at together


def load_foreign(path: str | os.PathLike[str], head: bytes, encoding: str = "utf-8") -> CRF | None:
    """The model of another program, by how its file begins; None if it is of none of them."""
    if crfpp.is_binary(head):
        raise FormatError(
            f"{path}: a binary CRF++ model cannot be read: crf_learn -t writes one as text as well"
        )
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
    layout = WeightLayout(
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
    found = [crfpp.read(path, encoding)]
    return _of_names(templates.parse(found[0].templates), found)


def _read_wapiti(path: str | os.PathLike[str], encoding: str) -> CRF:
    found = [wapiti_file.read(path, encoding)]
    return _of_names(wapiti.parse(found[0].templates), found)


HEADS: dict[bytes, Any] = {
    crfsuite.MAGIC: _read_crfsuite,
    b"version: ": _read_crfpp,
    b"#mdl#": _read_wapiti,
}
"""How the files of other programs begin, and what reads them."""


class _Share(NamedTuple):
    """Weights of names: of which, how many of each, and for which labels or pairs."""

    name: NDArray[np.int64]
    size: NDArray[np.int64]
    cell: NDArray[Any]
    weight: NDArray[np.float64]


def _of_names(spec: Spec, held: list[TextModel]) -> CRF:
    """A CRF whose features are read off tokens by templates; takes the model out of the list."""
    labels, names, states, edges, pairs, bigrams = _split(spec, held.pop())
    features, *sources = from_names(spec, (names, states.name), (names, edges.name))
    del names  # a large model should not be in memory twice
    states, edges = _spread(states, sources[0]), _spread(edges, sources[1])
    both: list[Any] = [None, None]
    rest = [bigrams]
    if features.has_edges:
        both = [_begins(edges.size), edges.cell]
        rest.append(edges.weight)
    layout = WeightLayout(len(labels), _begins(states.size), states.cell, pairs, *both)
    return _fitted(CRF(spec), labels, features, layout, _joined(states.weight, rest))


def _split(
    spec: Spec, model: TextModel
) -> tuple[list[str], Names, _Share, _Share, NDArray[np.int32], NDArray[np.float64]]:
    """Labels, names, weights of labels, weights of pairs, bigrams and their weights."""
    kinds = model.states.view(np.uint8), _bare(spec, model.names).view(np.uint8)
    states, edges, edge_weight, pair, pair_weight = _core.split_weights(
        model.number, model.weight, model.begin, *kinds, len(model.labels)
    )
    weight = model.weight
    weight.resize(len(states[2]), refcheck=False)  # the others have been taken out of it
    pairs, place = np.unique(pair, return_inverse=True)
    bigrams: Any = np.bincount(place, weights=pair_weight, minlength=len(pairs))
    both = _Share(*states, weight), _Share(*edges, edge_weight)
    return model.labels, model.names, *both, pairs.astype(np.int32), bigrams


def _bare(spec: Spec, names: Names) -> NDArray[np.bool_]:
    """Which names read nothing: their pairs are the label bigrams of all positions."""
    plain = {"".join(t.literals).encode() for t in spec.templates if t.edge and not t.parts}
    found = np.zeros(len(names.size), np.bool_)
    for i in np.flatnonzero(names.size <= max(map(len, plain), default=-1)).tolist():
        found[i] = names.string(i) in plain
    return found


def _joined(first: NDArray[np.float64], rest: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """All weights in one array; the first, which is nearly all of it, is not copied."""
    at = len(first)
    first.resize(at + sum(map(len, rest)), refcheck=False)
    for own in rest:
        first[at : at + len(own)] = own
        at += len(own)
    return first


def _spread(share: _Share, source: NDArray[np.int64]) -> _Share:
    """Weights of names as weights of attributes, of which several may have one name."""
    if len(source) == len(share.name):
        return share  # each has one reading
    begin = _begins(share.size)[source]
    size = share.size[source]
    total = int(size.sum())
    if total > 2 * len(share.weight) + _SPARE:
        raise FormatError("too many of its features can be read in several ways")
    cell, weight = np.empty(total, share.cell.dtype), np.empty(total)
    for some, out in _blocks(size):
        index = _ranges(begin[some], size[some])
        cell[out], weight[out] = share.cell[index], share.weight[index]
    return _Share(source, size, cell, weight)


def _blocks(size: NDArray[np.int64]) -> Iterator[tuple[slice, slice]]:
    """So many at a time that they have about as many weights as fit a block; where these go."""
    ends = np.cumsum(size)
    first, begin = 0, 0
    while first < len(size):
        last = max(first + 1, int(np.searchsorted(ends, begin + _BLOCK, side="right")))
        yield slice(first, last), slice(begin, int(ends[last - 1]))
        first, begin = last, int(ends[last - 1])


def _ranges(begin: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """All of ``begin[i] … begin[i] + size[i]``, one after the other."""
    ends = np.cumsum(size)
    return np.repeat(begin - (ends - size), size) + np.arange(int(size.sum()))


def _fitted(
    crf: CRF, labels: list[str], features: Any, layout: WeightLayout, weights: NDArray[np.float64]
) -> CRF:
    """The CRF, with what fit would have set; how it was trained is not known."""
    crf.classes_, crf.features_, crf.layout_ = as_array(tuple(labels)), features, layout
    crf.coef_ = weights
    crf.n_iter_, crf.objective_, crf.converged_ = 0, 0.0, False
    crf.losses_, crf.dev_scores_ = [], []
    layout.native  # noqa: B018  checks all ranges
    return crf


def _begins(counts: NDArray[Any]) -> NDArray[np.int64]:
    begins = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=begins[1:])
    return begins


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
