"""Doors take ledger units as they are: no rounding, the same charge and the same request as the decimal number."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import maquette as mq
from maquette.audit.reference.quiet import QuietNoise
from maquette.errors import BudgetError, MaquetteError
from maquette.estimates import units_for
from maquette.privacy import MAX_UNITS, recorded_price

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"])])
BUDGETS = {
    "pure": mq.Budget(epsilon=9e3),
    "zcdp": mq.Budget(rho=9e3, delta=1e-9),
    "gdp": mq.Budget(epsilon=9e2, delta=1e-9, accounting="gdp"),
    "basic": mq.Budget(epsilon=9e3, delta=1e-9, accounting="basic"),
}
EXACT = {"pure": 8 * 10**15, "zcdp": 8 * 10**15, "basic": 8 * 10**15, "gdp": 10**15}  # floats tell units apart
PUBLIC = [np.array([1.0, 2.0])]
DOORS: dict[str, Callable[..., Any]] = {
    "measure": lambda c, **p: c.measure(["a"], **p),
    "measure_many": lambda c, **p: c.measure_many([["a"], ["b"]], shares=[1, 2], **p),
    "measure_error": lambda c, **p: c.measure_error([["a"]], PUBLIC, **p),
    "select_worst": lambda c, **p: c.select_worst([["a"]], PUBLIC, **p),
    "select_best": lambda c, **p: c.select_best([["a"]], [[1.0, 2.0], [2.0, 1.0]], **p),
    "count_rows": lambda c, **p: c.count_rows(**p),
    "guard": lambda c, **p: c.guard(2.0, hits=2, **p),
    "lottery": lambda c, **p: c.lottery([["a"]]).draw([1.0, 2.0], draws=3, **p),
}


def opened(name: str) -> mq.Curator:
    table = mq.open_table({"a": [True, False, True], "b": ["x", "y", "z"]}, SCHEMA)
    return mq.Curator(table, BUDGETS[name], noise=QuietNoise())


@pytest.fixture
def curator() -> Iterator[mq.Curator]:
    with opened("pure") as found:
        yield found


@pytest.mark.thorough(fast=14)
@pytest.mark.parametrize(("door", "accounting"), list(itertools.product(DOORS, BUDGETS)))
def test_units_charge_what_the_same_decimal_number_charges(door: str, accounting: str) -> None:
    with opened(accounting) as curator:
        price, charged = recorded_price(curator.budget, 300_000_000_000_001), []
        for given_price in (price, {"units": 300_000_000_000_001}):
            before = curator.ledger.spent()
            DOORS[door](curator, **given_price)
            charged.append(curator.ledger.spent() - before)
        assert charged[0] == charged[1] <= 300_000_000_000_001
        assert charged[0] > 299_000_000_000_000
        first, second = [charge for charge in curator.ledger.charges() if charge.units]
        assert first.digest == second.digest


def test_a_lazy_guard_takes_units() -> None:
    with opened("basic") as one, opened("basic") as two:
        by_units = one.lazy_guard(2.0, hits=2, units=10**15)
        by_epsilon = two.lazy_guard(2.0, hits=2, epsilon=1.0)
        assert by_units.event == by_epsilon.event
        assert by_units.cost.units == by_epsilon.cost.units == one.ledger.spent()


@pytest.mark.parametrize("accounting", BUDGETS)
@settings(max_examples=200, deadline=None)
@given(units=st.one_of(st.integers(10**3, 8 * 10**15), st.integers(10**15, 8 * 10**15)))
def test_a_request_of_version_01_is_recognised_when_its_units_are_given(accounting: str, units: int) -> None:
    """A repeated request must have the digest of the first, or it would be refused as another question."""
    budget = BUDGETS[accounting]
    units = min(units, EXACT[accounting])
    assert budget.accountant.share(**recorded_price(budget, units), delta=budget.delta) == units


@pytest.mark.parametrize("accounting", BUDGETS)
def test_a_recorded_answer_is_found_under_either_price(accounting: str) -> None:
    with opened(accounting) as curator:
        for units in (10**12, 123_456_789_012_345, 999_999_999_999_999):
            first = curator.measure(["a"], **recorded_price(curator.budget, units), request=f"at {units}")
            spent = curator.ledger.spent()
            again = curator.measure(["a"], units=units, request=f"at {units}")
            assert (again.values == first.values).all()
            assert curator.ledger.spent() == spent


@pytest.mark.thorough(fast=13)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "price",
    [
        {},
        {"units": 0},
        {"units": -1},
        {"units": MAX_UNITS + 1},
        {"units": 1.0},
        {"units": True},
        {"units": "1"},
        {"units": 10**15, "epsilon": 1.0},
        {"units": 10**15, "rho": 1.0},
        {"units": 10**15, "epsilon": 1.0, "rho": 1.0},
    ],
    ids=str,
)
def test_a_price_that_is_none_is_refused_before_anything_is_charged(
    door: str, price: dict[str, Any], curator: mq.Curator
) -> None:
    with pytest.raises(MaquetteError):
        DOORS[door](curator, **price)
    assert curator.ledger.spent() == 0


class Liar(int):
    """Says that it is small and fits everywhere, and is large."""

    def __lt__(self, other: object) -> bool:
        return True

    def __le__(self, other: object) -> bool:
        return True

    def __gt__(self, other: object) -> bool:
        return False

    def __ge__(self, other: object) -> bool:
        return True

    def __mul__(self, other: Any) -> int:
        return 10**18

    __rmul__ = __floordiv__ = __truediv__ = __rtruediv__ = __mul__


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("door", DOORS)
def test_units_are_plain_numbers_before_they_are_used(door: str) -> None:
    found = []
    for units in (10**15, Liar(10**15), np.int64(10**15)):
        with opened("pure") as curator:
            DOORS[door](curator, units=units)
            found.append([(charge.units, charge.description) for charge in curator.ledger.charges()])
            assert type(found[-1][0][0]) is int
    assert found[0] == found[1] == found[2]


def test_the_smallest_price_is_one_unit(curator: mq.Curator) -> None:
    with pytest.raises(BudgetError, match="from 1 to"):
        curator.measure(["a"], units=0)
    with pytest.raises(BudgetError, match="3 draws"):
        curator.lottery([["a"]]).draw([1.0, 2.0], draws=3, units=2)


def test_a_release_method_takes_units_or_what_remains(curator: mq.Curator) -> None:
    from maquette.releases import laplace

    made = laplace(curator, mq.marginals(SCHEMA, k=1), units=10**15)
    assert made.certificate.epsilon == 1.0
    assert units_for(curator, None, None) == curator.budget.limit - 10**15
    with pytest.raises(mq.BudgetExceeded):
        units_for(curator, None, None, MAX_UNITS)
    with pytest.raises(BudgetError, match="one of the three"):
        units_for(curator, 1.0, None, 10**15)


def test_units_of_a_budget_are_spent_to_the_last(curator: mq.Curator) -> None:
    third = curator.budget.limit // 3
    for _ in range(3):
        curator.select_worst([["a"]], PUBLIC, units=third)
    assert curator.remaining.units <= 3 * 10**3
