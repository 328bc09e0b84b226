"""Emission distributions p(xₜ | yₜ) of an HMM. README.md says in which order to read the files."""

from trellis.models.chain.emissions.base import Emission, Observations
from trellis.models.chain.emissions.categorical import Categorical
from trellis.models.chain.emissions.features import Features
from trellis.models.chain.emissions.gaussian import Gaussian
from trellis.models.chain.emissions.mixture import Mixture
from trellis.models.chain.emissions.poisson import Poisson

__all__ = ["BY_NAME", "Categorical", "Emission", "Features", "Gaussian", "Mixture", "Observations"]
__all__ += ["Poisson"]

BY_NAME: dict[str, type[Emission]] = {
    cls.kind: cls for cls in (Categorical, Gaussian, Mixture, Poisson)
}
"""The values of ``HMM(emissions=…)`` and of the kind in a file."""
