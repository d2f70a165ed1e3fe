"""Functions behind the wall: exact losses on every small table, and broken variants that the gates must catch."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from function_checks import FUNCTIONS, GATES, ROWS, SCHEMA, tables

from gate_tools import one_contribution
from maquette.query import LowSensitivityQuery, Statistic
from maquette.query.classes import low_sensitivity
from maquette.query.classes.low_sensitivity import FINE
from maquette.schema import Schema


@pytest.mark.thorough
@pytest.mark.parametrize("gate", GATES)
def test_functions_pass(gate: str) -> None:
    GATES[gate]()


def _patched(target: Any, name: str, value: Any) -> AbstractContextManager[Any]:
    return mock.patch.object(target, name, value)


_init, _completed = Statistic.__init__, LowSensitivityQuery.completed


def _half_the_sensitivity() -> Any:
    def init(self: Any, *args: Any, **named: Any) -> None:
        _init(self, *args, **named)
        self.unit /= 2

    return _patched(Statistic, "__init__", init)


def _no_clipping() -> Any:
    def completed(self: LowSensitivityQuery, histogram: np.ndarray) -> float:
        try:
            value = float(self.function(histogram))
        except (Exception, SystemExit):
            return self.low
        return min(value, 1e6) if math.isfinite(value) else self.low

    return _patched(LowSensitivityQuery, "completed", completed)


def _failures_escape() -> Any:
    return _patched(LowSensitivityQuery, "completed", lambda self, h: self._clipped(float(self.function(h))))


def _not_a_number_escapes() -> Any:
    def completed(self: LowSensitivityQuery, histogram: np.ndarray) -> float:
        value = float(self.function(histogram)) if histogram[0] == 0 else _completed(self, histogram)
        return value if math.isnan(value) else self._clipped(value)

    return _patched(LowSensitivityQuery, "completed", completed)


def _not_rounded() -> Any:
    def tally(self: Statistic, counts: np.ndarray) -> np.ndarray:
        return np.array(self.statistic.completed(counts / self.rows) / self.unit * FINE)

    return _patched(Statistic, "tally", tally)


def _divided_by_the_private_number_of_rows() -> Any:
    def tally(self: Statistic, counts: np.ndarray) -> np.ndarray:
        value = self.statistic.completed(counts / max(1, counts.sum()))
        return np.array(round(value / self.unit * FINE), dtype=np.int64)

    return _patched(Statistic, "tally", tally)


def _contributions_ignored() -> Any:
    return one_contribution()


def _unit_from_the_range() -> Any:
    def init(self: Any, schema: Schema, query: LowSensitivityQuery, **named: Any) -> None:
        _init(self, schema, query, **named)
        self.unit = (query.high - query.low) / 100

    return _patched(Statistic, "__init__", init)


MUTANTS: dict[str, tuple[Callable[[], Any], str]] = {
    "half the sensitivity": (_half_the_sensitivity, "measure"),
    "half the sensitivity in selections": (_half_the_sensitivity, "selection"),
    "half the sensitivity in guards": (_half_the_sensitivity, "guard"),
    "no clipping": (_no_clipping, "measure"),
    "failures escape": (_failures_escape, "silence"),
    "not a number escapes": (_not_a_number_escapes, "silence"),
    "values not rounded": (_not_rounded, "selection"),
    "divided by the private number of rows": (_divided_by_the_private_number_of_rows, "measure"),
    "contribution bound ignored": (_contributions_ignored, "measure"),
    "unit that is not the sensitivity": (_unit_from_the_range, "measure"),
}


@pytest.mark.thorough(fast=5)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_function_mutant_is_killed(mutant: str) -> None:
    breaking, killer = MUTANTS[mutant]
    with breaking(), pytest.raises((AssertionError, TypeError, ValueError, SystemExit, Warning)):
        GATES[killer]()


def moved(grid: int, *, room: bool) -> int:
    """The most that one sensitivity moves a tally on a grid of so many steps, over offsets that round unkindly."""
    unit = grid / (grid - 1) if room else 1.0
    worst = 0
    for offset in np.arange(0, 6, 1 / 32):
        worst = max(worst, abs(round((offset + 1.0) / unit * grid) - round(offset / unit * grid)))
    return worst


@pytest.mark.parametrize("grid", [2, 3, 5, 16, 101])
def test_rounding_adds_a_step_for_which_the_unit_has_room(grid: int) -> None:
    assert moved(grid, room=True) <= grid


def test_without_room_for_rounding_the_sensitivity_is_exceeded() -> None:
    assert max(moved(grid, room=False) for grid in (3, 5, 101)) > 0
    assert any(moved(grid, room=False) > grid for grid in (3, 5, 101))


def test_a_statistic_has_room_for_rounding_and_for_floating_point() -> None:
    for f in FUNCTIONS:
        statistic = Statistic(SCHEMA, f, rows=ROWS)
        assert f.sensitivity / statistic.unit * FINE <= FINE - 1 - 3
        for counts in tables(ROWS):
            tally = statistic.tally(np.array(counts))
            assert tally.dtype == np.int64
            exact = f.completed(np.array(counts) / ROWS)
            assert abs(int(tally) / FINE * statistic.unit - exact) <= statistic.unit / FINE


def test_the_function_cannot_change_what_others_see() -> None:
    seen = np.array([0.25, 0.75, 0.0])

    def greedy(histogram: np.ndarray) -> float:
        histogram[:] = 7.0
        return 0.5

    query = LowSensitivityQuery("greedy", greedy, sensitivity=1.0)
    assert query.completed(seen) == query(seen) == 0.5
    assert seen.tolist() == [0.25, 0.75, 0.0]
    assert low_sensitivity.MAX_UNIVERSE == 2**12
