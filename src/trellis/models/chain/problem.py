"""The training problem of a linear chain model.

The replacement for python-crfsuite uses this module too. So it must not import `Parameters`, which
imports scikit-learn: that takes a second and 80 MB.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trellis import _core
from trellis.errors import InputError
from trellis.native import resolve_jobs
from trellis.optim.result import Objective, Vector

__all__ = ["Problem"]


@dataclass(eq=False)
class Problem:
    """−Σ weightᵢ log p(yᵢ | xᵢ) + l2/2 ‖w‖² + l1 ‖w‖₁, to be minimised over w."""

    data: _core.TrainingData | None
    """The training data. `objective` sets it to None when the core has a copy, to save memory."""
    n_sequences: int
    by_step: bool
    """True: p is normalised at each step (MEMM); False: over the sequence (CRF)."""
    l1: float
    l2: float
    n_jobs: int | None
    matrix: Any = None
    """With joint features, M of `trellis.models.chain.joint`: the weights of the core are M w."""
    _engine: _core.Objective | None = field(default=None, init=False)

    def loss(self, w: Vector) -> float:
        """Return the loss of weights, without the L1 term. Call it once, after the training."""
        return self.objective()(w, np.empty_like(w))

    def objective(self) -> Objective:
        """Return ``objective(w, gradient) -> loss``, without the L1 term.

        The core copies the data at the first call. Later calls, with other penalties, are cheap.
        """
        if self._engine is None:
            assert self.data is not None
            self._engine, self.data = _core.Objective(self.data, self.by_step), None
        core, threads, l2 = self._engine, resolve_jobs(self.n_jobs), self.l2

        def evaluate_core(w: Vector, l2: float, gradient: Vector) -> float:
            loss = core.evaluate(w, l2, threads, gradient)
            # The core must not raise from its threads, so it stores the first infeasible sequence.
            if core.infeasible >= 0:
                raise InputError(
                    "sequence {sequence}: no labelling agrees with its labels and the constraints",
                    sequence=core.infeasible,
                )
            return loss

        if self.matrix is None:
            return lambda w, gradient: evaluate_core(w, l2, gradient)
        matrix, transposed = self.matrix, self.matrix.T.tocsr()
        core_gradient = np.empty(matrix.shape[0])

        def evaluate(w: Vector, gradient: Vector) -> float:
            loss = evaluate_core(matrix @ w, 0.0, core_gradient)
            gradient[:] = transposed @ core_gradient + l2 * w
            # Not w @ w: BLAS would use threads of its own, and wait for them on a busy machine.
            return loss + 0.5 * l2 * _core.dot(w, w, threads)

        return evaluate
