"""Loss: an amount of privacy in the words people use."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, repr=False)
class Loss:
    """What was spent or what remains: (epsilon, delta) differential privacy, from exact integer units.

    `epsilon` is the tight conversion at `delta`, rounded up; infinite when the currency is not pure and delta is 0.
    `rho` is the zCDP parameter the same units imply, None where epsilons add. The neighbouring relation is the
    table's.
    """

    epsilon: float
    delta: float
    rho: float | None
    units: int
    currency: str

    def __repr__(self) -> str:
        if self.rho is None:
            return f"epsilon {self.epsilon:.4g}" + (f" at delta {self.delta:g}" if self.delta else "")
        strength = f"mu {math.sqrt(2 * self.rho):.4g}" if self.currency == "gdp" else f"rho {self.rho:.4g}"
        if math.isinf(self.epsilon):
            return f"{strength} (no finite epsilon at delta 0)"
        return f"epsilon {self.epsilon:.4g} at delta {self.delta:g} ({strength})"
