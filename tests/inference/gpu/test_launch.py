"""How a compiled kernel is launched again: Triton's own way unless the version is one we know."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

from trellis.inference.gpu import launch as module


def compiled(scratch: int) -> Any:
    run = SimpleNamespace(
        launch="launch",
        launch_cooperative_grid=False,
        launch_pdl=True,
        global_scratch_size=scratch,
        profile_scratch_size=0,
    )
    return SimpleNamespace(run=run, function=7, packed_metadata="packed")


@pytest.mark.parametrize("version", [(3, 7), (3, 9), (4, 0)])
def test_unknown_versions_launch_as_triton_does(version: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_VERSION", version)
    kernel = compiled(0)
    assert module._entry(kernel) == (kernel.run, (7, "packed", None, None, None))


def test_known_ones_go_past_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_VERSION", (3, 6))
    due = (7, False, True, None, None, "packed", None, None, None)
    assert module._entry(compiled(0)) == ("launch", due)
    kernel = compiled(64)  # scratch memory is Triton's to find
    assert module._entry(kernel)[0] is kernel.run
