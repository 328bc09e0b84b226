"""Model files as the commands open them."""

from pathlib import Path
from typing import Any

from trellis.errors import InputError
from trellis.features.extractor import TemplateFeatures
from trellis.loading import load

__all__ = ["columns_of", "count_weights", "linear_part", "open_model"]


def open_model(path: Path, jobs: int | None = None) -> Any:
    """The model of a file, which must label sequences, for so many threads."""
    try:
        model = load(path)
    except ImportError as error:  # a network, but no PyTorch
        raise InputError(f"{path}: {error}") from None
    if not hasattr(model, "predict_marginals"):
        raise InputError(f"{path}: a {type(model).__name__}, which labels no sequences")
    model.n_jobs = jobs
    return model


def columns_of(model: Any, path: Path) -> int:
    """How many columns the tokens of a model have."""
    if hasattr(model, "columns_"):
        return int(model.columns_)
    features = getattr(model, "features_", None)
    if not isinstance(features, TemplateFeatures):
        raise InputError(f"{path}: a model of ready features, which no text file has: use Python")
    return features.spec.columns


def linear_part(model: Any) -> Any:
    """What of a model has features with weights: all of it, the CRF in a hybrid, or None."""
    if hasattr(model, "network_"):
        return getattr(model, "linear_", None)
    return model if hasattr(model, "features_") else None


def count_weights(model: Any) -> int | None:
    """How many numbers a model has learned; None where they are not counted."""
    if not hasattr(model, "network_"):
        return len(model.coef_) if hasattr(model, "coef_") else None
    features = linear_part(model)
    count = sum(p.numel() for p in model.network_.parameters())
    return int(count) + (0 if features is None else len(features.coef_))
