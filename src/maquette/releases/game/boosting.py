"""Boosting for queries: many weak structures, each good on most of the queries that earlier ones answered badly.

Queries are drawn by weights that grow where earlier structures are off, a base sanitizer is run on the draws, and the
answer to any query is the median of all structures. Dwork, Rothblum and Vadhan 2010; Mechanisms §7.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import DenseModel, NoEvidence, check_dense, rule_out, units_for
from maquette.hypothesis import Arrays, MultiplicativeWeights, saving
from maquette.privacy import Selection
from maquette.query import LinearQuery, Workload
from maquette.releases.artifact import Model, Release, certified
from maquette.releases.game.budget import GameBudget, fund
from maquette.releases.game.cells import CellIndex, Values, index_for
from maquette.releases.kinds import restore_model, savable
from maquette.schema import Schema
from maquette.theory import game as theory

DRAWN = 0.5  # share of the budget for draws; the rest is for base structures
TESTED = 0.2  # share of the budget for measuring the draws that test a structure, where it is tested
PASSES = 5  # passes over the measured queries of one structure


class Base(Protocol):
    """A base sanitizer: a model that answers most of the given queries well, for `units` of the ledger."""

    def __call__(self, curator: Curator, queries: Sequence[LinearQuery], rows: float, units: int) -> Model:
        """The model."""


def synopsis(curator: Curator, queries: Sequence[LinearQuery], rows: float, units: int) -> Model:
    """The default base: every query measured once, and dense weights fitted to the measurements.

    Privacy: one `measure_many`. Accuracy: that of the noise on the given queries; on others, as well as weights that
    start at uniform generalise.
    """
    different = list(dict.fromkeys(queries))
    measured = curator.measure_many(different, units=units)
    model = MultiplicativeWeights(curator.schema, step="exact", floor=0.5 / max(1.0, rows))
    rule_out(model)
    for _ in range(PASSES):
        for query, found in zip(different, measured, strict=True):
            model.update(query, min(1.0, max(0.0, float(found.values) / rows)))
            rule_out(model)
    return DenseModel(curator.schema, model.marginal(curator.schema.names))


class MedianModel:
    """Several models that answer by their median; rows are sampled from all in turn."""

    kind: ClassVar[str] = "medians"

    def __init__(self, models: Sequence[Model]) -> None:
        self.models = list(models)

    def answer(self, query: LinearQuery) -> float:
        """The median answer, as a fraction of rows."""
        return float(np.median([model.answer(query) for model in self.models]))

    def marginal(self, columns: Sequence[str]) -> Values:
        """The median of every cell; medians need not add up to one."""
        return np.asarray(np.median([model.marginal(columns) for model in self.models], axis=0))

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records, the same number from each model up to rounding."""
        cuts = np.linspace(0, rows, len(self.models) + 1).astype(int)
        parts = [m.sample(int(size), rng) for m, size in zip(self.models, np.diff(cuts), strict=True) if size]
        return np.concatenate(parts)

    def facts(self) -> dict[str, Any]:
        """The facts of every model."""
        return {"models": [saving.described(savable(model)) for model in self.models]}

    def arrays(self) -> Arrays:
        """The arrays of every model."""
        each = [saving.prefixed(str(i), savable(model).arrays()) for i, model in enumerate(self.models)]
        return {name: values for arrays in each for name, values in arrays.items()}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The models that `facts` and `arrays` describe."""
        listed = list(facts["models"])
        if not listed or any(inner["kind"] == cls.kind for inner in listed):
            raise saving.unfit("list of models is empty, or has medians of medians")
        models = [
            restore_model({**inner, "cost": facts["cost"]}, schema, saving.inside(str(i), arrays))
            for i, inner in enumerate(listed)
        ]
        return cls(models)

    def __repr__(self) -> str:
        return f"MedianModel({len(self.models)} models)"


def boosted(
    curator: Curator,
    workload: Workload,
    *,
    rounds: int = 10,
    draws: int = 50,
    good: float = 0.02,
    bad: float = 0.06,
    cap: int | None = None,
    tests: int = 0,
    base: Base = synopsis,
    beta: float = 0.05,
    rows: int | None = None,
    rng: np.random.Generator | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """The median of `rounds` structures, each made for `draws` queries; errors up to `good` are fine, from `bad` not.

    Privacy: in round t every draw is an exponential mechanism on the sum over t - 1 structures of the error clipped to
    [good, bad], of sensitivity t - 1 rows (times the rows of a unit), through `Curator.lottery`; the first round draws
    uniformly. Then the base sanitizer's own doors. Half of the budget goes to each. With `cap` no query has probability
    above 1/cap, at the same price, and nothing is promised. Accuracy: if the structures are good on a share 1/2 + g of
    their round's weights on average, and 2 g > ln|Q| / (a T) + a / 2 for the rate a that the budget allows, every cell
    is within `bad`. Without `tests` the certificate states the g that this needs, as a condition. With `tests`, as many
    further queries are drawn by the weights of every round and measured after its structure is made: the share on which
    it is good is then known up to chance, and the certificate states the bound without a condition, or not at all
    (`theory.game.tested_share`). The tests are draws as the others, and one `measure_many` for a fifth of the budget.
    The model is not a distribution: its cells need not sum to one.
    """
    if not 0 < good < bad < 1 or rounds < 1 or draws < 1 or tests < 0:
        raise QueryError(
            f"got good={good}, bad={bad}, rounds={rounds}, draws={draws} and tests={tests}",
            expected="0 < good < bad < 1, at least 1 round and draw, and no negative tests",
        )
    check_dense(curator.schema)
    index = index_for(curator, workload)
    if cap is not None and not 1 <= cap <= index.cells:
        raise QueryError(f"cap is {cap}", expected=f"1 to the number of queries, {index.cells:,}")
    coins = np.random.default_rng() if rng is None else rng
    with curator.account("boosting") as account:
        units = units_for(curator, epsilon, rho)
        funds = fund(curator, index, units, rows, beta)
        lottery = curator.lottery(index.tables, between=(good * funds.rows, bad * funds.rows))
        # The gain 2 (|error| - good) / (bad - good) - 1 moves 2 / (bad - good) times as fast as a fraction does, so
        # rate a on gains is rate 2 a / (bad - good) on fractions.
        pay = theory.affordable_eta(
            draws=draws + tests,
            rounds=rounds,
            rows=funds.rows / funds.moves,
            amount=DRAWN * funds.amount * (1 - 1e-9),
            pure=funds.pure,
        )
        eta = min(float(pay), 2 / (bad - good) * math.sqrt(2 * math.log(max(2, index.cells)) / rounds))
        models: list[Model] = []
        answers: list[Values] = []
        test, passed = _Test(curator, index, funds, good=good, tests=rounds * tests), 0
        for_base = int((1 - DRAWN - (TESTED if tests else 0.0)) * funds.units / rounds)
        for done in range(rounds):
            if done == 0:
                cells = coins.integers(index.cells, size=draws + tests)
            else:
                each = Selection(theory.draw_epsilon(eta=eta, turn=done + 1, rows=funds.rows / funds.moves))
                cost = (draws + tests) * curator.budget.accountant.units(each)
                cells = lottery.draw(np.stack(answers) * funds.rows, draws=draws + tests, cap=cap, units=cost).cells
            queries = [_query(index, int(cell)) for cell in cells[:draws]]
            models.append(base(curator, queries, funds.rows, for_base))
            answers.append(_answers(index, models[-1]))
            if tests:
                passed += test.passed(cells[draws:], answers[-1], int(TESTED * funds.units / rounds))
    rate = eta * (bad - good) / 2
    needed = (math.log(max(2, index.cells)) / (rate * rounds) + rate / 2) / 2
    share = theory.tested_share(passed=passed, tests=rounds * tests, beta=funds.beta / 2) if tests else None
    statement = None
    if needed < 0.5 and cap in (None, 1) and (share is None or share > 0.5 + needed):
        off = bad + 2 * funds.slack / funds.rows
        proviso = f", provided that every structure is within {good:.4g} on {0.5 + needed:.3g} of its round's weights"
        statement = f"every cell within {off:.4g} of the rows with probability {1 - beta:.3g}" + (
            proviso if share is None else ""
        )
    certificate = certified(curator, "boosting", account, accuracy=statement)
    return Release(curator.schema, MedianModel(models), NoEvidence(funds.rows), certificate)


class _Test:
    """Measures the cells that test a structure, and counts those on which it is good whatever the noise did.

    The cells are drawn by the round's weights, independently of the structure given the rounds before. A cell counts if
    its noisy error is below `good` by the most that the noise of all tests together can be, but for half of beta.
    """

    def __init__(self, curator: Curator, index: CellIndex, funds: GameBudget, *, good: float, tests: int) -> None:
        self._curator, self._index, self._funds, self._good = curator, index, funds, good
        self._doubt = funds.beta / (2 * max(1, tests))

    def passed(self, cells: NDArray[np.int64], answers: Values, units: int) -> int:
        """How many of the drawn cells the structure surely answers within `good`."""
        different = list(dict.fromkeys(int(cell) for cell in cells))
        measured = self._curator.measure_many([_query(self._index, cell) for cell in different], units=units)
        sure = {}
        for cell, found in zip(different, measured, strict=True):
            off = abs(float(found.values) - float(answers[cell]) * self._funds.rows)
            sure[cell] = off <= self._good * self._funds.rows - found.half_width(1 - self._doubt)
        return sum(sure[int(cell)] for cell in cells)


def _query(index: CellIndex, cell: int) -> LinearQuery:
    clause = index.clause(cell, 1)
    columns = index.schema.columns
    return LinearQuery.product(
        index.schema, {columns[c].name: np.arange(columns[c].size) == level for c, level in clause.literals}
    )


def _answers(index: CellIndex, model: Model) -> Values:
    return np.concatenate([model.marginal(table.names).reshape(-1) for table in index.tables])
