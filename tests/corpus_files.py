"""The corpora that tests read: the look-up of benchmarks/corpora.py, and marks that skip tests.

>>> needs_corpus("ner/wnut17.dev.conll.gz").name
'skipif'
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

__all__ = ["find_corpus", "missing_corpus", "needs_corpus"]


def _load_benchmark_module() -> Any:
    # by path: the folder benchmarks/ on sys.path would hide modules with common names
    path = Path(__file__).resolve().parent.parent / "benchmarks" / "corpora.py"
    spec = importlib.util.spec_from_file_location("benchmarks_corpora", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_corpora = _load_benchmark_module()


def find_corpus(name: str = "") -> Path:
    """Return the path of a file or folder of the corpora, which may be absent."""
    path: Path = _corpora.find(name)
    return path


def missing_corpus(name: str) -> str:
    """Return the reason to skip a test: what is missing, and how to get it."""
    reason: str = _corpora.missing(name)
    return reason


def needs_corpus(name: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test if this file or folder is absent."""
    return pytest.mark.skipif(not find_corpus(name).exists(), reason=missing_corpus(name))
