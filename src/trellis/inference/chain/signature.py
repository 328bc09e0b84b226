"""The signature that all functions of the chain share: `Scores`, or the same arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Protocol, TypeVar, cast, overload

from numpy.typing import ArrayLike

from trellis.errors import InputError
from trellis.inference.chain.batch import ValidatedScores, validate
from trellis.inference.chain.scores import Scores

__all__ = ["ChainFunction", "takes_scores"]

Result_co = TypeVar("Result_co", covariant=True)


class ChainFunction(Protocol[Result_co]):
    """A function of scores. It is called with `Scores`, or with the arrays themselves."""

    @overload
    def __call__(
        self, scores: Scores, /, *, n_jobs: int | None = None, **options: Any
    ) -> Result_co: ...

    @overload
    def __call__(
        self,
        unary: ArrayLike,
        transition: ArrayLike,
        start: ArrayLike | None = None,
        end: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        n_jobs: int | None = None,
        **options: Any,
    ) -> Result_co: ...


def takes_scores(
    function: Callable[Concatenate[ValidatedScores, ...], Result_co],
) -> ChainFunction[Result_co]:
    """Return a function that validates the caller's arrays and passes them on as one argument.

    So the parameters that all functions of the chain share are written only once, here.
    """
    takes_labels = "labels" in inspect.signature(function).parameters

    # __annotations__ are not copied: those of `call` are needed below.
    @wraps(function, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def call(
        unary: ArrayLike | Scores,
        transition: ArrayLike | None = None,
        start: ArrayLike | None = None,
        end: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        n_jobs: int | None = None,
        **options: Any,
    ) -> Result_co:
        if isinstance(unary, Scores):
            if any(array is not None for array in (transition, start, end, mask, lengths)):
                raise InputError("pass Scores alone, without other arrays")
            scores = unary
        elif transition is None:
            raise TypeError(f"{function.__name__}() needs unary and transition scores, or Scores")
        else:
            scores = Scores(unary, transition, start, end, mask, lengths)
        # In a call such as score(unary, transition, [0, 1]), the last argument is the start scores,
        # but the caller may have meant it as the labels.
        may_be_labels = takes_labels and scores is not unary and options.get("labels") is None
        return function(validate(scores, n_jobs, may_be_labels=may_be_labels), **options)

    parameters = inspect.signature(call, follow_wrapped=False)
    cast(Any, call).__signature__ = _signature(function, parameters)
    return cast("ChainFunction[Result_co]", call)


class _Annotation(str):
    """The name of a type, which `help` shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _signature(function: Callable[..., Any], call: inspect.Signature) -> inspect.Signature:
    """Return the parameters of `call` and the options of `function`, as `help` shows them."""
    signature = inspect.signature(function)
    options = list(signature.parameters.values())[1:]
    parameters = [p for p in call.parameters.values() if p.kind != p.VAR_KEYWORD]
    parameters[4:4] = options
    return inspect.Signature(
        [p.replace(annotation=_Annotation(p.annotation)) for p in parameters],
        return_annotation=_Annotation(signature.return_annotation),
    )
