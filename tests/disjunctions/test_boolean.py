"""Yes/no columns: duality, transforms and their noise, literals, and monotone families."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.query import Combinations, Literals, conjunctions, disjunctions, literal_query, literals_of, where
from maquette.query.classes import boolean as b
from maquette.schema import Boolean, Category, Integer, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["no", "yes"]), Boolean("c")])
MIXED = Schema([*SCHEMA.columns, Integer("age", 0, 3), Boolean("unsure", nullable=True)])


def table(k: int) -> np.ndarray:
    return np.random.default_rng(k).integers(0, 50, (2,) * k).astype(float)


def subset(mask: tuple[int, ...], cells: np.ndarray) -> np.ndarray:
    return cells[:, [i for i, taken in enumerate(mask) if taken]]


@pytest.mark.parametrize("k", range(7))
def test_every_transform_is_what_listing_rows_gives(k: int) -> None:
    counts = table(k)
    cells = np.array([*itertools.product((0, 1), repeat=k)]).reshape(2**k, k)
    flat = counts.reshape(-1)
    for mask in itertools.product((0, 1), repeat=k):
        chosen = subset(mask, cells)
        assert b.conjunctions_of(counts)[mask] == flat[chosen.all(axis=1)].sum()
        assert b.parities_of(counts)[mask] == (flat * (1 - 2 * chosen).prod(axis=1)).sum()
        some = flat[chosen.any(axis=1)].sum() if any(mask) else flat.sum()
        assert b.disjunctions_of(counts)[mask] == some


@pytest.mark.parametrize("k", range(9))
def test_round_trips(k: int) -> None:
    counts = table(k)
    assert np.allclose(b.table_of_conjunctions(b.conjunctions_of(counts)), counts)
    assert np.allclose(b.table_of_parities(b.parities_of(counts)), counts)
    assert np.allclose(b.table_of_disjunctions(b.disjunctions_of(counts)), counts)
    assert np.allclose(b.conjunctions_of_parities(b.parities_of(counts)), b.conjunctions_of(counts))
    assert np.allclose(b.parities_of_conjunctions(b.conjunctions_of(counts)), b.parities_of(counts))
    assert np.allclose(b.disjunctions_of_conjunctions(b.conjunctions_of(counts)), b.disjunctions_of(counts))


def test_disjunctions_are_conjunctions_of_the_flipped_table() -> None:
    counts = table(4)
    flipped = b.conjunctions_of(counts[::-1, ::-1, ::-1, ::-1])
    expected = counts.sum() - flipped
    expected[0, 0, 0, 0] = counts.sum()
    assert np.allclose(b.disjunctions_of(counts), expected)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_noise_is_amplified_as_stated(k: int) -> None:
    """Exact: the matrix of each inverse, column by column."""
    units = np.eye(2**k).reshape(2**k, *(2,) * k)
    moebius = np.array([b.table_of_conjunctions(unit).reshape(-1) for unit in units])
    walsh = np.array([b.table_of_parities(unit).reshape(-1) for unit in units])
    zeros = k - np.array([sum(cell) for cell in itertools.product((0, 1), repeat=k)])
    assert np.allclose((moebius**2).sum(axis=0), 2.0**zeros)
    assert np.allclose((walsh**2).sum(axis=0), 2.0**-k)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_literals_are_recognised_and_dual(size: int) -> None:
    rows = np.array([*itertools.product((0, 1), repeat=3)])
    for join, levels in itertools.product(("any", "all"), itertools.product((0, 1), repeat=size)):
        literals = Literals(join, SCHEMA.names[:size], levels)  # type: ignore[arg-type]
        query = literal_query(SCHEMA, literals)
        holds = rows[:, :size] == levels
        assert np.array_equal(query.evaluate(rows), holds.any(axis=1) if join == "any" else holds.all(axis=1))
        assert literal_query(SCHEMA, literals.dual) == ~query
        assert literals.dual.dual == literals
        assert literals_of(query) == (literals if size > 1 else Literals("any", literals.columns, levels))


def test_other_questions_are_no_literals() -> None:
    assert literals_of(where(MIXED, "a AND (c OR b = 'yes')")) is None
    assert literals_of(where(MIXED, "age = 2")) is None
    assert literals_of(where(MIXED, "TRUE")) is None
    assert literals_of(where(SCHEMA, "a") & where(SCHEMA, "c")) == Literals("all", ("a", "c"), (1, 1))


def test_doubling_makes_literals_columns() -> None:
    rows = np.array([*itertools.product((0, 1), repeat=3)])
    twice = b.doubled(rows)
    for levels in itertools.product((0, 1), repeat=3):
        places = [i if level else 3 + i for i, level in enumerate(levels)]
        query = literal_query(SCHEMA, Literals("any", SCHEMA.names, levels))
        assert np.array_equal(twice[:, places].any(axis=1), query.evaluate(rows) == 1)
    with pytest.raises(QueryError, match="rows of 0 and 1"):
        b.doubled(np.array([[2, 0]]))


@pytest.mark.parametrize("up_to", [False, True])
def test_monotone_families_are_what_listing_them_gives(up_to: bool) -> None:
    for join, family in (("any", disjunctions), ("all", conjunctions)):
        workload = family(SCHEMA, 2, monotone=True, up_to=up_to)
        sets = [c for k in ((1, 2) if up_to else (2,)) for c in itertools.combinations(SCHEMA.names, k)]
        expected = [literal_query(SCHEMA, Literals(join, c, (1,) * len(c))) for c in sets]  # type: ignore[arg-type]
        assert list(workload) == expected
        assert [m.names for m in workload.marginals] == sets
        assert isinstance(workload, Combinations)
        assert (workload.k, workload.columns) == (2, SCHEMA.names)


def test_hundreds_of_columns_are_counted_not_listed() -> None:
    schema = Schema([Boolean(f"s{i}") for i in range(400)])
    workload = disjunctions(schema, 10, monotone=True)
    assert workload.size == math.comb(400, 10)
    assert workload[workload.size - 1].columns == schema.names[-10:]
    assert "monotone disjunctions of 10 of 400 columns" in repr(workload)
    assert {len(query.columns) for query in workload.sample(5, np.random.default_rng(0))} == {10}


@pytest.mark.parametrize(
    ("k", "columns", "message"),
    [
        (4, ["a", "b", "c"], "k is 4; .* the number of columns, 3"),
        (0, None, "k is 0"),
        (1, ["a", "age"], r"age \(4\)"),
        (1, ["unsure"], r"got unsure \(3\) .*without NULL\)"),
        (1, "ab", "got the text 'ab'"),
        (1, [], "different columns"),
        (1, ["a", "a"], "different columns"),
    ],
)
def test_bad_monotone_families_are_explained(k: int, columns: list[str] | None, message: str) -> None:
    schema = SCHEMA if columns is None else MIXED
    for family in (disjunctions, conjunctions):
        with pytest.raises(QueryError, match=message):
            family(schema, k, columns, monotone=True)


def test_bad_tables_are_explained() -> None:
    with pytest.raises(QueryError, match="axis of length 2"):
        b.parities_of(np.zeros((2, 3)))
