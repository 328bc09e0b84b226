"""Bad input raises an InputError that names the argument and its value."""

from typing import Any

import numpy as np
import pytest
from problems import logistic

from trellis.errors import InputError, OptimizationError
from trellis.optim import LbfgsState, gradient_ascent, lbfgs, newton

OBJECTIVE, HESSIAN = logistic(rows=20, n=4)
W0 = np.zeros(4)


def run(name: str, objective: Any = OBJECTIVE, w0: Any = W0, **keywords: Any) -> Any:
    if name == "newton":
        return newton(objective, keywords.pop("hessian", HESSIAN), w0, **keywords)
    return {"lbfgs": lbfgs, "gradient": gradient_ascent}[name](objective, w0, **keywords)


every = pytest.mark.parametrize("name", ["lbfgs", "gradient", "newton"])


@every
@pytest.mark.parametrize(
    ("w0", "says"),
    [
        (np.zeros((2, 2)), r"\(2, 2\)"),
        ([], r"\(0,\)"),
        (3.0, r"\(\)"),
        ("weights", "weights"),
        ([0.0, np.nan, 0.0, 0.0], "nan at position 1"),
        ([0.0, 0.0, np.inf, 0.0], "inf at position 2"),
    ],
)
def test_w0(name: str, w0: Any, says: str) -> None:
    with pytest.raises(InputError, match=f"w0.*{says}"):
        run(name, w0=w0)


@every
def test_objective(name: str) -> None:
    with pytest.raises(InputError, match="objective"):
        run(name, objective=3)
    with pytest.raises(InputError, match="number, not None"):
        run(name, objective=lambda w, gradient: None)


@every
@pytest.mark.parametrize("bad", [-1, 1.5, "many"])
def test_max_iter(name: str, bad: Any) -> None:
    with pytest.raises(InputError, match=f"max_iter.*{bad}"):
        run(name, max_iter=bad)


@pytest.mark.parametrize("name", ["gradient", "newton"])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, "low"])
def test_tolerance(name: str, bad: Any) -> None:
    with pytest.raises(InputError, match=f"tolerance.*{bad}"):
        run(name, tolerance=bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, "short"])
def test_step(bad: Any) -> None:
    with pytest.raises(InputError, match="step"):
        run("gradient", step=bad)


@pytest.mark.parametrize(
    ("argument", "bad"),
    [
        ("l1", -1.0),
        ("l1", np.nan),
        ("l1", np.inf),
        ("l1", "strong"),
        ("epsilon", -1e-3),
        ("delta", np.nan),
        ("period", -1),
        ("period", 2.5),
        ("memory", 0),
        ("memory", True),
        ("memory", 10**6),
        ("max_linesearch", 0),
        ("linesearch", "newton"),
        ("n_jobs", 0),
        ("n_jobs", "two"),
        ("state", "state"),
    ],
)
def test_lbfgs_arguments(argument: str, bad: Any) -> None:
    with pytest.raises(InputError, match=argument):
        run("lbfgs", **{argument: bad})


def test_linesearch_with_l1() -> None:
    with pytest.raises(InputError, match="backtracking with l1 > 0, not more-thuente"):
        run("lbfgs", l1=1.0, linesearch="more-thuente")


@pytest.mark.parametrize("bad", [np.ones(3, dtype=bool), np.ones(4), [[True] * 4], "all"])
def test_penalised(bad: Any) -> None:
    with pytest.raises(InputError, match="penalised must be a bool array"):
        run("lbfgs", l1=1.0, penalised=bad)


def test_hessian() -> None:
    with pytest.raises(InputError, match=r"Hessian.*\(4, 4\).*\(4,\)"):
        run("newton", hessian=lambda w: np.ones(4))
    with pytest.raises(OptimizationError, match="Hessian is not finite"):
        run("newton", hessian=lambda w: np.full((4, 4), np.inf))


def test_states_that_do_not_fit() -> None:
    state = run("lbfgs", max_iter=3).state
    with pytest.raises(InputError, match=r"w0 has shape \(3,\).*\(4,\)"):
        run("lbfgs", w0=np.zeros(3), state=state)
    with pytest.raises(InputError, match=r"memory is 2.*3 pairs"):
        run("lbfgs", memory=2, state=state)
    arrays = state.to_arrays()
    for name, bad in {
        "w": np.zeros(3),
        "gradient": np.zeros((4, 1)),
        "losses": np.zeros(0),
        "lowest": np.zeros(2),
        "counts": np.zeros(2, dtype=np.int64),
        "s": np.zeros((3, 5)),
        "y": np.zeros((2, 4)),
    }.items():
        with pytest.raises(InputError, match=r"must be \[\("):
            LbfgsState.from_arrays(arrays | {name: bad})
        with pytest.raises(InputError, match=f"has no {name}"):
            LbfgsState.from_arrays({k: v for k, v in arrays.items() if k != name})
    with pytest.raises(InputError, match="y of a state of L-BFGS is not finite"):
        LbfgsState.from_arrays(arrays | {"y": np.full((3, 4), np.nan)})
    with pytest.raises(InputError, match="must contain only numbers"):
        LbfgsState.from_arrays(arrays | {"w": np.array(["a", "b", "c", "d"])})
