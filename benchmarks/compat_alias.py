"""A pytest plugin: the faces that TRELLIS_FACES names stand in for the originals."""

from __future__ import annotations

import os
import sys

from trellis.compat import stand_in

stand_in(*os.environ["TRELLIS_FACES"].split(","))


def pytest_sessionfinish() -> None:
    """The originals must not have come back."""
    for name in os.environ["TRELLIS_FACES"].split(","):
        found = getattr(sys.modules[name], "__file__", "")
        assert f"compat{os.sep}{name}" in str(found), f"{name} is {found}"
