"""A function behind the wall is total: whatever it raises or returns, the door gets a number of its range."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.query import LowSensitivityQuery, Statistic, check_sensitivity

SCHEMA = mq.Schema([mq.Category("x", ["p", "q", "r"])])
ONES = np.array([0.2, 0.3, 0.5])


class Hostile:
    """An object that fails, or changes settings, as soon as a number is wanted of it."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._act = act

    def __float__(self) -> Any:
        return self._act()


def _raising(error: BaseException) -> Callable[..., Any]:
    def act(*_: Any) -> Any:
        raise error

    return act


def _deep(*_: Any) -> float:
    return _deep() + 1


def _writes(histogram: Any) -> float:
    histogram[...] = 9.0
    raise ValueError


ERRORS = (
    ValueError,
    MemoryError,
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    StopIteration,
    type("Own", (BaseException,), {}),
)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{f"raises {kind.__name__}": _raising(kind("p has 3 rows")) for kind in ERRORS},
    **{f"float raises {kind.__name__}": lambda _, kind=kind: Hostile(_raising(kind("x"))) for kind in ERRORS},  # type: ignore[misc]
    "raises a group": _raising(BaseExceptionGroup("x", [KeyboardInterrupt()])),
    "too deep": _deep,
    "writes": _writes,
    "float gives text": lambda _: Hostile(lambda: "0.5"),
    "nothing": lambda _: None,
    "an array": lambda h: h,
    "not a number": lambda _: float("nan"),
    "infinite": lambda _: float("-inf"),
    "a huge integer": lambda _: 10**400,
    "a warning as error": lambda _: (warnings.simplefilter("error"), np.seterr(all="raise"), np.log(np.zeros(1)))[2],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whatever_a_function_raises_counts_as_its_low_end(name: str) -> None:
    if name == "too deep" and (3, 13) <= sys.version_info < (3, 13, 8):
        pytest.skip("CPython forgets to count calls of functions with *arguments (python/cpython#132744)")
    query = LowSensitivityQuery("f", FUNCTIONS[name], sensitivity=0.1, low=0.25)
    seen, filters, errors = ONES.copy(), list(warnings.filters), np.geterr()
    assert query.completed(seen) == 0.25
    assert np.array_equal(seen, ONES)
    assert warnings.filters == filters
    assert np.geterr() == errors


@pytest.mark.parametrize("error", ERRORS)
def test_a_door_charges_and_answers_whatever_is_raised(error: type[BaseException]) -> None:
    """The answer is noise around the low end, and the charge is there: no sign of the failure but the number."""
    table = mq.open_table({"x": ["p", "q", "q", "r"]}, SCHEMA)
    curator = mq.Curator(table, mq.Budget(epsilon=2000, delta=0))
    query = LowSensitivityQuery("f", _raising(error("rows")), sensitivity=0.1, low=0.5)
    statistic = Statistic(SCHEMA, query, rows=4)
    measured = curator.measure(statistic, epsilon=1000)
    assert float(measured.values) * statistic.unit == pytest.approx(0.5, abs=0.01)
    assert curator.spent.epsilon >= 999


def test_sensitivity_is_checked_under_the_relation_that_curators_have_by_default() -> None:
    default = inspect.signature(mq.Curator).parameters["relation"].default
    assert inspect.signature(check_sensitivity).parameters["relation"].default == default == "add-remove"
    normalised = LowSensitivityQuery("of the rows there are", lambda h: h[0] / h.sum(), sensitivity=1 / 6)
    with pytest.raises(mq.QueryError, match="changes by 1 from counts"):
        check_sensitivity(normalised, SCHEMA, 6)
