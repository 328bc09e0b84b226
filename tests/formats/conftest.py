"""A small file with every type of content."""

from pathlib import Path

import pytest
from native_files import META, some_tensors

from trellis.formats import native


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.trellis"
    native.write(path, "crf", META, some_tensors())
    return path
