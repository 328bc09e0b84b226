"""The interactive lattice: modules in JavaScript, and pages that contain them."""

from trellis.plots.interactive.bundle import (
    STATE_MARK,
    as_script_data,
    inline_page,
    join_modules,
)
from trellis.plots.interactive.embedding import (
    Lattice,
    embed,
    modules_once,
    pack,
    sentence_payload,
)

__all__ = [
    "STATE_MARK",
    "Lattice",
    "as_script_data",
    "embed",
    "inline_page",
    "join_modules",
    "modules_once",
    "pack",
    "sentence_payload",
]
