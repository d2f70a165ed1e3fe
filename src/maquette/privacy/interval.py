"""Noise intervals: bounds on the discrete noise in a value, at a given confidence.

A noise interval covers only the noise that was added; it is not a sampling interval.
"""

from __future__ import annotations

import math

from maquette.errors import QueryError
from maquette.privacy.cost import DiscreteGaussian, DiscreteLaplace


def half_width(event: DiscreteLaplace | DiscreteGaussian, confidence: float) -> int:
    """The least whole number k with Pr[|noise| > k] <= 1 - confidence (an upper bound for the Gaussian).

    Laplace: Pr[|Z| > k] = 2 p^(k+1) / (1 + p), p = exp(-1 / scale). Gaussian: the discrete tail at k + 1 is at most the
    continuous tail at k (Canonne, Kamath and Steinke 2020, proposition 25). Mechanisms §1.2.
    """
    check_confidence(confidence)
    doubt = 1.0 - confidence
    if isinstance(event, DiscreteLaplace):
        scale = float(event.scale)
        decay = math.exp(-1.0 / scale)
        return max(0, math.ceil(-scale * math.log(doubt * (1.0 + decay) / 2.0)) - 1)
    from scipy.special import ndtri

    return math.ceil(math.sqrt(event.variance) * float(ndtri(1.0 - doubt / 2.0)))


def sum_half_width(deviation: float, largest: float, confidence: float, *, gaussian: bool) -> float:
    """The half-width for a sum of independent noises.

    `deviation` is the standard deviation of the sum, `largest` the largest standard deviation of a part. Gaussian: the
    normal quantile. Otherwise parts are Laplace of scale b_i = deviation_i / sqrt(2). The moment generating function of
    each is at most exp(b_i^2 s^2 / (1 - b_i^2 s^2)), also for the discrete distribution of that scale, so Chernoff's
    bound holds at every s below 1 / max b_i; the smallest over a grid is used. A single noise has its own tail bound,
    Pr[|Z| > t] <= 2 exp(-t / b), also for the discrete distribution and its multiples (Mechanisms §1.2).
    """
    check_confidence(confidence)
    if deviation == 0.0:
        return 0.0
    if gaussian:
        from scipy.special import ndtri

        return deviation * float(ndtri((1.0 + confidence) / 2.0))
    square, scale = deviation**2 / 2.0, largest / math.sqrt(2.0)
    doubt = math.log(2.0 / (1.0 - confidence))
    if largest >= deviation:
        return scale * doubt
    ratios = (i / 64 for i in range(1, 64))  # s * max b_i
    return min(square * r / (scale * (1 - r**2)) + doubt * scale / r for r in ratios)


def deviation(event: DiscreteLaplace | DiscreteGaussian) -> float:
    """The standard deviation of the noise (for the Gaussian, the bound sqrt(variance))."""
    if isinstance(event, DiscreteGaussian):
        return math.sqrt(event.variance)
    decay = math.exp(-1.0 / float(event.scale))
    return math.sqrt(2.0 * decay) / -math.expm1(-1.0 / float(event.scale))


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1)."""
    number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    if not (number and 0.0 < confidence < 1.0):
        raise QueryError(f"confidence is {confidence!r}", expected="a number between 0 and 1, often 0.95")
