"""Bins that are drawn: what they lose is what was charged, they are drawn once, and rows keep to them."""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import neighbours_of, noted_steps, one_contribution, patched, table_of, wrapped
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator, bins as bins_module
from maquette.curator.bins import DrawnBins, Undrawn
from maquette.curator.compile import Compiler
from maquette.curator.engines import recoded as recoded_module
from maquette.curator.intake import Intake
from maquette.errors import DataError, SchemaError
from maquette.privacy import UNITS_PER_ONE
from maquette.schema import Boolean, Number, Schema, drawn_cuts, tree_groups

SCHEMA = Schema([Number("x", 0, 14, precision=0, bins="auto", nullable=True), Boolean("a")])
POINTS = [(0, True), (13.5, False), (None, True)]
BASE = ((POINTS[0],), (POINTS[1], POINTS[0]), (POINTS[1],))
BUDGETS = {"laplace": mq.Budget(epsilon=9e3), "gaussian": mq.Budget(rho=1e3, delta=1e-9)}
SETTINGS = [(relation, m) for m in (1, 2) for relation in ("add-remove", "replace")]


def price(budget: mq.Budget, amount: float = 0.7) -> dict[str, Any]:
    return {"epsilon": amount} if budget.accounting == "pure" else {"rho": amount}


def people(m: int) -> tuple[Any, ...]:
    return BASE if m > 1 else tuple((unit[0],) for unit in BASE)


def drawn(units: Any, relation: Any, m: int, budget: mq.Budget, script: Any = None) -> Any:
    """The noisy counts that a draw records, a table counted in the new bins, the calls for noise, and the charges."""
    noise = ScriptedNoise([0] * 99 if script is None else [*script, *[0] * 99])
    with Curator(table_of(SCHEMA, units, m), budget, relation=relation, noise=noise) as curator:
        steps: list[str] = []
        with noted_steps(curator.ledger, steps), wrapped(noise, "laplace", _noted(steps)):
            schema = curator.draw_bins(**price(budget), bins=3)
        recorded = curator.recall("bins")
        again = curator.draw_bins(**price(budget, 1.9), bins=5)
        counted = curator.measure(["x", "a"], **price(budget))
        charges = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
    assert steps[:1] == ["reserve"], "noise was drawn before the charge"
    assert again == schema, "the bins were drawn twice"
    assert recorded is not None, "the draw is not on the ledger"
    return recorded, schema, counted.values, noise.calls, charges


def _noted(steps: list[str]) -> Callable[..., Any]:
    def draw(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
        steps.append("draw")
        return original(*args, **named)

    return draw


def gate(settings: Any = tuple(SETTINGS)) -> None:
    """On every pair of neighbours: the counts that are cut lose what was charged, and the cuts follow from them."""
    for (relation, m), (law, budget) in itertools.product(settings, BUDGETS.items()):

        @functools.cache
        def seen(units: Any, relation: Any = relation, m: int = m, budget: mq.Budget = budget) -> Any:
            return drawn(units, relation, m, budget)

        for one, other in neighbours_of(people(m), POINTS, relation, m):
            first, schema, _, calls, charges = seen(one)
            second, _, _, others, _ = seen(other)
            assert len(charges) == 2, "a second draw was charged, or the first was not"
            tables = len(first)
            assert [call.scale for call in calls] == [call.scale for call in others], "noise depends on the rows"
            shifts = [np.abs(a - b).ravel() for a, b in zip(first, second, strict=True)]
            scales = [float(call.scale) for call in calls[:tables]]
            lost = _lost(law, shifts, scales)
            assert lost <= charges[0] * (1 + 1e-9), f"{relation}, m={m}, {law}: lost {lost}, charged {charges[0]}"
            if law == "gaussian":
                continue
            # The same noisy counts from the other table: the same bins, in which the tables again are neighbours.
            script = [value for a, b in zip(first, second, strict=True) for value in (a - b).ravel().tolist()]
            same, forced, counted, _, _ = drawn(other, relation, m, budget, script)
            assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))
            assert forced == schema, "the bins do not follow from the noisy counts"
            shift = np.abs(counted - seen(one)[2]).ravel()
            assert _lost(law, [shift], [float(calls[tables].scale)]) <= charges[1] * (1 + 1e-9)


def _lost(law: str, shifts: list[Any], scales: list[float]) -> float:
    if law == "laplace":
        return float(sum(shift.sum() / scale for shift, scale in zip(shifts, scales, strict=True)))
    return float(sum((shift**2).sum() / (2 * scale) for shift, scale in zip(shifts, scales, strict=True)))


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting[0]}-{setting[1]}")
def test_drawn_bins_lose_no_more_than_they_are_charged(setting: Any) -> None:
    gate([setting])


def exact_codes() -> None:
    """A record in the new bins has the code that its raw value would have been given."""
    rng = np.random.default_rng(3)
    values = [None if v < 1 else float(v) for v in rng.uniform(-3, 20, 400)] + [0.0, 14.0, 13.999, 7.0]
    table = mq.open_table({"x": values, "a": [True] * len(values)}, SCHEMA)
    with Curator(table, BUDGETS["laplace"], noise=ScriptedNoise([0] * 99)) as curator:
        schema = curator.draw_bins(epsilon=1.0, bins=4)
        found = curator.measure(["x"], epsilon=1.0).values
    truth = np.bincount(schema["x"].encode(values), minlength=schema["x"].size)
    assert found.tolist() == truth.tolist()


def refused_before() -> None:
    """Before the draw every door refuses, and nothing is charged."""
    with Curator(table_of(SCHEMA, people(1), 1), BUDGETS["laplace"]) as curator:
        doors: list[Callable[[], object]] = [
            lambda: curator.measure(["a"], epsilon=0.1),
            lambda: curator.select_worst([["x"]], [np.zeros(15)], epsilon=0.1),
            lambda: curator.measure_error([["a"]], [np.zeros(2)], epsilon=0.1),
            lambda: curator.guard(1.0, epsilon=0.1),
            lambda: curator.lottery([["a"]]),
            lambda: mq.release(curator, mq.marginals(SCHEMA, k=1)),
            lambda: mq.online(curator, alpha=0.1),
            lambda: mq.answer(curator, "a", epsilon=0.1),
        ]
        for door in doors:
            assert _refused(door), "a question was answered before the bins were drawn"
        assert curator.spent.units == 0


def _refused(door: Callable[[], object]) -> bool:
    try:
        door()
    except SchemaError as error:
        return "have not been drawn yet" in str(error)
    return False


def drawn_once(folder: Path) -> None:
    """Reopened, the ledger has the same bins, whatever price is named."""
    found: list[Schema] = []
    for amount in (0.5, 2.0):
        table = table_of(SCHEMA, people(1), 1)
        with Curator(table, mq.Budget(epsilon=3.0), ledger=folder / "t.ledger") as curator:
            assert curator.undrawn == (() if found else ("x",)), "the recorded bins were not used"
            found.append(curator.draw_bins(epsilon=amount))
            assert curator.spent.epsilon == 0.5, "a second draw was charged"
    assert found[0] == found[1], "the bins differ after reopening"


def test_a_record_has_the_bin_of_its_value() -> None:
    exact_codes()


def test_nothing_is_answered_before_the_draw() -> None:
    refused_before()


def test_bins_are_drawn_once_for_a_ledger(tmp_path: Path) -> None:
    drawn_once(tmp_path)


def _exact_cuts() -> Any:
    """Bins are cut from the counts themselves."""

    def use(original: Any, self: Any, request: str, counts: Any, bins: int) -> None:
        exact = self._engine.counts(["x"]).astype(float)
        groups = tree_groups(self._schema["x"].known)
        original(self, request, [np.array([exact[g.start : g.stop].sum() for g in level]) for level in groups], bins)

    return wrapped(DrawnBins, "_use", use)


def _forgets() -> Any:
    return patched(DrawnBins, "_recorded", lambda self: iter(()))


def _draws_again() -> Any:
    """Every call draws, under a request of its own."""

    def use(original: Any, self: Any, *args: Any) -> None:
        wide = self._schema, self._engine
        original(self, *args)
        self._schema, self._engine, self._settled = *wide, False

    stack = ExitStack()
    stack.enter_context(wrapped(DrawnBins, "_use", use))
    stack.enter_context(patched(bins_module, "_requests", lambda *_: [uuid.uuid4().hex]))
    return stack


def _answers_early() -> Any:
    stack = ExitStack()
    stack.enter_context(patched(Undrawn, "__call__", Compiler.__call__))
    stack.enter_context(patched(DrawnBins, "_units", Intake._units))
    return stack


def _next_bin() -> Any:
    def lookup(original: Any, old: Any, new: Any) -> Any:
        found = original(old, new)
        return None if found is None else np.minimum(found + (found > 0), new.size - 1).astype(np.int32)

    return wrapped(recoded_module, "lookup_of", lookup)


def _halved() -> Any:
    original = Intake._calibrated
    return patched(
        Intake,
        "_calibrated",
        lambda self, law, units, l1, l2: original(self, law, units, max(1, l1 // 2), max(1, l2 // 4)),
    )


Killer = Callable[[Path], None]
MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], Killer]] = {
    "bins are cut from exact counts": (_exact_cuts, lambda _: gate([("add-remove", 1)])),
    "recorded bins are forgotten": (_forgets, drawn_once),
    "bins are drawn again": (_draws_again, lambda _: gate([("add-remove", 1)])),
    "questions before the draw": (_answers_early, lambda _: refused_before()),
    "rows move to the next bin": (_next_bin, lambda _: exact_codes()),
    "bins ignore contributions": (one_contribution, lambda _: gate([("add-remove", 2)])),
    "bins have half the sensitivity": (_halved, lambda _: gate([("replace", 2)])),
}


@pytest.mark.thorough(fast=6)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_bins_mutant_is_killed(mutant: str, tmp_path: Path) -> None:
    broken, killer = MUTANTS[mutant]
    with broken(), pytest.raises(AssertionError):
        killer(tmp_path)


def test_an_interrupted_draw_is_charged_and_never_seen(tmp_path: Path) -> None:
    class Failing(ScriptedNoise):
        def laplace(self, scale: Any, size: int) -> Any:
            raise KeyboardInterrupt

    table, ledger = table_of(SCHEMA, people(1), 1), tmp_path / "t.ledger"
    budget = mq.Budget(epsilon=3.0)
    with Curator(table, budget, ledger=ledger, noise=Failing([])) as curator, pytest.raises(KeyboardInterrupt):
        curator.draw_bins(epsilon=0.5)
    with Curator(table, budget, ledger=ledger) as curator:
        assert curator.undrawn == ("x",)
        first = curator.draw_bins(epsilon=0.5)
        assert curator.spent.epsilon == 1.0
        assert curator.bins_charge is not None
        assert curator.bins_charge.id == "bins 2"
    with Curator(table, budget, ledger=ledger) as curator:
        assert curator.schema == first


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", ["memory", "duckdb", "planes"])
def test_every_engine_keeps_values_and_units(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows = {"who": rng.integers(0, 90, 300).tolist(), "x": rng.uniform(0, 14, 300).tolist(), "a": [True, False] * 150}
    planes = tmp_path / "planes" if kind == "planes" else None
    limit = None if kind == "memory" else 0
    table = mq.open_table(rows, SCHEMA, privacy_unit="who", max_contributions=50, memory_limit=limit, planes=planes)
    with Curator(table, BUDGETS["laplace"], noise=ScriptedNoise([0] * 999)) as curator:
        schema = curator.draw_bins(epsilon=1.0, bins=4)
        total = mq.answer(curator, "SELECT sum(x) FROM t", epsilon=1.0).value
        counted = curator.measure(["x", "a"], epsilon=1.0).values
    codes = schema.encode({"x": rows["x"], "a": rows["a"]})
    truth = np.zeros(counted.shape)
    np.add.at(truth, tuple(codes.T), 1)
    assert counted.tolist() == truth.tolist()
    assert total == pytest.approx(sum(map(round, rows["x"])), rel=1e-6)


def test_a_certificate_counts_the_bins() -> None:
    with Curator(table_of(SCHEMA, people(1) * 40, 1), mq.Budget(epsilon=1.0)) as curator:
        curator.draw_bins(epsilon=0.25, bins=3)
        made = mq.release(curator, mq.marginals(curator.schema, k=1), epsilon=0.5)
        assert made.certificate.epsilon == pytest.approx(curator.spent.epsilon)
    assert made.certificate.epsilon > 0.25 + 0.4
    assert made.certificate.described[0].note == {"bins": 3, "version": 1}
    assert made.schema == curator.schema


def test_the_error_is_named_before() -> None:
    with Curator(table_of(SCHEMA, people(1), 1), mq.Budget(epsilon=1.0)) as curator:
        assert curator.bins_error(epsilon=0.1) == pytest.approx(10 * curator.bins_error(epsilon=1.0), rel=0.02)
        assert curator.spent.units == 0


def test_an_engine_without_records_is_refused() -> None:
    class Counting:
        schema, rows, fingerprint = SCHEMA, 3, "f"

        def counts(self, columns: Any) -> Any:
            return np.zeros(SCHEMA.shape(columns), dtype=np.int64)

        def blocks(self) -> Any:
            return iter(())

        def prefetch(self, column_sets: Any) -> None: ...

    with pytest.raises(DataError, match="declare edges"):
        Curator(mq.curator.table_of(Counting()), mq.Budget(epsilon=1.0))


def test_cuts_are_the_quantiles_of_the_counts() -> None:
    rng = np.random.default_rng(1)
    cells = rng.poisson(5, 300).astype(float)
    cells[40] = 2000.0
    levels = [np.array([cells[g.start : g.stop].sum() for g in level]) for level in tree_groups(300)]
    cuts = drawn_cuts(levels, 8)
    assert {40, 41} <= set(cuts), "a heavy cell has a bin of its own"
    held = np.add.reduceat(cells, [0, *cuts])
    assert max(count for count in held if count != 2000) <= 1.2 * cells.sum() / 8
    assert drawn_cuts([np.zeros_like(level) for level in levels], 4) == [75, 150, 225]
    assert bins_module.tree_tables(SCHEMA, "x")[0].cells == 2
