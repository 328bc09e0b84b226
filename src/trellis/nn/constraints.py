"""Forbidden transitions, starts and ends of tags: from a tagging scheme or from pairs."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from trellis.checks import as_integer
from trellis.data import tags as schemes
from trellis.errors import InputError

__all__ = ["forbidden"]


def forbidden(
    count: int, labels: Sequence[str] | None, constraints: str | Iterable[tuple[int, int]] | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return tables of transitions (L, L), starts (L,) and ends (L,), True where forbidden.

    All three are None without constraints.
    """
    if labels is not None and len(labels) != count:
        raise InputError(f"there are {count} tags, but labels has {len(labels)} names")
    if constraints is None:
        return None, None, None
    if isinstance(constraints, str):
        if labels is None:
            raise InputError(f"constraints={constraints!r} needs the names of the tags in labels")
        allowed = schemes.allowed_transitions(list(labels), constraints)
        pairs, starts, ends = (
            torch.from_numpy(~np.asarray(table))
            for table in (allowed.matrix, allowed.start, allowed.end)
        )
        return pairs, starts, ends
    pairs = torch.zeros(count, count, dtype=torch.bool)
    try:
        forbidden_pairs = [
            (as_integer(before, "tag"), as_integer(after, "tag")) for before, after in constraints
        ]
    except (TypeError, ValueError):
        expected = "a tagging scheme or pairs (tag, next tag) of numbers"
        raise InputError(f"constraints must be {expected}, not {constraints!r:.60}") from None
    for before, after in forbidden_pairs:
        if not (0 <= before < count and 0 <= after < count):
            raise InputError(f"constraint {(before, after)}: tags must be 0 to {count - 1}")
        pairs[before, after] = True
    return pairs, torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
