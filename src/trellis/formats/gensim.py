"""Files of gensim's KeyedVectors and Word2Vec, read without unpickling.

gensim writes a pickle, and large arrays in separate files: ``model``, ``model.vectors.npy``. A
pickle is a program for a small stack machine. It is dangerous because it can call any function. The
machine here builds only lists, dictionaries, tuples, strings and numbers. Where the program creates
an object or calls a function, the machine creates a record of the call instead. Words and arrays
are then looked up in these records. Nothing is imported, and nothing is called.
"""

import mmap
import os
import pickletools
import stat
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import FormatError
from trellis.formats.mapped import check_finite, map_file
from trellis.formats.word2vec import WordVectors

__all__ = ["is_pickle", "read"]

_WORDS = ("index_to_key", "index2word")  # the attribute in gensim 4, and in gensim 3
_MAX_CONTAINERS = 1 << 16  # one byte can create a list, so a small file could fill the memory
_DTYPES = ("f2", "f4", "f8")


def is_pickle(head: bytes) -> bool:
    """Return whether a file with these first bytes is a binary pickle."""
    return len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5


def read(path: str | os.PathLike[str]) -> WordVectors:
    """Read words and vectors; raise FormatError, which names the file, if it is invalid.

    Arrays in separate files are memory-mapped.
    """
    try:
        saved_object = _Machine(map_file(path)).run()
        state, prefix = _find_vectors(saved_object, os.fspath(path))
        words = next(state[key] for key in _WORDS if key in state)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise FormatError("the list of words contains values that are not strings")
        matrix = _read_matrix(state, prefix)
        if len(matrix) != len(words) or len(set(words)) != len(words):
            raise FormatError(
                f"there are {len(matrix)} vectors for {len(words)} words, or a word occurs twice"
            )
        check_finite(matrix, "the matrix")
        return WordVectors(words, matrix)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


@dataclass
class _Record:
    """A call in the pickle, and the state that the pickle sets on the result."""

    function: Any
    arguments: Any = None
    state: Any = None


@dataclass(frozen=True)
class _Name:
    """The name of a class or function."""

    module: str
    name: str


_MARK = object()  # marks a position on the stack


class _Machine:
    """Runs the instructions of a pickle, but records each call instead of executing it."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0

    def run(self) -> Any:
        """Run the program and return its result."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # strings of protocol 0 may contain invalid escapes
                for opcode, argument, _ in pickletools.genops(self._data):  # type: ignore[arg-type]
                    if opcode.name == "STOP":
                        return self._stack.pop()
                    self._step(opcode.name, argument)
        except FormatError:
            raise
        except (
            ValueError,
            IndexError,
            KeyError,
            TypeError,
            OverflowError,
            AttributeError,
        ) as error:
            raise FormatError(f"not a readable pickle: {error}") from None
        raise FormatError("the pickle has no STOP instruction")

    def _step(self, name: str, argument: Any) -> None:
        """Execute one instruction."""
        stack = self._stack
        if name in _VALUES:
            stack.append(_VALUES[name](argument))
        elif name in _CONTAINERS:
            self._containers += 1
            if self._containers > _MAX_CONTAINERS:
                raise FormatError(f"the pickle has more than {_MAX_CONTAINERS} containers")
            stack.append(_CONTAINERS[name](self))
        elif name in _CHANGES:
            _CHANGES[name](self)
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name not in ("PROTO", "FRAME"):
            raise FormatError(
                f"the pickle contains the instruction {name}, which files of vectors do not need"
            )

    def pop_to_mark(self) -> list[Any]:
        """Pop and return the values above the last mark; pop the mark too."""
        items: list[Any] = []
        while (item := self._stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def pop(self, count: int) -> list[Any]:
        """Pop and return the ``count`` topmost values."""
        if count > len(self._stack):
            raise IndexError("the stack is too short")
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def extend(self, items: list[Any]) -> None:
        """Append values to the list on the stack."""
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        """Set items (key, value, key, value, …) of the dictionary on the stack."""
        target = self._stack[-1]
        if isinstance(target, dict):
            pairs = zip(items[::2], items[1::2], strict=True)
            target.update((key, value) for key, value in pairs if isinstance(key, str))

    def build(self) -> None:
        """Set the state of the record on the stack."""
        (state,) = self.pop(1)
        if isinstance(self._stack[-1], _Record):
            self._stack[-1].state = state


_PLAIN = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "STRING", "SHORT_BINSTRING", "BINSTRING"),
)
_VALUES: dict[str, Callable[[Any], Any]] = {
    **{name: lambda argument: argument for name in _PLAIN},
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "MARK": lambda _: _MARK,
    "GLOBAL": lambda argument: _Name(*argument.split(" ", 1)),
}
_CONTAINERS: dict[str, Callable[[_Machine], Any]] = {
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_SET": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "TUPLE": lambda machine: tuple(machine.pop_to_mark()),
    "TUPLE1": lambda machine: tuple(machine.pop(1)),
    "TUPLE2": lambda machine: tuple(machine.pop(2)),
    "TUPLE3": lambda machine: tuple(machine.pop(3)),
    "LIST": lambda machine: machine.pop_to_mark(),
    "FROZENSET": lambda machine: machine.pop_to_mark(),
    "STACK_GLOBAL": lambda machine: _Name(*map(str, machine.pop(2))),
    "REDUCE": lambda machine: _Record(*machine.pop(2)),
    "NEWOBJ": lambda machine: _Record(*machine.pop(2)),
    "NEWOBJ_EX": lambda machine: _Record(*machine.pop(3)[:2]),
}
_CHANGES: dict[str, Callable[[_Machine], Any]] = {
    "APPEND": lambda machine: machine.extend(machine.pop(1)),
    "APPENDS": lambda machine: machine.extend(machine.pop_to_mark()),
    "ADDITEMS": lambda machine: machine.pop_to_mark(),
    "SETITEM": lambda machine: machine.set_items(machine.pop(2)),
    "SETITEMS": lambda machine: machine.set_items(machine.pop_to_mark()),
    "BUILD": lambda machine: machine.build(),
    "POP": lambda machine: machine.pop(1),
    "POP_MARK": lambda machine: machine.pop_to_mark(),
}


def _find_vectors(saved_object: Any, path: str) -> tuple[dict[str, Any], str]:
    """Return the attributes of the KeyedVectors, and the prefix of the names of its array files."""
    for state, prefix in _find_states(saved_object, path):
        if any(key in state for key in _WORDS):
            return state, prefix
    raise FormatError("the pickle is not a KeyedVectors or Word2Vec of gensim")


def _find_states(saved_object: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the attributes of the saved object, and those of its ``wv``."""
    state = saved_object.state if isinstance(saved_object, _Record) else None
    if isinstance(state, dict):
        yield state, path
        vectors_record = state.get("wv")  # of a Word2Vec or FastText
        if isinstance(vectors_record, _Record) and isinstance(vectors_record.state, dict):
            yield vectors_record.state, f"{path}.wv"


def _read_matrix(state: dict[str, Any], path: str) -> NDArray[np.float32]:
    """Return the vectors, from the pickle or from a separate file."""
    if "vectors_ngrams" in state:
        raise FormatError(
            "the file is a FastText model of gensim, which has no word vectors: "
            "save it with gensim.models.fasttext.save_facebook_model"
        )
    array_files = state.get("__numpys")
    if isinstance(array_files, list) and "vectors" in array_files:
        matrix = _map_array(f"{path}.vectors.npy")
    else:
        matrix = _decode_array(state.get("vectors"))
    if matrix.ndim != 2 or matrix.dtype.kind != "f":
        raise FormatError(
            f"the vectors are {matrix.dtype} of shape {matrix.shape}: must be a matrix of floats"
        )
    vectors: NDArray[np.float32] = np.require(matrix, np.float32, ["C", "A"])
    return vectors


def _map_array(path: str) -> NDArray[Any]:
    """Map the array of a separate ``.npy`` file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block
            raise ValueError("not a regular file (a pipe, a device or a folder)")
        with open(path, "rb") as file:
            start = file.read(12)
        # NumPy allocates the header size that a file of version 2 declares, up to 4 GB.
        if start[:6] != b"\x93NUMPY" or (start[6:7] != b"\x01" and any(start[10:12])):
            raise ValueError("its header is invalid or too long")
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(f"the file of the vectors, {path}, is missing") from None
    except Exception as error:  # the header is a Python literal: a bad one can raise anything
        raise FormatError(f"{path} is not an array: {error}") from None
    return array


def _decode_array(record: Any) -> NDArray[Any]:
    """Return an array stored as (version, shape, dtype, Fortran order?, bytes)."""
    try:
        _, shape, dtype, is_fortran, data = record.state
        if (
            isinstance(data, _Record) and data.function.name == "encode"
        ):  # bytes, pickled by protocol 2
            data = data.arguments[0].encode("latin-1")
        type_code, order = dtype.arguments[0], dtype.state[1]
        if record.function.name != "_reconstruct" or type_code not in _DTYPES or order not in "<=|":
            raise ValueError(f"an array of type {type_code!r} is not supported")
        values: NDArray[Any] = np.frombuffer(data, f"<{type_code}")
        return values.reshape([int(size) for size in shape], order="F" if is_fortran else "C")
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"the vectors cannot be read: {error}") from None
