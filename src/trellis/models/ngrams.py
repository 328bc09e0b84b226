"""N-gram language models from text: interpolated modified Kneser-Ney, the estimates of lmplz.

    p(w | h) = (a(h w) − D(a(h w))) / Σᵥ a(h v) + b(h) p(w | h without its first word)

w is a word, h the words before it, and v runs over all words. a(·) are adjusted counts: for an
n-gram of full order, how often it occurs; for a shorter one, how many different words precede it.
D(1), D(2) and D(3+) are the discounts of each order for the counts 1, 2 and more, and the back-off
weight b(h) is the probability that they remove. If h is empty, the last factor is the uniform
distribution over the vocabulary, which includes ``<unk>``. cpp/core/ngram has the computation;
docs/ngram.md explains the options.

>>> trainer = NGramTrainer(2, discount_fallback=True)
>>> lm = trainer.train(["the cat sat", "the dog sat", "a cat ran"])
>>> lm.counts
(9, 10)
>>> round(lm.score("the dog ran"), 3)
-2.409
"""

import contextlib
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, TypeAlias, cast

from trellis import _core
from trellis.checks import flag, integer_at_least, integer_in_range, number_in_range
from trellis.data import files
from trellis.data.atomic import writing
from trellis.errors import InputError, TrellisError
from trellis.estimator import names_arguments
from trellis.formats.arpa import NGramModel
from trellis.native import resolve_jobs

__all__ = ["Level", "NGramSummary", "NGramTrainer", "Progress"]

MAX_ORDER = 32
FALLBACK = (0.5, 1.0, 1.5)
"""The discounts of ``discount_fallback=True``."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)", re.IGNORECASE)
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)  # an error of the core
_MIN_MEMORY = 1 << 16  # bytes; with less, each run of the sort would have a few rows only
_BLOCK = 1 << 20  # bytes of text per call of the core, if the text is lines
_MARK = "\ufeff".encode()

Text: TypeAlias = (
    "str | os.PathLike[str] | IO[bytes] | Iterable[str] | Sequence[os.PathLike[str] | IO[bytes]]"
)


class Level(NamedTuple):
    """The n-grams of one length."""

    ngrams: int
    """Number of n-grams in the text."""
    kept: int
    """Number of n-grams in the model."""
    discounts: tuple[float, float, float]
    """D(1), D(2) and D(3+)."""
    fallback: bool
    """Whether the discounts are those of ``discount_fallback``."""


class NGramSummary(NamedTuple):
    """The numbers of lines, words and n-grams of a training."""

    lines: int
    tokens: int
    types: int
    """Number of different words, without ``<s>``, ``</s>`` and ``<unk>``."""
    levels: list[Level]
    """The n-grams of length 1, 2, …"""


class Progress(NamedTuple):
    """State of a training; the argument of a callback."""

    stage: str
    """``counting``, ``estimating`` or ``writing``."""
    fraction: float | None
    """The part of the stage that is complete, or None if it is unknown."""
    tokens: int
    """Number of words read."""


Callback: TypeAlias = Callable[[Progress], Any]


class NGramTrainer:
    """Train n-gram models with interpolated modified Kneser-Ney smoothing.

    Parameters
    ----------
    order
        The length of the longest n-grams, 1 to 32.
    prune
        N-grams that occur at most this number of times are not in the model: one number for each
        length; the last one is also for longer n-grams. The numbers must not decrease. 0 keeps all.
    discount_fallback
        The discounts D(1), D(2) and D(3+) of orders for which they cannot be estimated, as in
        small or artificial texts: up to three numbers, or True for 0.5, 1 and 1.5. With None, this
        is an error.
    characters
        Whether each character is a word of the model. The spaces between words become ``|``.
    skip_symbols
        Whether ``<s>``, ``</s>`` and ``<unk>`` in the text are treated as spaces. Otherwise, they
        are an error.
    memory
        Memory for n-grams: a number of bytes, or a text such as ``"512M"`` or ``"2G"``. What does
        not fit is sorted on disk. The vocabulary needs additional memory.
    folder
        The folder for temporary files; None means the usual one of the system.
    decimals
        Decimals of the logarithms in ARPA files, 1 to 15.
    n_jobs
        Number of threads that sort; None uses all cores. The model does not depend on it.

    Examples
    --------
    >>> trainer = NGramTrainer(3, prune=[0, 0, 1], discount_fallback=[0.5, 1, 1.5])
    >>> lines = ["to be or not to be", "to be is to do", "to do is to be"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = trainer.write(lines, os.path.join(folder, "lm.arpa.gz"))
    >>> summary.tokens, [(level.ngrams, level.kept) for level in summary.levels]
    (16, [(9, 9), (11, 11), (14, 2)])

    """

    @names_arguments
    def __init__(
        self,
        order: int = 5,
        *,
        prune: int | Sequence[int] = 0,
        discount_fallback: bool | Sequence[float] | None = None,
        characters: bool = False,
        skip_symbols: bool = False,
        memory: int | str = "1G",
        folder: str | os.PathLike[str] | None = None,
        decimals: int = 7,
        n_jobs: int | None = None,
    ) -> None:
        self.order = integer_in_range(order, 1, MAX_ORDER, "order")
        self.prune = _check_thresholds(prune, self.order)
        self.discount_fallback = _check_discounts(discount_fallback)
        self.characters = flag(characters, "characters")
        self.skip_symbols = flag(skip_symbols, "skip_symbols")
        self.memory = _check_memory(memory)
        self.folder = _check_folder(folder)
        self.decimals = integer_in_range(decimals, 1, 15, "decimals")
        self.n_jobs = n_jobs
        resolve_jobs(n_jobs)

    def train(self, text: Text, *, callback: Callback | None = None) -> NGramModel:
        """Return the model of a text.

        ``text`` is a path, an open binary file, an iterable of lines, or a list of `Path` objects
        and open binary files. Files may be compressed. ``callback`` is called with a `Progress`.
        """
        reader = _core.ArpaReader()
        with self._train(text, callback) as (_, blocks):
            for block in blocks:
                reader.feed(block)
        return NGramModel(reader.finish())

    def write(
        self,
        text: Text,
        path: str | os.PathLike[str] | IO[bytes],
        *,
        callback: Callback | None = None,
    ) -> NGramSummary:
        """Write the model of a text to an ARPA file, without holding it in memory.

        The file is compressed if its name ends in ``.gz``, ``.xz`` or ``.bz2``. The file gets
        this name when it is complete. `path` may be an open binary file.
        """
        with self._train(text, callback) as (core, blocks), contextlib.ExitStack() as stack:
            file = cast(IO[bytes], path)
            if isinstance(path, str | os.PathLike):
                file = stack.enter_context(writing(path))
                file = stack.enter_context(files.packed(file, path))
            for block in blocks:
                file.write(block)
            levels = [
                Level(ngrams, kept, (d[0], d[1], d[2]), fallback)
                for ngrams, kept, d, fallback in core.levels()
            ]
            return NGramSummary(core.lines, core.tokens, core.types, levels)

    @contextlib.contextmanager
    def _train(
        self, text: Text, callback: Callback | None
    ) -> Iterator[tuple[_core.NgramTraining, Iterator[bytes]]]:
        """Yield the native training after its estimate, and the blocks of the ARPA file."""
        sources = _list_sources(text)
        # The core removes the names of its files after it opened them, where the system allows it.
        with tempfile.TemporaryDirectory(prefix="trellis-ngrams-", dir=self.folder) as folder:
            core = _core.NgramTraining(
                order=self.order,
                characters=self.characters,
                skip_symbols=self.skip_symbols,
                decimals=self.decimals,
                memory=self.memory,
                threads=resolve_jobs(self.n_jobs),
                folder=folder,
            )
            # Windows cannot remove the folder while the core has open files in it.
            with contextlib.closing(core), _errors_name(self.folder or tempfile.gettempdir()):
                for source in sources:
                    _count(core, source, callback)
                _report(callback, Progress("estimating", None, core.tokens))
                _estimate(core, self.prune, self.discount_fallback)
                yield core, _blocks(core, callback)


def _count(core: _core.NgramTraining, source: Any, callback: Callback | None) -> None:
    """Add the text of a path, an open file or lines."""
    first_line = core.lines
    with _errors_name_lines(source, first_line):
        for number, (block, fraction) in enumerate(_read(source)):
            core.feed(block.removeprefix(_MARK) if number == 0 else block)
            _report(callback, Progress("counting", fraction, core.tokens))
        core.end_text()


@contextlib.contextmanager
def _errors_name_lines(source: Any, first_line: int) -> Iterator[None]:
    """Make the errors of the core name the source, and count its lines from 1.

    The core counts the lines of all sources; ``first_line`` is its count before this source.
    """
    try:
        yield
    except ValueError as error:
        match = _LINE.match(str(error))
        if match is None or isinstance(error, TrellisError):
            raise
        number = int(match[1]) - first_line
        raise files.line_error(files.name_of(source), number, match[2]) from None


def _read(source: Any) -> Iterator[tuple[bytes, float | None]]:
    """Yield the text of a source, and the fraction that has been read if it is known."""
    if hasattr(source, "read"):
        for block in files.blocks(source):
            yield block, None
    elif isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            with files.open_once(file) as opened:
                while block := opened.read():
                    yield block, min(1.0, file.tell() / size) if size else None
    else:
        yield from ((block, None) for block in _join_lines(source))


def _join_lines(lines: Iterable[str]) -> Iterator[bytes]:
    """Yield blocks of UTF-8 text from lines."""
    block = bytearray()
    for line in files.lines(lines):
        try:
            block += line.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"a line has an unpaired surrogate: {files.quote(line)}") from error
        block += b"\n"
        if len(block) >= _BLOCK:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _estimate(
    core: _core.NgramTraining, prune: list[int], fallback: tuple[float, float, float] | None
) -> None:
    try:
        core.estimate(prune, fallback)
    except ValueError as error:
        raise InputError(str(error)) from None


def _blocks(core: _core.NgramTraining, callback: Callback | None) -> Iterator[bytes]:
    """Yield the ARPA file in blocks."""
    total = sum(level[1] for level in core.levels())
    while block := core.next_block():
        yield block
        _report(callback, Progress("writing", core.written / total, core.tokens))


def _report(callback: Callback | None, progress: Progress) -> None:
    if callback is not None:
        callback(progress)


@contextlib.contextmanager
def _errors_name(folder: str) -> Iterator[None]:
    """Make the errors of temporary files name the folder that the user chose."""
    try:
        yield
    except OSError as error:
        prefix = os.path.join(folder, "trellis-ngrams-")
        if isinstance(error.filename, str) and error.filename.startswith(prefix):
            raise OSError(error.errno, error.strerror, folder) from None
        raise


def _list_sources(text: Any) -> list[Any]:
    """Return the paths, files or lines of a text, each of which starts with a new line."""
    if isinstance(text, str | os.PathLike) or hasattr(text, "read"):
        return [text]
    if isinstance(text, bytes) or not isinstance(text, Iterable):
        raise InputError(
            f"text must be a path, an open binary file or lines, not {type(text).__name__}"
        )
    is_list = isinstance(text, list | tuple) and len(text) > 0
    if is_list and all(isinstance(item, os.PathLike) or hasattr(item, "read") for item in text):
        return list(text)
    return [text]


def _check_thresholds(prune: Any, order: int) -> list[int]:
    """Return the threshold of each length."""
    values = list(prune) if isinstance(prune, Iterable) and not isinstance(prune, str) else [prune]
    thresholds = [min(integer_at_least(value, 0, "prune"), 2**62) for value in values]
    if not 1 <= len(thresholds) <= order:
        raise InputError(f"prune has {len(thresholds)} numbers: must be 1 to {order}, the order")
    for lower, higher in itertools.pairwise(thresholds):
        if higher < lower:
            raise InputError(
                f"prune is {', '.join(map(str, thresholds))}: the numbers must not decrease, "
                "because a model has the end of each of its n-grams"
            )
    return thresholds + thresholds[-1:] * (order - len(thresholds))


def _check_discounts(fallback: Any) -> tuple[float, float, float] | None:
    """Return three discounts, or None for None and False."""
    if fallback is None or isinstance(fallback, bool):
        return FALLBACK if fallback else None
    values = list(fallback) if isinstance(fallback, Iterable) else [fallback]
    if not 1 <= len(values) <= 3 or isinstance(fallback, str):
        raise InputError(f"discount_fallback is {fallback!r:.60}: must be True or 1 to 3 numbers")
    values += values[-1:] * (3 - len(values))
    first, second, third = (
        number_in_range(value, 0, limit, f"discount_fallback of count {limit}")
        for limit, value in enumerate(values, 1)
    )
    return first, second, third


def _check_memory(memory: Any) -> int:
    """Return a number of bytes."""
    if isinstance(memory, str):
        match = _SIZE.fullmatch(memory.strip())
        if match is None:
            raise InputError(f"memory is {memory!r}: must be a size such as 512M or 2G")
        memory = int(match[1]) * _UNITS[match[2].upper()]
    return min(integer_at_least(memory, _MIN_MEMORY, "memory"), 2**62)


def _check_folder(folder: Any) -> str | None:
    if folder is None:
        return None
    if not isinstance(folder, str | os.PathLike):
        raise InputError(f"folder must be a path or None, not {type(folder).__name__}")
    if not os.path.isdir(folder):
        raise InputError(f"folder is {os.fspath(folder)!r}: there is no such folder")
    return os.fspath(folder)
