"""sklearn-crfsuite's `CRF`: CRFsuite's models as a scikit-learn estimator."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from trellis.compat.pycrfsuite import Tagger
from trellis.compat.pycrfsuite._dumpparser import ParsedDump
from trellis.compat.sklearn_crfsuite._fileresource import FileResource
from trellis.compat.sklearn_crfsuite.trainer import LinePerIterationTrainer

__all__ = ["CRF"]

# CRFsuite's names of the parameters that have another name here
_NAMES = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "pa_type": "type",
} | {
    f"calibration_{name}": f"calibration.{name}"
    for name in ("eta", "rate", "samples", "candidates", "max_trials")
}
_NOT_CRFSUITE = {"algorithm", "verbose", "model_filename", "keep_tempfiles", "trainer_cls"}


class CRF(BaseEstimator):  # type: ignore[misc]
    """A CRF trained with CRFsuite's algorithms. A parameter of None means CRFsuite's default.

    ``algorithm`` is "lbfgs" (with ``c1``, ``c2``, ``num_memories``, ``epsilon``, ``period``,
    ``delta``, ``linesearch``, ``max_linesearch``), "l2sgd" (``c2``, ``period``, ``delta``,
    ``calibration_*``), "ap" (``epsilon``), "pa" (``pa_type``, ``c``, ``error_sensitive``,
    ``averaging``, ``epsilon``) or "arow" (``variance``, ``gamma``, ``epsilon``). ``min_freq``,
    ``all_possible_states`` and ``all_possible_transitions`` decide which features have a weight.

    The model is a CRFsuite file: ``model_filename``, or a temporary file. A pickle contains the
    content of the temporary file. If the file ``model_filename`` exists, the estimator is already
    fitted.
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: Any = None,
    ) -> None:
        arguments = dict(locals())
        for name in self._get_param_names():
            setattr(self, name, arguments[name])
        self.modelfile = FileResource(model_filename, keep_tempfiles, ".crfsuite", "model")
        self.training_log_: Any = None
        self._tagger: Tagger | None = None
        self._info_cached: ParsedDump | None = None

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> "CRF":  # noqa: N803
        """Train the model. The log contains the scores on X_dev and y_dev after each iteration."""
        if (X_dev is None) != (y_dev is None):
            raise ValueError("Pass both X_dev and y_dev to use the holdout data")
        if self._tagger is not None:
            self._tagger.close()
        self._tagger = self._info_cached = None
        self.modelfile.refresh()
        trainer = self._get_trainer()
        for group, (sequences, labels) in enumerate(((X, y), (X_dev, y_dev))):
            if sequences is not None:
                for xseq, yseq in zip(sequences, labels, strict=True):
                    trainer.append(xseq, yseq, group)
        trainer.train(self.modelfile.name, holdout=-1 if X_dev is None else 1)
        self.training_log_ = trainer.logparser
        return self

    def _get_trainer(self) -> Any:
        """Return a trainer with the parameters of this estimator."""
        arguments = self.get_params(deep=False)
        params = {
            _NAMES.get(name, name): value
            for name, value in arguments.items()
            if name not in _NOT_CRFSUITE and value is not None
        }
        trainer_cls = self.trainer_cls or LinePerIterationTrainer
        return trainer_cls(algorithm=self.algorithm, params=params, verbose=self.verbose)

    # ---- prediction

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the best labels of each sequence, as an array of lists."""
        return np.array(list(map(self.predict_single, X)), dtype=object)

    def predict_single(self, xseq: Any) -> list[str]:
        """Return the best labels of one sequence."""
        return self._fitted_tagger().tag(xseq)

    def predict_marginals(self, X: Any) -> list[list[dict[str, float]]]:
        """Return p(label | sequence) at each position of each sequence."""
        return list(map(self.predict_marginals_single, X))

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """Return p(label | sequence) of all labels at each position."""
        tagger = self._fitted_tagger()
        tagger.set(xseq)
        labels = tagger.labels()
        return [{y: tagger.marginal(y, t) for y in labels} for t in range(len(xseq))]

    def score(self, X: Any, y: Any) -> float:
        """Return the fraction of correct labels."""
        # Imported only here: sklearn.metrics takes 6 MB and a tenth of a second.
        from trellis.compat.sklearn_crfsuite.metrics import flat_accuracy_score

        return flat_accuracy_score(y, self.predict(X))

    def _fitted_tagger(self) -> Tagger:
        """Return the tagger of the model. Raise AttributeError before `fit`."""
        tagger = self.tagger_
        if tagger is None:
            # sklearn-crfsuite raises AttributeError here, not scikit-learn's NotFittedError.
            raise AttributeError("this CRF is not fitted yet: call fit first")
        return tagger

    # ---- the fitted model; all of these are None before `fit`

    @property
    def tagger_(self) -> Tagger | None:
        """The `pycrfsuite.Tagger` of the model."""
        if self._tagger is None:
            if self.modelfile.name is None:
                return None
            tagger = Tagger()
            tagger.open(self.modelfile.name)
            self._tagger, self._info_cached = tagger, None
        return self._tagger

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """Size of the model file in bytes."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes that have a weight."""
        return None if self._info is None else int(self._info.header["num_attrs"])

    @property
    def attributes_(self) -> list[str] | None:
        """Names of the attributes."""
        return None if self._info is None else list(self._info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of (attribute, label)."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of (label, next label)."""
        return None if self._info is None else self._info.transitions

    @property
    def _info(self) -> ParsedDump | None:
        if self._info_cached is None and self.tagger_ is not None:
            self._info_cached = self.tagger_.info()
        return self._info_cached

    def __getstate__(self) -> dict[str, Any]:
        # A tagger cannot be pickled. It is created again from ``modelfile``.
        return {**self.__dict__, "_tagger": None, "_info_cached": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
