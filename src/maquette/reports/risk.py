"""Risk: what a loss means for one person, as odds and as the best possible attack."""

from __future__ import annotations

import math
from functools import lru_cache

from maquette.errors import BudgetError
from maquette.privacy import Loss, zcdp_epsilon

NOTHING = 5e-5  # smaller shares would be shown as 0
TOLD_DELTA = 1e-9  # used where a loss has no finite epsilon of its own
MOST = 700.0  # e to the power of more is not kept as a float
_DELTAS = tuple(10.0 ** -(k / 8) for k in range(1, 161))  # each gives a valid bound, so a grid is safe


def told(loss: Loss) -> tuple[float, float]:
    """The (epsilon, delta) to report: the loss's own, or those of its rho at delta 1e-9 if epsilon is infinite."""
    if math.isfinite(loss.epsilon) or loss.rho is None:
        return loss.epsilon, loss.delta
    return zcdp_epsilon(loss.rho, TOLD_DELTA), TOLD_DELTA


def odds_factor(epsilon: float) -> float:
    """Factor by which the odds of any belief about one person can change: e^epsilon, up or down.

    Under (epsilon, delta) the output is, except for an event of probability delta, distributed as that of an
    epsilon-private mechanism (Kairouz, Oh and Viswanath 2015), so the factor holds except with probability delta.
    """
    return math.exp(epsilon) if epsilon < MOST else math.inf


def believed(prior: float, epsilon: float) -> float:
    """Upper bound on a belief about one person whose prior probability is `prior`.

    >>> round(believed(0.01, 1.0), 4)
    0.0267
    """
    if not 0 < prior < 1:
        raise BudgetError(f"prior is {prior!r}", expected="a probability strictly between 0 and 1")
    if epsilon > 0:  # the same, without a number beyond floats
        return prior / (prior + (1 - prior) * math.exp(-epsilon))
    return prior * math.exp(epsilon) / (1 - prior + prior * math.exp(epsilon))


def true_positive_rate(loss: Loss, false_positive_rate: float) -> float:
    """The best rate at which any attacker can tell that one person is in the table, at this false positive rate.

    The attacker may know everyone else. (epsilon, delta): min(e^epsilon a + delta, 1 - e^-epsilon (1 - a - delta)).
    zCDP: the least of these over many deltas, each of which holds. Gaussian DP: Phi(Phi^-1(a) + mu), which is exact.
    Wasserman and Zhou 2010; Dong, Roth and Su 2022.
    """
    a = false_positive_rate
    if not 0 <= a <= 1:
        raise BudgetError(f"the rate of false alarms is {a!r}", expected="a number from 0 to 1")
    if loss.currency == "gdp" and loss.rho is not None:
        from scipy.special import ndtr, ndtri

        return a if a in (0.0, 1.0) else float(ndtr(ndtri(a) + math.sqrt(2 * loss.rho)))
    pairs = [(loss.epsilon, loss.delta)] if math.isfinite(loss.epsilon) else []
    if loss.rho is not None and loss.rho > 0:
        pairs += _curve(loss.rho)
    return max(a, min((_rate(epsilon, delta, a) for epsilon, delta in pairs), default=1.0))


@lru_cache(8)
def _curve(rho: float) -> tuple[tuple[float, float], ...]:
    return tuple((zcdp_epsilon(rho, delta), delta) for delta in _DELTAS)


def _rate(epsilon: float, delta: float, a: float) -> float:
    return min(1.0, math.exp(min(epsilon, MOST)) * a + delta, 1 - math.exp(-epsilon) * max(0.0, 1 - a - delta))


def in_words(loss: Loss, unit: str, relation: str = "add-remove") -> list[str]:
    """The guarantee in plain sentences, with numbers.

    Under add-remove, e^epsilon compares being in the table with not being in it. Between two possible values of a unit
    in the table lie one removal and one addition: e^(2 epsilon). Under replace, e^epsilon compares these two values.
    """
    epsilon, delta = told(loss)
    factor, best = number(odds_factor(epsilon)), percent(true_positive_rate(loss, 0.05))
    up, least = percent(believed(0.01, epsilon)), believed(0.01, -epsilon)
    down = f"no less than {percent(least)}" if least >= NOTHING else "almost nothing"
    presence = relation == "add-remove"
    other = f"if {unit} had not been in the table" if presence else f"if {unit} had other values"
    about = f"that {unit} is in the table" if presence else f"that {unit} has one value rather than another"
    goal = f"tell whether {unit} is in the table" if presence else f"distinguish two possible values of {unit}"
    twice = (
        f" For the values of {unit}, if its presence is known, the factor counts twice: at most "
        f"{percent(believed(0.01, 2 * epsilon))}."
        if presence
        else ""
    )
    beyond = f", except with probability {chance(delta)} (delta), for which nothing is guaranteed" if delta else ""
    return [
        f"Any consequence of this publication is at most {factor} times as likely, and at least 1/{factor} times as "
        f"likely, as {other} (e to the power of epsilon = {epsilon:.3g}){beyond}. That holds whatever else anyone "
        "knows or learns.",
        f"A suspicion of 1% {about} can become at most {up}, and can fall to {down}.{twice}",
        f"The best possible attacker knows everyone else's data, wants to {goal}, and accepts 5% false positives: it "
        f"detects at most {best} of the cases; random guessing detects 5%.",
        "What the table teaches about people in general is not hidden: it can change what others think of anyone, in "
        "the table or not.",
    ]


def number(value: float) -> str:
    """A factor for readers: 2.72, 150, 1.2e+08."""
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}" if value < 1e7 else f"{value:.2g}"


def percent(share: float) -> str:
    """A share for readers; shares close to 0 or 1 are not rounded to 0% or 100%."""
    if 0 < share < NOTHING:
        return "less than 0.01%"
    if 1 - NOTHING < share < 1:
        return "more than 99.99%"
    return f"{share:.1%}" if 0.03 <= share <= 0.99 or share == 1 else f"{share:.2%}"


def chance(probability: float) -> str:
    """A small probability as one in N.

    >>> chance(1e-9), chance(3e-7)
    ('1 in a billion', '1 in 3,333,333')
    """
    odds = 1 / probability
    for words, many in (("a million", 1e6), ("a billion", 1e9), ("a trillion", 1e12)):
        if abs(odds / many - 1) < 1e-9:
            return f"1 in {words}"
    return f"1 in {odds:,.0f}" if odds < 1e10 else f"{probability:.3g}"
