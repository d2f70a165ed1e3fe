"""Sensitivities hold for exact integers: nothing behind a door may wrap, saturate or raise depending on the rows."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import maquette as mq
from gate_tools import exact, exact_by_records
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator, numbers
from maquette.errors import QueryError, RequestConflict
from maquette.privacy import Relation
from maquette.query import Contrasts, LinearQuery, Marginal
from maquette.query.linear import Term

SCHEMA = mq.Schema([mq.Boolean("x"), mq.Category("y", ["p", "q", "r"])])
TOTAL = Marginal(SCHEMA)
WEIGHED = Marginal(SCHEMA, (), LinearQuery.product(SCHEMA, {"y": [0.3, 0.5, 1.0]}))
BUDGET = mq.Budget(rho=100.0, delta=1e-6)


def curator(rows: int = 7) -> Curator:
    table = mq.open_table({"x": [True] * rows, "y": ["p"] * rows}, SCHEMA)
    return Curator(table, BUDGET, noise=ScriptedNoise([0] * 99))


@pytest.mark.parametrize("entry", [-(2**63), 2**62, 2**40, -(2**29)])
def test_contrasts_refuse_entries_that_could_wrap(entry: int) -> None:
    with pytest.raises(QueryError, match="exceed"):
        Contrasts(Marginal(SCHEMA, ["x"]), [np.array([[0, entry], [1, 1]])])


def test_norms_of_contrasts_are_exact() -> None:
    many = Contrasts(Marginal(SCHEMA, ["x"]), [np.full((1000, 2), 2**28)])
    assert many.gains == (2**28, 1000 * 2**28, 1000 * 2**56)


@pytest.mark.thorough(fast=4)
@pytest.mark.parametrize(
    "ask",
    [
        lambda c: c.select_worst([TOTAL, TOTAL], [-(2.0**50), -(2.0**49)], weights=[1, 1], rho=0.1),
        lambda c: c.select_worst([TOTAL], [2.0**59], over="marginals", weights=[1.0], rho=0.1),
        lambda c: c.select_worst([TOTAL, TOTAL], [0.0, 0.0], penalties=[-(2.0**63 - 2**11), 0], rho=0.1),
        lambda c: c.select_worst([TOTAL, WEIGHED], [-(2.0**43), 0.0], signed=True, rho=0.1),
        lambda c: c.select_worst([Marginal(SCHEMA, ["x", "y"])], [np.full((2, 3), 2.0**60)], over="marginals", rho=0.1),
        lambda c: c.measure_error([TOTAL, WEIGHED], [-(2.0**43), 0.0], rho=0.1),
        lambda c: c.select_best([TOTAL, WEIGHED], [[2.0**50, 0.0]], rho=0.1),
    ],
)
def test_questions_that_could_wrap_are_refused_before_any_charge(ask: object) -> None:
    for rows in (1, 7, 8192):
        with curator(rows) as opened:
            with pytest.raises(QueryError):
                ask(opened)  # type: ignore[operator]
            assert opened.ledger.spent() == 0


def test_the_tally_never_weighs_more_than_the_sensitivity_says() -> None:
    """Rounding twice, or adding floats in another order, must not lift a row's weight above the bound."""
    tiny = LinearQuery.product(SCHEMA, {"x": [0.0, (0.5 + 2**-25) / 2**20]})
    half = LinearQuery.product(SCHEMA, {"x": [0.0, (2.5 + 2**-25) / 2**20]})
    y = {1: np.array([1.0, 1.0, 0.0])}
    x = {0: np.array([0.0, 1.0])}
    cancelled = LinearQuery(SCHEMA, [Term(1e16, x), Term(2e-6, y), Term(-1e16, x)])
    records = np.array([[a, b] for a in (0, 1) for b in (0, 1, 2)])
    for query in (tiny, half, cancelled):
        marginal = Marginal(SCHEMA, (), query)
        heaviest = max(int(exact_by_records(marginal, record[None, :])) for record in records)
        assert max(heaviest, int(exact(marginal, [[1, 1]]))) <= Relation("add-remove").l1(marginal)
        assert Relation("add-remove", 1000).l1(marginal) >= 1000 * heaviest


def test_a_guard_refuses_questions_of_another_schema() -> None:
    other = mq.Schema([mq.Boolean("x")])
    with curator() as opened:
        guard = opened.guard(2.0, rho=0.1)
        with pytest.raises(QueryError, match="another schema"):
            guard.test(Marginal(other, (), mq.where(other, "x")), 0.0)


def test_a_request_with_other_shares_is_another_request() -> None:
    questions = [["x"], ["y"], ["x", "y"]]
    with curator() as opened:
        opened.measure_many(questions, rho=0.1, shares=[1, 6, 1], request="one")
        with pytest.raises(RequestConflict):
            opened.measure_many(questions, rho=0.1, shares=[1, 1, 6], request="one")


@pytest.mark.parametrize("tiny", [1e-120, 1e-140, 1e-160, 1e-200, 1e-280])
def test_products_of_huge_and_tiny_numbers_that_cancel_are_refused(tiny: float) -> None:
    """Squares of tiny numbers vanish, and yet a huge coefficient makes them large before they cancel."""
    factor = np.array([tiny / 3, -tiny])
    for size, refused in ((2.0**60, True), (2.0**10, False)):
        terms = [Term(size / tiny, {0: factor}), Term(-size / tiny, {0: factor, 1: np.array([1.0, 0.5, 1.0])})]
        with pytest.raises(QueryError, match="before they cancel") if refused else nullcontext():
            numbers.refuse_inexact(terms)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("beside", [0.0, 1.0, 1e200, 5e-324])
def test_weights_that_are_not_finite_are_refused_whatever_is_beside_them(wrong: float, beside: float) -> None:
    for length in (1, 400):
        with pytest.raises(QueryError, match="finite"), np.errstate(all="raise"):
            numbers.floats([beside] * length + [wrong])
