"""Every small table over three points, functions of it, and gates that see noise, scores and charges only."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import maquette as mq
from maquette.audit.reference import (
    GuardNoise,
    ScriptedNoise,
    exponential_law,
    pattern_loss,
    patterns,
    permute_and_flip_law,
)
from maquette.curator import Curator
from maquette.privacy import UNITS_PER_ONE
from maquette.query import LowSensitivityQuery, Statistic
from maquette.schema import Category, Schema

SCHEMA = Schema([Category("x", ["p", "q", "r"])])
PURE = mq.Budget(epsilon=9e3)
ZCDP = mq.Budget(rho=1e3, delta=1e-9)
ROWS = 4
TOLERANCE = 1 + 1e-9
Counts = tuple[int, ...]


def broken(histogram: np.ndarray) -> Any:
    """Fails in every way there is, depending on the table, and leaves its range."""
    match round(ROWS * histogram[0]):
        case 0:
            return math.nan
        case 1:
            raise SystemExit("a table with one p")
        case 2:
            return "no number"
        case 3:
            return np.log(np.float64(0.0))
        case _:
            return 1e300


# Exactly as sensitive as they say, under both relations (at counts / ROWS).
FUNCTIONS = [
    LowSensitivityQuery("largest", np.max, sensitivity=1 / ROWS, high=2.0),
    LowSensitivityQuery("steps", lambda h: 3 * h[0] + 0.5 / 3, sensitivity=3 / ROWS, high=9.0),
    LowSensitivityQuery("clipped", lambda h: 10 * h[0] - 5 * h[1], sensitivity=0.5, high=0.5),
    LowSensitivityQuery("broken", broken, sensitivity=1.0),
    LowSensitivityQuery("support", lambda h: (h > 0).sum() / 3, sensitivity=2 / 3),
]


def tables(rows: int) -> list[Counts]:
    chosen = itertools.combinations_with_replacement(range(3), rows)
    return [tuple(c.count(i) for i in range(3)) for c in chosen]


def neighbours(relation: str, contributions: int = 1) -> Iterator[tuple[Counts, Counts]]:
    """All pairs of tables that one unit of so many rows makes of each other."""
    sizes = [ROWS - contributions] if relation == "replace" else range(1, ROWS - contributions + 1)
    for common in (counts for size in sizes for counts in tables(size)):
        units = tables(contributions)
        ends = [tuple(a + b for a, b in zip(common, unit, strict=True)) for unit in units]
        if relation == "add-remove":
            yield from ((common, end) for end in ends)
        else:
            yield from itertools.permutations(ends, 2)


@functools.cache
def table(counts: Counts, contributions: int) -> mq.PrivateTable:
    rows = [level for level, n in zip("pqr", counts, strict=True) for _ in range(n)]
    if contributions == 1:
        return mq.open_table({"x": rows}, SCHEMA)
    people = {"x": rows, "who": [i // contributions for i in range(len(rows))]}
    return mq.open_table(people, SCHEMA, privacy_unit="who", max_contributions=contributions)


class Seen:
    """What the doors released, the noise they asked for, the scores they selected on, and what they charged."""

    def __init__(self, counts: Counts, ask: Callable[[Curator], Any], relation: Any, contributions: int, budget: Any):
        seen = self

        class Recording(ScriptedNoise):
            def exponential(self, scores: np.ndarray, scale: Any) -> int:
                seen.scores.append(scores.copy())
                return super().exponential(scores, scale)

            def permute_and_flip(self, scores: np.ndarray, scale: Any) -> int:
                seen.scores.append(scores.copy())
                return super().permute_and_flip(scores, scale)

        self.scores: list[np.ndarray] = []
        noise = Recording([0] * 999)
        with Curator(table(counts, contributions), budget, relation=relation, noise=noise) as curator:
            self.result = ask(curator)
            self.amounts = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
        self.calls = noise.calls


def observed(
    ask: Callable[[Curator], Any], relation: str, contributions: int, budget: mq.Budget
) -> Callable[[Counts], Seen]:
    return functools.cache(lambda counts: Seen(counts, ask, relation, contributions, budget))


def statistics(functions: Sequence[LowSensitivityQuery] = tuple(FUNCTIONS)) -> list[Statistic]:
    return [Statistic(SCHEMA, f, rows=ROWS) for f in functions]


def price(curator: Curator, amount: float) -> dict[str, Any]:
    return {"epsilon": amount} if curator.budget.accounting == "pure" else {"rho": amount}


SETTINGS = (("replace", 1, PURE), ("replace", 1, ZCDP), ("add-remove", 1, PURE), ("add-remove", 2, ZCDP))


def gate_measure() -> None:
    """Exact loss of a measurement on all neighbours, for every function, is within its charge."""
    for relation, m, budget in SETTINGS:
        law = "laplace" if budget is PURE else "gaussian"

        def ask(c: Curator) -> list[int]:
            return [float(c.measure(s, **price(c, 0.7)).values) * s.grid for s in statistics()]  # type: ignore[misc]

        see = observed(ask, relation, m, budget)
        closest = 0.0
        for one, other in neighbours(relation, m):
            first, second = see(one), see(other)
            assert first.calls == second.calls, "the noise asked for depends on the rows"
            assert first.amounts == second.amounts
            for a, b, call, charged in zip(first.result, second.result, first.calls, first.amounts, strict=True):
                assert a == round(a), "a released value is off the grid"
                shift, scale = abs(a - b), float(call.scale)
                assert call.kind == law
                lost = shift / scale if law == "laplace" else shift**2 / (2 * scale)
                assert lost <= charged * TOLERANCE, f"{relation}, m={m}: lost {lost}, charged {charged}"
                closest = max(closest, lost / charged)
        assert closest > 0.49, "the gate never sees a function as sensitive as it says"


def gate_selection() -> None:
    """Exact laws of both selections on all neighbours are within their charges."""
    candidates = np.array([[0.0, 0.5, 1.0, 0.0, 1.0], [3.0, 1.0, 0.4, 1.0, 0.2], [1.0, 4.0, 0.0, 0.5, 0.7]])
    for relation, m, budget in SETTINGS[:3]:

        def ask(c: Curator) -> None:
            c.select_best(statistics(), candidates, **price(c, 0.9))
            c.select_worst(statistics(), [0.3] * 5, **price(c, 0.9))

        see = observed(ask, relation, m, budget)
        for one, other in neighbours(relation, m):
            first, second = see(one), see(other)
            assert first.calls == second.calls
            for call, a, b, charged in zip(first.calls, first.scores, second.scores, first.amounts, strict=True):
                assert a.dtype == np.int64
                law = permute_and_flip_law if call.kind == "permute_and_flip" else exponential_law
                ratio = np.log(law(a, float(call.scale))) - np.log(law(b, float(call.scale)))
                if budget is PURE:
                    assert np.abs(ratio).max() <= charged * TOLERANCE
                else:
                    assert np.ptp(ratio) <= math.sqrt(8 * charged) * TOLERANCE


def gate_guard() -> None:
    """With what one row really moves its statistics, a guard's patterns are within its charge."""
    for relation in ("replace", "add-remove"):

        def ask(c: Curator) -> Any:
            guard = c.guard(2.0, hits=1, epsilon=1.0, numeric=True, refreshed=True)
            private: list[int] = []
            test = guard._vector.test

            def spy(statistic: int, *, answer_of: int | None = None) -> Any:
                private.extend((statistic, answer_of or 0))
                return test(-(10**12), answer_of=answer_of)  # quiet, so that all functions are tested

            guard._vector.test = spy  # type: ignore[method-assign, assignment]
            for s in statistics():
                guard.test(s, 0.4)
            return private

        see = observed(ask, relation, 1, PURE)
        worst = 0
        for one, other in neighbours(relation):
            assert see(one).calls == see(other).calls
            worst = max(worst, *(abs(a - b) for a, b in zip(see(one).result, see(other).result, strict=True)))
        threshold, query = (float(call.scale) for call in see((ROWS, 0, 0)).calls[:2])
        unit = GuardNoise(1, threshold / worst, query / worst, refreshed=True)  # noise in units of what one row moves
        lost = max(pattern_loss(unit, p, (-6, -2, 0, 2, 6), sensitivity=1) for p in patterns(3, 1))
        assert lost <= see((ROWS, 0, 0)).amounts[0] * TOLERANCE, f"{relation}: lost {lost}"


def gate_silence() -> None:
    """Whatever a function does, no table makes the door raise or warn."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for counts in tables(ROWS):
            noise = ScriptedNoise([0])
            with Curator(table(counts, 1), PURE, relation="replace", noise=noise) as curator:
                released = float(curator.measure(Statistic(SCHEMA, FUNCTIONS[3], rows=ROWS), epsilon=1.0).values)
            assert 0.0 <= released <= 1.0


GATES = {"measure": gate_measure, "selection": gate_selection, "guard": gate_guard, "silence": gate_silence}
