"""Repeated launches of compiled kernels, and the cache of launch plans."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("triton", reason="Triton is not installed")

from trellis.inference.gpu import launch as module  # noqa: E402
from trellis.inference.gpu.launch import find_plan, signature  # noqa: E402


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
def test_other_versions_use_tritons_function(version: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_VERSION", version)
    kernel = compiled(0)
    assert module._entry_point(kernel) == (kernel.run, (7, "packed", None, None, None))


def test_known_version_skips_tritons_function(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_VERSION", (3, 6))
    arguments = (7, False, True, None, None, "packed", None, None, None)
    assert module._entry_point(compiled(0)) == ("launch", arguments)
    kernel = compiled(64)  # Triton allocates scratch memory
    assert module._entry_point(kernel)[0] is kernel.run


def test_signatures_differ_in_all_but_values() -> None:
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
    keys = [signature("sum", y) for y in (x, *others)]
    assert len(set(keys)) == len(keys)
    assert signature("sum", x + 1) == keys[0] != signature("mean", x)
    assert signature("sum", x, None) != signature("sum", None, x)


@pytest.mark.parametrize("argument", [[1, 2], 3, "tags"])
def test_no_signature_without_tensors(argument: Any) -> None:
    assert signature(None, torch.zeros(1), argument) is None


def test_plans_are_built_once_and_dropped_if_there_are_too_many(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_MAX_PREPARED", 2)
    monkeypatch.setattr(module, "_prepared", {})
    built = []

    def build(batch: Any, settings: int) -> int:
        built.append(settings)
        return -settings

    plans = [find_plan(build, (torch.zeros(1),), (n,), lambda x: x)[0] for n in (1, 1, 2, 3)]
    assert plans == [-1, -1, -2, -3]
    assert built == [1, 2, 3]
    assert list(module._prepared.values()) == [-3]


def test_only_new_signatures_are_validated(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_prepared", {})
    validated = []

    def validate(batch: Any) -> Any:
        validated.append(batch)
        return tuple(torch.as_tensor(x) for x in batch)

    for batch in ((torch.zeros(2),), (torch.ones(2),), ([1.0, 2.0],), ([1.0, 2.0],)):
        plan, (tensor,) = find_plan(lambda batch: "plan", batch, (), validate)
        assert plan == "plan"
        assert tensor.shape == (2,)
    # The lambda is new in each call, so each call builds a plan. A list never has a signature.
    assert len(validated) == 4
    for value in (1.0, 2.0):
        find_plan(str, (torch.full((3,), value),), (), validate)
    assert len(validated) == 5
