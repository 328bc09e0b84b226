"""From loss and gradient to weights.

Each optimiser minimises ``objective(w, gradient) -> loss``, which fills ``gradient``, and returns a
:class:`Result`. A ``callback`` is called with the :class:`Progress` of each iteration; a truthy
return value stops the run. Online solvers, which update the weights after each sample, get a
``learner`` instead of an objective: `sgd` takes any losses (`SampleLosses`), `perceptron`,
`passive_aggressive` and `arow` take a model of sequences. `block_frank_wolfe` gets an oracle.

>>> def bowl(w, gradient):
...     gradient[:] = w - [1, 2]
...     return ((w - [1, 2]) ** 2).sum() / 2
>>> lbfgs(bowl, [0, 0]).w.round(6).tolist()
[1.0, 2.0]
"""

from trellis.optim.arow import arow
from trellis.optim.frank_wolfe import block_frank_wolfe
from trellis.optim.gradient import StepSize, gradient_ascent
from trellis.optim.lbfgs import LbfgsState, lbfgs
from trellis.optim.newton import newton
from trellis.optim.online import Learner, SgdLearner
from trellis.optim.passive_aggressive import passive_aggressive
from trellis.optim.perceptron import perceptron
from trellis.optim.result import Callback, Objective, Progress, Result
from trellis.optim.sgd import SampleLosses, sgd
from trellis.optim.stopping import EarlyStopping

__all__ = [
    "Callback",
    "EarlyStopping",
    "LbfgsState",
    "Learner",
    "Objective",
    "Progress",
    "Result",
    "SampleLosses",
    "SgdLearner",
    "StepSize",
    "arow",
    "block_frank_wolfe",
    "gradient_ascent",
    "lbfgs",
    "newton",
    "passive_aggressive",
    "perceptron",
    "sgd",
]
