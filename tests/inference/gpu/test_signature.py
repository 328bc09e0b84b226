"""What calls are remembered by."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trellis.inference.gpu import signature as module  # noqa: E402
from trellis.inference.gpu.signature import kinds_of, remembered  # noqa: E402


def test_kinds_tell_apart_all_but_numbers() -> None:
    x = torch.zeros(2, 3)
    others = [
        x.t(),
        x[:, :2],
        x.double(),
        x.to("meta"),
        torch.nn.Parameter(x),
        None,
        x.expand(1, 2, 3),
    ]
    others.append(torch.zeros(1, 1).expand(2, 3))
    others.append(x.to_sparse())
    kinds = [kinds_of("sum", y) for y in (x, *others)]
    assert len(set(kinds)) == len(kinds)
    assert kinds_of("sum", x + 1) == kinds[0] != kinds_of("mean", x)
    assert kinds_of("sum", x, None) != kinds_of("sum", None, x)


@pytest.mark.parametrize("thing", [[1, 2], 3, "tags"])
def test_what_is_no_plain_tensor_has_none(thing: Any) -> None:
    assert kinds_of(None, torch.zeros(1), thing) is None


def test_very_many_keys_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    steps: dict[Any, Any] = {}
    made = [remembered(steps, key, lambda key=key: -key) for key in (1, 1, 2, 3)]  # type: ignore[misc]
    assert made == [-1, -1, -2, -3]
    assert steps == {3: -3}
