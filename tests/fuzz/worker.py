"""A forked process that runs cases. Its state is in shared memory, so the parent can watch it."""

from __future__ import annotations

import contextlib
import json
import logging
import mmap
import os
import random
import resource
import struct
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from fuzz_targets import SPARE, Target

_STATE = struct.Struct("<qqqq")  # target, case, started cases, finished rounds


class State:
    """Shared memory: the running case, and the numbers of cases and of valid cases per target."""

    def __init__(self, targets: int) -> None:
        self.targets = targets
        self.memory = mmap.mmap(-1, _STATE.size + 16 * targets)

    def start(self, target: int, case: int) -> None:
        _, _, started, rounds = self.read()
        _STATE.pack_into(self.memory, 0, target, case, started + 1, rounds)
        self._increase(2 * target)

    def count_valid(self, target: int) -> None:
        self._increase(2 * target + 1)

    def _increase(self, number: int) -> None:
        place = _STATE.size + 8 * number
        struct.pack_into("<q", self.memory, place, 1 + self._counters()[number])

    def finish_round(self) -> None:
        target, case, started, rounds = self.read()
        _STATE.pack_into(self.memory, 0, target, case, started, rounds + 1)

    def read(self) -> tuple[int, int, int, int]:
        return _STATE.unpack_from(self.memory, 0)

    def counts(self) -> tuple[int, ...]:
        """Return the number of cases of each target."""
        return self._counters()[::2]

    def valid_counts(self) -> tuple[int, ...]:
        """Return the number of cases of each target that raised nothing."""
        return self._counters()[1::2]

    def _counters(self) -> tuple[int, ...]:
        return struct.unpack_from(f"<{2 * self.targets}q", self.memory, _STATE.size)


class Finding(Exception):  # noqa: N818
    """A case that broke a promise."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind

    def signature(self) -> tuple[str, ...]:
        """Return the type and the source line of the exception; both identify a bug."""
        cause = self.__cause__
        if cause is None:
            return (self.kind,)
        frames = traceback.extract_tb(cause.__traceback__)
        places = [f"{f.filename}:{f.lineno}" for f in frames if "trellis" in f.filename]
        return self.kind, type(cause).__name__, *places[-1:]


class Runner:
    """Runs cases of targets in this process."""

    def __init__(self, targets: list[Target], seeds: list[list[bytes]], seed: int, folder: Path):
        self.targets, self.seeds, self.seed, self.folder = targets, seeds, seed, folder
        # tmpfs, because a disk would be slower than the parsers
        memory_disk = Path("/dev/shm")
        base = memory_disk if os.access(memory_disk, os.W_OK) else folder
        self.work = base / f"trellis-fuzz-{os.getpid()}"

    def data_of(self, target: int, case: int) -> tuple[bytes, random.Random]:
        """Return the file of a case, and the generator of its other choices."""
        rng = random.Random(f"{self.seed}/{self.targets[target].name}/{case}")
        data = rng.choice(self.seeds[target])
        return self.targets[target].mutate(data, rng), rng

    def run(self, target: int, case: int, data: bytes | None = None) -> bool:
        """Run one case: return whether it was valid; raise `Finding` if it breaks a promise."""
        description = self.targets[target]
        mutated, rng = self.data_of(target, case)
        mutated = mutated if data is None else data
        path = self.work / f"case{description.suffix}"
        path.unlink(missing_ok=True)
        path.write_bytes(mutated)
        limit = _virtual_memory() + description.factor * len(mutated) + SPARE
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        try:
            description.use(path, rng)
            return True
        except description.allowed as error:
            if _is_allocation_failure(error):
                raise Finding("memory", repr(error)) from error
            return False
        except MemoryError as error:
            raise Finding("memory", traceback.format_exc()[-1500:]) from error
        except Exception as error:
            raise Finding("exception", traceback.format_exc()[-3000:]) from error
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

    def loop(self, state: State, rounds: range) -> None:
        """Run all rounds; save every finding and continue."""
        self.work.mkdir(exist_ok=True)
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        reported: set[tuple[Any, ...]] = set()
        self._use_seeds()
        for number in rounds:
            for index, target in enumerate(self.targets):
                for case in range(number * target.cases, (number + 1) * target.cases):
                    state.start(index, case)
                    try:
                        if self.run(index, case):
                            state.count_valid(index)
                    except Finding as finding:
                        key = (index, *finding.signature())
                        if key not in reported:  # one bug is found thousands of times
                            reported.add(key)
                            self.save(index, case, finding.kind, str(finding))
            state.finish_round()

    def _use_seeds(self) -> None:
        """Use every seed once: what a first use allocates for later ones is no case's memory."""
        for target, seeds in zip(self.targets, self.seeds, strict=True):
            path = self.work / f"case{target.suffix}"
            for data in seeds:
                path.write_bytes(data)
                with contextlib.suppress(Exception):
                    target.use(path, random.Random(0))

    def save(self, target: int, case: int, kind: str, message: str) -> None:
        """Write the description of a finding, and its file beside it."""
        name = self.targets[target].name
        file = self.folder / f"{name.replace(' ', '-').replace(',', '')}-{self.seed}-{case}.json"
        entry: dict[str, Any] = {
            "target": name, "seed": self.seed, "case": case, "kind": kind, "message": message,
        }  # fmt: skip
        data, _ = self.data_of(target, case)
        file.with_suffix(".input").write_bytes(data)
        file.write_text(json.dumps(entry, indent=1), encoding="utf-8")
        print(f"{kind} in {name}, case {case}: {file}", file=sys.stderr, flush=True)


def _is_allocation_failure(error: BaseException) -> bool:
    """Return whether an exception of the compiled module reports an allocation."""
    text = str(error)
    return "bad_alloc" in text or "can't allocate memory" in text


def _virtual_memory() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
