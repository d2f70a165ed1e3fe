"""Lenses: exact residuals give exact counts, and the noise of an answer is what brute force says it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from session_checks import cells_of

import maquette as mq
from maquette.estimates.residuals import Columns, forward, subsets
from maquette.query import LinearQuery, Marginal, Statement
from maquette.query.sql.statement import parse
from maquette.schema import Schema
from maquette.session.precision.cell_view import CellView
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.table_view import TableView
from maquette.session.precision.view import CELLS, Part, Read, View
from maquette.session.precision.view_of import TooWide, view_of
from maquette.session.question import Goal, goals_of

Values = np.typing.NDArray[np.float64]

SCHEMA = Schema(
    [
        mq.Integer("age", 0, 3),
        mq.Boolean("smoker"),
        mq.Category("town", ["a", "b", "c"]),
        mq.Number("gain", edges=[-3.0, -1.0, 0.0, 2.0], nullable=True),
        mq.Category("one", ["only"]),
    ]
)
WIDE = tuple(name for name in SCHEMA.names if SCHEMA[name].size > 1)

STATEMENTS = {
    "count": "SELECT count(*) FROM t",
    "product": "SELECT count(*) FROM t WHERE age IN (0, 2) AND smoker AND town <> 'b'",
    "table": "SELECT count(*) FROM t WHERE (age = 1 AND smoker) OR (town = 'a' AND age > 1)",
    "groups": "SELECT town, age, count(*) FROM t GROUP BY town, age",
    "groups, reversed": "SELECT age, town, smoker, count(*) FROM t GROUP BY age, town, smoker",
    "groups, a condition on the same column": "SELECT age, count(*) FROM t WHERE age IN (1, 3) AND smoker GROUP BY age",
    "groups of a table": "SELECT town, count(*) FROM t WHERE smoker OR age = 0 GROUP BY town",
    "case": "SELECT CASE WHEN age = 0 THEN 'young' WHEN age < 3 THEN 'old' END AS c, count(*) FROM t GROUP BY c",
    "case and column": (
        "SELECT smoker, CASE WHEN age = 0 THEN 'young' ELSE 'old' END AS c, count(*) FROM t WHERE town = 'a' "
        "GROUP BY smoker, c"
    ),
    "case over two columns": (
        "SELECT CASE WHEN age = 0 AND smoker THEN 'x' WHEN town = 'c' THEN 'y' ELSE 'z' END AS c, count(*) FROM t "
        "GROUP BY c"
    ),
    "case beside its column": (
        "SELECT age, CASE WHEN age < 2 THEN 'x' ELSE 'y' END AS c, count(*) FROM t GROUP BY age, c"
    ),
    "sum": "SELECT sum(age) FROM t WHERE town <> 'c'",
    "signed sum": "SELECT town, sum(gain) FROM t WHERE smoker GROUP BY town",
    "signed sum of a table": "SELECT sum(gain) FROM t WHERE smoker OR town = 'a'",
    "average": "SELECT smoker, avg(gain) FROM t GROUP BY smoker",
    "average of all": "SELECT avg(gain) FROM t WHERE smoker",
    "average by its own column": "SELECT age, avg(age) FROM t WHERE age <> 2 GROUP BY age",
    "never": "SELECT count(*) FROM t WHERE age = 1 AND age = 2",
    "a column of one level": "SELECT one, town, count(*) FROM t GROUP BY one, town",
}


def goals(text: str) -> list[Goal]:
    """Goals about levels: a sum of values themselves has no view."""
    statement = parse(SCHEMA, text)
    assert isinstance(statement, Statement)
    return [goal for output in statement.on_levels().outputs for goal in goals_of(output)]


ASKED = [(f"{name} {number}", goal) for name, text in STATEMENTS.items() for number, goal in enumerate(goals(text))]
each = pytest.mark.parametrize(("name", "goal"), ASKED, ids=[name for name, _ in ASKED])


def weights_of(goal: Goal) -> Values:
    """The weight of every point of the universe in every number, by the queries of the marginal alone."""
    cells = np.stack([query.weights(SCHEMA.names).reshape(-1) for _, query in goal.marginal.queries()])
    cells = cells.reshape(*goal.marginal.shape, SCHEMA.size)
    return cells[..., 1, :] - cells[..., 0, :] if goal.signed else cells


class Parts:
    """The exact parts of a histogram, with independent noise of a given variance on every coefficient."""

    def __init__(self, counts: Values, rng: np.random.Generator) -> None:
        self.table = counts.reshape(SCHEMA.shape(SCHEMA.names))
        self.variances = {part: rng.uniform(0.5, 2.0, [SCHEMA[n].size - 1 for n in part]) for part in subsets(WIDE)}
        self.variances[CELLS] = np.full(SCHEMA.size, rng.uniform(0.5, 2.0))

    def exact(self, part: Columns) -> Values:
        if part == CELLS:
            flat = self.table.reshape(-1)
            return np.asarray(flat - flat.mean())
        others = tuple(i for i, name in enumerate(SCHEMA.names) if name not in part)
        marginal = self.table.sum(axis=others)
        return np.asarray(forward(marginal)[tuple(slice(1, None) for _ in part)])

    def read(self, part: Columns) -> Part:
        return self.exact(part), self.variances[part]

    def noisy(self, where: Columns, index: int) -> Read:
        """The same with one coefficient of one part moved by one."""

        def read(part: Columns) -> Part:
            values, variances = self.read(part)
            if part == where:
                values = values.copy()
                values.reshape(-1)[index] += 1.0
            return values, variances

        return read


def shares(view: View, parts: Parts) -> dict[Columns, Values]:
    """What one unit of noise in each coefficient does to each number, by moving them one at a time."""
    still = view.look(parts.read)[0]
    return {
        part: np.stack([view.look(parts.noisy(part, i))[0] - still for i in range(parts.variances[part].size)], axis=-1)
        for part in view.parts
    }


def views(goal: Goal) -> list[View]:
    made = [goal.view(cells=False), goal.view(cells=True)]
    assert made[0] is not None
    assert isinstance(made[1], CellView)
    return [view for view in made if view is not None]


@each
def test_exact_residuals_give_exact_counts(name: str, goal: Goal) -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 50, SCHEMA.size).astype(np.float64)
    for view in views(goal):
        values, _ = view.look(Parts(counts, rng).read)
        assert values.shape == goal.shape == view.shape
        np.testing.assert_allclose(values, weights_of(goal) @ counts, rtol=0, atol=1e-8)


@pytest.mark.thorough(fast=12)
@each
def test_variances_and_gains_are_those_of_brute_force(name: str, goal: Goal) -> None:
    rng = np.random.default_rng(2)
    parts = Parts(rng.integers(0, 50, SCHEMA.size).astype(np.float64), rng)
    for view in views(goal):
        moved = shares(view, parts)
        # One histogram has a mean, which is measured apart: a unit in one cell is one in its deviation from the mean.
        brute = sum(share**2 @ parts.variances[part].reshape(-1) for part, share in moved.items())
        np.testing.assert_allclose(view.look(parts.read)[1], brute, rtol=1e-9, atol=1e-12)
        for part, share in moved.items():
            gain = (share**2).sum(axis=-1).max(initial=0.0)
            assert view.gains.get(part, 0.0) == pytest.approx(gain, rel=1e-9, abs=1e-12)
            assert view.peak(part) == pytest.approx((share**2).max(initial=0.0), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["average", "average of all", "average by its own column"])
def test_covariances_are_those_of_brute_force(name: str) -> None:
    rng = np.random.default_rng(3)
    parts = Parts(rng.integers(0, 50, SCHEMA.size).astype(np.float64), rng)
    for above, below in zip(*(views(goal) for goal in goals(STATEMENTS[name])), strict=True):
        one, other = shares(above, parts), shares(below, parts)
        brute = sum((one[p] * other[p]) @ parts.variances[p].reshape(-1) for p in one if p in other)
        np.testing.assert_allclose(above.covariance(below, parts.read), brute, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(below.covariance(above, parts.read), brute, rtol=1e-9, atol=1e-12)
        own = above.covariance(above, parts.read)
        np.testing.assert_allclose(own, above.look(parts.read)[1], rtol=1e-9, atol=1e-12)


conditions = st.fixed_dictionaries(
    {},
    optional={name: st.lists(st.booleans(), min_size=SCHEMA[name].size, max_size=SCHEMA[name].size) for name in WIDE},
)


@settings(max_examples=40)
@given(where=conditions, axes=st.lists(st.sampled_from(WIDE), unique=True, max_size=2), seed=st.integers(0, 2**20))
def test_any_product_is_a_product_lens_and_agrees_with_its_table(
    where: dict[str, list[bool]], axes: list[str], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    weight = LinearQuery.product(SCHEMA, {name: np.array(row, dtype=float) for name, row in where.items()})
    goal = Goal(Marginal(SCHEMA, axes, weight))
    parts = Parts(rng.integers(0, 50, SCHEMA.size).astype(np.float64), rng)
    view = view_of(goal.marginal)
    assert isinstance(view, ProductView) or not weight.terms  # what never holds has no terms
    values, variances = view.look(parts.read)
    np.testing.assert_allclose(values, weights_of(goal) @ parts.table.reshape(-1), rtol=0, atol=1e-8)
    if view.columns:
        written = np.stack([query.weights(view.columns) for _, query in goal.marginal.queries()])
        written = written.reshape((*goal.shape, *SCHEMA.shape(view.columns)))
        table = TableView(SCHEMA, view.columns, written, goal.shape)
        np.testing.assert_allclose(table.look(parts.read)[0], values, rtol=0, atol=1e-8)
        np.testing.assert_allclose(table.look(parts.read)[1], variances, rtol=1e-9, atol=1e-12)
        for part in view.parts:
            assert table.gains.get(part, 0.0) == pytest.approx(view.gains.get(part, 0.0), rel=1e-9, abs=1e-12)


@settings(max_examples=40)
@given(data=st.data(), columns=st.lists(st.sampled_from(WIDE), unique=True, min_size=1, max_size=3))
def test_any_set_of_cells_is_answered_exactly(data: Any, columns: list[str]) -> None:
    ordered = tuple(sorted(columns, key=SCHEMA.position))
    size = SCHEMA.cells(ordered)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(SCHEMA.shape(ordered))
    rng = np.random.default_rng(size)
    parts = Parts(rng.integers(0, 50, SCHEMA.size).astype(np.float64), rng)
    goal = Goal(Marginal(SCHEMA, (), cells_of(SCHEMA, ordered, chosen)))
    for view in views(goal):
        assert float(view.look(parts.read)[0]) == pytest.approx(float(weights_of(goal) @ parts.table.reshape(-1)))


@pytest.mark.parametrize(
    "text", ["age IN (0, 2) AND smoker AND town <> 'b'", "age = 3", "gain IS NULL AND town = 'a' AND age < 3"]
)
def test_a_part_of_one_question_is_one_contrast(text: str) -> None:
    rng = np.random.default_rng(4)
    parts = Parts(rng.integers(0, 50, SCHEMA.size).astype(np.float64), rng)
    view = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, text)))
    moved = shares(view, parts)
    for part in view.gains:
        found = view.component(part)
        assert (found is None) == (part == ())
        if found is not None:
            contrast, factor = found
            others = tuple(i for i, name in enumerate(SCHEMA.names) if name not in part)
            exact = contrast.combine(parts.table.sum(axis=others).astype(np.int64))
            assert factor * float(exact.reshape(())) == pytest.approx(moved[part] @ parts.exact(part).reshape(-1))


def test_too_many_cells_of_a_table_are_refused_not_written_out() -> None:
    schema = Schema([mq.Integer(f"x{i}", 0, 99) for i in range(4)])
    text = "(x0 = 1 AND x1 = 2) OR (x2 = 3 AND x3 = 4)"
    with pytest.raises(TooWide):
        view_of(Marginal(schema, (), mq.where(schema, text)))
    assert Goal(Marginal(schema, (), mq.where(schema, text))).view(cells=False) is None
