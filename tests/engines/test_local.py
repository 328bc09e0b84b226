"""The tree of sums, the files and the memory of tasks, and the engine of one machine."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.engines import Dask, Local, storage
from trellis.engines.base import Engine, make_blocks
from trellis.engines.storage import Placed, Shared, checkout, give_back
from trellis.engines.tasks import Task, run_block
from trellis.engines.tree import TreeSum, block_size, split
from trellis.errors import EngineError, InputError


def joined(a: Any, b: Any) -> str:
    return f"({a}{b})"


def tree(items: list[str]) -> str:
    """Return the sum by the definition."""
    if len(items) == 1:
        return items[0]
    first = max(1 << k for k in range(20) if 1 << k < len(items))
    return joined(tree(items[:first]), tree(items[first:]))


@pytest.mark.parametrize("n", range(1, 40))
def test_blocks_of_any_size_are_subtrees(n: int) -> None:
    items = [chr(97 + i) for i in range(n)]
    assert n == 1 or split(n) == max(1 << k for k in range(20) if 1 << k < n)
    for size in (1, 2, 4, 8, 64):
        total = TreeSum(joined)
        for begin in range(0, n, size):
            part = TreeSum(joined)
            for item in items[begin : begin + size]:
                part.push(item)
            total.push(part.result())
        assert total.result() == tree(items)
    assert n // block_size(n, 5) >= min(n, 5)


def double(x: Any) -> Any:
    return 2 * x


def fail_at(x: Any, wrong: int) -> int:
    if x == wrong:
        raise InputError(f"{x} is wrong")
    return int(x)


def as_array(x: int, offset: Shared) -> dict[str, Any]:
    with open(os.environ["TRELLIS_TEST_LOG"], "a") as log:
        log.write(f"{x}\n")
    return {"x": np.array([x + offset.value]), "none": np.zeros((0, 3))}


def get(placed: Placed, factor: Any) -> Any:
    return factor * placed.load()["x"]


ENGINES = {
    "1": lambda: Local(1),
    "2": lambda: Local(2),
    "3": lambda: Local(3),
    "processes": lambda: Local(2, processes=True),
}


@pytest.mark.parametrize("name", ENGINES)
def test_three_verbs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("TRELLIS_TEST_LOG", str(log))
    random = np.random.default_rng(0).standard_normal(37) * 10.0 ** np.arange(37)
    engine = ENGINES[name]()
    try:
        expected = TreeSum(lambda a, b: a + b)
        for x in random:
            expected.push(2 * x)
        assert engine.sum(double, list(random)) == expected.result()
        assert list(engine.run(double, list(range(20)))) == list(range(0, 40, 2))
        placed = engine.place(as_array, list(range(9)), Shared(100))
        for _ in range(2):
            assert engine.sum(get, placed, np.array([3.0])) == 3 * sum(range(100, 109))
        assert sorted(map(int, log.read_text().split())) == list(range(9))  # each one once
        with pytest.raises(InputError, match=r"shard 7 \(7\): 7 is wrong"):
            list(engine.run(fail_at, list(range(9)), 7))
        with pytest.raises(InputError, match=r"shard 3 \(3\): 3 is wrong"):
            engine.sum(fail_at, list(range(9)), 3)
        assert engine.sum(double, [1]) == 2  # the engine works after an error
        engine.forget(*placed, *placed[0].arguments)
        assert not list(Path(engine.folder).iterdir())
    finally:
        engine.close()
    assert not Path(engine.folder).exists()


def end_process(x: int) -> int:
    os._exit(x)


def test_a_killed_process() -> None:
    engine = Local(1, processes=True)
    with pytest.raises(EngineError, match="was killed"):
        engine.sum(end_process, [1])
    assert engine.sum(double, [1]) == 2
    engine.close()


def test_settings_of_the_client(tmp_path: Path) -> None:
    task = Task.here(str(tmp_path), 1)
    block = make_blocks([1, 2], 2)[0][0]
    assert run_block(task, double, lambda a, b: a + b, block) == 6
    other = Task("9.9", task.isa, None, 1)
    with pytest.raises(EngineError, match=r"but the client has 9\.9: install the same version"):
        run_block(other, double, joined, block)
    other = Task(task.version, "x86-64-v9", None, 1)
    with pytest.raises(EngineError, match="cannot run the instruction set x86-64-v9"):
        run_block(other, double, joined, block)


def test_an_engine_has_arguments() -> None:
    with pytest.raises(InputError, match=r"^jobs is 0"):
        Local(0)
    with pytest.raises(InputError, match="cache_bytes is 0"):
        Local(cache_bytes=0)
    with pytest.raises(TypeError):
        Engine()  # type: ignore[abstract]


def test_shared_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "_SHARED_VALUES", 1)
    storage.configure(str(tmp_path / "worker"), 0)
    shared = Shared([1, 2])
    by_bytes = pickle.loads(pickle.dumps(shared))
    by_bytes.spill()  # as a worker does
    sent_on = pickle.loads(pickle.dumps(by_bytes))
    shared.spill(str(tmp_path))
    shared.spill(str(tmp_path))
    by_path = pickle.loads(pickle.dumps(shared))
    for copy in (shared, by_bytes, sent_on, by_path):
        for _ in range(2):
            # drops the value from memory
            assert pickle.loads(pickle.dumps(Shared("another"))).value == "another"
            assert copy.value == copy.value == [1, 2]
        assert copy.key == shared.key
    assert len(pickle.dumps(shared)) < 500
    assert [path.name for path in (tmp_path / "worker").iterdir()] == [f"shared-{shared.key}"]
    storage.remove([shared.key], tmp_path / "worker")
    assert not list((tmp_path / "worker").iterdir())


def test_functions_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    function = eval("lambda x: x + 1")
    assert Shared(function).value(1) == 2
    assert pickle.loads(pickle.dumps(Shared(function))).value(1) == 2
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    engine = Local(2)  # threads need no copy
    assert engine.sum(lambda x, f: f.value(x), [1, 2], Shared(function)) == 5
    with pytest.raises(InputError, match="pip install cloudpickle"):
        pickle.dumps(Shared(function))


def test_prepared_objects_have_a_limit(tmp_path: Path) -> None:
    storage.configure(None, 100)
    built = []

    def build() -> tuple[int, str]:
        built.append(1)
        return 40, "x"

    for _ in range(3):  # in turn: two of three stay
        for key in ("a", "b", "c"):
            give_back(key, checkout(key, build))
    assert len(built) == 3 + 1 + 1
    item = checkout("a", build)
    assert len(built) == 5
    checkout("a", build)  # one task alone uses an object
    assert len(built) == 6
    give_back("a", item)
    give_back("large", (101, "y"))
    checkout("large", build)
    assert len(built) == 7
    storage.remove(["a", "b"], tmp_path)
    checkout("b", build)
    assert len(built) == 8


def test_a_failed_placement_leaves_nothing(tmp_path: Path) -> None:
    def wrong(item: int) -> dict[str, Any]:
        raise OSError(28, "No space left on device", "/scratch/x")

    engine = Local(1, folder=str(tmp_path))
    placed = engine.place(wrong, [3])
    with pytest.raises(EngineError, match=r"shard 0 \(3\) on host .*: /scratch/x: No space left"):
        engine.sum(get, placed, 1)
    assert not list(tmp_path.iterdir())
    engine.close()
    assert tmp_path.exists()  # the folder of the user stays


@pytest.mark.parametrize("name", ["1", "3"])
def test_progress(name: str) -> None:
    engine = ENGINES[name]()
    steps: list[tuple[str, int, int]] = []
    engine.progress = lambda *step: steps.append(step)
    engine.sum(double, list(range(40)), name="gradient")
    assert steps[-1] == ("gradient", 40, 40)
    assert [done for _, done, _ in steps] == sorted({done for _, done, _ in steps})
    steps.clear()
    list(engine.run(double, [1, 2], name="tag"))
    assert steps == [("tag", 1, 2), ("tag", 2, 2)]
    engine.close()


def test_tasks_of_training_load_no_heavy_library() -> None:
    """A worker that replaces a killed one must not spend seconds on imports."""
    code = (
        "import sys, trellis.models.sharded.survey, trellis.models.sharded.encoding, "
        "trellis.models.sharded.problem, trellis.engines.local; "
        "heavy = {'sklearn', 'scipy', 'dask', 'distributed', 'torch'}; "
        "print(sorted(heavy & {*sys.modules}))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == "[]"


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"pip install 'trellis\[dask\]'"):
        Dask("tcp://127.0.0.1:1")
    assert Local(2).sum(double, [1, 2, 3]) == 12
