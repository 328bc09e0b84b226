"""The modules that `import trellis` loads, the base class of estimators, docstring examples."""

import doctest
import importlib
import os
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import trellis
from trellis import native
from trellis.errors import InfeasibleError, InputError, TrellisError

ROOT = Path(__file__).parent.parent
HEAVY = ("torch", "sklearn", "scipy", "dask", "numpy", "uvicorn", "fastapi")


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter, outside the source tree."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=Path(sys.executable).parent,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_import_is_lazy() -> None:
    code = f"import sys, trellis; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


def test_inference_imports_numpy_only() -> None:
    code = f"import sys, trellis.inference.chain; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python(code).stdout.strip() == "['numpy']"


# ---- the base class of estimators: scikit-learn's in programs, not in the trellis command

ESTIMATORS = (
    *("CRF", "MEMM", "HMM", "LogisticRegression", "SoftmaxRegression", "GraphCRF", "GridCRF"),
    *("Word2Vec", "FastText", "TextClassifier"),
)


def test_estimators_are_scikit_learn_estimators() -> None:
    from sklearn.base import BaseEstimator, clone

    for name in ESTIMATORS:
        cls = getattr(trellis, name)
        assert issubclass(cls, BaseEstimator), name
        assert clone(cls()).get_params() == cls().get_params()


LOAD_AND_PREDICT = """
import sys
from trellis import estimator
{switch}
import trellis
model = trellis.load({path!r})
print(model.predict([["the", "cat", "barks"]])[0])
print(repr(model), model.get_params()["l2"])
print([name for name in ("sklearn", "scipy") if name in sys.modules])
"""


def test_a_command_loads_neither_scikit_learn_nor_scipy(tmp_path: Path) -> None:
    X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
    model = trellis.CRF(l2=0.1, solver_options={}).fit(X, [["DET", "NOUN", "VERB"]] * 2)
    path = str(tmp_path / "model.trellis")
    model.save(path)
    code = LOAD_AND_PREDICT.format(switch="estimator.run_without_sklearn()", path=path)
    result = run_python(code)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        "['DET', 'NOUN', 'VERB']",
        "CRF(l2=0.1, solver_options={}) 0.1",
        "[]",
    ]
    library = run_python(LOAD_AND_PREDICT.format(switch="", path=path))
    assert library.stdout.splitlines()[-1] == "['sklearn', 'scipy']"


def test_the_switch_comes_too_late_for_imported_models() -> None:
    code = """
from trellis import CRF, estimator
estimator.run_without_sklearn()
from sklearn.base import BaseEstimator
print(issubclass(CRF, BaseEstimator), estimator.Estimator is BaseEstimator)
"""
    assert run_python(code).stdout.strip() == "True True"


def test_light_estimators_keep_the_conventions() -> None:
    code = """
from trellis import estimator
estimator.run_without_sklearn()
from trellis import CRF
from trellis.errors import InputError
crf = CRF(l2=0.5, max_iter=3)
copy = estimator.clone(crf).set_params(l1=0.25)
print(crf, copy, copy.get_params() == crf.get_params() | {"l1": 0.25})
try:
    crf.set_params(l3=1)
except InputError as error:
    print(str(error)[:46])
try:
    crf.predict([["a"]])
except Exception as error:
    print(type(error).__module__, error)
"""
    assert run_python(code).stdout.splitlines() == [
        "CRF(l2=0.5, max_iter=3) CRF(l2=0.5, l1=0.25, max_iter=3) True",
        "'l3' is not a parameter of CRF: must be one of",
        "sklearn.exceptions this CRF is not fitted yet: call fit first",
    ]


# ---- public names


def test_public_names() -> None:
    assert dir(trellis) == sorted(trellis.__all__)
    for name in trellis.__all__:
        assert getattr(trellis, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        trellis.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_engine"):
        trellis.inference.no_such_engine  # noqa: B018


def test_the_version_is_the_same_in_pyproject() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{trellis.__version__}"' in text


def test_errors_are_value_errors() -> None:
    assert issubclass(InputError, TrellisError)
    assert issubclass(InputError, ValueError)
    assert issubclass(InfeasibleError, TrellisError)
    assert issubclass(InfeasibleError, ValueError)


def test_errors_carry_the_index_of_the_sequence() -> None:
    error = InputError("sequence {sequence}: label '{sequence}' is unknown", sequence=2)
    assert str(error) == "sequence 2: label '{sequence}' is unknown"  # text of the user stays
    for moved in (error.renumbered(7), pickle.loads(pickle.dumps(error.renumbered(7)))):
        assert type(moved) is InputError
        assert (moved.sequence, str(moved)) == (7, "sequence 7: label '{sequence}' is unknown")
    assert (InputError("no index").sequence, str(InputError("{sequence}"))) == (None, "{sequence}")


def modules() -> list[str]:
    packages = pkgutil.walk_packages(trellis.__path__, "trellis.")
    return ["trellis", *sorted(m.name for m in packages if m.name != "trellis._core")]


@pytest.mark.parametrize("name", modules())
def test_worked_examples(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.failed == 0


def test_public_functions_have_worked_examples() -> None:
    from trellis.inference import chain

    for name in chain.__all__:
        function = getattr(chain, name)
        if not isinstance(function, type):
            assert ">>>" in (function.__doc__ or ""), f"chain.{name} shows no example"


@pytest.mark.parametrize("isa", native.available_isas())
def test_isa_can_be_forced(isa: str) -> None:
    code = "from trellis import native; print(native.isa())"
    for name in (isa, isa.removeprefix("x86-64-")):
        assert run_python(code, TRELLIS_ISA=name).stdout.strip() == isa


def test_best_isa_is_the_default() -> None:
    code = "from trellis import native; print(native.isa())"
    assert run_python(code, TRELLIS_ISA="").stdout.strip() == native.available_isas()[-1]


def test_unknown_isa() -> None:
    result = run_python("from trellis import native", TRELLIS_ISA="v9")
    assert result.returncode != 0
    assert "'v9'" in result.stderr
    assert native.available_isas()[-1] in result.stderr
    with pytest.raises(InputError, match="sparc"):
        native.use_isa("sparc")
    with pytest.raises(InputError, match="3"):
        native.use_isa(3)  # type: ignore[arg-type]


def test_jobs() -> None:
    cores = native.resolve_jobs(None)
    assert cores >= 1
    assert native.resolve_jobs(-1) == cores
    assert native.resolve_jobs(-1000) == 1
    assert native.resolve_jobs(3) == 3
    assert native.resolve_jobs(10**9) < 10**4
    for invalid in (0, 1.5, "two", True):
        with pytest.raises(InputError, match="n_jobs"):
            native.resolve_jobs(invalid)  # type: ignore[arg-type]
