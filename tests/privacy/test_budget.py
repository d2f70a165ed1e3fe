from __future__ import annotations

import doctest
import math
import subprocess
import sys

import pytest

import maquette.privacy.budget
from maquette.errors import BudgetError
from maquette.privacy import ACCOUNTANTS, MAX_UNITS, UNITS_PER_ONE, Budget, Pure


def test_examples_run() -> None:
    assert doctest.testmod(maquette.privacy.budget).failed == 0


def test_accounting_is_chosen_from_delta() -> None:
    assert Budget(epsilon=1.0).accounting == "pure"
    assert Budget(epsilon=1.0, delta=1e-9).accounting == "zcdp"
    assert Budget(rho=0.1).accounting == "zcdp"
    assert Budget(rho=0.1, delta=1e-9).accounting == "zcdp"
    gaussian = Budget(epsilon=1.0, delta=1e-9, accounting="gdp")
    assert gaussian.accountant is ACCOUNTANTS["gdp"]


def test_limits() -> None:
    assert Budget(epsilon=1.0).limit == UNITS_PER_ONE
    assert Budget(epsilon=0.3).limit == 3 * UNITS_PER_ONE // 10
    assert Budget(rho=0.1).limit == UNITS_PER_ONE // 10
    assert Budget(rho=0.1, accounting="gdp").limit == UNITS_PER_ONE // 5
    assert Budget(epsilon=1.0, delta=1e-9).limit / UNITS_PER_ONE == pytest.approx(0.01497, abs=5e-6)


@pytest.mark.parametrize("epsilon", [1e-4, 1.0])
@pytest.mark.parametrize("delta", [1e-300, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_extreme_deltas_still_have_a_safe_limit(epsilon: float, delta: float, accounting: str) -> None:
    budget = Budget(epsilon=epsilon, delta=delta, accounting=accounting)
    assert 0 < budget.accountant.loss(budget.limit, delta).epsilon <= epsilon


def test_limits_round_down() -> None:
    assert Budget(rho=1.9e-15).limit == 1
    assert Budget(rho=1.9e-15, accounting="gdp").limit == 3
    assert Budget(epsilon=1.9e-15).limit == 1


def test_epsilon_is_reported_for_rho() -> None:
    budget = Budget(rho=0.0149730576, delta=1e-9)
    assert budget.epsilon == pytest.approx(1.0, rel=1e-6)
    assert Budget(rho=0.1).epsilon == math.inf


def test_ten_tenths_fill_a_budget_exactly_and_the_next_is_over() -> None:
    budget = Budget(epsilon=1.0)
    tenth = budget.accountant.share(epsilon=0.1, delta=0.0)
    event = Pure(budget.accountant.pure_epsilon(tenth))
    assert sum([tenth] * 10) == budget.limit
    assert 10 * budget.accountant.units(event) <= budget.limit < 11 * budget.accountant.units(event)


@pytest.mark.parametrize("currency", ["zcdp", "gdp"])
def test_the_spend_that_would_exceed_is_refused_by_the_sum(currency: str) -> None:
    budget = Budget(epsilon=1.0, delta=1e-9, accounting=currency)
    cost = budget.accountant.units(Pure(0.01))
    granted = spent = 0
    while spent + cost <= budget.limit:
        spent += cost
        granted += 1
    assert granted > 200
    assert budget.accountant.loss(spent, budget.delta).epsilon <= budget.epsilon
    assert budget.accountant.loss(spent + cost, budget.delta).epsilon > budget.epsilon


def test_a_budget_is_a_value() -> None:
    one, same = Budget(epsilon=1, delta=1e-9), Budget(epsilon=1.0, delta=1e-9, accounting="zcdp")
    assert one == same
    assert hash(one) == hash(same)
    assert one != Budget(epsilon=1.0, delta=1e-8)
    with pytest.raises(AttributeError):
        one.epsilon = 2.0  # type: ignore[misc]


def test_reprs_are_one_line() -> None:
    zcdp = Budget(epsilon=1.0, delta=1e-9)
    assert repr(zcdp) == "Budget(epsilon=1.0, delta=1e-09, accounting='zcdp')"
    assert repr(Budget(rho=0.1)) == "Budget(rho=0.1, accounting='zcdp')"
    assert eval(repr(zcdp)) == zcdp
    assert "epsilon 1 at delta 1e-09 (rho 0.01497)" in zcdp._repr_html_()
    assert repr(zcdp.accountant.loss(15 * 10**11, 1e-9)) == "epsilon 0.3024 at delta 1e-09 (rho 0.0015)"
    assert repr(ACCOUNTANTS["pure"].loss(31 * 10**13, 1e-9)) == "epsilon 0.31"
    assert repr(ACCOUNTANTS["gdp"].loss(10**13, 1e-9)).endswith("(mu 0.1)")
    assert repr(ACCOUNTANTS["zcdp"].loss(10**13, 0.0)) == "rho 0.01 (no finite epsilon at delta 0)"
    assert ACCOUNTANTS["pure"].loss(10**13, 1e-9).delta == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one"),
        ({"epsilon": 1.0, "rho": 0.1}, "exactly one"),
        ({"epsilon": 0.0}, "epsilon is 0.0; expected a finite number above 0"),
        ({"epsilon": -1.0}, "epsilon is -1.0"),
        ({"epsilon": math.nan}, "epsilon is nan"),
        ({"epsilon": math.inf, "delta": 1e-9}, "epsilon is inf"),
        ({"epsilon": "1"}, "epsilon is '1'"),
        ({"rho": -0.1}, "rho is -0.1"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta is 1.0; expected 0 <= delta < 1"),
        ({"epsilon": 1.0, "delta": -1e-9}, "delta is -1e-09"),
        ({"epsilon": 1.0, "delta": math.nan}, "delta is nan"),
        ({"epsilon": 1.0, "delta": "small"}, "delta is 'small'"),
        ({"epsilon": 1.0, "delta": 1e-9, "accounting": "pure"}, "set delta=0"),
        ({"epsilon": 1.0, "accounting": "zcdp"}, "needs delta > 0"),
        ({"epsilon": 1.0, "accounting": "gdp"}, "needs delta > 0"),
        ({"rho": 0.1, "accounting": "pure"}, "give epsilon"),
        ({"epsilon": 1.0, "accounting": "moments"}, "expected one of pure, zcdp, gdp"),
        ({"epsilon": 1e-20}, "expected more than 1e-15"),
        ({"epsilon": 1e5}, "at most 9,223"),
        ({"epsilon": 1e300, "delta": 1e-9}, "at most 9,223"),
        ({"epsilon": 1e300, "delta": 1e-9, "accounting": "gdp"}, "at most 9,223"),
        ({"epsilon": 1e-300, "delta": 1e-9, "accounting": "gdp"}, "expected more than"),
    ],
)
def test_senseless_budgets_are_refused_with_advice(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(BudgetError, match=message.replace("(", r"\(")):
        Budget(**arguments)  # type: ignore[arg-type]


def test_the_largest_limit_fits_a_ledger_column() -> None:
    assert Budget(epsilon=9223.0).limit <= MAX_UNITS


def test_delta_must_be_below_one_over_rows() -> None:
    budget = Budget(epsilon=1.0, delta=1e-6)
    budget.check_rows(999_999)
    Budget(epsilon=1.0).check_rows(10**12)
    for rows in (1_000_001, 10**9):
        with pytest.raises(BudgetError, match="Choose delta well below"):
            budget.check_rows(rows)
    with pytest.raises(BudgetError) as refused:
        Budget(epsilon=1.0, delta=0.01).check_rows(1234)
    assert "such as 1e-9" in str(refused.value)
    assert "0.00081" not in str(refused.value)  # 1 / rows would tell a private number of rows
    with pytest.raises(BudgetError, match="at least 1"):
        budget.check_rows(0)


def test_importing_the_accounting_does_not_load_scipy() -> None:
    script = "import maquette.privacy, sys; print({'scipy', 'dp_accounting'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
