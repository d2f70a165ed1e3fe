"""Risk: what a loss means for one person, as odds and as the best attack anyone can make."""

from __future__ import annotations

import math

from maquette.errors import BudgetError
from maquette.privacy import Loss
from maquette.privacy.conversion import zcdp_epsilon

TOLD_DELTA = 1e-9  # where a loss has no finite epsilon of its own
_DELTAS = tuple(10.0 ** -(k / 8) for k in range(1, 161))  # each gives a valid bound, so a grid is safe


def told(loss: Loss) -> tuple[float, float]:
    """The (epsilon, delta) to speak of: the loss's own, or those of its rho at delta 1e-9 where epsilon is infinite."""
    if math.isfinite(loss.epsilon) or loss.rho is None:
        return loss.epsilon, loss.delta
    return zcdp_epsilon(loss.rho, TOLD_DELTA), TOLD_DELTA


def odds_factor(epsilon: float) -> float:
    """How far the odds of any belief about one person can move: e^epsilon, up or down.

    Under (epsilon, delta) the output is, but for an event of probability delta, drawn as from an epsilon-private
    mechanism (Kairouz, Oh and Viswanath 2015), so the factor holds except with probability delta.
    """
    return math.exp(epsilon)


def believed(prior: float, epsilon: float) -> float:
    """The most that a belief of probability `prior` about one person can become.

    >>> round(believed(0.01, 1.0), 4)
    0.0267
    """
    if not 0 < prior < 1:
        raise BudgetError(f"prior is {prior!r}; expected a probability strictly between 0 and 1")
    return prior * math.exp(epsilon) / (1 - prior + prior * math.exp(epsilon))


def true_positive_rate(loss: Loss, false_positive_rate: float) -> float:
    """The best rate at which any attacker can tell that one person is in the table, at this rate of false alarms.

    The attacker may know everyone else. (epsilon, delta): min(e^epsilon a + delta, 1 - e^-epsilon (1 - a - delta)).
    zCDP: the least of these over many deltas, each of which holds. Gaussian DP: Phi(Phi^-1(a) + mu), which is exact.
    Wasserman and Zhou 2010; Dong, Roth and Su 2022.
    """
    a = false_positive_rate
    if not 0 <= a <= 1:
        raise BudgetError(f"the rate of false alarms is {a!r}; expected a number from 0 to 1")
    if loss.currency == "gdp" and loss.rho is not None:
        from scipy.special import ndtr, ndtri

        return a if a in (0.0, 1.0) else float(ndtr(ndtri(a) + math.sqrt(2 * loss.rho)))
    pairs = [(loss.epsilon, loss.delta)] if math.isfinite(loss.epsilon) else []
    if loss.rho is not None and loss.rho > 0:
        pairs += [(zcdp_epsilon(loss.rho, delta), delta) for delta in _DELTAS]
    return max(a, min((_rate(epsilon, delta, a) for epsilon, delta in pairs), default=1.0))


def _rate(epsilon: float, delta: float, a: float) -> float:
    return min(1.0, math.exp(min(epsilon, 700.0)) * a + delta, 1 - math.exp(-epsilon) * max(0.0, 1 - a - delta))


def in_words(loss: Loss, unit: str, relation: str = "add-remove") -> list[str]:
    """The promise in plain sentences, with numbers."""
    epsilon, delta = told(loss)
    factor, belief = odds_factor(epsilon), believed(0.01, epsilon)
    beyond = "" if delta == 0 else f" With a probability of at most {delta:g} (delta) nothing is promised."
    best = true_positive_rate(loss, 0.05)
    goal = f"tell whether {unit} is in the table" if relation == "add-remove" else f"tell two contents of {unit} apart"
    return [
        f"Whatever someone believed about {unit} before seeing this, the odds move by at most a factor of "
        f"{_number(factor)} (e to the power of epsilon = {epsilon:.3g}), whatever else they know or learn.{beyond}",
        f"A suspicion of 1% can become at most {belief:.2%}, and can fall to no less than "
        f"{believed(0.01, -epsilon):.2%}.",
        f"The best possible attacker who wants to {goal}, knows everyone else, and accepts 5% false alarms, finds it "
        f"in at most {best:.1%} of the cases where it is so; without this publication, 5%.",
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
