"""Loss: an amount of privacy as epsilon, delta and rho."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


class _WhenLookedAt:
    """A number, or a function that computes it on first use: a conversion is slower than an answer, rarely needed."""

    def __get__(self, loss: Loss | None, owner: type[Loss]) -> float:
        if loss is None:
            raise AttributeError("epsilon")  # tells the dataclass that the field has no default
        epsilon: float | Callable[[], float] = loss.__dict__["epsilon"]
        if callable(epsilon):
            epsilon = loss.__dict__["epsilon"] = epsilon()
        return epsilon

    def __set__(self, loss: Loss, epsilon: float | Callable[[], float]) -> None:
        loss.__dict__["epsilon"] = epsilon


@dataclass(frozen=True, kw_only=True, repr=False)
class Loss:
    """What was spent or what remains: (epsilon, delta) differential privacy, from exact integer units.

    `epsilon` is the tight conversion at `delta`, rounded up, computed on first use; infinite if the currency is not
    pure and delta is 0. `rho` is the zCDP parameter that the same units imply; None if epsilons add. The neighbouring
    relation is the table's.
    """

    epsilon: _WhenLookedAt = _WhenLookedAt()
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
