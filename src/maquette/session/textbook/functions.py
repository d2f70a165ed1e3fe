"""OnlineFunctions: a stream of arbitrary low-sensitivity functions, answered by the median of a net behind a guard."""

from __future__ import annotations

import math
import threading
from typing import Literal

from maquette.answers import Answer
from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import units_for
from maquette.hypothesis import NEVER, RESOLUTIONS, Rule
from maquette.query import LowSensitivityQuery, Statistic
from maquette.releases import FINER, Net, histograms_of, median_of, within
from maquette.session.baselines.known_rows import SHARE, known_rows
from maquette.session.textbook.plan import Setting, plan


class OnlineFunctions:
    """The median mechanism online: answers with the median of a net of candidates, and halves it where it is wrong.

    Each new function has one test |f(table) - median|. A quiet test is answered by the median; a hit by a fresh noisy
    value, which removes at least half of the candidates. After c = floor(log2 |net|) hits the guard is sealed
    and the median keeps answering without it (`status` "exhausted", no guarantee).

    Privacy: one guard, charged when the session opens, whatever is asked; where the number of rows is private, also an
    estimate of it for a hundredth of the charge. Every function must declare at most `sensitivity`. Accuracy: if for
    every table some candidate is within `tolerance` on all functions asked, then with probability 1 - beta the first
    `queries` answers are within `alpha` = a' + 2 W of the function of the table's counts / rows. Mechanisms §6.4, §9.1.
    """

    def __init__(
        self,
        curator: Curator,
        net: Net,
        *,
        sensitivity: float,
        queries: int,
        tolerance: float = 0.0,
        beta: float = 0.05,
        epsilon: float | None = None,
        rho: float | None = None,
        rows: int | None = None,
    ) -> None:
        if queries < 1 or not 0 < beta < 1 or not 0 <= tolerance < math.inf:
            raise QueryError(
                f"got queries={queries}, beta={beta} and tolerance={tolerance}",
                expected="at least 1 query, 0 < beta < 1 and a tolerance of 0 or more",
            )
        if net.schema != curator.schema:
            raise QueryError("the net was built for another schema", advice="build it from curator.schema")
        probe = LowSensitivityQuery("unit", float, sensitivity=sensitivity)
        self._unit = Statistic(curator.schema, probe, rows=1.0).unit
        histograms, updates = histograms_of(net), float(len(net).bit_length() - 1)
        resolutions = [a for a in RESOLUTIONS if a > FINER * tolerance]
        rule = Rule(lambda _: min(updates, NEVER), lambda a: median_of(curator, histograms, a, tolerance), resolutions)
        with curator.account("online functions") as account:
            units = units_for(curator, epsilon, rho)
            public = rows is not None or curator.relation.rows_are_public
            setting = Setting(
                accountant=curator.budget.accountant,
                delta=curator.budget.delta,
                units=units if public else (1 - SHARE) * units,
                rows=1 / self._unit,  # one unit of the doors is one sensitivity of the function
                slack=0.0,
                moves=curator.relation.max_contributions,
                queries=queries,
                beta=beta,
            )
            found = plan(rule, setting, "tight")
            if found.alpha >= 1:
                raise QueryError(
                    f"with sensitivity {sensitivity:.3g}, {len(net):,} candidates and epsilon {setting.epsilon:.3g} "
                    f"the theorem promises an error of {found.alpha:.3g}, which says nothing",
                    advice="it takes a smaller sensitivity (more rows), more budget, a finer tolerance or a smaller "
                    "net",
                )
            self.curator, self.sensitivity, self.queries = curator, sensitivity, queries
            self.alpha, self.beta = found.alpha, beta
            self.rows = known_rows(curator, SHARE * units, rows=rows).size
            self.hypothesis = median_of(curator, histograms, found.resolution, tolerance)
            self._answer_error = found.answer_error
            self._guard = curator.guard(
                found.threshold,
                hits=found.hits,
                numeric=True,
                refreshed=found.refreshed,
                units=int(found.units),
            )
        self.cost, self._free = account.loss, curator.budget.accountant.loss(0, curator.budget.delta)
        self.updates = 0
        self._tests = 0
        self._answers: dict[str, Answer] = {}
        self._in_turn = threading.Lock()

    @property
    def status(self) -> Literal["open", "exhausted"]:
        """Whether answers are still guarded."""
        return "exhausted" if self._guard.sealed else "open"

    def ask(self, function: LowSensitivityQuery) -> Answer:
        """The function's value on the table, free of further charge; a repeated name returns the recorded answer."""
        statistic = Statistic(self.curator.schema, function, rows=self.rows, sensitivity=self.sensitivity)
        with self._in_turn:
            if function.name not in self._answers:
                self._answers[function.name] = self._fresh(function, statistic)
            return self._answers[function.name]

    def _fresh(self, function: LowSensitivityQuery, statistic: Statistic) -> Answer:
        public = self.hypothesis.answer(function)
        if self.status == "exhausted":
            return self._answer(function, public, None)
        self._tests += 1
        promised = self._tests <= self.queries
        tested = self._guard.test(statistic, statistic.public(public))
        if tested.count is None:
            return self._answer(function, public, self.alpha if promised else None)
        value = tested.count * self._unit
        self.hypothesis.update(function, value)
        self.updates += 1
        clipped = min(max(value, function.low), function.high)
        return self._answer(function, clipped, self._answer_error if promised else None, "measured")

    def _answer(
        self,
        function: LowSensitivityQuery,
        value: float,
        error: float | None,
        source: Literal["hypothesis", "measured"] = "hypothesis",
    ) -> Answer:
        promise = (
            f"all of the first {self.queries:,} answers within {self.alpha:.4g} with probability {1 - self.beta:.3g}"
        )
        return within(
            function,
            value,
            math.inf if error is None else error,
            confidence=1 - self.beta,
            cost=self._free,
            promise=None if error is None else promise,
            source=source,
        )

    def __repr__(self) -> str:
        return f"OnlineFunctions({self.hypothesis!r}, within {self.alpha:.3g}, {self.updates} updates, {self.status})"
