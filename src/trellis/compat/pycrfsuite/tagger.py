"""python-crfsuite's tagger: labels, probabilities and marginals of one sequence at a time."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis._core import Scorer
from trellis._core import Tagger as NativeTagger
from trellis.compat.pycrfsuite._dumpparser import ParsedDump, dump_lines, parse_model
from trellis.data.atomic import writing
from trellis.formats import crfsuite
from trellis.inference import chain
from trellis.models.crfsuite import ChainWeights, read_weights

__all__ = ["Tagger"]

_CLOSED = "The tagger is not opened"


class Tagger:
    """Labels sequences with a CRFsuite model.

    Opening a truncated or inconsistent model file raises a ValueError that names the problem.
    """

    _model: crfsuite.Model | None
    _weights: ChainWeights | None
    _core: NativeTagger | None
    _marginals: NDArray[np.float64] | None
    _log_z: float | None

    def __init__(self) -> None:
        self.close()

    def open(self, name: str) -> contextlib.closing[Tagger]:
        """Open a model file; a ``with`` statement closes the tagger at its end."""
        self._set_model(crfsuite.read(name))
        return contextlib.closing(self)

    def open_inmemory(self, value: bytes) -> contextlib.closing[Tagger]:
        """Open the bytes of a model file."""
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, {type(value).__name__} found")
        self._set_model(crfsuite.parse(value))
        return contextlib.closing(self)

    def _set_model(self, model: crfsuite.Model) -> None:
        """Replace the open model."""
        self.close()
        # A model without labels can be opened and inspected, but it cannot tag.
        self._weights = read_weights(model) if model.labels else None
        self._model = model

    def close(self) -> None:
        """Close the model."""
        self._model = self._weights = self._core = self._marginals = self._log_z = None

    def _get_core(self) -> NativeTagger:
        """Return the native tagger. It is created at first use, because it needs much memory."""
        if self._core is None:
            if self._model is None:
                raise ValueError(_CLOSED)
            if self._weights is None:
                raise RuntimeError("The model has no labels: it was trained without data")
            features, layout, weights = self._weights
            scorer = Scorer(layout.native, weights)
            self._core = NativeTagger(features.vocabulary, scorer, tuple(self._model.labels))
        return self._core

    @property
    def _transition(self) -> NDArray[np.float64]:
        assert self._weights is not None
        return self._weights.layout.transition_matrix(self._weights.weights)

    def labels(self) -> list[str]:
        """Return the labels, in the order of the model."""
        if self._model is None:
            raise ValueError(_CLOSED)
        return list(self._model.labels)

    def set(self, xseq: Any) -> None:
        """Set the sequence (a list of items or an `ItemSequence`) for the next calls."""
        self._get_core().set(xseq)
        self._marginals = self._log_z = None  # computed at first use for this sequence

    def tag(self, xseq: Any = None) -> list[str]:
        """Return the best labels of a sequence; by default of the sequence that was set last."""
        if xseq is not None:
            self.set(xseq)
        return self._get_core().best()

    def probability(self, yseq: Iterable[str]) -> float:
        """Return p(labels | sequence) for the sequence that was set last."""
        core, yseq = self._get_core(), list(yseq)
        if not len(core):
            return 0.0  # as in CRFsuite, although the empty labelling has probability 1
        if len(yseq) != len(core):
            raise ValueError(
                f"The numbers of items and labels differ: |x| = {len(core)}, |y| = {len(yseq)}"
            )
        path = np.array([self._label_number(label) for label in yseq])
        unary, transition = core.scores(), self._transition
        if self._log_z is None:
            self._log_z = float(np.asarray(chain.log_partition(unary, transition)))
        score = float(np.asarray(chain.score(unary, transition, labels=path)))
        # Rounding errors can make the score larger than log Z, but a probability is at most 1.
        return float(np.exp(min(score - self._log_z, 0.0)))

    def marginal(self, y: str, pos: int) -> float:
        """Return p(label at a position | sequence) for the sequence that was set last."""
        core = self._get_core()
        if not len(core):
            return 0.0
        if not 0 <= pos < len(core):
            raise ValueError(f"The position, {pos} is out of range of {len(core)}")
        label_number = self._label_number(y)
        if self._marginals is None:
            marginals = chain.marginals(core.scores(), self._transition)
            self._marginals = np.asarray(marginals.unary)
        return float(self._marginals[pos, label_number])

    def _label_number(self, label: str) -> int:
        """Return the number of a label. Raise RuntimeError if the model does not have it."""
        assert self._model is not None
        try:
            return self._model.labels.index(label)
        except ValueError:
            raise RuntimeError(f"Failed to convert into label identifier: {label}") from None

    def dump(self, filename: str | None = None) -> None:
        """Write the model as text to a file, or to standard output."""
        if self._model is None:
            raise RuntimeError("Tagger is closed")
        if filename is None:
            sys.stdout.writelines(dump_lines(self._model))
            return
        with writing(filename) as file:
            file.writelines(line.encode() for line in dump_lines(self._model))

    def info(self) -> ParsedDump:
        """Return labels, attributes and weights as dicts."""
        if self._model is None:
            raise RuntimeError("Tagger is closed")
        return parse_model(self._model)
