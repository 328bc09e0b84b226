"""Models as parts: the metadata (JSON) and the tensors (arrays) of a ``.trellis`` file.

A model that can be saved derives from `Saved` and has two methods, `Saved.to_parts` and
`Saved.from_parts`. The functions below read and write the parts that several models have: the
parameters of the constructor, the labels, the record of the training and lists of strings.

`Saved.from_parts` trusts nothing in a file: it validates every name, size and index, and raises
InputError. `errors_name_file` converts it to a FormatError that names the file.

>>> import tempfile
>>> from pathlib import Path
>>> import numpy as np
>>> class Constant(Saved):
...     kind = "constant"
...     def __init__(self, value):
...         self.value = value
...     def to_parts(self):
...         return {}, {"value": np.array([self.value])}
...     @classmethod
...     def from_parts(cls, meta, tensors):
...         return cls(float(native.expect(tensors, "value", np.float64, (1,))[0]))
>>> path = Path(tempfile.mkdtemp()) / "model.trellis"
>>> Constant(2.5).save(path)
>>> load_class(Constant, path).value
2.5
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.checks import integer_at_least
from trellis.data.corpus import Layout
from trellis.errors import FormatError, InputError
from trellis.formats import native
from trellis.formats.native import Tensors
from trellis.native import resolve_jobs

__all__ = [
    "Parts",
    "Saved",
    "compared_parameters",
    "errors_name_file",
    "load_class",
    "read_classes",
    "read_parameters",
    "read_strings",
    "read_training",
    "restore",
    "store_strings",
    "stored_labels",
    "stored_parameters",
    "tensors_below",
    "training_record",
]

FilePath: TypeAlias = str | os.PathLike[str]
Parts: TypeAlias = tuple[dict[str, Any], dict[str, NDArray[Any]]]
"""Metadata and tensors of one model."""


_MAX_ISA = 100  # characters of the name of an instruction set


class Saved:
    """Mixin of a model that can be written to a file."""

    kind: ClassVar[str]
    """Name of the class in a file. It never changes, because old files contain it."""
    added_parameters: ClassVar[frozenset[str]] = frozenset()
    """Parameters that release 0.1.0 does not have: stored only if they are not the default.

    So a model without them is written as in 0.1.0, and a checkpoint of 0.1.0 can be resumed.
    """
    isa_: str | None = None
    """Instruction set that trained the weights, such as ``"x86-64-v3"``; None if it is unknown."""
    corpus_layout_: Layout | None = None
    """The columns of the file that ``trellis train`` read; None after training in Python."""

    def save(self, path: FilePath) -> None:
        """Write the fitted model to a ``.trellis`` file, which `trellis.load` reads.

        If this fails, an existing file is not changed.
        """
        if "kind" not in type(self).__dict__:
            # The file would be loaded as the base class, without the attributes of the subclass.
            raise InputError(
                f"cannot save a {type(self).__name__}: a subclass has no file format unless it "
                "sets kind"
            )
        meta, tensors = self.to_parts()
        if self.isa_ is not None:
            meta["isa"] = self.isa_
        if self.corpus_layout_ is not None:
            meta["corpus"] = self.corpus_layout_.to_json()
        native.write(path, self.kind, meta, tensors)

    def to_parts(self) -> Parts:
        """Return the metadata and the tensors of the fitted model; raise if it is not fitted."""
        raise NotImplementedError

    @classmethod
    def from_parts(cls, meta: dict[str, Any], tensors: Tensors) -> Self:
        """Return the model with these parts; raise InputError if a part is missing or invalid."""
        raise NotImplementedError

    def read_corpus_layout(self, meta: dict[str, Any]) -> Self:
        """Set the layout that `save` stored; return the model. Older files have none."""
        if "corpus" in meta:
            self.corpus_layout_ = Layout.from_json(meta["corpus"])
        return self

    def set_feature_functions(
        self,
        features: Callable[[Any], Any] | None = None,
        edge_features: Callable[[Any], Any] | None = None,
        joint: Any = None,
    ) -> None:
        """Set the Python functions that compute features: a file cannot contain them.

        Models without such functions ignore the call.
        """


SavedModel = TypeVar("SavedModel", bound=Saved)


def load_class(cls: type[SavedModel], path: FilePath) -> SavedModel:
    """Load a file that must contain a model of this class."""
    contents = native.read(path, kind=cls.kind)
    return restore(cls, contents)


def restore(cls: type[SavedModel], contents: native.Contents) -> SavedModel:
    """Return the model of a file; raise FormatError, which names the file, if a part is invalid."""
    with errors_name_file(contents.tensors.path):
        model = cls.from_parts(contents.meta, contents.tensors)
        isa = contents.meta.get("isa")
        if isa is not None and not (isinstance(isa, str) and len(isa) <= _MAX_ISA):
            raise InputError(f"isa must be the name of an instruction set, not {isa!r:.60}")
        model.isa_ = isa
        return model.read_corpus_layout(contents.meta)


@contextmanager
def errors_name_file(path: FilePath) -> Iterator[None]:
    """Convert the errors that invalid parts cause to a FormatError that names the file.

    >>> with errors_name_file("model.trellis"):
    ...     {}["classes"]
    Traceback (most recent call last):
        ...
    trellis.errors.FormatError: model.trellis: 'classes' is missing
    """
    try:
        yield
    except FormatError as error:
        text = str(error)
        raise error if text.startswith(str(path)) else FormatError(f"{path}: {text}") from None
    except KeyError as error:
        raise FormatError(f"{path}: {error} is missing") from None
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as error:
        # Values of a wrong JSON type raise these: None["x"], int("x"), [].keys(), [][0].
        raise FormatError(f"{path}: {error}") from None


# ---- parameters of the constructor


class Estimator(Protocol):
    """An object with scikit-learn's ``get_params``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


def compared_parameters(model: Estimator) -> dict[str, Any]:
    """Return the parameters of a model, except `Saved.added_parameters` that have their default."""
    parameters: dict[str, Any] = model.get_params(deep=False)
    added: frozenset[str] = getattr(type(model), "added_parameters", frozenset())
    if not added:
        return parameters
    defaults = type(model)().get_params(deep=False)
    return {
        name: value
        for name, value in parameters.items()
        if name not in added or value != defaults[name]
    }


def stored_parameters(model: Estimator, left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Return the parameters of a model as JSON values, except the names in ``left_out``.

    Random generators are omitted too, and functions in ``solver_options``, because JSON cannot
    contain them.
    """
    parameters = {}
    for name, value in compared_parameters(model).items():
        if name in left_out or isinstance(value, np.random.Generator | np.random.RandomState):
            continue
        if isinstance(value, np.generic):
            value = value.item()
        if name == "solver_options" and value is not None:
            value = {key: option for key, option in value.items() if not callable(option)}
        if name == "constraints" and value is not None and not isinstance(value, str):
            value = [stored_labels(pair) for pair in value]
        if name == "label_weight" and value is not None:
            # A list of pairs, because the keys of a JSON object can only be strings.
            value = [[*stored_labels([label]), float(weight)] for label, weight in value.items()]
        parameters[name] = list(value) if isinstance(value, tuple) else value
    return parameters


def read_parameters(
    cls: Callable[[], Estimator], meta: dict[str, Any], left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the stored parameters as arguments of the constructor of ``cls``.

    The names are validated here, the values by the model.
    """
    stored_values = meta["parameters"]
    known_names = cls().get_params(deep=False).keys() - set(left_out)
    if not isinstance(stored_values, dict):
        raise InputError(f"parameters must be an object, not {type(stored_values).__name__}")
    unknown_names = sorted(stored_values.keys() - known_names)
    if unknown_names:
        raise InputError(f"parameters: unknown names {', '.join(unknown_names)}")
    parameters: dict[str, Any] = dict(stored_values)
    if isinstance(parameters.get("constraints"), list):
        parameters["constraints"] = [
            tuple(stored_labels(pair)) for pair in parameters["constraints"]
        ]
    if parameters.get("label_weight") is not None:
        pairs = parameters["label_weight"]
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
            raise InputError("label_weight must be a list of pairs [label, weight]")
        stored_labels(label for label, _ in pairs)
        parameters["label_weight"] = dict(map(tuple, pairs))
    resolve_jobs(parameters.get("n_jobs"))
    return parameters


# ---- labels


def stored_labels(labels: Iterable[Any]) -> list[Any]:
    """Return labels as a list of JSON values; raise InputError if JSON cannot contain one."""
    values = list(labels)
    for label in values:
        if not isinstance(label, str | int | float | bool):
            raise InputError(f"label {label!r} cannot be saved: must be a str or a number")
    return values


def read_classes(meta: dict[str, Any]) -> list[Any]:
    """Return the stored classes of a model: a list of at least one label, all distinct."""
    classes = meta["classes"]
    if not isinstance(classes, list) or not classes or len(set(classes)) != len(classes):
        raise InputError("classes must be a list of distinct labels")
    return stored_labels(classes)


# ---- record of the training


def training_record(model: Any, histories: Sequence[str] = ()) -> dict[str, Any]:
    """Return the result of the training, and its histories (lists of (iteration, value) pairs).

    ``histories`` are names of attributes without the final underscore. Missing ones are omitted.
    """
    record: dict[str, Any] = {
        "iterations": int(model.n_iter_),
        "objective": float(model.objective_),
        "converged": bool(model.converged_),
    }
    for name in histories:
        if hasattr(model, f"{name}_"):
            record[name] = [list(entry) for entry in getattr(model, f"{name}_")]
    return record


def read_training(model: Any, meta: dict[str, Any], histories: Sequence[str] = ()) -> None:
    """Set the attributes of the model that `training_record` stored as ``meta["training"]``."""
    record = meta["training"]
    model.n_iter_ = integer_at_least(record["iterations"], 0, "iterations")
    model.objective_ = float(record["objective"])
    model.converged_ = bool(record["converged"])
    for name in histories:
        entries = [(int(iteration), float(value)) for iteration, value in record.get(name, [])]
        setattr(model, f"{name}_", entries)


# ---- tensors


def store_strings(tensors: dict[str, NDArray[Any]], name: str, strings: Sequence[str]) -> None:
    """Add strings to the tensors: their bytes, and the offset at which each one ends."""
    tensors[f"{name}.bytes"], tensors[f"{name}.ends"] = native.pack_strings(strings)


def read_strings(tensors: Tensors, name: str, *, distinct: bool = True) -> list[str]:
    """Return the strings that `store_strings` added; by default no string may occur twice."""
    data = native.expect(tensors, f"{name}.bytes", np.uint8, (None,))
    ends = native.expect(tensors, f"{name}.ends", np.int64, (None,))
    strings = native.unpack_strings(data, ends, f"{tensors.path}: {name}")
    if distinct and len(set(strings)) < len(strings):
        raise FormatError(f"{tensors.path}: {name}: a string occurs twice")
    return strings


def tensors_below(tensors: Tensors, prefix: str) -> Tensors:
    """Return the tensors whose name starts with ``prefix``, without that prefix.

    >>> from pathlib import Path
    >>> arrays = {"linear.coef": np.zeros(2), "bias": np.zeros(1)}
    >>> tensors = Tensors(Path("model.trellis"), arrays)
    >>> list(tensors_below(tensors, "linear."))
    ['coef']
    """
    return Tensors(
        tensors.path,
        {
            name.removeprefix(prefix): array
            for name, array in tensors.items()
            if name.startswith(prefix)
        },
    )
