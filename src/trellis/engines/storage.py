"""What tasks keep: files on the disk of their machine, and prepared objects in memory.

Everything here can be computed again. A task that does not find a file computes it, so a lost
worker costs only the files that it had.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

import trellis
from trellis.errors import InputError

__all__ = [
    "Arrays",
    "Placed",
    "Shared",
    "checkout",
    "configure",
    "dask_worker",
    "digest_of",
    "folder_of",
    "give_back",
    "remove",
]

Arrays = Mapping[str, NDArray[Any]]
_MAPPED_BYTES = 1 << 12  # smaller files are read
_SHARED_VALUES = 3  # shared objects that a process keeps in memory


class _Settings(threading.local):
    """The settings of the task that this thread runs."""

    folder: str | None = None


_settings = _Settings()
_lock = threading.Lock()
_values: OrderedDict[str, Any] = OrderedDict()  # digest -> shared object
_prepared: dict[str, list[tuple[int, Any]]] = {}  # key -> (bytes, object)
_prepared_bytes = 0
_cache_bytes = 0


def configure(folder: str | None, cache_bytes: int) -> None:
    """Set the folder for the files of this thread's task, and the bytes `give_back` may keep."""
    global _cache_bytes
    _settings.folder, _cache_bytes = folder, cache_bytes


def dask_worker() -> Any:
    """Return the Dask worker that runs this task, or None."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_worker()
    except ValueError:  # the thread does not belong to a worker
        return None


def digest_of(value: Any) -> str:
    """Return a checksum of a value that can be pickled."""
    return hashlib.sha256(_dumps(value)).hexdigest()


class Shared:
    """A value that all tasks of a call read, such as the feature map.

    It is pickled once, if it leaves this process. Another process keeps the last few values in
    memory, and the pickled bytes on its disk, to read the value again or to send it on.
    """

    def __init__(self, value: Any) -> None:
        self._value = (value,)
        self._data: bytes | None = None
        self._path: Path | None = None
        self._one_machine = False
        self.key = uuid.uuid4().hex

    @property
    def value(self) -> Any:
        """The value, which must not be changed."""
        if self._value:
            return self._value[0]
        with _lock:
            if self.key in _values:
                _values.move_to_end(self.key)
                return _values[self.key]
        value = pickle.loads(self._read())
        with _lock:
            _values[self.key] = value
            while len(_values) > _SHARED_VALUES:
                _values.popitem(last=False)
        return value

    def spill(self, folder: str | None = None) -> None:
        """Move the bytes to the disk; with ``folder``, pickle only the path of the file.

        Processes of one machine can all read the file. Workers of a cluster cannot.
        """
        if self._path is not None:
            return
        path = (_folder() if folder is None else Path(folder)) / f"shared-{self.key}"
        if not path.exists():
            temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
            try:
                temporary.write_bytes(self._read())
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        self._path, self._data, self._one_machine = path, None, folder is not None

    def _read(self) -> bytes:
        data, path = self._data, self._path
        if data is not None:
            return data
        return _dumps(self._value[0]) if path is None else path.read_bytes()

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_value": ()}
        if not self._one_machine:
            state |= {"_data": self._read(), "_path": None}
        return state


@dataclass(frozen=True)
class Placed:
    """function(item, …) as arrays on the disk of the worker that needs it.

    Pickle leaves out the arguments, which are large and equal for all items; the engine sends them
    once, and `with_arguments` puts them back.
    """

    function: Callable[..., Arrays]
    item: Any
    arguments: tuple[Any, ...]
    key: str

    @classmethod
    def at(cls, function: Callable[..., Arrays], item: Any, arguments: tuple[Any, ...]) -> Placed:
        """Return the arrays of an item; nothing is computed yet."""
        parts = [part.key if isinstance(part, Shared) else part for part in arguments]
        identity = item.identity() if hasattr(item, "identity") else item
        name = f"{function.__module__}.{function.__qualname__}"
        key = digest_of((trellis.__version__, name, identity, parts))
        return cls(function, item, arguments, key)

    def with_arguments(self, arguments: tuple[Any, ...]) -> Placed:
        """Return the same handle with these arguments."""
        return replace(self, arguments=arguments)

    def load(self) -> dict[str, NDArray[Any]]:
        """Return the arrays, mapped from the disk; computed if this machine does not have them."""
        folder = _folder() / f"shard-{self.key[:32]}"
        if not folder.is_dir():
            self._write(folder)
        return {
            file.stem: np.load(file, mmap_mode=_mode(file), allow_pickle=False)
            for file in folder.iterdir()
        }

    def _write(self, folder: Path) -> None:
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for name, array in self.function(self.item, *self.arguments).items():
                with open(temporary / f"{name}.npy", "wb") as file:
                    np.save(_Writer(file), array, allow_pickle=False)
            os.replace(temporary, folder)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            # Another task of this machine may have written the same folder first.
            if not (isinstance(error, OSError) and folder.is_dir()):
                raise

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"arguments": ()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class _Writer:
    """A file with the method write alone, so that NumPy writes by it.

    For a file object, NumPy calls fwrite of C, whose errors do not say that the disk is full.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.write = file.write


def checkout(key: str, build: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
    """Return (bytes, object) of a key, for one task alone; built if this process has none."""
    global _prepared_bytes
    with _lock:
        if _prepared.get(key):
            item = _prepared[key].pop()
            if not _prepared[key]:
                del _prepared[key]
            _prepared_bytes -= item[0]
            return item
    return build()


def give_back(key: str, item: tuple[int, Any]) -> None:
    """Keep an object for the next iteration, if there is room for it.

    All shards are used in turn. If the object used longest ago made room for a new one, none would
    be left when its turn comes.
    """
    global _prepared_bytes
    with _lock:
        if _prepared_bytes + item[0] <= _cache_bytes:
            _prepared.setdefault(key, []).append(item)
            _prepared_bytes += item[0]


def folder_of(worker: Any) -> Path:
    """Return the folder for the files of the tasks of a Dask worker."""
    return Path(worker.local_directory) / "trellis"


def _folder() -> Path:
    """Return the folder for the files of this task."""
    worker = dask_worker()
    folder = folder_of(worker) if _settings.folder is None else Path(_settings.folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _mode(file: Path) -> Literal["r"] | None:
    """Return the mode of `numpy.load`; an empty array cannot be mapped."""
    return "r" if file.stat().st_size > _MAPPED_BYTES else None


def remove(keys: Sequence[str], folder: Path) -> None:
    """Remove the files and the prepared objects of placed items and shared values."""
    for key in keys:
        shutil.rmtree(folder / f"shard-{key[:32]}", ignore_errors=True)
        (folder / f"shared-{key}").unlink(missing_ok=True)
    global _prepared_bytes
    with _lock:
        for key in keys:
            _values.pop(key, None)
            for name in [name for name in _prepared if name.startswith(key)]:
                _prepared_bytes -= sum(size for size, _ in _prepared.pop(name))


def _dumps(value: Any) -> bytes:
    """Return the pickled value; functions defined in a script or a notebook need cloudpickle."""
    try:
        data = pickle.dumps(value, protocol=5)
        if b"__main__" not in data:
            return data
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    try:
        import cloudpickle
    except ImportError:
        raise InputError(
            "functions that are defined in a script or a notebook need a package to be sent to "
            "other processes: pip install cloudpickle"
        ) from None
    return bytes(cloudpickle.dumps(value, protocol=5))
