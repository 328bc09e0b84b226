"""The Dask engine: the bits of Local, errors, and lost workers."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters import SHARD, cluster, digest, write_corpus

from trellis import CRF, MEMM, native
from trellis.data import Corpus
from trellis.engines import Dask, Local
from trellis.engines import cluster as module
from trellis.errors import EngineError, FormatError, InputError

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster(2) as client:
        yield client


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.text(write_corpus(tmp_path_factory.mktemp("corpus")), shard=SHARD)


@pytest.fixture(scope="module")
def expected(corpus: Corpus) -> str:
    return digest(CRF(max_iter=8).fit(corpus, engine=Local(1)))


def double(x: Any) -> Any:
    return 2 * x


def fail_at(x: Any, wrong: int) -> int:
    if x == wrong:
        raise InputError(f"{x} is wrong")
    return int(x)


def vector(x: Any, w: Any) -> Any:
    return x * w


def test_two_workers(client: Any, corpus: Corpus, expected: str) -> None:
    engine = Dask(client)
    model = CRF(max_iter=8).fit(corpus, engine=engine)
    assert digest(model) == expected
    assert model.isa_ == engine.isa == native.isa()
    for settings in ({"l1": 0.3}, {"constraints": [("L0", "L2")], "solver": "gradient"}):
        settings = {"max_iter": 4, **settings}
        if "constraints" in settings:
            settings["constraints"] = [("L0", "L9")]
        local = MEMM(**settings).fit(corpus, engine=Local(2))
        assert digest(MEMM(**settings).fit(corpus, engine=engine)) == digest(local)


def names_of_files(dask_worker: Any) -> list[str]:
    return [path.name for path in (Path(dask_worker.local_directory) / "trellis").rglob("*")]


def test_nothing_is_left_on_the_workers(client: Any, corpus: Corpus) -> None:
    engine = Dask(client)
    during: list[str] = []

    def interrupt(progress: Any) -> None:
        during.extend(name for names in client.run(names_of_files).values() for name in names)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        CRF().fit(corpus, engine=engine, callback=interrupt)
    assert sum(name.startswith("shard-") for name in during) == len(corpus.shards)
    CRF(max_iter=1).fit(corpus, engine=engine).predict(corpus, engine=engine)
    assert not any(client.run(names_of_files).values())
    assert not engine._shared


def test_a_failed_start_closes_the_connection(client: Any) -> None:
    from distributed import Client

    def open_clients() -> int:
        return sum(other.status == "running" for other in Client._instances)

    before = open_clients()
    with pytest.raises(InputError, match="cache_bytes is 0"):
        Dask(client.scheduler.address, cache_bytes=0)
    assert open_clients() == before


def test_shards_in_any_order(client: Any, corpus: Corpus, expected: str) -> None:
    """Blocks of every size, on workers that take different times."""
    engine = Dask(client)
    for n_blocks in (1, 3, 1000):
        engine._n_blocks = n_blocks
        assert digest(CRF(max_iter=8).fit(corpus, engine=engine)) == expected


def sleepy(x: Any) -> Any:
    time.sleep(0.05 * (x % 3 == 0))
    return np.array([0.1 * 3.0 ** (x % 40)])


def test_sums_of_tasks_that_end_in_another_order(client: Any) -> None:
    items = list(range(23))
    assert Dask(client).sum(sleepy, items) == Local(1).sum(sleepy, items)


def test_slices(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    items, w = list(random.standard_normal(13)), random.standard_normal(1001)
    expected = Dask(client).sum(vector, items, w, length=1001)
    monkeypatch.setattr(module, "_SLICE", 100)
    np.testing.assert_array_equal(Dask(client).sum(vector, items, w, length=1001), expected)
    np.testing.assert_array_equal(Local(1).sum(vector, items, w), expected)


def test_run_in_order_with_few_tasks_at_a_time(client: Any, tmp_path: Path) -> None:
    engine = Dask(client)
    results = engine.run(double, list(range(30)))
    assert next(results) == 0
    names = [key for key in client.futures if "trellis-run" in str(key)]
    assert len(names) <= 2 * module._WAITING
    assert list(results) == list(range(2, 60, 2))
    gc.collect()
    assert not [key for key in client.futures if "trellis-run" in str(key)]


def test_errors_name_the_shard(client: Any, tmp_path: Path) -> None:
    engine = Dask(client)
    with pytest.raises(InputError, match=r"shard 7 \(7\): 7 is wrong"):
        list(engine.run(fail_at, list(range(9)), 7))
    with pytest.raises(InputError, match=r"shard 3 \(3\): 3 is wrong"):
        engine.sum(fail_at, list(range(9)), 3)
    path = write_corpus(tmp_path)
    lines = path.read_text().split("\n")
    row = next(n for n in range(700, len(lines)) if lines[n])
    lines[row] = "broken"
    path.write_text("\n".join(lines))
    shards = Corpus.text(path, shard=SHARD)
    with pytest.raises(FormatError, match=rf"shard \d+ \(.*train\.conll, line {row + 1}: the row"):
        CRF().fit(shards, engine=engine)
    path.unlink()
    with pytest.raises(FormatError, match=r"shard 0 \(.*train\.conll: cannot be read: No such"):
        CRF().fit(shards, engine=engine)


def test_predict(client: Any, corpus: Corpus, tmp_path: Path) -> None:
    model = CRF(max_iter=5).fit(corpus)
    paths = model.predict(corpus, engine=Dask(client), to=tmp_path / "tagged")
    assert len(paths) == len(corpus.shards)
    X, y = Corpus.text(paths).load()
    assert (X, y) == (corpus.load()[0], model.predict(X))


def test_client_and_scheduler(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"client must be a distributed\.Client"):
        Dask(3)
    monkeypatch.setattr(module, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(EngineError, match=r"scheduler tcp://127\.0\.0\.1:1: no answer"):
        Dask("tcp://127.0.0.1:1")
    engine = Dask(client.scheduler.address)
    assert engine.sum(double, [1, 2]) == 6
    engine.close()
    assert client.status == "running"


def change_version(version: str) -> None:
    import trellis

    trellis.__version__ = version


def change_isas(names: list[str]) -> None:
    native.use_isa(names[0])
    native.available_isas = lambda: tuple(names)


def test_workers_of_other_kinds(client: Any) -> None:
    import trellis

    worker = sorted(client.scheduler_info(n_workers=-1)["workers"])[1]
    engine = Dask(client)
    client.run(change_version, "9.9", workers=[worker])
    try:
        message = rf"worker {worker} has trellis 9\.9, but the client has {trellis.__version__}"
        with pytest.raises(EngineError, match=message):
            Dask(client)
        with pytest.raises(EngineError, match=message):  # a worker that joined later
            engine.sum(double, list(range(50)))
    finally:
        client.run(change_version, trellis.__version__, workers=[worker])
    every = list(native.available_isas())
    client.run(change_isas, every[:1], workers=[worker])
    before = native.isa()
    try:
        assert Dask(client).isa == every[0]
        if len(every) > 1:
            with pytest.raises(EngineError, match=f"cannot run the instruction set {before}"):
                engine.sum(double, list(range(50)))
    finally:
        client.run(change_isas, every, workers=[worker])
        client.run(native.use_isa, before)


def limit_files() -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def allow_files() -> None:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def list_folder(dask_worker: Any) -> list[str]:
    folder = Path(dask_worker.local_directory) / "trellis"
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs limits of POSIX")
def test_a_disk_without_space(client: Any, tmp_path: Path) -> None:
    shards = Corpus.text(write_corpus(tmp_path), shard=4 * SHARD)  # features that no worker has
    client.run(limit_files)
    try:
        with pytest.raises(EngineError, match=r"shard \d+ .* on worker tcp://.*: File too large"):
            CRF().fit(shards, engine=Dask(client))
    finally:
        client.run(allow_files)
    assert all(names == [] for names in client.run(list_folder).values())


def test_a_worker_joins_and_one_leaves(corpus: Corpus, expected: str) -> None:
    with cluster(1) as client:
        engine = Dask(client)
        steps: list[int] = []

        def change(progress: Any) -> None:
            steps.append(progress.iteration)
            if progress.iteration == 3:
                client.cluster.scale(2)
                client.wait_for_workers(2)
            if progress.iteration == 5:
                kill_worker(client, 0)

        model = CRF(max_iter=8).fit(corpus, engine=engine, callback=change)
        assert len(steps) == 8
        assert digest(model) == expected


def kill_worker(client: Any, n: int) -> None:
    """Kill a worker process by its id; its nanny starts another one."""
    pids = sorted(client.run(os.getpid).values())
    os.kill(pids[n % len(pids)], signal.SIGKILL)


def test_all_workers_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOST_SECONDS", 1.0)
    with cluster(1) as client:
        engine = Dask(client)
        assert engine.sum(double, [1, 2]) == 6
        client.cluster.scale(0)
        while client.scheduler_info(n_workers=-1)["workers"]:
            time.sleep(0.1)
        with pytest.raises(EngineError, match=r"no worker for 1 s: .* same checkpoint to resume"):
            engine.sum(double, [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 4, 8])
def test_numbers_of_workers(workers: int, corpus: Corpus, expected: str) -> None:
    with cluster(workers) as client:
        assert digest(CRF(max_iter=8).fit(corpus, engine=Dask(client))) == expected


@pytest.mark.slow
def test_killed_workers(corpus: Corpus, expected: str, tmp_path: Path) -> None:
    """Workers without a nanny are killed and replaced; a nanny can give up after a kill."""
    random = np.random.default_rng(0)
    with cluster(0) as client:
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard"]
        command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address]
        command += [*options, "--local-directory", str(tmp_path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

        workers = [start(), start()]
        client.wait_for_workers(2)
        threads: list[threading.Thread] = []

        def kill(n: int, delay: float) -> None:
            time.sleep(delay)
            workers[n].kill()
            workers[n].wait()
            workers[n] = start()

        def after(progress: Any) -> None:
            for thread in threads:
                thread.join()
            arguments = int(random.integers(2)), float(random.uniform(0, 0.3))
            threads.append(threading.Thread(target=kill, args=arguments))
            threads[-1].start()

        try:
            model = CRF(max_iter=8).fit(corpus, engine=Dask(client), callback=after)
        finally:
            for thread in threads:
                thread.join()
            for worker in workers:
                worker.kill()
                worker.wait()
        assert len(threads) == 8
        assert digest(model) == expected


KILLED_CLIENT = """
import os, signal, sys
from distributed import Client
from trellis import CRF
from trellis.data import Corpus
from trellis.engines import Dask
from trellis.models.chain.checkpoint import Checkpoint

def end(progress):
    if progress.iteration == 5:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    scheduler, path, shard, file = sys.argv[1:]
    corpus = Corpus.text(path, shard=int(shard))
    CRF(max_iter=8).fit(
        corpus, engine=Dask(scheduler), checkpoint=Checkpoint(file, every=2), callback=end
    )
"""


def test_a_killed_client_resumes(
    client: Any, corpus: Corpus, expected: str, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(KILLED_CLIENT)
    folder = tmp_path / "run"
    folder.mkdir()
    file = folder / "trellis.checkpoint"
    arguments = [client.scheduler.address, corpus.shards[0].path, str(SHARD), str(file)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, str(script), *arguments], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert file.exists()
    iterations: list[int] = []
    model = CRF(max_iter=8).fit(
        corpus,
        engine=Dask(client),
        checkpoint=folder,
        callback=lambda progress: iterations.append(progress.iteration),
    )
    assert iterations[0] == 5
    assert digest(model) == expected
