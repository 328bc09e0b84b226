"""python-crfsuite's `ItemSequence`: the features of a sequence, converted once."""

from typing import Any

from trellis import _core

__all__ = ["ItemSequence"]


class ItemSequence(_core.ItemSequence):
    """Features of all positions of one sequence. Trainers and taggers accept it.

    An item is a list or set of names, or a dict. In a dict, ``{"word": "Rome"}`` becomes
    ``word:Rome``. Numbers and booleans are values. The names in a nested dict, list or set get the
    key as a prefix.

    >>> ItemSequence([["foo"], {"bar": {"baz": 1, "on": True}}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0, 'bar:on': 1.0}]
    >>> ItemSequence([["foo"]])
    <ItemSequence of size 1>
    """

    def __init__(self, pyseq: Any) -> None:
        super().__init__(pyseq)

    def items(self) -> list[dict[str, float]]:
        """Return a dict of full names and values for each position."""
        return super().items()

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"
