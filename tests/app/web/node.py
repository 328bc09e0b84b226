"""Run the page's modules in node, and send arrays to them as the server does."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trellis

PACKAGE = Path(trellis.__file__).parent
MODULES = [
    *(PACKAGE / "plots" / "interactive").glob("*.js"),
    *(PACKAGE / "app" / "web" / "static").glob("*.js"),
]
FOLDER = Path(__file__).parent


def encode(array: Any) -> dict[str, Any] | None:
    """Return an array as in a sentence payload: shape, and base64 of little-endian float64."""
    if array is None:
        return None
    values = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": list(values.shape), "float64": base64.b64encode(values.tobytes()).decode()}


def decode(encoded: dict[str, Any]) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(encoded["float64"]), dtype="<f8")
    return values.reshape(encoded["shape"])


def run_node(script: str, value: Any, tmp_path: Path) -> Any:
    """Run ``script`` of this folder beside copies of the modules; JSON in, JSON out."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the page's modules cannot run")
    for module in [*MODULES, FOLDER / script]:
        shutil.copy(module, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    result = subprocess.run(
        [node, script],
        cwd=tmp_path,
        input=json.dumps(value),
        capture_output=True,
        text=True,
        timeout=120,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
