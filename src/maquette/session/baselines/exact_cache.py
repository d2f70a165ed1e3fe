"""ExactCache: every distinct question is measured once; only its exact repeats are free."""

from __future__ import annotations

from maquette.answers import Answer
from maquette.estimates import spread
from maquette.query import LinearQuery, Marginal
from maquette.session.baselines.baseline import MARGIN, Baseline


class ExactCache(Baseline):
    """The non-interactive baseline: one noisy count for each canonical question, as precise as `alpha` needs.

    Privacy: one `Curator.measure` for each distinct question, of sensitivity one row under the curator's relation;
    costs add up in the ledger until it refuses. Accuracy: see `Baseline`; since no noise is used twice, this also holds
    for questions chosen after seeing answers. Cost, for n rows: rho 5.41 / (alpha n)^2 or epsilon 6.91 / (alpha n) per
    question at beta = 1e-3.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 99), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [30, 70] * 5000, "smoker": [True, False] * 5000}, schema)
    >>> session = ExactCache(mq.Curator(table, mq.Budget(epsilon=1.0), relation="replace"), alpha=0.02, beta=0.001)
    >>> first, again = session.ask("age >= 65"), session.ask("NOT age < 65")
    >>> first.value == again.value, again.source, again.cost.epsilon
    (True, 'cache', 0.0)
    """

    def _fresh(self, query: LinearQuery) -> Answer:
        measured = self._buy(
            Marginal(query.schema, (), query),
            lambda deviation: self.width(deviation, deviation) <= self.bound * (1 - MARGIN),
        )
        deviation = spread(measured)
        value = float(measured.values) / self.rows.size
        return self._answer(value, self.width(deviation, deviation), "measured", measured.cost)
