"""Constants that contain numbers, in a written table: limits, sizes of buffers, tables of settings.

tests/constants.txt has one line per constant of a module or a class, public or private. Other tests
show what a limit does. This one notices a change of those that only change the speed or the use of
memory, which no other test sees: measurements chose them. To change one, change its line too, or
write the whole table with `python tests/test_constants.py`.
"""

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_signatures import list_modules

TABLE = Path(__file__).parent / "constants.txt"
PRIVATE = ("trellis._renamed", "trellis.compat.pycrfsuite._logparser")
"""Private modules that have constants."""
VARIABLE = {"_THREADS", "thread"}
"""Names of constants, and keys of tables, that depend on the machine."""


def list_names(body: list[ast.stmt], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the class, "" in the module, and the name of each variable that is assigned there."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from list_names(node.body, f"{path}.{node.name}".lstrip("."))
        elif isinstance(node, ast.Assign):
            for name in ast.walk(ast.Tuple(node.targets)):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield path, name.id
        elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            yield path, node.target.id


def find_value(scope: Any, name: str) -> Any:
    """Return the value of a variable of a module or a class, or the default value of a field."""
    defaults = getattr(scope, "_field_defaults", {})
    if dataclasses.is_dataclass(scope):
        defaults = {field.name: field.default for field in dataclasses.fields(scope)}
    return defaults.get(name, getattr(scope, name, None))


def show(value: Any) -> str:
    """Return a value without addresses, and with the elements of sets in order."""
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(show, value)))}}}"
    if isinstance(value, dict):
        items = {key: item for key, item in value.items() if key not in VARIABLE}
        return f"{{{', '.join(f'{show(key)}: {show(item)}' for key, item in items.items())}}}"
    if isinstance(value, tuple | list):
        name = "" if type(value) in (tuple, list) else type(value).__name__
        return f"{name}({', '.join(map(show, value))})"
    if isinstance(value, np.ndarray):
        return f"{value.tolist()} {value.dtype}"
    if isinstance(value, bool | int | float | str | bytes | slice | None):
        return repr(value)
    return getattr(value, "__qualname__", type(value).__name__)


def has_number(value: Any) -> bool:
    """Return whether a constant has numbers."""
    if isinstance(value, dict):
        return any(map(has_number, [*value, *value.values()]))
    if isinstance(value, tuple | list | set | frozenset):
        return any(map(has_number, value))
    return isinstance(value, bool | int | float | slice | np.ndarray)


def make_table() -> list[str]:
    """Return the lines of the table for the installed package."""
    lines = []
    for module in [*list_modules(), *map(importlib.import_module, PRIVATE)]:
        for class_path, name in list_names(ast.parse(inspect.getsource(module)).body):
            scope = module
            for part in filter(None, class_path.split(".")):
                scope = getattr(scope, part)
            is_constant = bool(class_path) or name.isupper()
            value = find_value(scope, name)
            path = ".".join(filter(None, (module.__name__, class_path, name)))
            if is_constant and has_number(value) and name not in VARIABLE:
                lines.append(f"{path} = {show(value)}")
    return lines


def test_constants_are_those_of_the_table() -> None:
    pytest.importorskip("torch")
    table = TABLE.read_text(encoding="utf-8").splitlines()
    actual = make_table()
    assert [line for line in actual if line not in table] == []
    assert [line for line in table if line not in actual] == []


if __name__ == "__main__":
    TABLE.write_text("\n".join(make_table()) + "\n", encoding="utf-8")
