"""The tagging scheme that fits the labels best, and the labels that break it."""

from __future__ import annotations

from collections.abc import Mapping

from trellis.app.checking.survey import Pair
from trellis.data import tags
from trellis.errors import InputError

__all__ = ["Violations", "choose_scheme"]

# If no scheme has a smaller share of wrong tags, the labels are taken as plain, without a scheme.
_MAX_WRONG = 0.2


class Violations:
    """The tags that a scheme does not have, and the pairs of tags that it forbids."""

    def __init__(self, scheme: str, labels: Mapping[str, int], pairs: Mapping[Pair, int]) -> None:
        self.scheme = scheme
        valid_labels = [label for label in labels if _is_tag(label, scheme)]
        self.invalid = [label for label in labels if label not in {*valid_labels}]
        index = {label: number for number, label in enumerate(valid_labels)}
        start, matrix, end = tags.allowed_transitions(valid_labels, scheme)

        def is_allowed(previous_tag: str | None, next_tag: str | None) -> bool:
            if previous_tag is None:
                return next_tag is None or bool(start[index[next_tag]])
            return bool(
                end[index[previous_tag]]
                if next_tag is None
                else matrix[index[previous_tag], index[next_tag]]
            )

        valid_or_none = {*valid_labels, None}
        self.forbidden = [
            pair for pair in pairs if valid_or_none.issuperset(pair) and not is_allowed(*pair)
        ]
        self.count = sum(labels[label] for label in self.invalid)
        self.count += sum(pairs[pair] for pair in self.forbidden)
        """The number of wrong tags and wrong pairs."""


def choose_scheme(labels: Mapping[str, int], pairs: Mapping[Pair, int]) -> str:
    """Return the scheme with the fewest violations; ``plain`` if none fits.

    Unlike `tags.detect`, it also finds the scheme of labels that contain mistakes.

    >>> choose_scheme({"O": 90, "B-X": 10, "I-X": 5, "x": 1}, {("B-X", "I-X"): 5, ("O", "x"): 1})
    'BIO'
    """
    n_inside = sum(count for label, count in labels.items() if label != "O")
    # If several schemes fit equally well, the first one in this order is chosen.
    schemes = ("BIO", "IOB1", "IOE2", "IOE1", "BIOES", "BILOU")
    candidates = [Violations(scheme, labels, pairs) for scheme in schemes]
    best = min(candidates, key=lambda violations: violations.count)
    return best.scheme if n_inside and best.count <= _MAX_WRONG * n_inside else "plain"


def _is_tag(label: str, scheme: str) -> bool:
    try:
        tags.spans([label], scheme, strict=True)
    except InputError:
        return False
    return True
