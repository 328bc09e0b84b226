"""The compiled core: the instruction set in use, and the number of threads for ``n_jobs``.

The hot kernels are compiled for several instruction sets. When the core is loaded, it chooses the
best one that the machine can run. The environment variable ``TRELLIS_ISA`` (``v2``, ``v3``, ``v4``)
forces one of them. Each instruction set adds numbers in another order, so the trained weights
differ in the last bits. A model stores the name of the set that trained it as ``isa_``.

The core's hash tables use secret numbers, drawn once per process, so that nobody can write a text
whose words all have equal hashes and make the tables slow. No result depends on these numbers. For
tests, ``TRELLIS_HASH_SEED`` (any text) fixes them.
"""

import os

from trellis import _core
from trellis.checks import as_integer
from trellis.errors import InputError

__all__ = [
    "available_isas",
    "isa",
    "resolve_jobs",
    "use_isa",
]

MAX_THREADS = 256  # upper limit, because each thread needs memory for its stack and buffers


def isa() -> str:
    """Return the instruction set of the kernels in use, such as ``"x86-64-v3"``."""
    return _core.isa()


def available_isas() -> tuple[str, ...]:
    """Return the instruction sets that trellis and this machine support, slowest first."""
    return tuple(_core.available_isas())


def use_isa(name: str) -> None:
    """Use the kernels of one instruction set in all later calls: ``use_isa("v3")``."""
    if not isinstance(name, str) or not _core.use_isa(name):
        raise InputError(
            f"instruction set {name!r} is not available: "
            f"must be one of {', '.join(available_isas())}"
        )


def resolve_jobs(n_jobs: int | None, name: str = "n_jobs") -> int:
    """Return the number of threads, as in joblib: None and -1 mean all cores, -2 all but one.

    ``name`` is that of the parameter, for messages.

    >>> resolve_jobs(3)
    3
    """
    if n_jobs is None:
        n_jobs = -1
    jobs = as_integer(n_jobs, name)
    if jobs == 0:
        raise InputError(f"{name} is 0: use 1 for one thread, None or -1 for all cores")
    if jobs < 0:
        jobs = max(1, _count_usable_cores() + 1 + jobs)
    return min(jobs, MAX_THREADS)


def _count_usable_cores() -> int:
    """Return the number of cores that this process may use; a container can limit it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


if os.environ.get("TRELLIS_ISA"):
    use_isa(os.environ["TRELLIS_ISA"])
