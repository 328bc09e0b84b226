"""Regular expressions matched in time O(size of the pattern · length of the text).

`re` tries all ways to match one after the other, which takes exponential time for some patterns. A
model file may come from a stranger, so its patterns must not do that. This matcher tries the ways
in the same order as `re`, but each pair of an instruction and a position only once: if it failed
before, it fails again. So the result is that of `re`.

Backreferences and assertions about the text before or after need more than the position, and are
not supported.

>>> LinearRegex("(?:a|aa)+$").search("a" * 2000 + "b") is None
True
>>> LinearRegex("[0-9]+").search("A380-800")
(1, 4)
"""

import re
from re import _compiler as sre_compile  # type: ignore[attr-defined]
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parse  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from trellis.errors import InputError

__all__ = ["LinearRegex"]

MAX_INSTRUCTIONS = 1000
"""Size of the largest program. A repetition with counts, such as ``x{9}``, is written out. A search
takes one byte for each instruction and character of the text."""

_SINGLE = {sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN, sre.AT}
_REPEATS = {sre.MAX_REPEAT, sre.MIN_REPEAT}


class _Step(NamedTuple):
    """Match one character or one anchor with a pattern of `re`, which takes constant time."""

    pattern: re.Pattern[str]


class _Split(NamedTuple):
    """Continue at the first instruction; if that fails, at the second."""

    first: int
    second: int


class LinearRegex:
    """A compiled expression; raises InputError if the syntax is not supported."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._program: list[Any] = []
        try:
            self._parsed = sre_parse.parse(pattern)
            self._add_sequence(self._parsed, self._parsed.state.flags)
        except RecursionError:
            raise InputError(f"pattern {pattern!r:.60} is nested too deeply") from None
        except (re.error, OverflowError) as error:  # OverflowError for a{9999999999}
            raise InputError(
                f"pattern {pattern!r:.60} is not a regular expression: {error}"
            ) from None
        self._program.append(None)  # the end of the program is a match

    def __reduce__(self) -> tuple[type["LinearRegex"], tuple[str]]:
        return LinearRegex, (self.pattern,)  # the instructions cannot be pickled

    def search(self, text: str) -> tuple[int, int] | None:
        """Return (begin, end) of the first match, as ``re.search(text).span()``, or None."""
        size, program = len(text) + 1, self._program
        has_failed = bytearray(len(program) * size)
        for begin in range(size):
            stack = [(0, begin)]
            while stack:
                index, position = stack.pop()
                if has_failed[index * size + position]:
                    continue
                has_failed[index * size + position] = 1
                instruction = program[index]
                if instruction is None:
                    return begin, position
                if isinstance(instruction, _Split):
                    stack += [(instruction.second, position), (instruction.first, position)]
                else:
                    match = instruction.pattern.match(text, position)
                    if match is not None:
                        stack.append((index + 1, match.end()))
        return None

    # ---- compilation

    def _add(self, instruction: Any) -> int:
        if len(self._program) >= MAX_INSTRUCTIONS:
            raise InputError(
                f"pattern {self.pattern!r:.60} needs more than {MAX_INSTRUCTIONS} instructions"
            )
        self._program.append(instruction)
        return len(self._program) - 1

    def _add_sequence(self, items: Any, flags: int) -> None:
        for operation, argument in items:
            if operation in _SINGLE:
                self._add_single(operation, argument, flags)
            elif operation is sre.SUBPATTERN:
                _, add_flags, del_flags, items_of_group = argument
                self._add_sequence(items_of_group, (flags | add_flags) & ~del_flags)
            elif operation is sre.BRANCH:
                self._add_branches(argument[1], flags)
            elif operation in _REPEATS:
                self._add_repeat(argument, operation is sre.MAX_REPEAT, flags)
            else:
                name = str(operation).lower().replace("_", " ")
                raise InputError(
                    f"pattern {self.pattern!r:.60} uses {name}, which cannot be matched in linear "
                    "time"
                )

    def _add_single(self, operation: Any, argument: Any, flags: int) -> None:
        item = sre_parse.SubPattern(self._parsed.state, [(operation, argument)])
        self._add(_Step(sre_compile.compile(item, flags & ~sre.SRE_FLAG_VERBOSE)))

    def _add_branches(self, branches: list[Any], flags: int) -> None:
        ends = []
        for branch_index, branch in enumerate(branches):
            is_last = branch_index == len(branches) - 1
            choice = None if is_last else self._add(None)
            self._add_sequence(branch, flags)
            if choice is not None:
                ends.append(self._add(None))
                self._program[choice] = _Split(choice + 1, len(self._program))
        for index in ends:
            self._program[index] = _Split(len(self._program), len(self._program))

    def _add_repeat(self, argument: Any, greedy: bool, flags: int) -> None:
        minimum, maximum, repeated_items = argument
        if repeated_items.getwidth()[0] == 0 and maximum > 1:
            # `re` has special rules for repetitions that match nothing.
            raise InputError(
                f"pattern {self.pattern!r:.60} repeats an expression that can be empty"
            )
        for _ in range(minimum):
            self._add_sequence(repeated_items, flags)
        if maximum is sre.MAXREPEAT:
            choice = self._add(None)
            self._add_sequence(repeated_items, flags)
            self._add(_Split(choice, choice))
            self._set_choice(choice, greedy)
            return
        choices = []
        for _ in range(maximum - minimum):
            choices.append(self._add(None))
            self._add_sequence(repeated_items, flags)
        for choice in choices:
            self._set_choice(choice, greedy)

    def _set_choice(self, split: int, greedy: bool) -> None:
        """Make instruction ``split`` the choice between a repetition and the end of the program.

        The repetition starts after ``split``; instructions that are added later start at the end.
        """
        repetition, after = split + 1, len(self._program)
        self._program[split] = _Split(repetition, after) if greedy else _Split(after, repetition)
