"""KeyedVectors and Word2Vec as gensim saves them, read without unpickling anything.

gensim writes a pickle, and large arrays beside it: ``model``, ``model.vectors.npy``. A pickle is a
program for a small stack machine, and what is dangerous in it is that it can call any function.
Here the machine only builds lists, dictionaries, tuples, strings and numbers; where the program
asks for a class or a call, it gets a record of what it asked for. Words and arrays are then looked
up in these records; nothing is imported, nothing is called.
"""

import mmap
import os
import pickletools
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

_WORDS = ("index_to_key", "index2word")  # since gensim 4, and before
_MOST_CONTAINERS = 1 << 16
_DTYPES = ("f2", "f4", "f8")


def is_pickle(head: bytes) -> bool:
    """Whether a file begins as a binary pickle does."""
    return len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5


def read(path: str | os.PathLike[str]) -> WordVectors:
    """Words and vectors; arrays beside the file are mapped. FormatError says what is wrong."""
    try:
        top = _Machine(map_file(path)).run()
        found = _find(top, os.fspath(path))
        if found is None:
            raise FormatError("a pickle, but not of gensim's KeyedVectors or Word2Vec")
        state, name = found
        words = next(state[key] for key in _WORDS if key in state)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise FormatError("its list of words has other things than strings")
        matrix = _vectors(state, name)
        if len(matrix) != len(words) or len(set(words)) != len(words):
            raise FormatError(f"{len(matrix)} vectors for {len(words)} words, or a word twice")
        check_finite(matrix, "the matrix")
        return WordVectors(words, matrix)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


@dataclass
class _Record:
    """What the pickle asked to be called or made, and the state that it gave to the result."""

    function: Any
    arguments: Any = None
    state: Any = None


@dataclass(frozen=True)
class _Name:
    """Of a class or function."""

    module: str
    name: str


_MARK = object()


class _Machine:
    """The stack machine of pickles, less its calls."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0

    def run(self) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the escapes in strings of protocol 0
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
            raise FormatError(f"not a pickle that can be read: {error}") from None
        raise FormatError("a pickle without an end")

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in _VALUES:
            stack.append(_VALUES[name](argument))
        elif name in _CONTAINERS:
            self._containers += 1
            if self._containers > _MOST_CONTAINERS:
                raise FormatError(f"a pickle of more than {_MOST_CONTAINERS} lists and the like")
            stack.append(_CONTAINERS[name](self))
        elif name in _CHANGES:
            _CHANGES[name](self)
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name not in ("PROTO", "FRAME"):
            raise FormatError(f"a pickle with {name}, which vectors do not need")

    def to_mark(self) -> list[Any]:
        """What lies on the stack above the last mark."""
        found: list[Any] = []
        while (item := self._stack.pop()) is not _MARK:
            found.append(item)
        return found[::-1]

    def take(self, count: int) -> list[Any]:
        """The topmost things."""
        if count > len(self._stack):
            raise IndexError("the stack is too short")
        found = self._stack[-count:]
        del self._stack[-count:]
        return found

    def extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, list):
            target.extend(items)

    def set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if isinstance(target, dict):
            pairs = zip(items[::2], items[1::2], strict=True)
            target.update((key, value) for key, value in pairs if isinstance(key, str))

    def build(self) -> None:
        (state,) = self.take(1)
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
    "TUPLE": lambda machine: tuple(machine.to_mark()),
    "TUPLE1": lambda machine: tuple(machine.take(1)),
    "TUPLE2": lambda machine: tuple(machine.take(2)),
    "TUPLE3": lambda machine: tuple(machine.take(3)),
    "LIST": lambda machine: machine.to_mark(),
    "FROZENSET": lambda machine: machine.to_mark(),
    "STACK_GLOBAL": lambda machine: _Name(*map(str, machine.take(2))),
    "REDUCE": lambda machine: _Record(*machine.take(2)),
    "NEWOBJ": lambda machine: _Record(*machine.take(2)),
    "NEWOBJ_EX": lambda machine: _Record(*machine.take(3)[:2]),
}
_CHANGES: dict[str, Callable[[_Machine], Any]] = {
    "APPEND": lambda machine: machine.extend(machine.take(1)),
    "APPENDS": lambda machine: machine.extend(machine.to_mark()),
    "ADDITEMS": lambda machine: machine.to_mark(),
    "SETITEM": lambda machine: machine.set_items(machine.take(2)),
    "SETITEMS": lambda machine: machine.set_items(machine.to_mark()),
    "BUILD": lambda machine: machine.build(),
    "POP": lambda machine: machine.take(1),
    "POP_MARK": lambda machine: machine.to_mark(),
}


def _find(top: Any, path: str) -> tuple[dict[str, Any], str] | None:
    """The attributes of the KeyedVectors, and what the names of its arrays begin with."""
    for state, name in _states(top, path):
        if any(key in state for key in _WORDS):
            return state, name
    return None


def _states(top: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    state = top.state if isinstance(top, _Record) else None
    if isinstance(state, dict):
        yield state, path
        inner = state.get("wv")  # a whole Word2Vec or FastText
        if isinstance(inner, _Record) and isinstance(inner.state, dict):
            yield inner.state, f"{path}.wv"


def _vectors(state: dict[str, Any], path: str) -> NDArray[np.float32]:
    if "vectors_ngrams" in state:
        raise FormatError(
            "gensim's FastText, which keeps no vectors of words: "
            "gensim.models.fasttext.save_facebook_model writes a file that can be read"
        )
    beside = state.get("__numpys")
    if isinstance(beside, list) and "vectors" in beside:
        matrix = _beside(f"{path}.vectors.npy")
    else:
        matrix = _array(state.get("vectors"))
    if matrix.ndim != 2 or matrix.dtype.kind != "f":
        raise FormatError(f"its vectors are {matrix.dtype} of shape {matrix.shape}")
    found: NDArray[np.float32] = np.require(matrix, np.float32, ["C", "A"])
    return found


def _beside(path: str) -> NDArray[Any]:
    try:
        with open(path, "rb") as file:
            start = file.read(12)
        # NumPy takes memory for the length that a file of version 2 declares
        if start[:6] != b"\x93NUMPY" or (start[6:7] != b"\x01" and any(start[10:12])):
            raise ValueError("its header is not one, or too long")
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FormatError(f"its vectors should be in {path}, which is missing") from None
    except Exception as error:  # its header is a Python literal, and fails as Python does
        raise FormatError(f"{path} is no array: {error}") from None
    return found


def _array(record: Any) -> NDArray[Any]:
    """An array inside the pickle: (version, shape, dtype, Fortran order?, bytes)."""
    try:
        _, shape, dtype, fortran, data = record.state
        if isinstance(data, _Record) and data.function.name == "encode":  # bytes in protocol 2
            data = data.arguments[0].encode("latin-1")
        code, order = dtype.arguments[0], dtype.state[1]
        if record.function.name != "_reconstruct" or code not in _DTYPES or order not in "<=|":
            raise ValueError(f"an array of {code!r}")
        flat: NDArray[Any] = np.frombuffer(data, f"<{code}")
        return flat.reshape([int(n) for n in shape], order="F" if fortran else "C")
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"its vectors cannot be read: {error}") from None
