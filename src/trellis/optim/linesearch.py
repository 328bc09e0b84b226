"""Line searches find a step t > 0 along a direction d that lowers φ(t) = loss(w + t d).

``evaluate_step(t)`` returns (φ(t), φ′(t)). A step is accepted if the loss falls enough,
φ(t) ≤ φ(0) + 10⁻⁴ t φ′(0), and the slope is flatter, |φ′(t)| ≤ 0.9 |φ′(0)| (the strong Wolfe
conditions). A loss that is not finite means that the step is too long. If the change of the loss is
below its rounding error, only the slope decides. The last call of ``evaluate_step`` is always with
the accepted step.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["EvaluateStep", "Search", "armijo", "backtracking", "more_thuente"]

# The constants are those of liblbfgs, so that a run takes the same steps as CRFsuite.
DECREASE = 1e-4  # ftol: required fraction of the predicted decrease
FLATTER = 0.9  # gtol: the slope at an accepted step is at most this fraction of the first slope
SHORTEST, LONGEST = 1e-20, 1e20  # limits of the step length
ROUNDING = 4.0 * sys.float_info.epsilon  # a smaller relative rise of the loss is rounding error

EvaluateStep: TypeAlias = Callable[[float], tuple[float, float]]


class Search(NamedTuple):
    """The accepted step; or, with a ``failure``, the last step and the reason of the failure."""

    step: float
    failure: str | None = None


class _Trial(NamedTuple):
    """φ and φ′ at a step."""

    step: float
    loss: float
    slope: float


def armijo(evaluate_step: EvaluateStep, loss: float, step: float, max_trials: int) -> Search:
    """Return the first of t, t/2, t/4 ... with φ(t) ≤ φ(0) + 10⁻⁴ · predicted change.

    Here ``evaluate_step(t)`` returns φ(t) and the change that the slope predicts, which must be
    negative.

    >>> armijo(lambda t: ((t - 1) ** 2, -2 * t), 1.0, 8.0, 20)
    Search(step=1.0, failure=None)
    """
    for _ in range(max_trials):
        new_loss, predicted = evaluate_step(step)
        if math.isfinite(new_loss) and predicted < 0.0 and new_loss <= loss + DECREASE * predicted:
            return Search(step)
        if step * 0.5 < SHORTEST:
            break
        step *= 0.5
    return Search(step, f"no step lowers the loss of {loss}: the last step gives {new_loss}")


def backtracking(
    evaluate_step: EvaluateStep,
    loss: float,
    slope: float,
    step: float,
    max_trials: int,
    *,
    strong: bool = False,
) -> Search:
    """Halve t while the loss does not fall enough; lengthen it while the slope is too steep.

    With ``strong``, a slope that is too steep upwards is not accepted either.

    >>> backtracking(lambda t: ((t - 1) ** 2, 2 * (t - 1)), 1.0, -2.0, 8.0, 20)
    Search(step=1.0, failure=None)
    """
    low = _Trial(0.0, loss, slope)
    for _ in range(max_trials):
        trial = _Trial(step, *evaluate_step(step))
        is_finite = math.isfinite(trial.loss) and math.isfinite(trial.slope)
        if is_finite and trial.loss < low.loss:
            low = trial
        if not is_finite or trial.loss > _highest_loss(loss, slope, step):
            scale = 0.5
        elif trial.slope < FLATTER * slope:
            scale = 2.1
        elif strong and trial.slope > -FLATTER * slope:
            scale = 0.5
        else:
            return Search(step)
        if not SHORTEST <= step * scale <= LONGEST:
            break
        step *= scale
    return _accept_lowest(evaluate_step, low, loss, slope, trial)


def more_thuente(
    evaluate_step: EvaluateStep, loss: float, slope: float, step: float, max_trials: int
) -> Search:
    """Search for a step that satisfies both conditions, as in Moré and Thuente (1994).

    An interval that contains such a step is shrunk by minimising cubics and parabolas through its
    ends. ``low`` is the end with the lowest loss so far. ``high`` is the other end, once the
    interval is bounded.

    >>> more_thuente(lambda t: ((t - 3) ** 2, 2 * (t - 3)), 9.0, -6.0, 1.0, 20)
    Search(step=1.0, failure=None)
    """
    low = high = _Trial(0.0, loss, slope)
    is_bounded = False
    max_step = width = LONGEST
    previous_width = math.inf
    for _ in range(max_trials):
        trial = _Trial(step, *evaluate_step(step))
        if not (math.isfinite(trial.loss) and math.isfinite(trial.slope)):
            # This step is too long. The next one is at a quarter of the way from `low` to it.
            max_step = step
            step = low.step + 0.25 * (step - low.step)
            continue
        sufficient_loss = loss + DECREASE * step * slope
        if trial.loss <= _highest_loss(loss, slope, step) and abs(trial.slope) <= -FLATTER * slope:
            return Search(step)
        # Far from the minimum, first search a step with sufficient decrease: tilt φ by the line of
        # sufficient decrease, and minimise the difference (ψ in the paper). In the paper this first
        # stage ends at a step with sufficient decrease that is too long. No variable for the stage
        # is needed: such a step bounds the interval from above, so no later loss is between the
        # line and the lowest loss.
        tilt = DECREASE * slope if sufficient_loss < trial.loss <= low.loss else 0.0
        step_limits = _step_limits(low, high, step, is_bounded, max_step)
        step = _next_step(
            _tilt_trial(low, tilt),
            _tilt_trial(high, tilt),
            _tilt_trial(trial, tilt),
            is_bounded,
            step_limits,
        )
        low, high, is_bounded = _shrink(low, high, trial, is_bounded, tilt)
        if is_bounded:
            # Two iterations must shrink the interval to 2/3; otherwise bisect it.
            if abs(high.step - low.step) >= 0.66 * previous_width:
                step = low.step + 0.5 * (high.step - low.step)
            previous_width, width = width, abs(high.step - low.step)
        step = min(max(step, SHORTEST), max_step)
        if _is_exhausted(low, high, step, is_bounded) or step == trial.step:
            break
    return _accept_lowest(evaluate_step, low, loss, slope, trial)


def _highest_loss(loss: float, slope: float, step: float) -> float:
    """Return the highest loss at which a step is accepted."""
    required_change = DECREASE * step * slope
    return loss + (
        required_change if -required_change > ROUNDING * abs(loss) else ROUNDING * abs(loss)
    )


def _tilt_trial(trial: _Trial, tilt: float) -> _Trial:
    """Return the same trial for the function φ(t) - tilt · t."""
    return _Trial(trial.step, trial.loss - trial.step * tilt, trial.slope - tilt)


def _step_limits(
    low: _Trial, high: _Trial, step: float, is_bounded: bool, max_step: float
) -> tuple[float, float]:
    """Return the shortest and the longest step to try next."""
    if is_bounded:
        return min(low.step, high.step), max(low.step, high.step)
    return low.step, min(step + 4.0 * (step - low.step), max_step)


def _is_exhausted(low: _Trial, high: _Trial, step: float, is_bounded: bool) -> bool:
    """Return True if the interval is too narrow to contain another step."""
    start, end = sorted((low.step, high.step))
    return is_bounded and not start < step < end


def _accept_lowest(
    evaluate_step: EvaluateStep, low: _Trial, loss: float, slope: float, last: _Trial
) -> Search:
    """Accept the trial with the lowest loss if that loss is low enough; otherwise fail."""
    if low.loss < loss and low.loss <= loss + DECREASE * low.step * slope:
        evaluate_step(low.step)
        return Search(low.step)
    return Search(last.step, f"no step lowers the loss of {loss}: the last step gives {last.loss}")


def _shrink(
    low: _Trial, high: _Trial, trial: _Trial, is_bounded: bool, tilt: float
) -> tuple[_Trial, _Trial, bool]:
    """Return the interval (low, high, is it bounded?) after a trial that was not accepted."""
    is_higher = _tilt_trial(trial, tilt).loss > _tilt_trial(low, tilt).loss
    slopes_differ = (trial.slope - tilt) * (low.slope - tilt) < 0.0
    if is_higher:
        return low, trial, True
    return trial, low if slopes_differ else high, is_bounded or slopes_differ


def _next_step(
    low: _Trial, high: _Trial, trial: _Trial, is_bounded: bool, step_limits: tuple[float, float]
) -> float:
    """Return the next step to try. The four cases are those of section 4 of the paper."""
    min_step, max_step = step_limits
    is_safeguarded = False  # True: the step must not be close to the other end of the interval
    if trial.loss > low.loss:  # case 1: the minimum is bracketed
        cubic, parabola = _cubic_minimum(low, trial), _parabola_minimum(low, trial)
        cubic_is_closer = abs(cubic - low.step) < abs(parabola - low.step)
        step = cubic if cubic_is_closer else cubic + 0.5 * (parabola - cubic)
        is_bounded = is_safeguarded = True
        high = trial
    elif trial.slope * low.slope < 0.0:  # case 2: the slope changes its sign
        cubic, secant = _cubic_minimum(trial, low), _secant_zero(low, trial)
        step = cubic if abs(cubic - trial.step) > abs(secant - trial.step) else secant
    elif abs(trial.slope) < abs(low.slope):  # case 3: the slope becomes flatter
        cubic, secant = _cubic_minimum_beyond(low, trial, step_limits), _secant_zero(low, trial)
        cubic_is_closer = abs(trial.step - cubic) < abs(trial.step - secant)
        step = cubic if cubic_is_closer == is_bounded else secant
        is_safeguarded = True
    elif is_bounded:  # case 4: the loss falls faster and faster
        step = _cubic_minimum(trial, high)
    else:
        step = max_step
    step = min(max(step, min_step), max_step)
    if is_bounded and is_safeguarded:
        base = low if high is trial else trial
        edge = base.step + 0.66 * (high.step - base.step)
        step = min(step, edge) if base.step < high.step else max(step, edge)
    return step


def _cubic_terms(a: _Trial, b: _Trial) -> tuple[float, float]:
    """Return θ and γ of the cubic through two trials, as in MINPACK.

    γ has the sign of b.step - a.step.
    """
    theta = 3.0 * (a.loss - b.loss) / (b.step - a.step) + a.slope + b.slope
    size = max(abs(theta), abs(a.slope), abs(b.slope))
    if size == 0.0:
        return 0.0, 0.0
    # All terms are divided by the largest one, so that the square does not overflow.
    square = (theta / size) ** 2 - (a.slope / size) * (b.slope / size)
    return theta, math.copysign(size * math.sqrt(max(0.0, square)), b.step - a.step)


def _cubic_minimum(a: _Trial, b: _Trial) -> float:
    """Return the step at the minimum of the cubic through the losses and slopes of both trials."""
    theta, gamma = _cubic_terms(a, b)
    numerator = gamma - a.slope + theta
    denominator = gamma - a.slope + gamma + b.slope
    ratio = numerator / denominator if denominator != 0.0 else 0.5
    return a.step + ratio * (b.step - a.step)


def _cubic_minimum_beyond(a: _Trial, b: _Trial, step_limits: tuple[float, float]) -> float:
    """Return the minimum of the cubic beyond b, or the limit on that side if there is none."""
    theta, gamma = _cubic_terms(a, b)
    numerator = -gamma - b.slope + theta
    denominator = -gamma - b.slope - gamma + a.slope
    # The quotient is negative if the minimum is beyond b.
    if gamma != 0.0 and numerator * denominator < 0.0:
        return b.step + numerator / denominator * (a.step - b.step)
    return step_limits[1] if b.step > a.step else step_limits[0]


def _parabola_minimum(a: _Trial, b: _Trial) -> float:
    """Return the step at the minimum of the parabola through both losses and the slope at a."""
    width = b.step - a.step
    return a.step + a.slope / ((a.loss - b.loss) / width + a.slope) / 2.0 * width


def _secant_zero(a: _Trial, b: _Trial) -> float:
    """Return the step at which the line through both slopes is zero."""
    return b.step + b.slope / (b.slope - a.slope) * (a.step - b.step)
