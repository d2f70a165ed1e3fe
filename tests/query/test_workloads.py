"""Workloads: exact sizes, random access without listing, and marginals that answer every member."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest
import scipy
from hypothesis import given, settings, strategies as st
from query_checks import schemas

from maquette.errors import QueryError
from maquette.query import (
    LinearQuery,
    Workload,
    col,
    conjunctions,
    disjunctions,
    marginals,
    prefixes,
    queries,
    ranges,
    where,
)
from maquette.schema import Boolean, Category, Integer, Schema

SMALL = Schema([Integer("age", 0, 3), Boolean("smoker"), Category("sex", ["f", "m"], nullable=True), Boolean("ill")])


def indicator(schema: Schema, name: str, level: int) -> LinearQuery:
    return LinearQuery.product(schema, {name: np.arange(schema[name].size) == level})


def literal_lists(schema: Schema, names: tuple[str, ...]) -> list[list[LinearQuery]]:
    """For each cell over some columns, in row-major order, its literals."""
    cells = itertools.product(*(range(schema[name].size) for name in names))
    return [[indicator(schema, name, level) for name, level in zip(names, cell, strict=True)] for cell in cells]


def all_of(parts: list[LinearQuery]) -> LinearQuery:
    return functools.reduce(operator.and_, parts)


def any_of(parts: list[LinearQuery]) -> LinearQuery:
    return functools.reduce(operator.or_, parts)


def listed(
    schema: Schema, subsets: list[tuple[str, ...]], join: Callable[[list[LinearQuery]], LinearQuery]
) -> list[str]:
    return [join(literals).key for names in subsets for literals in literal_lists(schema, names)]


FAMILIES: dict[str, tuple[Workload, list[str]]] = {
    "2-way": (marginals(SMALL, 2), listed(SMALL, list(itertools.combinations(SMALL.names, 2)), all_of)),
    "default": (marginals(SMALL), listed(SMALL, list(itertools.combinations(SMALL.names, 3)), all_of)),
    "up to 2": (
        marginals(SMALL, 2, up_to=True),
        listed(SMALL, [c for k in (1, 2) for c in itertools.combinations(SMALL.names, k)], all_of),
    ),
    "listed marginals": (
        marginals(SMALL, columns=[("sex", "age"), ("ill",)]),
        listed(SMALL, [("sex", "age"), ("ill",)], all_of),
    ),
    "conjunctions": (
        conjunctions(SMALL, 2, ["ill", "sex", "age"]),
        listed(SMALL, list(itertools.combinations(["ill", "sex", "age"], 2)), all_of),
    ),
    "disjunctions": (disjunctions(SMALL, 3), listed(SMALL, list(itertools.combinations(SMALL.names, 3)), any_of)),
    "ranges": (
        ranges(SMALL, "age"),
        [where(SMALL, f"age BETWEEN {low} AND {high}").key for high in range(4) for low in range(high + 1)],
    ),
    "prefixes": (prefixes(SMALL, "age"), [where(SMALL, f"age <= {high}").key for high in range(4)]),
    "queries": (
        queries(SMALL, ["smoker AND ill", col("age") > 1, "TRUE", where(SMALL, "ill")]),
        [where(SMALL, text).key for text in ("smoker AND ill", "age > 1", "TRUE", "ill")],
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_what_listing_it_gives(name: str) -> None:
    workload, keys = FAMILIES[name]
    assert workload.size == len(keys)
    assert [query.key for query in workload] == keys
    assert [workload[i].key for i in range(-workload.size, workload.size)] == keys * 2
    for outside in (workload.size, -workload.size - 1):
        with pytest.raises(IndexError, match="there is no query"):
            workload[outside]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_marginals_of_a_family_answer_every_member(name: str) -> None:
    workload, _ = FAMILIES[name]
    tables = [set(marginal.columns) for marginal in workload.marginals]
    assert all(any(table.issuperset(query.columns) for table in tables) for query in workload)
    assert len(tables) == len(list(workload.marginals))  # it can be read again
    assert set().union(*tables) == {name for query in workload for name in query.columns}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_cells_are_numbered_marginal_by_marginal(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    k = data.draw(st.integers(1, len(schema)))
    workload = marginals(schema, k)
    flat = [query for marginal in workload.marginals for _, query in marginal.queries()]
    assert workload.size == len(flat) == sum(marginal.cells for marginal in workload.marginals)
    chosen = data.draw(st.integers(0, workload.size - 1))
    assert workload[chosen] == flat[chosen]


def test_enormous_families_are_counted_exactly_and_reached_anywhere() -> None:
    schema = Schema([Integer(f"n{i}", 0, 99) for i in range(200)])
    begun = time.thread_time()
    workload = conjunctions(schema, 10)
    assert workload.size == math.comb(200, 10) * 100**10 > sys.maxsize
    assert workload[0].columns == schema.names[:10]
    last = workload[workload.size - 1]
    assert last == workload[-1] == LinearQuery.product(schema, {name: np.eye(100)[99] for name in schema.names[-10:]})
    assert len(next(iter(disjunctions(schema, 10))).columns) == 10
    assert len({query.key for query in workload.sample(20, np.random.default_rng(3))}) == 20
    assert next(conjunctions(schema, 3).marginals).names == schema.names[:3]
    assert time.thread_time() - begun < 2.0


def test_uneven_columns_are_counted_by_symmetric_polynomials() -> None:
    schema = Schema([Integer(f"n{i}", 0, i) for i in range(12)])
    for k in (1, 5, 12):
        assert conjunctions(schema, k).size == sum(math.prod(c) for c in itertools.combinations(range(1, 13), k))


def test_samples_are_uniform_and_follow_the_generator() -> None:
    workload = marginals(SMALL, 1)
    keys = [query.key for query in workload]
    drawn = [query.key for query in workload.sample(3000, np.random.default_rng(11))]
    assert drawn[:50] == [query.key for query in workload.sample(50, np.random.default_rng(11))]
    counts = [drawn.count(key) for key in keys]
    assert sum(counts) == 3000
    assert scipy.stats.chisquare(counts).pvalue > 1e-6
    (only,) = queries(SMALL, ["smoker"]).sample(1, np.random.default_rng(0))
    assert only == where(SMALL, "smoker")


def test_a_listed_query_too_wide_for_a_table_is_its_own_marginal() -> None:
    schema = Schema([Boolean(f"b{i}") for i in range(40)])
    wide = " AND ".join(schema.names)
    (marginal,) = queries(schema, [wide]).marginals
    assert marginal.cells == 1
    assert marginal.weight == where(schema, wide)
    assert [m.names for m in queries(schema, ["b1 OR b2", "b2 AND b1", "b3"]).marginals] == [("b1", "b2"), ("b3",)]


def test_reprs_are_one_line() -> None:
    assert repr(marginals(SMALL, 2)) == "2-way marginals of 4 columns: 44 queries"
    assert repr(marginals(SMALL, 2, up_to=True)) == "up to 2-way marginals of 4 columns: 55 queries"
    assert repr(disjunctions(SMALL, 1)) == "disjunctions of 1 of 4 columns: 11 queries"
    assert repr(ranges(SMALL, "age")) == "ranges of age: 10 queries"
    assert repr(queries(SMALL, ["smoker"])) == "listed questions: 1 queries"


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "k too large": (lambda: marginals(SMALL, 5), "k is 5; expected a whole number from 1 to the number of columns, 4"),
    "k zero": (lambda: conjunctions(SMALL, 0), "k is 0; expected a whole number from 1 to the number of columns, 4"),
    "k of few columns": (
        lambda: conjunctions(SMALL, 2, ["age"]),
        "k is 2; expected a whole number from 1 to the number of columns, 1",
    ),
    "k not whole": (lambda: disjunctions(SMALL, 1.5), "k is 1.5; expected a whole number"),  # type: ignore[arg-type]
    "unknown": (lambda: marginals(SMALL, columns=[("agee", "sex")]), "there is no column 'agee'; did you mean age?"),
    "repeated": (
        lambda: marginals(SMALL, columns=[("age", "age")]),
        "the columns are age, age; expected different columns, at least one",
    ),
    "one name": (
        lambda: marginals(SMALL, columns=["age"]),
        "got the text 'age'; expected a list of column names; write ['age']",
    ),
    "no marginals": (lambda: marginals(SMALL, columns=[]), "the list of marginals is empty"),
    "both": (lambda: marginals(SMALL, 2, columns=[("age",)]), "give either k or a list of columns"),
    "no order": (
        lambda: ranges(SMALL, "sex"),
        "column 'sex' (category) has no order; expected an integer, number or date",
    ),
    "unknown range": (lambda: prefixes(SMALL, "ages"), "did you mean age?"),
    "one question": (
        lambda: queries(SMALL, "smoker"),
        "got one question; expected a list of questions; put it in a list",
    ),
    "no questions": (lambda: queries(SMALL, []), "the list of questions is empty"),
    "bad question": (lambda: queries(SMALL, ["smoker", "salary > 3"]), "there is no column 'salary'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_workloads_are_explained(name: str) -> None:
    call, helpful = BAD[name]
    with pytest.raises(QueryError) as caught:
        call()
    assert helpful in str(caught.value)


@pytest.mark.parametrize(
    "family",
    [
        marginals(SMALL, 2),
        marginals(SMALL, 2, up_to=True),
        marginals(SMALL, columns=[SMALL.names[2:0:-1], SMALL.names[:1], SMALL.names[1:3]]),
        conjunctions(SMALL, 2),
        prefixes(SMALL, SMALL.names[0]),
    ],
    ids=repr,
)
def test_the_tables_of_a_family_are_the_columns_of_its_marginals(family: Workload) -> None:
    """The same sets, each in schema order and once, without building a question for each."""
    assert set(family.tables) == {marginal.columns for marginal in family.marginals}
    assert len(set(family.tables)) == len(family.tables)
    places = [(len(table), [SMALL.position(name) for name in table]) for table in family.tables]
    assert places == sorted(places)


def test_a_table_that_is_too_large_is_refused_by_its_sets_too() -> None:
    wide = Schema([Integer(f"c{i}", 0, 99_999) for i in range(3)])
    with pytest.raises(QueryError, match="more than"):
        list(marginals(wide, 2).sets)
