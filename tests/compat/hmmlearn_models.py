"""Models of hmmlearn with set parameters, for tests against numbers that hmmlearn computed.

``python tests/compat/hmmlearn_models.py`` writes hmmlearn.json with the hmmlearn that is installed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = Path(__file__).parent / "hmmlearn.json"
LENGTHS = [6, 1, 5]
VECTORS = np.array(
    [
        *[[0.1, 0.4], [1.2, -0.3], [5.0, 4.1], [4.2, 5.3], [0.3, 0.9], [-1.0, 0.2]],
        *[[4.8, 4.9], [5.5, 3.9], [0.7, 1.1], [2.4, 2.1], [4.1, 4.4], [0.2, -0.8]],
    ]
)
SYMBOLS = np.array([[0], [2], [1], [1], [0], [2], [3], [1], [0], [0], [3], [1]])
COUNTS = np.array(
    [[0, 2], [1, 1], [7, 9], [6, 5], [2, 0], [1, 3], [8, 6], [5, 9], [0, 1], [3, 3], [9, 7], [1, 0]]
)
TRIALS = np.array([[4, 0, 1], [3, 1, 1], [0, 2, 3], [1, 1, 3], [5, 0, 0], [3, 2, 0]] * 2)
MEANS = np.array([[0.0, 0.5], [4.0, 5.0]])
PRIORS = {"startprob_prior": 1.5, "transmat_prior": 2.0}
COVARS = {
    "diag": np.array([[1.0, 2.0], [1.5, 1.0]]),
    "spherical": np.array([1.0, 2.0]),
    "tied": np.array([[2.0, 0.3], [0.3, 1.0]]),
    "full": np.array([[[2.0, 0.3], [0.3, 1.0]], [[1.0, -0.2], [-0.2, 1.5]]]),
}
GAUSSIAN_PRIORS = {
    "means_prior": 1.0,
    "means_weight": 2.0,
    "covars_prior": 0.5,
    "covars_weight": 4.0,
    **PRIORS,
}
MIX = {"weights_prior": 2.0, "means_prior": 1.0, "means_weight": 0.5}
MIX_MEANS = np.stack([MEANS - np.array([0.5, 0.2]), MEANS + np.array([0.7, 0.1])], axis=1)
MIX_COVARS = {
    "diag": np.stack([COVARS["diag"], COVARS["diag"] + 1.0], axis=1),
    "spherical": np.array([[1.0, 2.0], [1.5, 1.0]]),
    "tied": COVARS["full"],
    "full": np.stack([COVARS["full"], COVARS["full"] + np.eye(2)], axis=1),
}
TABLE = np.array([[0.5, 0.2, 0.2, 0.1], [0.1, 0.4, 0.2, 0.3]])
RATES = np.array([[1.0, 2.0], [5.0, 6.0]])

# name -> (class, settings, emission parameters, data)
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], Any]] = {}
for kind, covars in COVARS.items():
    parameters = {"means_": MEANS, "covars_": covars}
    CASES[f"gaussian {kind}"] = ("GaussianHMM", {"covariance_type": kind}, parameters, VECTORS)
    settings = {"covariance_type": kind, **GAUSSIAN_PRIORS}
    CASES[f"gaussian {kind}, priors"] = ("GaussianHMM", settings, parameters, VECTORS)
    settings = {"covariance_type": kind, "n_mix": 2, **MIX}
    parameters = {
        "means_": MIX_MEANS,
        "covars_": MIX_COVARS[kind],
        "weights_": np.array([[0.4, 0.6], [0.7, 0.3]]),
    }
    CASES[f"mixture {kind}"] = ("GMMHMM", settings, parameters, VECTORS)
    settings = {**settings, "covars_prior": 1.0, "covars_weight": 0.7}
    CASES[f"mixture {kind}, priors"] = ("GMMHMM", settings, parameters, VECTORS)
EMISSIONS = {"emissionprob_": TABLE}
CASES |= {
    "categorical": ("CategoricalHMM", {}, EMISSIONS, SYMBOLS),
    "categorical, priors": (
        "CategoricalHMM",
        {"emissionprob_prior": 1.5, **PRIORS},
        EMISSIONS,
        SYMBOLS,
    ),
    "categorical, small priors": (
        "CategoricalHMM",
        {"emissionprob_prior": 0.1, "startprob_prior": 0.2, "transmat_prior": 0.1},
        EMISSIONS,
        SYMBOLS,
    ),
    "multinomial": (
        "MultinomialHMM",
        {"n_trials": 5},
        {"emissionprob_": np.array([[0.6, 0.3, 0.1], [0.2, 0.4, 0.4]])},
        TRIALS,
    ),
    "poisson": ("PoissonHMM", {}, {"lambdas_": RATES}, COUNTS),
    "poisson, priors": (
        "PoissonHMM",
        {"lambdas_prior": 2.0, "lambdas_weight": 3.0},
        {"lambdas_": RATES},
        COUNTS,
    ),
}
ATTRIBUTES = ("startprob_", "transmat_", "means_", "covars_", "weights_", "emissionprob_")
ATTRIBUTES += ("lambdas_",)


def make(name: str, module: Any, **settings: Any) -> Any:
    """Return a model with set parameters, not trained."""
    cls, case_settings, parameters, _ = CASES[name]
    case_settings = {"n_iter": 3, "tol": -1.0, **case_settings, **settings}
    model = getattr(module, cls)(2, init_params="", **case_settings)
    model.startprob_ = np.array([0.7, 0.3])
    model.transmat_ = np.array([[0.6, 0.4], [0.2, 0.8]])
    for attribute, value in parameters.items():
        setattr(model, attribute, value.copy())
    return model


def results(name: str, module: Any, **settings: Any) -> dict[str, Any]:
    """Return what the model computes before and after three iterations."""
    X = CASES[name][3]
    model = make(name, module, **settings)
    numbers: dict[str, Any] = {}
    for stage in ("before", "after"):
        if stage == "after":
            model.fit(X, LENGTHS)
            numbers["history"] = list(model.monitor_.history)
            for attribute in ATTRIBUTES:
                if hasattr(model, attribute):
                    numbers[attribute] = getattr(model, attribute).tolist()
        numbers[f"{stage}: score"] = model.score(X, LENGTHS)
        numbers[f"{stage}: one sequence"] = model.score(X)
        numbers[f"{stage}: posteriors"] = model.predict_proba(X, LENGTHS).tolist()
        for algorithm in ("viterbi", "map"):
            log_p, states = model.decode(X, LENGTHS, algorithm)
            numbers[f"{stage}: {algorithm}"] = [float(log_p), *map(float, states)]
        numbers[f"{stage}: criteria"] = [float(model.aic(X, LENGTHS)), float(model.bic(X, LENGTHS))]
        drawn, states = model.sample(5, random_state=3)
        numbers[f"{stage}: sample"] = [drawn.tolist(), states.tolist()]
    return numbers


if __name__ == "__main__":
    from hmmlearn import hmm

    NUMBERS.write_text(json.dumps({name: results(name, hmm) for name in CASES}, indent=1) + "\n")
