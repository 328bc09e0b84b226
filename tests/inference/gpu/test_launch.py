"""Repeated launches of compiled kernels, and the cache of launch plans."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
triton = pytest.importorskip("triton", reason="Triton is not installed")

from trellis.inference.gpu import launch as module  # noqa: E402
from trellis.inference.gpu.launch import find_plan, signature  # noqa: E402


class Kernel(triton.JITFunction):
    """A kernel whose launch returns the compiled kernel, without a GPU."""

    arg_names = ("x", "n", "block", "flag")  # type: ignore[assignment]

    def __init__(self) -> None:
        pass

    def __getitem__(self, grid: Any) -> Any:
        compiled = SimpleNamespace(run="run", function=7, packed_metadata="packed")
        return lambda *arguments, **constants: compiled


@pytest.mark.parametrize("version", [(3, 6), (3, 9), (4, 0)])
def test_a_launch_is_repeated_with_the_constants_at_the_end(
    version: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_VERSION", version)
    constants = {"flag": True, "block": 16, "num_warps": 4}
    first = module._launch_first(Kernel(), 2, ("tensor", 3), constants)
    assert first == ("run", (7, "packed", None, None, None), [16, True])


def test_older_versions_launch_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_VERSION", (3, 5))
    assert module._launch_first(Kernel(), 2, ("tensor", 3), {"flag": True, "block": 16}) is None


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
