"""Declarations of JSON values: one declaration validates requests and is the OpenAPI schema.

sequences = Items(ANY_SEQUENCE, min=1, max=10_000, text="The sequences to label.")
body = Record(sequences=sequences, k=Optional(Whole(1, 100), 5))
values = body.read(json.loads(text), "")    # RequestError names the place of a wrong value
document = body.document()                  # for /openapi.json
"""

import math
from typing import Any, Protocol

from trellis.app.web.http.errors import RequestError

__all__ = [
    "Choice",
    "Declaration",
    "Flag",
    "Items",
    "Member",
    "Nullable",
    "OneOf",
    "Optional",
    "Real",
    "Record",
    "Table",
    "Text",
    "Whole",
    "are_short_strings",
]

_SHOWN = 60  # characters of a wrong value in a message


class Declaration(Protocol):
    """A kind of JSON value."""

    def read(self, value: Any, where: str) -> Any:
        """Return the value; raise RequestError if it is wrong. ``where`` names its place."""

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""


def _refuse(where: str, value: Any, expected: str) -> RequestError:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + "…"
    return RequestError(400, f"{where or 'the body'} is {shown}: must be {expected}")


def _describe(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return schema | {"description": text} if text else schema


class Text:
    """A string of at most ``max`` characters."""

    def __init__(self, max: int, text: str = "") -> None:
        self.max, self.text = max, text

    def read(self, value: Any, where: str) -> Any:
        """Return the string."""
        if type(value) is not str or len(value) > self.max:
            raise _refuse(where, value, f"a string of at most {self.max:,} characters")
        return value

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return _describe({"type": "string", "maxLength": self.max}, self.text)


class Whole:
    """An integer from ``low`` to ``high``."""

    def __init__(self, low: int, high: int, text: str = "") -> None:
        self.low, self.high, self.text = low, high, text

    def read(self, value: Any, where: str) -> Any:
        """Return the integer."""
        if type(value) is not int or not self.low <= value <= self.high:
            raise _refuse(where, value, f"an integer from {self.low} to {self.high:,}")
        return value

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        limits = {"minimum": self.low, "maximum": self.high}
        return _describe({"type": "integer", **limits}, self.text)


class Real:
    """A finite number."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def read(self, value: Any, where: str) -> Any:
        """Return the number as a float."""
        if type(value) not in (int, float):
            raise _refuse(where, value, "a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise _refuse(where, value, "a finite number")
        return number

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return _describe({"type": "number"}, self.text)


class Flag:
    """True or false."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def read(self, value: Any, where: str) -> Any:
        """Return the truth value."""
        if type(value) is not bool:
            raise _refuse(where, value, "true or false")
        return value

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return _describe({"type": "boolean"}, self.text)


class Choice:
    """One of some strings."""

    def __init__(self, *values: str, text: str = "") -> None:
        self.values, self.text = values, text

    def read(self, value: Any, where: str) -> Any:
        """Return the string."""
        if type(value) is not str or value not in self.values:
            raise _refuse(where, value, f"one of {', '.join(self.values)}")
        return value

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return _describe({"type": "string", "enum": list(self.values)}, self.text)


class Nullable:
    """A value or null."""

    def __init__(self, item: Declaration) -> None:
        self.item = item

    def read(self, value: Any, where: str) -> Any:
        """Return the value, or None."""
        return None if value is None else self.item.read(value, where)

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return {"anyOf": [self.item.document(), {"type": "null"}]}


class Items:
    """An array of ``min`` to ``max`` values of one kind."""

    def __init__(self, item: Declaration, max: int, min: int = 0, text: str = "") -> None:
        self.item, self.min, self.max, self.text = item, min, max, text

    def read(self, value: Any, where: str) -> Any:
        """Return the values."""
        if type(value) is not list or not self.min <= len(value) <= self.max:
            expected = f"an array of {self.min} to {self.max:,} values"
            raise _refuse(where, value, expected)
        item = self.item
        if type(item) is Text and are_short_strings(value, item.max):
            return value
        return [item.read(entry, f"{where}[{n}]") for n, entry in enumerate(value)]

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        sizes = {"minItems": self.min, "maxItems": self.max}
        return _describe({"type": "array", "items": self.item.document(), **sizes}, self.text)


def are_short_strings(values: list[Any], limit: int) -> bool:
    """Return whether all values are strings of at most ``limit`` characters."""
    return set(map(type, values)) <= {str} and max(map(len, values), default=0) <= limit


class Table:
    """An object with any keys, whose values are of one kind."""

    def __init__(self, item: Declaration, max: int, text: str = "") -> None:
        self.item, self.max, self.text = item, max, text

    def read(self, value: Any, where: str) -> Any:
        """Return the values by key."""
        if type(value) is not dict or len(value) > self.max:
            raise _refuse(where, value, f"an object of at most {self.max:,} members")
        return {key: self.item.read(entry, f"{where}.{key}") for key, entry in value.items()}

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        schema = {"type": "object", "additionalProperties": self.item.document()}
        return _describe(schema | {"maxProperties": self.max}, self.text)


class OneOf:
    """A value of the first kind that accepts its JSON type."""

    def __init__(self, text: str = "", /, **kinds: Declaration) -> None:
        self.kinds, self.text = kinds, text
        """By JSON type: string, array, object, number or boolean."""

    def read(self, value: Any, where: str) -> Any:
        """Return the value, read by the declaration for its JSON type."""
        kind = self.kinds.get(_TYPES.get(type(value), "null"))
        if kind is None:
            raise _refuse(where, value, " or ".join(f"of type {name}" for name in self.kinds))
        return kind.read(value, where)

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        return _describe({"oneOf": [kind.document() for kind in self.kinds.values()]}, self.text)


_TYPES = {
    str: "string",
    list: "array",
    dict: "object",
    int: "number",
    float: "number",
    bool: "boolean",
}


class Optional:
    """A member of a `Record` that may be absent, and its default value."""

    def __init__(self, item: Declaration, default: Any = None) -> None:
        self.item, self.default = item, default


Member = Declaration | Optional


class Record:
    """An object with these members and no others."""

    def __init__(self, text: str = "", /, **members: Member) -> None:
        self.text = text
        self.members: dict[str, tuple[Declaration, Optional | None]] = {
            name: (member.item, member) if isinstance(member, Optional) else (member, None)
            for name, member in members.items()
        }

    def read(self, value: Any, where: str) -> Any:
        """Return the values of all members by name; absent ones have their default."""
        if type(value) is not dict:
            raise _refuse(where, value, f"an object with {', '.join(self.members) or 'no member'}")
        values: dict[str, Any] = {}
        for name, (item, optional) in self.members.items():
            if name in value:
                values[name] = item.read(value[name], f"{where}.{name}" if where else name)
            elif optional is None:
                place = f" in {where}" if where else ""
                raise RequestError(400, f"{name} is missing{place}")
            else:
                values[name] = optional.default
        if unknown := value.keys() - self.members.keys():
            name = min(unknown)
            known = ", ".join(self.members) or "none"
            raise RequestError(400, f"{where or 'the body'} has {name[:_SHOWN]!r}: known: {known}")
        return values

    def document(self) -> dict[str, Any]:
        """Return the JSON schema."""
        properties = {}
        for name, (item, optional) in self.members.items():
            schema = item.document()
            if optional is not None and optional.default is not None:
                schema = schema | {"default": optional.default}
            properties[name] = schema
        schema = {
            "type": "object",
            "properties": properties,
            "required": [name for name, (_, option) in self.members.items() if option is None],
            "additionalProperties": False,
        }
        return _describe(schema, self.text)
