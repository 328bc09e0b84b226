"""How much the tests try: little in `make test`, everything in `make test-all`."""

import os

FULL = os.environ.get("TRELLIS_TESTS") == "all"
SANITIZED = "san.so" in os.environ.get("LD_PRELOAD", "")
"""True in `make sanitize`: a sanitizer reserves terabytes of addresses, and needs more memory."""


def examples(count: int, quick: int = 15) -> int:
    """The number of examples of a property: ``count``, or at most ``quick`` in a quick run."""
    return count if FULL else min(count, quick)
