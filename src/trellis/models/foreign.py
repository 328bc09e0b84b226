"""Read CRFs from model files of CRFsuite, CRF++ and Wapiti, and write model files of CRFsuite.

CRFsuite's attributes are ready features. CRF++ and Wapiti store templates, which compute features
from tokens. Each file becomes an ordinary `CRF`: it can be inspected, saved and trained further.
The table of readers is in `trellis.models.files`.
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
from trellis.models.chain.weights import WeightLayout, check_label_count
from trellis.models.crfsuite import read_weights

__all__ = [
    "from_crfsuite",
    "read_crfpp",
    "read_crfsuite",
    "read_wapiti",
    "refuse_binary_crfpp",
    "save_crfsuite",
]

# A name that matches several templates becomes several attributes, each with all weights of the
# name. A malicious file could use this to fill the memory. So the attributes may have at most twice
# as many weights as the file, plus this number.
_EXTRA_WEIGHTS = 1 << 16
# Number of weights that are copied at a time. They take 2 MB, so the index stays in the cache.
_BLOCK = 1 << 18


def from_crfsuite(model: crfsuite.Model) -> CRF:
    """Return a CRF with the labels, attributes and weights of a CRFsuite model."""
    features, layout, weights = read_weights(model)
    return _make_crf(CRF(transitions="seen"), model.labels, features, layout, weights)


def read_crfsuite(path: str | os.PathLike[str], encoding: str = "utf-8") -> CRF:
    """Read a model file of CRFsuite."""
    return from_crfsuite(crfsuite.read(path, encoding))


def read_crfpp(path: str | os.PathLike[str], encoding: str = "utf-8") -> CRF:
    """Read a model file of CRF++ that ``crf_learn -t`` wrote as text."""
    models = [crfpp.read(path, encoding)]
    return _from_text_model(templates.parse(models[0].templates), models)


def refuse_binary_crfpp(path: str | os.PathLike[str], encoding: str = "utf-8") -> CRF:
    """Raise FormatError: a binary CRF++ model depends on the machine that wrote it."""
    raise FormatError(
        f"{path}: binary CRF++ models cannot be read: train with crf_learn -t, which also writes "
        "the model as text"
    )


def read_wapiti(path: str | os.PathLike[str], encoding: str = "utf-8") -> CRF:
    """Read a model file of Wapiti."""
    models = [wapiti_file.read(path, encoding)]
    spec = wapiti.parse(models[0].templates)
    for field in spec.fields:
        field.check_linear()
    return _from_text_model(spec, models)


class _NamedWeights(NamedTuple):
    """The weights of features of a text model, sorted by the index of the feature's name."""

    name: NDArray[np.int64]
    """``(names,)``: indices of the names."""
    size: NDArray[np.int64]
    """``(names,)``: the number of weights of each name."""
    cell: NDArray[Any]
    """``(weights,)``: the label, or the pair of labels, of each weight."""
    weight: NDArray[np.float64]
    """``(weights,)``"""


class _SplitModel(NamedTuple):
    """The weights of a text model: of names and labels, names and label pairs, and label pairs."""

    labels: list[str]
    names: Names
    states: _NamedWeights
    """Weights of (name, label)."""
    edges: _NamedWeights
    """Weights of (name, pair of labels)."""
    bigram: NDArray[np.int32]
    """``(bigrams,)``: pairs of labels whose weight is the same at every position."""
    bigram_weight: NDArray[np.float64]


def _from_text_model(spec: Spec, models: list[TextModel]) -> CRF:
    """Return a CRF whose features are computed from tokens by the templates of ``spec``.

    ``models`` is a list with one model, which is removed from it. So no other reference keeps the
    arrays of the file, and each is freed after its last use: a large model must not be in memory
    twice.
    """
    labels, names, states, edges, pairs, bigrams = _split_model(spec, models.pop())
    features, *sources = from_names(spec, (names, states.name), (names, edges.name))
    del names
    states = _repeat_for_attributes(states, sources[0])
    edges = _repeat_for_attributes(edges, sources[1])
    edge_layout: list[Any] = [None, None]
    later_weights = [bigrams]
    if features.has_edges:
        edge_layout = [_offsets(edges.size), edges.cell]
        later_weights.append(edges.weight)
    layout = WeightLayout(len(labels), _offsets(states.size), states.cell, pairs, *edge_layout)
    weights = _append_in_place(states.weight, later_weights)
    return _make_crf(CRF(spec), labels, features, layout, weights)


def _split_model(spec: Spec, model: TextModel) -> _SplitModel:
    """Split weights into those of (name, label), of (name, pair of labels) and of pairs alone."""
    name_flags = model.states.view(np.uint8), _find_plain_names(spec, model.names).view(np.uint8)
    states, edges, edge_weight, pair, pair_weight = _core.split_weights(
        model.number, model.weight, model.begin, *name_flags, len(model.labels)
    )
    # The core has moved the weights of labels to the front. The memory after them is freed.
    state_weight = model.weight
    state_weight.resize(len(states[2]), refcheck=False)
    # With several templates that read no token, a pair has several weights: they are added.
    pairs, pair_index = np.unique(pair, return_inverse=True)
    bigrams: Any = np.bincount(pair_index, weights=pair_weight, minlength=len(pairs))
    return _SplitModel(
        model.labels,
        model.names,
        _NamedWeights(*states, state_weight),
        _NamedWeights(*edges, edge_weight),
        pairs.astype(np.int32),
        bigrams,
    )


def _find_plain_names(spec: Spec, names: Names) -> NDArray[np.bool_]:
    """Return True for names of templates that read no token, such as CRF++'s ``B``: ``(names,)``.

    Their weights are the label bigrams of all positions.
    """
    plain_names = {
        "".join(template.literals).encode()
        for template in spec.templates
        if template.edge and not template.parts
    }
    is_plain = np.zeros(len(names.size), np.bool_)
    # There may be millions of names, so only those that are short enough are decoded.
    for i in np.flatnonzero(names.size <= max(map(len, plain_names), default=-1)).tolist():
        is_plain[i] = names.string(i) in plain_names
    return is_plain


def _append_in_place(
    target: NDArray[np.float64], arrays: list[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Append arrays to the first one, in place: a copy of it would nearly double the memory."""
    end = len(target)
    target.resize(end + sum(map(len, arrays)), refcheck=False)
    for array in arrays:
        target[end : end + len(array)] = array
        end += len(array)
    return target


def _repeat_for_attributes(weights: _NamedWeights, source: NDArray[np.int64]) -> _NamedWeights:
    """Return the weights of attributes, where attribute i has the name ``source[i]``.

    Several attributes have the same name if it matches several templates.
    """
    if len(source) == len(weights.name):
        return weights  # one attribute for each name, in the same order
    begin = _offsets(weights.size)[source]
    size = weights.size[source]
    n_weights = int(size.sum())
    limit = 2 * len(weights.weight) + _EXTRA_WEIGHTS
    if n_weights > limit:
        raise FormatError(
            f"feature names match several templates, so {n_weights} weights are needed: at most "
            f"{limit} are allowed for the {len(weights.weight)} weights of the file"
        )
    cell, weight = np.empty(n_weights, weights.cell.dtype), np.empty(n_weights)
    for attributes, target in _split_into_blocks(size):
        index = _concatenate_ranges(begin[attributes], size[attributes])
        cell[target], weight[target] = weights.cell[index], weights.weight[index]
    return _NamedWeights(source, size, cell, weight)


def _split_into_blocks(size: NDArray[np.int64]) -> Iterator[tuple[slice, slice]]:
    """Yield slices of attributes with about `_BLOCK` weights, and the slices of these weights."""
    ends = np.cumsum(size)
    first, begin = 0, 0
    while first < len(size):
        last = max(first + 1, int(np.searchsorted(ends, begin + _BLOCK, side="right")))
        yield slice(first, last), slice(begin, int(ends[last - 1]))
        first, begin = last, int(ends[last - 1])


def _concatenate_ranges(begin: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenation of all ``range(begin[i], begin[i] + size[i])``."""
    ends = np.cumsum(size)
    return np.repeat(begin - (ends - size), size) + np.arange(int(size.sum()))


def _make_crf(
    crf: CRF, labels: list[str], features: Any, layout: WeightLayout, weights: NDArray[np.float64]
) -> CRF:
    """Set the attributes that ``fit`` sets. The file does not contain the history of training."""
    check_label_count(len(labels), len(weights))
    crf.classes_, crf.features_, crf.layout_ = as_array(tuple(labels)), features, layout
    crf.set_weights(weights)
    crf.l2_ = 0.0  # the file does not contain the penalty
    crf.n_iter_, crf.objective_, crf.converged_ = 0, 0.0, False
    crf.losses_, crf.dev_scores_ = [], []
    layout.native  # noqa: B018  validates all indices of the layout
    return crf


def _offsets(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the cumulative sums of the counts, with a zero in front: ``(n + 1,)``."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


# ---- writing files of CRFsuite


def save_crfsuite(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted CRF as a model file of CRFsuite.

    >>> import tempfile
    >>> X, y = [[["w=Rome", "cap"], ["w=sleeps"]]], [["LOC", "O"]]
    >>> path = tempfile.mkdtemp() + "/model.crfsuite"
    >>> save_crfsuite(CRF().fit(X, y), path)
    >>> import trellis
    >>> trellis.load(path).predict(X)
    [['LOC', 'O']]
    """
    crfsuite.write(path, _collect_crfsuite_parts(model))


def _collect_crfsuite_parts(model: Any) -> crfsuite.Parts:
    _check_crfsuite_can_store(model)
    layout = model.layout_
    states, bigrams, *_ = layout.split(model.coef_)
    if isinstance(model.features_, ReadyFeatures):
        data, ends = model.features_.vocabulary.strings()
        names = data.view(np.uint8)
    else:
        names, ends = pack_strings(model.features_.names())
    before, after = np.divmod(layout.bigram, layout.n_labels)
    return crfsuite.Parts(
        model.classes_.tolist(),
        names,
        ends,
        layout.state_attribute,
        layout.state_label,
        states,
        before,
        after,
        bigrams,
    )


def _check_crfsuite_can_store(model: Any) -> None:
    """Raise InputError if a file of CRFsuite cannot store the model."""
    if type(model) is not CRF:
        raise InputError(
            f"a CRFsuite file can store only models of type CRF, not {type(model).__name__}"
        )
    model._check_fitted()
    if model.constraints is not None:
        raise InputError("a CRFsuite file cannot store the constraints of this model")
    if model.features_.has_edges:
        raise InputError("a CRFsuite file cannot store the edge features of this model")
    if model.order != 1:
        raise InputError("a CRFsuite file cannot store a model of order 2")
    for label in model.classes_.tolist():
        if not isinstance(label, str):
            raise InputError(f"a CRFsuite file can store only labels of type str, not {label!r}")
