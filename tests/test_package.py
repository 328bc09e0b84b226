"""What `import trellis` does and does not do, and that the examples in the docstrings are right."""

import doctest
import importlib
import os
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
    """A new interpreter, outside the source tree."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=Path(sys.executable).parent,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_import_is_lazy() -> None:
    code = f"import sys, trellis; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python(code).stdout.strip() == "[]"


def test_inference_pulls_in_numpy_alone() -> None:
    code = f"import sys, trellis.inference.chain; print([m for m in {HEAVY!r} if m in sys.modules])"
    assert run_python(code).stdout.strip() == "['numpy']"


def test_public_names() -> None:
    assert dir(trellis) == sorted(trellis.__all__)
    for name in trellis.__all__:
        assert getattr(trellis, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        trellis.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match="no_such_engine"):
        trellis.inference.no_such_engine  # noqa: B018


def test_version_is_said_once() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{trellis.__version__}"' in text


def test_errors_are_value_errors() -> None:
    assert issubclass(InputError, TrellisError)
    assert issubclass(InputError, ValueError)
    assert issubclass(InfeasibleError, TrellisError)
    assert issubclass(InfeasibleError, ValueError)


def modules() -> list[str]:
    found = pkgutil.walk_packages(trellis.__path__, "trellis.")
    return ["trellis", *sorted(m.name for m in found if m.name != "trellis._core")]


@pytest.mark.parametrize("name", modules())
def test_worked_examples(name: str) -> None:
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.failed == 0


def test_public_functions_have_worked_examples() -> None:
    from trellis.inference import chain

    for name in chain.__all__:
        thing = getattr(chain, name)
        if not isinstance(thing, type):
            assert ">>>" in (thing.__doc__ or ""), f"chain.{name} shows no example"


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
    for bad in (0, 1.5, "two", True):
        with pytest.raises(InputError, match="n_jobs"):
            native.resolve_jobs(bad)  # type: ignore[arg-type]
