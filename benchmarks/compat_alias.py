"""pytest plugin: replaces the libraries in TRELLIS_FACES by their faces."""

from __future__ import annotations

import os
import sys

from trellis.compat import stand_in

stand_in(*os.environ["TRELLIS_FACES"].split(","))


def pytest_sessionfinish() -> None:
    """Check that no test has imported an original again."""
    for name in os.environ["TRELLIS_FACES"].split(","):
        path = getattr(sys.modules[name], "__file__", "")
        assert f"compat{os.sep}{name}" in str(path), f"{name} is {path}"
