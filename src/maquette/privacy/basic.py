"""Basic accounting: epsilons add, and one guard may use the delta."""

from __future__ import annotations

from fractions import Fraction

from maquette.errors import BudgetError
from maquette.privacy.cost import Composed, Event, LazyRounds
from maquette.privacy.lazy import lazy_epsilon
from maquette.privacy.loss import Loss
from maquette.privacy.pure import PureAccountant
from maquette.privacy.units import UNITS_PER_ONE, float_up


class BasicAccountant(PureAccountant):
    """Basic composition with a delta: pure accesses together with at most one lazy guard.

    Everything except the guard is pure. The loss of a pure access is always bounded; the loss of the guard exceeds its
    epsilon only as far as delta allows, for any other accesses. So everything together is (limit, delta)-DP, also as a
    filter and when the guard's rounds alternate with other accesses.
    Deltas do not add here: the door (`curator.lazy_guard`) ensures that one ledger has at most one lazy guard.
    docs/theory/lazy-rounds.md.
    """

    def lazy_cost(self, event: LazyRounds) -> Fraction:
        """Epsilon of the guard at its delta, rounded up."""
        rate = float_up(event.sensitivity / event.scale)
        epsilon = lazy_epsilon(hits=event.hits, rate=rate, delta=event.delta)
        if epsilon * UNITS_PER_ONE > 2**63:
            raise BudgetError(f"noise at a rate of {rate:.3g} is too little for a lazy guard with {event.hits} hits.")
        return Fraction(epsilon)

    def units(self, event: Event) -> int:
        """Cost of the event, rounded up; BudgetError when it takes more than one delta."""
        if _deltas(event) > 1:
            raise BudgetError(
                "one budget holds one lazy guard, which takes all of its delta", advice="open one of them"
            )
        return super().units(event)

    def loss(self, units: int, delta: float) -> Loss:
        """The epsilon of `units` at delta, whether or not a guard used the delta."""
        return Loss(epsilon=self.epsilon_of(units, delta), delta=delta, rho=None, units=units, currency=self.currency)


def _deltas(event: Event) -> int:
    if isinstance(event, Composed):
        return sum(_deltas(part) for part in event.events)
    return int(isinstance(event, LazyRounds))
