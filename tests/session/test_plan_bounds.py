"""Plans that bounds decide are the plans that prices of all parts decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from session_checks import curator_of

import maquette as mq
from maquette.session.bound import Bound
from maquette.session.offer import TOO_DEAR, Offer
from maquette.session.order import Order
from maquette.session.planner import Planner
from maquette.session.pricing import Pricing

SCHEMA = mq.Schema(
    [mq.Integer("age", 0, 29), mq.Category("region", ("n", "e", "s", "w")), mq.Boolean("ill"), mq.Integer("pay", 0, 9)]
)
ROWS = 3_000


def stream(rng: np.random.Generator) -> Iterator[str]:
    """Conditions on one to four columns: levels, ranges and sets, some of them again and again."""
    for _ in range(40):
        first, last = sorted(rng.integers(0, 30, 2).tolist())
        parts = [
            f"age BETWEEN {first} AND {last}",
            f"region = '{rng.choice(['n', 'e', 's', 'w'])}'",
            "ill",
            f"pay = {rng.integers(0, 10)}",
        ]
        yield " AND ".join(part for part in parts if rng.random() < 0.6) or "ill"


def orders(monkeypatch: pytest.MonkeyPatch, accounting: str, together: bool, seed: int, shortcut: bool) -> list[Any]:
    rng, found = np.random.default_rng(seed), list[Any]()
    table = {
        "age": rng.integers(0, 30, ROWS),
        "region": rng.choice(["n", "e", "s", "w"], ROWS),
        "ill": rng.random(ROWS) < 0.2,
        "pay": rng.integers(0, 10, ROWS),
    }
    budget = mq.Budget(epsilon=500.0, delta=1e-9, accounting=accounting)
    with monkeypatch.context() as patched:
        plan = Planner.plan

        def noted(self: Planner, goals: Sequence[Any]) -> Order:
            order = plan(self, goals)
            found.append((order.parts, {key: units for key, (_, units) in order.directs.items()}, order.rents))
            return order

        patched.setattr(Planner, "plan", noted)
        if not shortcut:
            patched.setattr(Planner, "_surely_alone", lambda self, goal, goals, now: None)
            patched.setattr(Planner, "_dearer_in_parts", lambda self, goal, now, alone=None: None)
        session = mq.online(curator_of(SCHEMA, table, budget), alpha=0.03, simultaneous=together, rows=ROWS)
        for text in stream(rng):
            session.ask(text)
    return [(parts, directs, [(key, rents[key][1]) for key in rents]) for parts, directs, rents in found]


@pytest.mark.thorough
@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
@pytest.mark.parametrize("seed", range(2))
def test_bounds_and_prices_plan_the_same(
    monkeypatch: pytest.MonkeyPatch, accounting: str, seed: int, together: bool
) -> None:
    short, full = (orders(monkeypatch, accounting, together, seed, shortcut) for shortcut in (True, False))
    assert short == full
    assert any(directs for _, directs, _ in full)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("together", [True, False])
def test_an_offer_that_is_given_up_would_have_cost_too_much(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    given_up, priced, offered = list[int](), list[int](), Pricing.offer

    def compared(self: Pricing, *given: Any, dear: Any = None, **more: Any) -> Offer | None:
        full = offered(self, *given, **more)
        if full is None:
            return offered(self, *given, dear=dear, **more)
        for units in (full.units // 2, full.units - 1, full.units, full.units + 1):  # too dear is more than this
            found = offered(self, *given, dear=units.__lt__, **more)
            assert found == full or (found is TOO_DEAR and full.units > units)
            (given_up if found is TOO_DEAR else priced).append(units)
        return offered(self, *given, dear=dear, **more)

    monkeypatch.setattr(Pricing, "offer", compared)
    orders(monkeypatch, "zcdp", together, seed=5, shortcut=True)
    assert given_up or not together  # each by itself, the first round is within a rounding of what is found
    assert priced


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("together", [True, False])
def test_no_offer_is_cheaper_than_its_bound(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    seen = list[tuple[Bound, Offer]]()
    shop = Planner._shop

    def compared(self: Planner, view: Any, known: Any, order: Any, *, ahead: bool, rents: Any) -> Offer | None:
        offer = shop(self, view, known, order, ahead=ahead, rents=rents)
        sets, widths = self._expected(view) if ahead else 0, self._widths(order, buying=True)
        bound = self._pricing.at_best(view, known, self._tolerance, widths, sets, rents=rents)
        if offer is not None and bound is not None:
            seen.append((bound, offer))
        return offer

    monkeypatch.setattr(Planner, "_shop", compared)
    orders(monkeypatch, "zcdp", together, seed=3, shortcut=False)
    assert len(seen) > 10
    for bound, offer in seen:
        assert bound.burden <= offer.burden
        assert bound.units <= offer.units


def test_without_a_bound_on_the_width_there_is_none_on_the_price() -> None:
    table: dict[str, list[Any]] = {"age": [1], "region": ["n"], "ill": [True], "pay": [3]}
    session = mq.online(curator_of(SCHEMA, table, mq.Budget(epsilon=10.0)), alpha=0.3, rows=1_000)
    planner, question = session._planner, session._read("ill AND pay = 3")
    view = session._knowledge.view(question.goals[0])
    assert view is not None
    assert isinstance(planner._pricing, Pricing)
    assert planner._pricing.at_best(view, {}, 10.0, session._knowledge.widths, 0) is None
