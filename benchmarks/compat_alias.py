"""A pytest plugin that replaces the libraries in TRELLIS_REPLACED by those of trellis.compat."""

from __future__ import annotations

import os
import sys

from trellis.compat import stand_in

stand_in(*os.environ["TRELLIS_REPLACED"].split(","))


def pytest_sessionfinish() -> None:
    """Check that no test has imported an original library again."""
    for name in os.environ["TRELLIS_REPLACED"].split(","):
        path = getattr(sys.modules[name], "__file__", "")
        assert f"compat{os.sep}{name}" in str(path), (
            f"{name} was imported from {path}, expected trellis.compat"
        )
