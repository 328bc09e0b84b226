"""scikit-learn's scores for label sequences, and the fraction of correct sequences.

>>> flat_accuracy_score([["x", "z", "y"], ["x", "x"]], [["y", "z", "y"], ["x", "y"]])
0.6
"""

from typing import Any

from sklearn import metrics

from trellis.compat.sklearn_crfsuite.utils import flatten

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]


def flat_accuracy_score(y_true: Any, y_pred: Any) -> float:
    """Return the fraction of correct labels."""
    return float(metrics.accuracy_score(flatten(y_true), flatten(y_pred)))


def flat_precision_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    """Return `sklearn.metrics.precision_score` of all labels."""
    return metrics.precision_score(flatten(y_true), flatten(y_pred), **kwargs)


def flat_recall_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    """Return `sklearn.metrics.recall_score` of all labels."""
    return metrics.recall_score(flatten(y_true), flatten(y_pred), **kwargs)


def flat_f1_score(y_true: Any, y_pred: Any, **kwargs: Any) -> Any:
    """Return `sklearn.metrics.f1_score` of all labels."""
    return metrics.f1_score(flatten(y_true), flatten(y_pred), **kwargs)


def flat_fbeta_score(y_true: Any, y_pred: Any, beta: float, **kwargs: Any) -> Any:
    """Return `sklearn.metrics.fbeta_score` of all labels."""
    return metrics.fbeta_score(flatten(y_true), flatten(y_pred), beta=beta, **kwargs)


def flat_classification_report(y_true: Any, y_pred: Any, labels: Any = None, **kwargs: Any) -> Any:
    """Return `sklearn.metrics.classification_report` of all labels."""
    return metrics.classification_report(flatten(y_true), flatten(y_pred), labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Any, y_pred: Any) -> float:
    """Return the fraction of sequences whose labels are all correct."""
    total = len(y_true)
    if not total:
        return 0  # as in sklearn-crfsuite
    is_equal = (
        list(true) == list(predicted_labels)
        for true, predicted_labels in zip(y_true, y_pred, strict=True)
    )
    return sum(is_equal) / total
