"""The base class of every estimator: scikit-learn's, except in the ``trellis`` command.

In a program that uses trellis as a library, `Estimator` *is* ``sklearn.base.BaseEstimator``. So
``isinstance(model, BaseEstimator)``, pipelines, ``clone``, metadata routing, the HTML display of a
notebook and ``check_estimator`` are scikit-learn's own; nothing is imitated.

Importing scikit-learn takes about a second, mostly for ``scipy.stats``. A command that tags one
sentence would spend most of its time there. No command needs scikit-learn, so the entry point of
the ``trellis`` command calls `run_without_sklearn` before it imports a model. `Estimator` is then
`LightEstimator`, which has ``get_params``, ``set_params`` and ``repr`` only.

A class has to choose its base class when it is defined. This is why the switch must come before the
models are imported, and why only the process that owns ``sys.argv`` may use it: a library user who
calls a command in-process must not get models without scikit-learn's base class.

    # in the console entry point only, before any other import of trellis
    from trellis import estimator

    estimator.run_without_sklearn()
"""

import copy
import difflib
import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np

from trellis.errors import InputError

__all__ = [
    "Estimator",
    "LightEstimator",
    "Predictions",
    "check_fitted",
    "clone",
    "names_arguments",
    "run_without_sklearn",
]

InitT = TypeVar("InitT", bound=Callable[..., None])
ItemT = TypeVar("ItemT")
ModelT = TypeVar("ModelT")

_without_sklearn = False


class LightEstimator:
    """The methods of scikit-learn's base class that commands need.

    The parameters are the arguments of ``__init__``.

    >>> class Threshold(LightEstimator):
    ...     def __init__(self, low=0.0, high=1.0):
    ...         self.low, self.high = low, high
    >>> Threshold(high=2.0).get_params()
    {'high': 2.0, 'low': 0.0}
    >>> Threshold(high=2.0)
    Threshold(high=2.0)
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the default value of each parameter of the constructor, in its order."""
        parameters = inspect.signature(cls).parameters.values()
        return {p.name: p.default for p in parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep``, also those of estimators in the values."""
        # Sorted by name, because checkpoints and model files store them in this order.
        params = {name: getattr(self, name) for name in sorted(self._defaults())}
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, LightEstimator):
                    inner_params = value.get_params().items()
                    params |= {f"{name}__{key}": inner_value for key, inner_value in inner_params}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``a__b`` sets parameter ``b`` of the estimator ``a``."""
        names = sorted(self._defaults())
        for key, value in params.items():
            name, _, inner_name = key.partition("__")
            if name not in names:
                raise InputError(
                    f"{name!r} is not a parameter of {type(self).__name__}: "
                    f"must be one of {', '.join(names)}"
                )
            if inner_name:
                getattr(self, name).set_params(**{inner_name: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        reprs = {name: repr(getattr(self, name)) for name in defaults}
        # Values are compared as text, as in scikit-learn: == of two arrays is an array, not a bool.
        changed_parameters = [
            f"{name}={text}" for name, text in reprs.items() if text != repr(defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed_parameters)})"


if TYPE_CHECKING:
    Estimator = LightEstimator  # scikit-learn has no type annotations


def __getattr__(name: str) -> Any:
    """Return `Estimator`. The class is chosen at the first access and does not change later."""
    if name != "Estimator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = LightEstimator if _without_sklearn else _import_sklearn_base()
    return globals()[name]


def _import_sklearn_base() -> Any:
    from sklearn.base import BaseEstimator

    return BaseEstimator


def run_without_sklearn() -> None:
    """Give the estimators of this process a light base class, so that scikit-learn is not imported.

    The entry point of the ``trellis`` command calls this before it imports a model. The call has no
    effect on models that are already imported.
    """
    global _without_sklearn
    _without_sklearn = True


class Predictions(list[ItemT]):
    """A list with the result of each sequence, which ``cross_val_predict`` can concatenate.

    scikit-learn joins the predictions of all folds with ``np.concatenate``. From plain lists it
    would make one array of all labels, or fail if the sequences have different lengths. Lists of
    this class are joined to an array with one object per sequence. In all other uses they are plain
    lists.

    >>> np.concatenate([Predictions([["N", "V"], ["N"]]), Predictions([["V"]])])
    array([list(['N', 'V']), list(['N']), list(['V'])], dtype=object)
    """

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a NumPy function that has such lists among its arguments."""
        parts = args[0] if args else ()
        if function is np.concatenate and all(isinstance(part, Predictions) for part in parts):
            items = [item for part in parts for item in part]
            array = np.empty(len(items), dtype=object)
            # A loop, because an assignment to array[:] would split items of equal length.
            for n, item in enumerate(items):
                array[n] = item
            return array
        return function._implementation(*args, **kwargs)


# Names of parameters in other programs -> hints what to write instead. A hint begins with the name
# of a parameter of trellis, and only classes that have this parameter give the hint.
_OTHER_NAMES = {
    "c1": "l1",
    "c2": "l2, which is twice c2",
    "C": "l2, which is 1 / C",
    "algorithm": "solver",
    "max_iterations": "max_iter",
    "n_iter": "max_iter",
    "n_components": "n_states",
    "all_possible_states": 'states="all"',
    "all_possible_transitions": 'transitions="all"',
    "min_freq": "min_count",
    "lr": "learning_rate",
    "size": "vector_size",
    "dim": "vector_size",
    "ws": "window",
    "iter": "epochs",
    "hs": 'loss="hierarchical"',
    "seed": "random_state",
    "workers": "n_jobs",
}


def names_arguments(init: InitT) -> InitT:
    """Decorate a constructor: its errors about arguments name the class and suggest a parameter.

    Python's own message would name the base class that has the constructor.

    >>> class Base:
    ...     @names_arguments
    ...     def __init__(self, features=None, *, l2=1.0):
    ...         self.l2 = l2
    >>> class Model(Base):
    ...     pass
    >>> Model(c2=0.5)
    Traceback (most recent call last):
        ...
    TypeError: Model() has no parameter 'c2': write l2, which is twice c2
    """
    parameters = list(inspect.signature(init).parameters.values())[1:]
    names = [p.name for p in parameters]
    positional = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        cls = type(self).__name__
        unknown = next((name for name in kwargs if name not in names), None)
        if unknown is not None:
            raise TypeError(f"{cls}() has no parameter {unknown!r}: {_suggest(unknown, names)}")
        if len(args) > len(positional):
            allowed = f"only {', '.join(positional)}" if positional else "no parameter"
            raise TypeError(
                f"{cls}() got {len(args)} arguments without a name, but {allowed} can be passed "
                f"so: write {cls}(name=value)"
            )
        init(self, *args, **kwargs)

    return cast(InitT, checked)


def _suggest(name: str, names: Iterable[str]) -> str:
    """Return what to write instead of a parameter that does not exist."""
    names = list(names)
    replacement = _OTHER_NAMES.get(name, "")
    if re.split(r"\W", replacement)[0] in names:
        return f"write {replacement}"
    similar_names = difflib.get_close_matches(name.lower(), names, n=1)
    if similar_names:
        return f"did you mean {similar_names[0]}?"
    return f"the parameters are {', '.join(names)}"


def check_fitted(model: Any, attribute: str) -> None:
    """Raise scikit-learn's NotFittedError if a model lacks ``attribute``, which fit sets."""
    if not hasattr(model, attribute):
        # Imported only here, because importing scikit-learn takes about a second.
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"this {type(model).__name__} is not fitted yet: call fit first")


def clone(model: ModelT) -> ModelT:
    """Return an unfitted model with the same parameters, like ``sklearn.base.clone``."""
    if isinstance(model, LightEstimator):
        return type(model)(**copy.deepcopy(model.get_params(deep=False)))
    from sklearn.base import clone as sklearn_clone

    copied: ModelT = sklearn_clone(model)
    return copied
