"""Imports only point up the house: data, features, inference, optim, models, the rest."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "trellis"

# A room may import from itself and from rooms with a smaller number.
ROOMS = {
    "errors": 0,
    "_core": 0,
    "native": 1,
    "data": 2,
    "features": 3,
    "inference": 4,
    "optim": 5,
    "formats": 6,
    "metrics": 6,
    "plots": 6,
    "models": 7,
    "embeddings": 7,
    "nn": 8,
    "loading": 9,
    "compat": 10,
    "app": 11,
}
FILES = sorted(SOURCE.rglob("*.py"))


def imported_modules(file: Path) -> list[str]:
    """Absolute names of all modules that a file imports, wherever in the file."""
    names = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide where a name comes from"
            module = node.module or ""
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_point_up(file: Path) -> None:
    room = room_of(file)
    for name in imported_modules(file):
        if not name.startswith("trellis."):
            continue
        if room == "__init__":
            pytest.fail(f"{file.name} imports {name}: the package must load nothing by itself")
        other = name.split(".")[1]
        assert other in ROOMS, f"{name} is in no room of the design"
        allowed = other == room or ROOMS[other] < ROOMS[room]
        assert allowed, f"{room} must not import {name}: imports only point up the house"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_torch_stays_in_its_rooms(file: Path) -> None:
    may = room_of(file) == "nn" or (room_of(file) == "inference" and file.name.startswith("triton"))
    torch = [n for n in imported_modules(file) if n.split(".")[0] in ("torch", "triton")]
    assert may or not torch, f"{file.relative_to(SOURCE)} imports {torch}"


def test_every_file_has_a_room() -> None:
    assert len(FILES) > 5
    for file in FILES:
        assert room_of(file) in {*ROOMS, "__init__"}, f"{file.name} stands in no room of the design"


def test_native_core_does_not_know_python() -> None:
    core = SOURCE.parent.parent / "cpp"
    sources = [f for room in ("core", "isa", "tests") for f in (core / room).glob("*.[hc]pp")]
    assert len(sources) > 10
    for file in sources:
        text = file.read_text(encoding="utf-8")
        assert "Python.h" not in text, file.name
        assert "nanobind" not in text, file.name
