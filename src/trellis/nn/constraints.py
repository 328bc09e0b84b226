"""Tags that must not follow one another, begin or end: by a tagging scheme or one by one."""

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
    """What must not follow what, begin and end."""
    if labels is not None and len(labels) != count:
        raise InputError(f"there are {count} tags but {len(labels)} labels")
    if constraints is None:
        return None, None, None
    if isinstance(constraints, str):
        if labels is None:
            raise InputError(f"constraints={constraints!r} needs the names of the tags: labels=[…]")
        may = schemes.allowed_transitions(list(labels), constraints)
        found = [~np.asarray(may.matrix), ~np.asarray(may.start), ~np.asarray(may.end)]
        return torch.from_numpy(found[0]), torch.from_numpy(found[1]), torch.from_numpy(found[2])
    pairs = torch.zeros(count, count, dtype=torch.bool)
    try:
        listed = [
            (as_integer(before, "tag"), as_integer(after, "tag")) for before, after in constraints
        ]
    except (TypeError, ValueError):
        what = "a tagging scheme or pairs (tag, next tag) of numbers"
        raise InputError(f"constraints must be {what}, not {constraints!r:.60}") from None
    for before, after in listed:
        if not (0 <= before < count and 0 <= after < count):
            raise InputError(f"constraint {(before, after)} is not of two of the {count} tags")
        pairs[before, after] = True
    return pairs, torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
