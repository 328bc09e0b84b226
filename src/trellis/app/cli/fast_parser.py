"""Parse an ordinary command line without Typer, whose import takes longer than tagging a sentence.

Typer handles everything else: ``--help``, every error, and short forms such as ``-j4``. If the fast
parser cannot parse a command line, it returns None and does not report an error.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

from trellis.app.cli.declarations import (
    REQUIRED,
    Group,
    Option,
    Parameter,
    UsageError,
    fill,
    flatten,
)

__all__ = ["find_module", "parse_options"]

# int() and float() are not strict enough: they also accept "1_000" and " 1".
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


def find_module(group: Group, arguments: Sequence[str]) -> tuple[str, Sequence[str]] | None:
    """Return the module of the command and the arguments after its name, or None."""
    source: str | Group | None = group
    while isinstance(source, Group):
        if not arguments:
            return None
        source, arguments = source.commands.get(arguments[0]), arguments[1:]
    return None if source is None else (source, arguments)


def parse_options(options: Any, arguments: Sequence[str]) -> Any:
    """Return an instance of the dataclass ``options``, or None if Typer has to parse the words."""
    parameters = list(flatten(options))
    by_flag = {flag: parameter for parameter in parameters for flag in parameter.flags}
    texts = _group_words(by_flag, arguments)
    if texts is None:
        return None
    positional = texts.pop("", [])
    values: dict[str, Any] = {}
    for parameter in parameters:
        words = texts.get(parameter.name, [])
        if not parameter.flags:  # a positional argument; a list takes all remaining words
            count = len(positional) if _is_list(parameter) else 1
            words, positional = positional[:count], positional[count:]
        try:
            values[parameter.name] = _convert(parameter, words)
        except ValueError:
            return None
    try:
        return None if positional else fill(options, values)
    except UsageError:
        return None


def _group_words(
    by_flag: dict[str, Parameter], arguments: Sequence[str]
) -> dict[str, list[str]] | None:
    """Return the texts of each option by field name; the key "" has the positional arguments."""
    texts: dict[str, list[str]] = {"": []}
    words = iter(arguments)
    for word in words:
        if word == "--":
            texts[""] += words
        elif not word.startswith("-") or word == "-":
            texts[""].append(word)
        else:
            flag, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
            parameter = by_flag.get(flag)
            if parameter is None or (equals and parameter.type is bool):
                return None
            if parameter.type is not bool and not equals:
                following = next(words, None)
                if following is None or following.startswith("--"):  # the value may be missing
                    return None
                text = following
            texts.setdefault(parameter.name, []).append(text)
    return texts


def _is_list(parameter: Parameter) -> bool:
    return get_origin(_strip_none(parameter.type)) is list


def _strip_none(annotation: Any) -> Any:
    """Return ``T`` for ``T | None``."""
    alternatives = [t for t in get_args(annotation) if t is not NoneType]
    is_optional = NoneType in get_args(annotation)
    return alternatives[0] if is_optional else annotation


def _convert(parameter: Parameter, words: list[str]) -> Any:
    """Return the value of an option or argument; raise ValueError if Typer has to parse it."""
    if not words:
        if parameter.default is REQUIRED:
            raise ValueError
        return parameter.default
    kind = _strip_none(parameter.type)
    if get_origin(kind) is list:
        return [_convert_word(get_args(kind)[0], word) for word in words]
    value = _convert_word(kind, words[-1])  # if an option is repeated, its last value counts
    declaration = parameter.declaration
    if isinstance(declaration, Option) and (
        (declaration.min is not None and value < declaration.min)
        or (declaration.max is not None and value > declaration.max)
    ):
        raise ValueError
    return value


def _convert_word(kind: Any, word: str) -> Any:
    if kind is bool:
        return True
    if kind is Path or kind is str:
        return kind(word)
    pattern = {int: _INTEGER, float: _FLOAT}[kind]
    if not pattern.fullmatch(word):
        raise ValueError
    return kind(word)
