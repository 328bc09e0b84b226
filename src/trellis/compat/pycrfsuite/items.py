"""The features of a sequence, read once."""

from typing import Any

from trellis import _core

__all__ = ["ItemSequence"]


class ItemSequence(_core.ItemSequence):
    """Features of all positions of one sequence, in the form that trainers and taggers use.

    An item is a list or set of names, or a dict: ``{"word": "Rome"}`` is ``word:Rome``, numbers and
    booleans are values, and what a dict, list or set holds gets the name before it.

    >>> ItemSequence([["foo"], {"bar": {"baz": 1, "on": True}}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0, 'bar:on': 1.0}]
    >>> ItemSequence([["foo"]])
    <ItemSequence of size 1>
    """

    def __init__(self, pyseq: Any) -> None:
        super().__init__(pyseq)

    def items(self) -> list[dict[str, float]]:
        """One dict for each position: full names and values."""
        return super().items()

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"
