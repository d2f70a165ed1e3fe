"""Pricing: the cheapest precision that does, against a general solver; what is paid is what was priced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from session_checks import NoNoise, curator_of, numbers

import maquette as mq
from maquette.estimates.residuals import Columns
from maquette.query import Marginal
from maquette.schema import Schema
from maquette.session.answering import measured
from maquette.session.offer import Basis, Purchase
from maquette.session.order import Order
from maquette.session.own import Direct
from maquette.session.precision.view import CELLS, View
from maquette.session.precision.view_of import cell_view_of, view_of
from maquette.session.precision.width import Known, Widths
from maquette.session.pricing import SLACK, Pricing, after
from maquette.session.question import Goal
from maquette.session.record import Record
from plain_statements import parse

SCHEMA = Schema(
    [
        mq.Integer("age", 0, 5),
        mq.Boolean("smoker"),
        mq.Category("town", ["a", "b", "c"]),
        mq.Number("gain", edges=[-3.0, -1.0, 0.0, 2.0]),
        mq.Boolean("owner"),
    ]
)
BUDGETS: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": 9000.0},
    "zcdp": {"rho": 9000.0},
    "gdp": {"rho": 4000.0, "accounting": "gdp"},
}
QUESTIONS = {
    "rows": "TRUE",
    "one column": "age IN (1, 3, 4)",
    "binary columns": "smoker AND owner",
    "three columns": "age >= 2 AND smoker AND town <> 'b'",
    "a table": "(age = 1 AND smoker) OR town = 'a'",
}


def curator(accounting: str = "zcdp", **settings: Any) -> mq.Curator:
    rows = {"age": [1] * 9, "smoker": [True] * 9, "town": ["a"] * 9, "gain": [1.0] * 9, "owner": [False] * 9}
    return curator_of(SCHEMA, rows, mq.Budget(**BUDGETS[accounting]), NoNoise(0), **settings)


def view(text: str) -> View:
    return view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, text)))


def instances() -> st.SearchStrategy[tuple[View, dict[Columns, Known], float, dict[Columns, float]]]:
    """A question, what is known of its parts, a target variance and how much each part will be used again."""

    @st.composite
    def made(draw: Any) -> Any:
        of = view(draw(st.sampled_from(list(QUESTIONS.values()))))
        rng = np.random.default_rng(draw(st.integers(0, 2**20)))
        known = {part: Known(float(rng.lognormal(0.0, 2.0)), 1) for part in of.gains if rng.random() < 0.6}
        reuse = {part: float(1 + 5 * rng.random()) for part in of.gains}
        return of, known, float(rng.lognormal(0.0, 1.5)), reuse

    return made()


def variance(of: View, known: dict[Columns, Known], bought: dict[Columns, float]) -> float:
    return sum(gain * after(known.get(part), bought.get(part, 0.0)).variance for part, gain in of.gains.items())


def as_parts(of: View) -> dict[Columns, Basis]:
    return {part: Basis(part, 1.0) for part in of.gains}


ZCDP, PURE = Pricing(curator("zcdp")), Pricing(curator("pure"))


@settings(max_examples=30)
@given(instances())
def test_gaussian_precision_is_bought_as_lagrange_would(instance: Any) -> None:
    of, known, target, reuse = instance
    bought = ZCDP._filling(of, known, reuse, as_parts(of))(target)
    assert variance(of, known, bought) <= target
    if not bought:
        return
    prices = np.array([ZCDP.rate(part) / reuse[part] for part in of.gains])
    gains = np.array(list(of.gains.values()))
    have = np.array([1 / known[part].variance if part in known else 0.0 for part in of.gains])
    scale = np.sqrt(gains / prices) * np.sqrt(gains * prices).sum() / target  # what a new question would buy
    from scipy import optimize

    best = optimize.minimize(
        lambda x: float(prices @ (scale * x)) / float(prices @ scale),
        np.ones(len(gains)),
        bounds=[(0.0 if some else 1e-9, None) for some in have],
        constraints={"type": "ineq", "fun": lambda x: 1 - float((gains / (have + scale * x)).sum()) / target},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    ours = sum(bought.get(part, 0.0) * price for part, price in zip(of.gains, prices, strict=True))
    assert ours <= best.fun * float(prices @ scale) * (1 + 1e-5)
    # The conditions themselves: one multiplier for all that is bought, and nothing cheaper among what is not.
    worth = {part: gain / reuse_price for part, gain, reuse_price in zip(of.gains, gains, prices, strict=True)}
    slopes = {part: worth[part] * after(known.get(part), bought.get(part, 0.0)).variance ** 2 for part in of.gains}
    level = [slopes[part] for part in bought]
    assert max(level) <= min(level) * (1 + 1e-5)
    assert all(slope <= max(level) * (1 + 1e-5) for slope in slopes.values())


@pytest.mark.parametrize("text", QUESTIONS.values(), ids=QUESTIONS)
def test_laplace_precision_for_a_new_question_is_bought_as_lagrange_would(text: str) -> None:
    of, rng = view(text), np.random.default_rng(7)
    reuse = {part: float(1 + 5 * rng.random()) for part in of.gains}
    bought = PURE._filling(of, {}, reuse, as_parts(of))(3.0)
    assert variance(of, {}, bought) == pytest.approx(3.0, rel=1e-5)
    prices = np.array([PURE.rate(part) / reuse[part] for part in of.gains])
    gains = np.array(list(of.gains.values()))
    # Hoelder: min sum p u subject to sum g / u^2 <= t is (sum p^(2/3) g^(1/3))^(3/2) / sqrt(t).
    least = (prices ** (2 / 3) * gains ** (1 / 3)).sum() ** 1.5 / np.sqrt(3.0)
    ours = sum(np.sqrt(bought[part]) * price for part, price in zip(of.gains, prices, strict=True))
    assert ours == pytest.approx(least, rel=1e-5)


@settings(max_examples=30)
@given(instances(), st.sampled_from([ZCDP, PURE]), st.booleans())
def test_what_is_known_is_not_paid_for_again(instance: Any, pricing: Pricing, simultaneous: bool) -> None:
    of, known, _, _ = instance
    widths = Widths(0.05, simultaneous, gaussian=not pricing.pure)
    full = {part: known.get(part, Known(1.0, 1)) for part in of.gains}
    enough = pricing.shop(of, full, widths.of(of, full) * 1.001, widths, 16)
    assert enough is not None
    assert enough.prices == {}
    precise = {part: Known(1e-30, 1) for part in list(of.gains)[::2]}
    bought = pricing.shop(of, precise, 100.0, widths, 16)
    assert bought is not None
    assert not set(bought.prices) & set(precise)


@settings(max_examples=60)
@given(instances(), st.sampled_from([ZCDP, PURE]), st.booleans(), st.floats(1.0, 1e5))
def test_something_can_always_be_bought_and_it_is_close_to_the_tolerance(
    instance: Any, pricing: Pricing, simultaneous: bool, tolerance: float
) -> None:
    of, known, _, _ = instance
    widths = Widths(0.05, simultaneous, gaussian=not pricing.pure)
    bought = pricing.shop(of, known, tolerance, widths, 16)
    assert isinstance(bought, Purchase)
    then = {part: after(known.get(part), bought.precisions.get(part, 0.0)) for part in of.gains}
    width = widths.of(of, then)
    assert width <= tolerance
    if bought.precisions and not simultaneous:  # a top-up at least doubles where every piece counts
        assert width >= tolerance * 0.99
    assert bought.burden <= bought.units * (1 + 1e-12)


def test_a_tolerance_that_is_nearly_met_is_met_by_a_little_more() -> None:
    """The number of rows, looked at three times, each look so much finer that one more is wanted in the end."""
    of = view("TRUE")
    for pricing in (ZCDP, PURE):
        widths = Widths(0.05, True, gaussian=not pricing.pure)
        known: dict[Columns, Known] = {(): Known(114.373, 3)}
        tolerance = widths.of(of, known) * 0.88
        bought = pricing.shop(of, known, tolerance, widths, 1)
        assert bought is not None
        assert widths.of(of, {(): after(known[()], bought.precisions[()])}) <= tolerance


def test_a_tolerance_below_the_grain_of_the_counts_cannot_be_bought() -> None:
    assert ZCDP.shop(view("smoker"), {}, 0.4, Widths(0.05, False, gaussian=True), 16) is None


@pytest.mark.thorough(fast=9)
@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("text", QUESTIONS.values(), ids=QUESTIONS)
def test_the_tolerance_is_met_and_the_price_is_what_the_ledger_charges(
    accounting: str, relation: str, text: str
) -> None:
    keeper = curator(accounting, relation=relation)
    pricing, record = Pricing(keeper), Record(keeper, "online")
    spent = 0
    for tolerance, simultaneous in ((90.0, False), (40.0, True), (17.0, True), (9.0, False)):
        of = view(text)
        widths = Widths(0.05, simultaneous, gaussian=not pricing.pure)
        bought = pricing.shop(of, record.transcript.known_of(of), tolerance, widths, 16)
        assert bought is not None
        if bought.prices:
            record.charge(Order(bought.parts, {}, {}), analyst="custodian")
        assert widths.of(of, record.transcript.known_of(of)) <= tolerance
        charged = keeper.ledger.spent() - spent
        assert bought.units * (1 - 1e-11) - 3 * len(bought.prices) <= charged <= bought.units
        spent += charged


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("accounting", BUDGETS)
@pytest.mark.parametrize("signed", [False, True])
def test_a_number_measured_as_asked_meets_the_tolerance_at_its_price(accounting: str, signed: bool) -> None:
    keeper = curator(accounting)
    pricing, record = Pricing(keeper), Record(keeper, "online")
    widths = Widths(0.05, True, gaussian=not pricing.pure)
    text = "SELECT town, sum(gain) FROM t GROUP BY town" if signed else "SELECT age, count(*) FROM t GROUP BY age"
    output = parse(SCHEMA, text).outputs[1]
    assert output.measure is not None
    goal = Goal(output.measure.marginal, output.measure.signed)
    assert goal.signed == signed
    units = pricing.direct(goal, 12.0, widths.fresh(goal.as_asked.cells, 1))
    record.charge(Order({}, {goal.key: (goal, units)}, {}), analyst="custodian")
    assert units * (1 - 1e-11) - 3 <= keeper.ledger.spent() <= units
    (direct,) = record.own[goal.key]
    assert isinstance(direct, Direct)
    assert measured(direct, widths).widths.max() <= 12.0
    assert measured(direct, widths).widths.max() >= 12.0 * (1 - 1e-3)


def test_a_histogram_of_a_small_universe_is_bought_like_any_part() -> None:
    keeper = curator()
    pricing, record = Pricing(keeper), Record(keeper, "online")
    of, widths = cell_view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, "age = 1 OR smoker"))), Widths(0.05, True, True)
    bought = pricing.shop(of, {}, 200.0, widths, 16)
    assert bought is not None
    assert set(bought.prices) == {(), CELLS}
    record.cells = True
    record.charge(Order(bought.parts, {}, {}), analyst="custodian")
    assert widths.of(of, record.transcript.known_of(of)) <= 200.0


def test_finer_tolerances_cost_more_and_parts_that_serve_more_sets_are_bought_more_precisely() -> None:
    of, widths = view(QUESTIONS["three columns"]), Widths(0.05, False, gaussian=True)
    offers = [ZCDP.shop(of, {}, tolerance, widths, 16) for tolerance in (400.0, 200.0, 100.0)]
    units = [offer.units for offer in offers if offer is not None]
    assert units == sorted(units)
    assert units[-1] == pytest.approx(16 * units[0], rel=0.02)
    few, many = (ZCDP.shop(of, {}, 100.0, widths, sets) for sets in (1, 10_000))
    assert few is not None
    assert many is not None
    ratio = {part: many.precisions[part] / few.precisions[part] for part in of.gains}
    assert ratio[("smoker",)] > ratio[("age", "smoker", "town")]
    assert SLACK < 1e-5


POOL = [
    "SELECT count(*) FROM t",
    "smoker",
    "owner",
    "age >= 2 AND smoker",
    "town = 'a' AND owner",
    "(age = 1 AND smoker) OR town = 'a'",
    "SELECT avg(age) FROM t",
    "SELECT smoker, count(*) FROM t GROUP BY smoker",
    "SELECT age, owner, count(*) FROM t GROUP BY age, owner",
    "SELECT town, owner, smoker, count(*) FROM t GROUP BY town, owner, smoker",
]


@pytest.mark.thorough
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("accounting", ["pure", "zcdp", "gdp"])
def test_whatever_is_paid_for_together_is_promised(accounting: str, relation: str) -> None:
    # Tables measured as asked add pieces to parts that other needs of the same charge rely on.
    rows = 4_000
    table = {
        "age": np.arange(rows) % 6,
        "smoker": np.arange(rows) % 3 == 0,
        "town": np.array(["a", "b", "c"])[np.arange(rows) // 7 % 3],
        "gain": np.zeros(rows),
        "owner": np.arange(rows) % 2 == 0,
    }
    for seed in range(8):
        rng = np.random.default_rng(seed)
        with curator_of(SCHEMA, table, mq.Budget(**BUDGETS[accounting]), NoNoise(0), relation=relation) as keeper:
            session = mq.online(keeper, alpha=(0.02, 0.05, 0.1)[seed % 3], warm_start="none")
            for size in rng.integers(1, 5, 4):
                for answer in session.ask_many([POOL[i] for i in rng.permutation(len(POOL))[:size]]):
                    assert all(number.guarantee is not None for number in numbers(answer))


@pytest.mark.parametrize("alpha", [0.26, 0.3])
@pytest.mark.parametrize("contributions", [2, 3])
def test_a_tolerance_of_less_than_a_row_has_a_price_or_is_refused(alpha: float, contributions: int) -> None:
    schema = Schema([mq.Boolean("a"), mq.Boolean("b")])
    made = mq.open_table(
        {"person": [1, 2, 3], "a": [True] * 3, "b": [False] * 3},
        schema,
        privacy_unit="person",
        max_contributions=contributions,
    )
    with mq.Curator(made, mq.Budget(rho=1_000.0, delta=1e-9)) as curator:
        try:
            answer = mq.online(curator, alpha=alpha, rows=2, warm_start="none").ask("a AND b")
        except mq.BudgetError:
            return
        assert answer.low <= answer.value <= answer.high
