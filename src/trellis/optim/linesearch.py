"""How far to go along a direction d: a step t > 0 for φ(t) = loss(w + t d).

``along(t)`` gives (φ(t), φ′(t)). A step is good when the loss falls enough,
φ(t) ≤ φ(0) + 10⁻⁴ t φ′(0), and the slope has flattened, |φ′(t)| ≤ 0.9 |φ′(0)|. A loss that is not
finite means: too far. Where the loss has no digits left to tell, the slope alone decides. The point
that ``along`` saw last is the one that a search accepts.
"""

import math
import sys
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

__all__ = ["Along", "Search", "armijo", "backtracking", "more_thuente"]

DECREASE = 1e-4  # ftol: share of the promised decrease that must come true
FLATTER = 0.9  # gtol: the slope may keep this share of its size
SHORTEST, LONGEST = 1e-20, 1e20
ROUNDING = 4.0 * sys.float_info.epsilon  # relative: such a rise of the loss means nothing
NARROWEST = 1e-16  # xtol: relative width of an interval that is not worth searching

Along: TypeAlias = Callable[[float], tuple[float, float]]


class Search(NamedTuple):
    """The accepted step, or why there is none."""

    step: float
    failure: str | None = None


class _At(NamedTuple):
    """φ and φ′ at a step."""

    step: float
    loss: float
    slope: float


def armijo(along: Along, loss: float, step: float, most: int) -> Search:
    """The first of t, t/2, t/4 ... with φ(t) ≤ φ(0) + 10⁻⁴ · what the slope promises.

    Here ``along(t)`` gives φ(t) and that promise, which must be negative.

    >>> armijo(lambda t: ((t - 1) ** 2, -2 * t), 1.0, 8.0, 20)
    Search(step=1.0, failure=None)
    """
    for _ in range(most):
        here, promised = along(step)
        if math.isfinite(here) and promised < 0.0 and here <= loss + DECREASE * promised:
            return Search(step)
        if step * 0.5 < SHORTEST:
            break
        step *= 0.5
    return Search(step, f"no step lowers the loss of {loss}, the last one gives {here}")


def backtracking(
    along: Along, loss: float, slope: float, step: float, most: int, *, strong: bool = False
) -> Search:
    """Halve t while the loss does not fall enough, stretch it while the slope is still steep.

    ``strong`` also refuses a slope that is as steep upwards.

    >>> backtracking(lambda t: ((t - 1) ** 2, 2 * (t - 1)), 1.0, -2.0, 8.0, 20)
    Search(step=1.0, failure=None)
    """
    low = _At(0.0, loss, slope)
    for _ in range(most):
        now = _At(step, *along(step))
        finite = math.isfinite(now.loss) and math.isfinite(now.slope)
        if finite and now.loss < low.loss:
            low = now
        if not finite or now.loss > _enough(loss, slope, step):
            scale = 0.5
        elif now.slope < FLATTER * slope:
            scale = 2.1
        elif strong and now.slope > -FLATTER * slope:
            scale = 0.5
        else:
            return Search(step)
        if not SHORTEST <= step * scale <= LONGEST:
            break
        step *= scale
    return _settled(along, low, loss, slope, now)


def more_thuente(along: Along, loss: float, slope: float, step: float, most: int) -> Search:
    """The search of Moré and Thuente (1994): a step that satisfies both conditions, or fails.

    An interval with a good step in it is shrunk by minimising cubics and parabolas through its
    ends. ``low`` is its end with the lowest loss so far; ``high`` is the other one, once the
    interval is known to be bounded.

    >>> more_thuente(lambda t: ((t - 3) ** 2, 2 * (t - 3)), 9.0, -6.0, 1.0, 20)
    Search(step=1.0, failure=None)
    """
    low = high = _At(0.0, loss, slope)
    bounded, early = False, True
    longest = width = LONGEST
    wider = 2.0 * LONGEST
    for _ in range(most):
        now = _At(step, *along(step))
        if not (math.isfinite(now.loss) and math.isfinite(now.slope)):
            longest = step
            step = low.step + 0.25 * (step - low.step)
            continue
        enough = loss + DECREASE * step * slope
        if now.loss <= _enough(loss, slope, step) and abs(now.slope) <= -FLATTER * slope:
            return Search(step)
        # Far from the minimum, first find a fall of the loss below the line of enough decrease.
        early = early and not (now.loss <= enough and now.slope >= DECREASE * slope)
        tilt = DECREASE * slope if early and enough < now.loss <= low.loss else 0.0
        limits = _limits(low, high, step, bounded, longest)
        step = _trial(_tilted(low, tilt), _tilted(high, tilt), _tilted(now, tilt), bounded, limits)
        low, high, bounded = _shrunk(low, high, now, bounded, tilt)
        if bounded:
            if abs(high.step - low.step) >= 0.66 * wider:
                step = low.step + 0.5 * (high.step - low.step)
            wider, width = width, abs(high.step - low.step)
        step = min(max(step, SHORTEST), longest)
        if _exhausted(low, high, step, bounded) or step == now.step:
            break
    return _settled(along, low, loss, slope, now)


def _enough(loss: float, slope: float, step: float) -> float:
    """The highest loss that a step may lead to."""
    fall = DECREASE * step * slope
    return loss + (fall if -fall > ROUNDING * abs(loss) else ROUNDING * abs(loss))


def _tilted(at: _At, tilt: float) -> _At:
    """The same point of φ(t) - tilt · t."""
    return _At(at.step, at.loss - at.step * tilt, at.slope - tilt)


def _limits(low: _At, high: _At, step: float, bounded: bool, longest: float) -> tuple[float, float]:
    if bounded:
        return min(low.step, high.step), max(low.step, high.step)
    return low.step, min(step + 4.0 * (step - low.step), longest)


def _exhausted(low: _At, high: _At, step: float, bounded: bool) -> bool:
    """Whether the interval has become too narrow for another step inside."""
    least, most = sorted((low.step, high.step))
    return bounded and (not least < step < most or most - least <= NARROWEST * most)


def _settled(along: Along, low: _At, loss: float, slope: float, last: _At) -> Search:
    """The lowest point that was seen, if its loss is low enough; else there is no step."""
    if low.loss < loss and low.loss <= loss + DECREASE * low.step * slope:
        along(low.step)
        return Search(low.step)
    return Search(last.step, f"no step lowers the loss of {loss}, the last one gives {last.loss}")


def _shrunk(low: _At, high: _At, now: _At, bounded: bool, tilt: float) -> tuple[_At, _At, bool]:
    """The interval after a trial that was not good enough."""
    higher = _tilted(now, tilt).loss > _tilted(low, tilt).loss
    opposite = (now.slope - tilt) * (low.slope - tilt) < 0.0
    if higher:
        return low, now, True
    return now, low if opposite else high, bounded or opposite


def _trial(low: _At, high: _At, now: _At, bounded: bool, limits: tuple[float, float]) -> float:
    """The next step to try: the four cases of section 4 of the paper."""
    least, most = limits
    careful = False  # stay well away from the far end
    if now.loss > low.loss:
        cubic, parabola = _cubic(low, now), _parabola(low, now)
        near = abs(cubic - low.step) < abs(parabola - low.step)
        step = cubic if near else cubic + 0.5 * (parabola - cubic)
        bounded = careful = True
        high = now
    elif now.slope * low.slope < 0.0:
        cubic, secant = _cubic(now, low), _secant(low, now)
        step = cubic if abs(cubic - now.step) > abs(secant - now.step) else secant
        bounded = True
    elif abs(now.slope) < abs(low.slope):
        cubic, secant = _cubic_within(low, now, limits), _secant(low, now)
        nearer = abs(now.step - cubic) < abs(now.step - secant)
        step = cubic if nearer == bounded else secant
        careful = True
    elif bounded:
        step = _cubic(now, high)
    else:
        step = most if now.step > low.step else least
    step = min(max(step, least), most)
    if bounded and careful:
        base = low if high is now else now
        edge = base.step + 0.66 * (high.step - base.step)
        step = min(step, edge) if base.step < high.step else max(step, edge)
    return step


def _gamma(a: _At, b: _At) -> tuple[float, float]:
    """θ and γ of the cubic through both points: its minimum lies where its derivative vanishes."""
    theta = 3.0 * (a.loss - b.loss) / (b.step - a.step) + a.slope + b.slope
    size = max(abs(theta), abs(a.slope), abs(b.slope))
    if size == 0.0:
        return 0.0, 0.0
    square = (theta / size) ** 2 - (a.slope / size) * (b.slope / size)
    return theta, size * math.sqrt(max(0.0, square))


def _cubic(a: _At, b: _At) -> float:
    """The minimum of the cubic with the losses and slopes of both points."""
    theta, gamma = _gamma(a, b)
    if b.step < a.step:
        gamma = -gamma
    along = gamma - a.slope + theta
    whole = gamma - a.slope + gamma + b.slope
    return a.step + (along / whole if whole != 0.0 else 0.5) * (b.step - a.step)


def _cubic_within(a: _At, b: _At, limits: tuple[float, float]) -> float:
    """The same beyond b; the limit on that side where the cubic falls for ever."""
    theta, gamma = _gamma(a, b)
    if b.step > a.step:
        gamma = -gamma
    along = gamma - b.slope + theta
    whole = gamma - b.slope + gamma + a.slope
    ratio = along / whole if whole != 0.0 else 0.0
    if ratio < 0.0 and gamma != 0.0:
        return b.step + ratio * (a.step - b.step)
    return limits[1] if b.step > a.step else limits[0]


def _parabola(a: _At, b: _At) -> float:
    """The minimum of the parabola with both losses and the slope at a."""
    width = b.step - a.step
    return a.step + a.slope / ((a.loss - b.loss) / width + a.slope) / 2.0 * width


def _secant(a: _At, b: _At) -> float:
    """Where the line through both slopes is zero."""
    return b.step + b.slope / (b.slope - a.slope) * (a.step - b.step)
