"""From loss and gradient to weights.

Each optimiser minimises ``objective(w, gradient) -> loss``, which fills ``gradient``, and returns a
:class:`Result`. A ``callback`` is called with the :class:`Progress` of each iteration; a truthy
return value stops the run.

>>> def bowl(w, gradient):
...     gradient[:] = w - [1, 2]
...     return ((w - [1, 2]) ** 2).sum() / 2
>>> lbfgs(bowl, [0, 0]).w.round(6).tolist()
[1.0, 2.0]
"""

from trellis.optim.gradient import gradient_ascent
from trellis.optim.lbfgs import LbfgsState, lbfgs
from trellis.optim.newton import newton
from trellis.optim.result import Callback, Objective, Progress, Result
from trellis.optim.stopping import EarlyStopping

__all__ = [
    "Callback",
    "EarlyStopping",
    "LbfgsState",
    "Objective",
    "Progress",
    "Result",
    "gradient_ascent",
    "lbfgs",
    "newton",
]
