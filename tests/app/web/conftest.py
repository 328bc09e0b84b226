"""A small model, and a server that shows it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import trellis

if TYPE_CHECKING:
    from serving import Client


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from serving import write_demo

    return write_demo(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def model(model_path: Path) -> Any:
    return trellis.load(model_path)


@pytest.fixture(scope="module")
def client(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Client]":
    from serving import serve

    folder = tmp_path_factory.mktemp("saved")
    files = {"data": model_path.parent / "dev.conll", "train": model_path.parent / "train.conll"}
    with serve(model_path, model_path, save=folder, **files) as client:
        yield client
