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
import inspect
from typing import TYPE_CHECKING, Any, Self, TypeVar

from trellis.errors import InputError

__all__ = ["Estimator", "LightEstimator", "check_fitted", "clone", "run_without_sklearn"]

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
        """Return the parameters by name; with ``deep``, also those of estimators among them."""
        # Sorted by name, because checkpoints and model files store them in this order.
        params = {name: getattr(self, name) for name in sorted(self._defaults())}
        if deep:
            for name, value in list(params.items()):
                if isinstance(value, LightEstimator):
                    inner_params = value.get_params().items()
                    params |= {f"{name}__{key}": inner for key, inner in inner_params}
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
        changed = [f"{name}={text}" for name, text in reprs.items() if text != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(changed)})"


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
