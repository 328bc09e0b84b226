"""Taggers as ``.trellis`` files: settings and labels as JSON, vocabularies and weights as tensors.

A network is first laid out without memory, then each tensor of the file is held against it: sizes
that a file merely declares are never allocated.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from trellis.checks import as_integer, number_at_least
from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.formats.native import Contents, Tensors, expect, finite
from trellis.models import files as sequence_files
from trellis.models.chain.crf import CRF
from trellis.models.chain.labels import as_array
from trellis.nn.tagger.build import build_words, check_settings, choose_device
from trellis.nn.tagger.network import Network
from trellis.nn.tagger.tagger import NeuralTagger
from trellis.nn.tagger.training import Progress, load_state
from trellis.nn.words.tables import WordEmbedding

__all__ = ["KIND", "from_contents", "load", "save"]

KIND = "neural-tagger"
_LINEAR = "linear."
# said by the weights, by the place where it runs, or a function that no file can hold
_NOT_STORED = ("vectors", "device", "n_jobs", "features")


def save(tagger: NeuralTagger, path: str | os.PathLike[str]) -> None:
    """Write a fitted tagger. The file appears whole or not at all."""
    if callable(tagger.head):
        raise InputError("a head that was given as a function cannot be kept in a file")
    network = tagger.network_
    meta: dict[str, Any] = {
        "parameters": sequence_files.stored_parameters(tagger, _NOT_STORED),
        "classes": sequence_files.stored_labels(tagger.classes_.tolist()),
        "columns": tagger.columns_,
        "history": [list(progress) for progress in tagger.history_],
    }
    tensors: dict[str, Any] = {}
    for name, tensor in network.state_dict().items():
        tensors[f"network.{name}"] = tensor.detach().cpu().numpy()
    tables = [m.dim for m in network.words.modules() if isinstance(m, WordEmbedding)]
    meta["table_dim"] = tables[0] if tables else None
    vocabularies = network.words.vocabularies()
    meta["vocabularies"] = len(vocabularies)
    for n, strings in enumerate(vocabularies):
        tensors[f"words.{n}.bytes"], tensors[f"words.{n}.ends"] = native.pack_strings(strings)
    if tagger.linear_ is not None:
        meta["alpha"] = tagger.alpha_
        meta["linear"], arrays = sequence_files.chain_parts(tagger.linear_, "crf")
        tensors |= {_LINEAR + name: array for name, array in arrays.items()}
    native.write(path, KIND, meta, tensors)


def load(path: str | os.PathLike[str], device: Any = "cpu") -> NeuralTagger:
    """The tagger that a file holds."""
    return from_contents(native.read(path, kind=KIND), device)


def from_contents(
    contents: Contents, device: Any = "cpu", features: Callable[[Any], Any] | None = None
) -> NeuralTagger:
    """The tagger, once all parts of the file are known to fit.

    ``features`` is the function that its linear part was trained with, if it was.
    """
    where, path = choose_device(device), contents.tensors.path
    try:
        return _build(contents, where, features)
    except FormatError as error:
        text = str(error)
        raise error if text.startswith(str(path)) else FormatError(f"{path}: {text}") from None
    except (InputError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise FormatError(f"{path}: {error}") from None
    except (RuntimeError, OverflowError) as error:  # sizes that PyTorch cannot even write down
        raise FormatError(f"{path}: no network has such sizes: {error}") from None


def _build(contents: Contents, device: torch.device, features: Any) -> NeuralTagger:
    meta, tensors = contents.meta, contents.tensors
    tagger = NeuralTagger(**_checked_parameters(meta["parameters"]))
    check_settings(tagger)
    classes = meta["classes"]
    if not isinstance(classes, list) or not classes or len(set(classes)) != len(classes):
        raise InputError("classes must be a list of distinct labels")
    tagger.classes_ = as_array(tuple(sequence_files.stored_labels(classes)))
    tagger.columns_ = int(meta["columns"])
    tagger.history_ = [Progress(*entry) for entry in meta["history"]]
    tagger.linear_ = _linear(contents, features) if "linear" in meta else None
    tagger.features = None if tagger.linear_ is None else "crf"
    tagger.alpha_ = number_at_least(meta.get("alpha", 1.0), 0.0, "alpha")
    dim = None if meta["table_dim"] is None else as_integer(meta["table_dim"], "table_dim")
    own = (dim, [_strings(contents, n) for n in range(int(meta["vocabularies"]))])
    with torch.device("meta"):
        plan = _network(tagger, *own, torch.device("meta")).state_dict()
    for name, tensor in plan.items():
        expect(tensors, f"network.{name}", np.float32, tuple(tensor.shape))
        finite(tensors, f"network.{name}")
    with torch.random.fork_rng(devices=[]):  # weights are drawn, to be overwritten at once
        network = _network(tagger, *own, torch.device("cpu"))
    load_state(network, tensors)
    tagger.network_ = network.to(device)
    return tagger


def _linear(contents: Contents, features: Any) -> CRF:
    """The linear part, which is kept as a file of its own would be."""
    path, tensors = contents.tensors.path, contents.tensors
    own = {n.removeprefix(_LINEAR): a for n, a in tensors.items() if n.startswith(_LINEAR)}
    parts = Contents("crf", contents.meta["linear"], Tensors(path, own), contents.version)
    model: CRF = sequence_files.from_contents(parts, features)
    if model.classes_.tolist() != contents.meta["classes"] or model.features_.has_edges:
        raise InputError("the linear part has other labels, or features of transitions")
    return model


def _network(
    tagger: NeuralTagger, dim: int | None, vocabularies: list[list[str]], device: torch.device
) -> Network:
    words = build_words(tagger, sparse=False, table_dim=dim)
    words.restore(vocabularies)
    return tagger._build(words, device)


def _checked_parameters(stored: Any) -> dict[str, Any]:
    known = NeuralTagger().get_params(deep=False)
    if not isinstance(stored, dict) or not stored.keys() <= known.keys() - set(_NOT_STORED):
        raise InputError("parameters: unknown names")
    parameters: dict[str, Any] = dict(stored)
    for name in ("words", "char_widths"):
        parameters[name] = tuple(stored[name])
    if isinstance(parameters.get("constraints"), list):
        parameters["constraints"] = [tuple(pair) for pair in parameters["constraints"]]
    return parameters


def _strings(contents: Contents, n: int) -> list[str]:
    tensors = contents.tensors
    data = expect(tensors, f"words.{n}.bytes", np.uint8, (None,))
    ends = expect(tensors, f"words.{n}.ends", np.int64, (None,))
    return native.unpack_strings(data, ends, f"{tensors.path}: words.{n}")
