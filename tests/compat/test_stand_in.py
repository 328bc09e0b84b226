"""`stand_in` makes all later imports of a library return its replacement."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trellis import compat
from trellis.compat import stand_in
from trellis.errors import InputError


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("before", ["", "import pycrfsuite"])
def test_imports_return_the_replacement(before: str) -> None:
    pytest.importorskip("pycrfsuite")
    code = f"""
{before}
from trellis.compat import stand_in
stand_in("pycrfsuite", "sklearn_crfsuite")
import pycrfsuite, sklearn_crfsuite
from pycrfsuite._logparser import TrainLogParser
from sklearn_crfsuite import metrics
from sklearn_crfsuite.trainer import LinePerIterationTrainer
print(pycrfsuite.__name__, TrainLogParser.__module__, metrics.__name__)
assert issubclass(LinePerIterationTrainer, pycrfsuite.Trainer)
"""
    assert run(code) == (
        "trellis.compat.pycrfsuite trellis.compat.pycrfsuite._logparser "
        "trellis.compat.sklearn_crfsuite.metrics"
    )


def test_submodules_of_pyctcdecode() -> None:
    code = """
from trellis.compat import stand_in
stand_in("pyctcdecode")
import pyctcdecode
from pyctcdecode.alphabet import BLANK_TOKEN_PTN, UNK_TOKEN
from pyctcdecode.constants import DEFAULT_ALPHA
from pyctcdecode.decoder import build_ctcdecoder
from pyctcdecode.language_model import LanguageModel
assert build_ctcdecoder is pyctcdecode.build_ctcdecoder
print(DEFAULT_ALPHA, LanguageModel.__module__)
"""
    assert run(code) == "0.5 trellis.compat.pyctcdecode.language_model"


def test_library_without_a_replacement() -> None:
    with pytest.raises(InputError, match="'numpy' has no replacement"):
        stand_in("numpy")


def test_old_name_of_the_constant() -> None:
    with pytest.warns(DeprecationWarning, match="use trellis.compat.REPLACEMENTS"):
        assert compat.FACES == compat.REPLACEMENTS
    with pytest.raises(AttributeError, match="no attribute 'NAMES'"):
        compat.NAMES  # noqa: B018
