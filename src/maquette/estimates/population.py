"""How many tables usually err, from a look at them: one noisy error says little, thousands say what is usual.

Errors are taken for log-normal. If m is the mean of the noisy errors and q that of their squares, minus the variance of
the noise, then the logarithm has the variance ln(q / m^2), and the median is m / sqrt(q / m^2). Public inputs only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LEAST = 1e-3  # fraction of rows: the least median
SPREADS = (0.5, 2.0)  # between which the standard deviation of the logarithm is taken
SURE = 4.0  # standard deviations of its noise that the mean must have

Values = NDArray[np.float64]


def usual_errors(errors: Values, doubt: float, rows: float) -> tuple[float, float] | None:
    """The median error, as a fraction of rows, and the standard deviation of the logarithm; None if noise hides them.

    `errors` are in rows, with noise of the standard deviation `doubt`.

    >>> median, spread = usual_errors(np.array([100.0, 400.0] * 50), 1.0, 10_000.0)
    >>> round(median, 4), round(spread, 3)
    (0.0214, 0.555)
    """
    mean = float(errors.mean())
    if not mean > SURE * doubt / math.sqrt(len(errors)):
        return None
    square = float((errors**2).mean()) - doubt**2
    spread = math.sqrt(math.log(max(1.0, square / mean**2)))
    spread = min(max(spread, SPREADS[0]), SPREADS[1])
    return max(mean / rows * math.exp(-(spread**2) / 2), LEAST), spread
