"""Default values of every public function, method and command, and constants, in a written table.

tests/signatures.txt has one line per callable that has default values, and per public constant.
They are part of the interface: to change one, change its line too, or write the whole table with
`python tests/test_signatures.py`.
"""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trellis
from trellis.app.cli.declarations import REQUIRED, Group, flatten
from trellis.app.cli.main import COMMANDS

TABLE = Path(__file__).parent / "signatures.txt"
GPU = ("triton", "kernels_", "inference.gpu", "cuda_graph")
"""Modules that are imported only where Triton is installed."""


def list_modules() -> Iterator[Any]:
    """Yield every public module that can be imported here."""
    for info in pkgutil.walk_packages(trellis.__path__, "trellis."):
        is_private = "._" in info.name or info.name.endswith("__main__")
        if not is_private and not any(part in info.name for part in GPU):
            try:
                yield importlib.import_module(info.name)
            except ModuleNotFoundError as error:  # an optional dependency
                if error.name is None or error.name.startswith("trellis"):
                    raise


def show(value: object) -> str:
    """Return a default value without addresses."""
    if inspect.isroutine(value) or inspect.isclass(value):
        return value.__qualname__
    return repr(value) if " at 0x" not in repr(value) else type(value).__name__


OPTIONAL = {"PACKED_SUFFIXES"}
"""Constants that depend on the installed packages."""


@functools.cache
def list_constants(module: Any) -> set[str]:
    """Return the public names in capitals that the source of a module defines."""
    names = re.findall(r"^([A-Z][A-Z0-9_]*)\b[^=\n]*=", inspect.getsource(module), re.MULTILINE)
    return {*names} - OPTIONAL


def is_plain(value: object) -> bool:
    """Return whether a constant consists of numbers and texts."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return isinstance(value, bool | int | float | str)


def show_defaults(function: Any) -> str:
    parameters = inspect.signature(function).parameters.values()
    return ", ".join(f"{p.name}={show(p.default)}" for p in parameters if p.default is not p.empty)


def show_fields(cls: type) -> str:
    shown = []
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            shown.append(f"{field.name}={show(field.default)}")
        elif field.default_factory is not dataclasses.MISSING:
            shown.append(f"{field.name}={show(field.default_factory())}")
    return ", ".join(shown)


def list_methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name, attribute in vars(cls).items():
        function = getattr(attribute, "__func__", attribute)
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            yield name, function


def list_defaults() -> Iterator[tuple[str, str]]:
    """Yield the name and the default values of each public callable, sorted within a module."""
    for module in list_modules():
        for name, member in sorted(vars(module).items()):
            if name in list_constants(module) and is_plain(member):
                yield f"{module.__name__}.{name}", show(member)
            is_private = name.startswith("_") and name not in getattr(module, "__all__", ())
            if is_private or getattr(member, "__module__", None) != module.__name__:
                continue
            path = f"{module.__name__}.{name}"
            if inspect.isclass(member):
                if dataclasses.is_dataclass(member):
                    yield path, show_fields(member)
                elif issubclass(member, tuple):
                    yield (
                        path,
                        ", ".join(
                            f"{field}={show(value)}"
                            for field, value in getattr(member, "_field_defaults", {}).items()
                        ),
                    )
                for method, function in list_methods(member):
                    if not (dataclasses.is_dataclass(member) and method == "__init__"):
                        yield f"{path}.{method}", show_defaults(function)
            elif inspect.isfunction(member):
                yield path, show_defaults(member)


def list_options(group: Group, words: str) -> Iterator[tuple[str, str]]:
    """Yield each command and the flags, the default values and the bounds of its options."""
    for name, source in group.commands.items():
        if isinstance(source, Group):
            yield from list_options(source, f"{words} {name}")
            continue
        for parameter in flatten(importlib.import_module(source).Options):
            default = "required" if parameter.default is REQUIRED else show(parameter.default)
            low, high = (getattr(parameter.declaration, bound, None) for bound in ("min", "max"))
            bounds = f" in {low}..{high}" if (low, high) != (None, None) else ""
            flags = ", ".join(parameter.flags) or parameter.name
            metavar = parameter.declaration.metavar or ""
            about = f"{metavar} {parameter.declaration.help}".strip()
            yield f"{words} {name}", f"{flags} = {default}{bounds}: {about}"


def make_table() -> list[str]:
    """Return the lines of the table for the installed package."""
    lines = [f"{path}({defaults})" for path, defaults in list_defaults() if defaults]
    return lines + [f"{command}: {option}" for command, option in list_options(COMMANDS, "trellis")]


def test_defaults_are_those_of_the_table() -> None:
    pytest.importorskip("torch")
    table = TABLE.read_text(encoding="utf-8").splitlines()
    actual = make_table()
    assert [line for line in actual if line not in table] == []
    assert [line for line in table if line not in actual] == []


if __name__ == "__main__":
    TABLE.write_text("\n".join(make_table()) + "\n", encoding="utf-8")
