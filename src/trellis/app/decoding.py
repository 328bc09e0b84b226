"""The labels that a command predicts: by a decoder, or of the spans above a threshold."""

from typing import Any

from trellis.data import tags
from trellis.errors import InputError

__all__ = ["predict_labels"]


def predict_labels(
    model: Any, X: list[Any], decode: str, min_probability: float | None
) -> list[list[str]]:
    """Return the labels of each sequence.

    With ``min_probability``, they are the tags of all spans with at least this probability, in the
    scheme of the labels, and ``decode`` is not used.
    """
    if min_probability is None:
        labels: list[list[str]] = model.predict(X, decode=decode)
        return labels
    classes = [str(label) for label in model.classes_]
    if "O" not in classes:
        raise InputError("the model has no label O: --min-probability needs one for other words")
    scheme = tags.detect(classes, otherwise="plain")
    spans = model.predict_spans(X, scheme, min_probability=min_probability)
    return [
        tags.from_spans([span[:3] for span in row], len(x), scheme)
        for x, row in zip(X, spans, strict=True)
    ]
