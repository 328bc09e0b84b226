"""hmmlearn.hmm: the models."""

from trellis.compat.hmmlearn.gaussian import GaussianHMM
from trellis.compat.hmmlearn.mixture import GMMHMM
from trellis.compat.hmmlearn.poisson import PoissonHMM
from trellis.compat.hmmlearn.symbols import CategoricalHMM, MultinomialHMM

__all__ = ["GMMHMM", "CategoricalHMM", "GaussianHMM", "MultinomialHMM", "PoissonHMM"]
