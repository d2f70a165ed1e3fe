"""Equal questions have equal keys, different questions different ones, by brute force over small universes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from query_checks import conditions, kleene

from maquette.errors import QueryError
from maquette.query import LinearQuery, where
from maquette.query.diagram import Diagram
from maquette.query.expression import Expression
from maquette.query.linear import Term
from maquette.schema import Boolean, Category, Integer, Schema

TINY = Schema([Integer("a", 0, 2), Boolean("b", nullable=True), Category("c", ["x", "y"])])
VALUES: list[tuple[Any, ...]] = [(0, 1, 2), (False, True, None), ("x", "y")]
UNIVERSE = [dict(zip(TINY.names, point, strict=True)) for point in itertools.product(*VALUES)]


def truth_table(expression: Expression) -> np.ndarray:
    return np.array([kleene(expression, row) is True for row in UNIVERSE], dtype=float).reshape(3, 3, 2)


def varies(table: np.ndarray) -> tuple[str, ...]:
    return tuple(name for axis, name in enumerate(TINY.names) if np.ptp(table, axis=axis).any())


@pytest.mark.thorough
@settings(max_examples=200, deadline=None, derandomize=True)
@given(conditions(TINY), conditions(TINY))
def test_keys_are_equal_exactly_when_truth_tables_are(one: Any, two: Any) -> None:
    first, second = (where(TINY, c.expression) for c in (one, two))
    tables = [truth_table(c.expression) for c in (one, two)]
    assert (first.weights(TINY.names) == tables[0]).all()
    assert first.columns == varies(tables[0])
    assert (first.key == second.key) == bool((tables[0] == tables[1]).all())


def test_every_function_of_a_small_universe_has_its_own_key() -> None:
    schema = Schema([Boolean("p"), Integer("q", 0, 2)])
    cells = [LinearQuery.product(schema, {"p": np.eye(2)[i], "q": np.eye(3)[j]}) for i in range(2) for j in range(3)]
    keys = {}
    for chosen in itertools.product([0, 1], repeat=6):
        query = LinearQuery(
            schema, [term for cell, keep in zip(cells, chosen, strict=True) if keep for term in cell.terms]
        )
        assert query.weights(schema.names).reshape(-1).tolist() == list(chosen)
        keys[query.key] = chosen
    assert len(keys) == 64


LAWS = {
    "de morgan": ("NOT (a = 1 AND b)", "NOT a = 1 OR NOT b"),
    "de morgan of or": ("NOT (a = 1 OR b OR c = 'x')", "NOT a = 1 AND NOT b AND NOT c = 'x'"),
    "and over or": ("a = 1 AND (b OR c = 'x')", "a = 1 AND b OR a = 1 AND c = 'x'"),
    "or over and": ("a = 1 OR b AND c = 'x'", "(a = 1 OR b) AND (a = 1 OR c = 'x')"),
    "double negation": ("NOT NOT b", "b"),
    "absorption": ("b OR b AND a = 1", "b"),
    "idempotence": ("b AND b AND b", "b OR b"),
    "an irrelevant column": ("b AND (a = 1 OR a <> 1)", "b"),
    "an irrelevant column with missing values": ("a = 1 AND (b OR NOT b OR b IS NULL)", "a = 1"),
    "a list": ("a IN (0, 2)", "a <> 1"),
    "an interval": ("a BETWEEN 1 AND 2", "NOT a < 1"),
    "nothing": ("a = 1 AND a = 2", "FALSE"),
    "everything": ("c = 'x' OR c = 'y'", "TRUE"),
    "order": ("c = 'x' AND a = 1 AND b", "b AND a = 1 AND c = 'x'"),
}


@pytest.mark.parametrize("law", LAWS)
def test_laws_of_logic(law: str) -> None:
    left, right = (where(TINY, text) for text in LAWS[law])
    assert left == right
    assert hash(left) == hash(right)
    assert left.key == right.key


def test_excluded_middle_fails_where_a_value_is_missing() -> None:
    assert where(TINY, "b OR NOT b") != where(TINY, "TRUE")
    assert where(TINY, "b OR NOT b") == where(TINY, "b IS NOT NULL")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_operators_on_weights_are_arithmetic(data: st.DataObject) -> None:
    schema = Schema([Integer("p", 0, 2), Boolean("q"), Boolean("r")])
    eighths = st.integers(0, 8).map(lambda i: i / 8)

    def drawn() -> LinearQuery:
        names = data.draw(st.lists(st.sampled_from(schema.names), max_size=3, unique=True))
        sizes = {name: schema[name].size for name in names}
        return LinearQuery.product(
            schema, {n: data.draw(st.lists(eighths, min_size=size, max_size=size)) for n, size in sizes.items()}
        )

    one, two, three = drawn(), drawn(), drawn()
    u, v, w = (query.weights(schema.names) for query in (one, two, three))
    for query, weights in {
        one & two: u * v,
        one | two: 1 - (1 - u) * (1 - v),
        ~(one & ~two) & three: (1 - u * (1 - v)) * w,
    }.items():
        assert np.allclose(query.weights(schema.names), weights, rtol=0, atol=1e-12)
        assert query.bounds == pytest.approx((weights.min(), weights.max()), abs=1e-9)
    assert (one & two) == (two & one)
    assert (one | two) == (two | one)


def test_a_column_that_cancels_out_does_not_matter() -> None:
    on_c = np.array([0.25, 1.0])
    halves = [Term(0.5, {0: np.array(on_a, dtype=float), 2: on_c}) for on_a in ([1, 1, 0], [0, 1, 1], [1, 0, 1])]
    query, plain = LinearQuery(TINY, halves), LinearQuery.product(TINY, {"c": on_c})
    assert query == plain
    assert query.columns == ("c",)
    assert query.weights().tolist() == [0.25, 1.0]
    assert (query.evaluate(np.array([[2, 0, 0], [1, 1, 1]])) == [0.25, 1.0]).all()
    assert query.sql() == plain.sql()


def test_a_weight_outside_the_unit_interval_is_refused() -> None:
    schema = Schema([Boolean("p"), Boolean("q")])
    up = np.array([0.0, 1.0])
    with pytest.raises(QueryError, match=r"weight of 2.0 is outside \[0, 1\]"):
        _ = LinearQuery(schema, [Term(1.0, {0: up}), Term(1.0, {1: up})]).key
    with pytest.raises(QueryError, match=r"weights must lie in \[0, 1\]"):
        LinearQuery.product(schema, {"p": [0.0, 1.5]})
    with pytest.raises(QueryError, match=r"got weights of shape .*; expected one for each of its 2 levels"):
        LinearQuery.product(schema, {"p": [0.0, 1.0, 1.0]})


@pytest.mark.parametrize("seed", range(40))
def test_conditions_are_drawn_in_short_as_they_are_in_full(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    schema = Schema([Integer("a", 0, 4), Boolean("b"), Category("c", ["x", "y", "z"])])
    chosen = [p for p in range(3) if rng.random() < 0.7]
    share = rng.choice([0.0, 0.3, 0.6, 1.0], 3)
    factors = {p: (rng.random(schema.columns[p].size) < share[p]).astype(np.float64) for p in chosen}
    held, rest = [Term(1.0, factors)], [Term(1.0, {}), Term(-1.0, factors)]
    short = [Diagram(schema, terms).drawn for terms in (held, rest)]
    monkeypatch.setattr(Diagram, "_conditions", lambda self, terms: None)
    assert [Diagram(schema, terms).drawn for terms in (held, rest)] == short
