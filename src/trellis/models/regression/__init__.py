"""Logistic and softmax regression."""

from trellis.models.regression.base import Regression

__all__ = ["Regression"]
