"""Random questions through every door on neighbouring tables, against a reference in exact fractions.

For each question that a door accepts: the value equals the reference's, on both tables; values of neighbours differ by
at most the priced sensitivity, in the norm of the noise; noise, charge and refusals are the same on both; a refusal
comes before any charge. The rows are chosen by the questions: one level of every class of weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from maquette.audit.benches import BUDGETS, Bench, Outcome, Relation, Unit, open_units
from maquette.audit.compiling import CompiledOnce
from maquette.audit.findings import Fault, Findings
from maquette.audit.reference.drawing import Drawing
from maquette.audit.reference.forms import Contribution, Form
from maquette.audit.reference.universes import Record, record, universe
from maquette.errors import MaquetteError
from maquette.privacy import DiscreteLaplace

PER_TABLE = 120  # questions per set of tables
ANEW = 8  # in every eighth batch every door compiles anew; in the others each question is compiled once
TOLERANCE = 2.0**-30  # outside [0, 1], because weights that agree to 2^-40 are equal

Pair = tuple[Bench, Bench]


class Rows:
    """Records and how often each occurs, added up by what they have in some columns, once for many questions."""

    def __init__(self, records: Counter[Record]) -> None:
        self._records = records
        self._grouped: dict[tuple[int, ...], dict[Record, list[Any]]] = {}

    def by(self, positions: tuple[int, ...]) -> Iterable[tuple[Record, int]]:
        """One record of every group that agrees in these columns, and how many there are."""
        groups = self._grouped.get(positions)
        if groups is None:
            groups = self._grouped[positions] = {}
            for row, times in self._records.items():
                groups.setdefault(tuple([row[position] for position in positions]), [row, 0])[1] += times
        return ((row, times) for row, times in groups.values())


@dataclass
class Asked:
    """An accepted question: its public object, and its exact values on the two tables of each relation."""

    form: Form
    question: Any
    grid: int
    shape: tuple[int, ...]
    values: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    _known: dict[Record, Contribution] = field(default_factory=dict)
    _common: tuple[list[int], list[int]] | None = None
    _expected: dict[frozenset[tuple[Record, int]], tuple[list[int], list[int]]] = field(default_factory=dict)

    @cached_property
    def _positions(self) -> tuple[int, ...]:
        return tuple(sorted(self.form.levels()))

    def adds(self, row: Record) -> Contribution:
        """What a record adds, by the reference: once for all records that agree in the columns that matter."""
        seen = tuple([row[position] for position in self._positions])
        if seen not in self._known:
            self._known[seen] = self.form.contribution(row, self.grid)
        return self._known[seen]

    def expected(self, common: Rows, more: Counter[Record]) -> tuple[list[int], list[int]]:
        """The least and the largest value of every cell, on the records that all tables have and on some more."""
        if self._common is None:
            self._common = self._added(common.by(self._positions), [0] * self.form.cells, [0] * self.form.cells)
        which = frozenset(more.items())
        if which not in self._expected:  # both relations share a table
            self._expected[which] = self._added(more.items(), *map(list, self._common))
        return self._expected[which]

    def _added(
        self, rows: Iterable[tuple[Record, int]], low: list[int], high: list[int]
    ) -> tuple[list[int], list[int]]:
        for row, times in rows:
            for cell, least, most in self.adds(row):
                low[cell] += times * least
                high[cell] += times * most
        return low, high


def audit_questions(
    count: int, *, seed: int = 0, doors: bool = True, told: Callable[[Findings], None] | None = None
) -> Findings:
    """Ask at least `count` random questions, drawn from `seed`; `doors=False` uses the measuring door only."""
    found = Findings()
    while found.questions < count:
        found.add(audit_batch(seed, doors=doors))
        seed += 1
        if told is not None:
            told(found)
    return found


def audit_batch(seed: int, *, size: int = PER_TABLE, doors: bool = True, forms: Sequence[Form] = ()) -> Findings:
    """The questions of one universe (or the given ones, of one schema) on one set of neighbouring tables."""
    from maquette.audit.other_doors import ask_other_doors

    rng = np.random.default_rng(seed)
    schema = forms[0].schema if forms else universe(rng)
    target = record(rng, schema)
    drawing = Drawing(schema, target, rng)
    forms = list(forms) or [drawing.form() for _ in range(size)]
    batch = _Batch(seed, forms, target, rng)
    try:
        accepted = [asked for form in forms if (asked := batch.measure(form)) is not None]
        if doors:
            ask_other_doors(batch, accepted)
    finally:
        batch.close()
    return batch.found


class _Batch:
    """Neighbouring tables and the questions about them."""

    def __init__(self, seed: int, forms: Sequence[Form], target: Record, rng: np.random.Generator) -> None:
        self.rng = rng
        self.found = Findings()
        self._seed = seed
        self._compiled = CompiledOnce() if seed % ANEW else None
        schema = forms[0].schema
        self.candidates = {id(form): _candidates(form, target, rng) for form in forms}
        pool = list(dict.fromkeys(row for rows in self.candidates.values() for row in rows))
        self.contributions = int(rng.choice([1, 1, 2, 3]))
        budget = BUDGETS[rng.integers(len(BUDGETS))]
        base = [self._unit(row, pool) for row in pool]
        coming: Unit = (target,) * self.contributions if rng.random() < 0.7 else self._unit(target, pool)
        instead = self._unit(pool[rng.integers(len(pool))], pool)
        in_memory = bool(rng.random() < 0.88) or len(schema) > 8  # the other engine is slow with many columns
        both, without, other = (
            (units, open_units(schema, units, self.contributions, in_memory=in_memory))
            for units in ([*base, coming], base, [*base, instead])
        )
        self.pairs: dict[Relation, Pair] = {
            "add-remove": (self._bench(both, budget, "add-remove"), self._bench(without, budget, "add-remove")),
            "replace": (self._bench(both, budget, "replace"), self._bench(other, budget, "replace")),
        }
        common = Counter(row for unit in base for row in unit)
        self._common = Rows(common)
        self._more = {id(bench): bench.records - common for pair in self.pairs.values() for bench in pair}

    def _bench(self, opened: tuple[Sequence[Unit], Any], budget: Any, relation: Relation) -> Bench:
        return Bench(opened[1], opened[0], budget, relation, self._compiled)

    def _unit(self, row: Record, pool: Sequence[Record]) -> Unit:
        more = int(self.rng.integers(0, self.contributions))
        return (row, *(pool[i] for i in self.rng.integers(len(pool), size=more)))

    def close(self) -> None:
        """Close every ledger."""
        for pair in self.pairs.values():
            for bench in pair:
                bench.close()

    def fault(self, door: str, form: Form, what: str) -> None:
        """Record a fault."""
        self.found.faults.append(Fault(self._seed, door, f"{form.kind} {form!r:.300}", what))

    def twice(self, door: str, pair: Pair, form: Form, call: Callable[[Bench], Any]) -> tuple[Outcome, Outcome] | None:
        """Ask both tables; None if they refuse, which must be the same on both, and free."""
        self.found.doors[door] += 2
        if self._compiled is not None:
            self._compiled.shared = form.trusted
        first, second = (bench.ask(lambda _, bench=bench: call(bench)) for bench in pair)  # type: ignore[misc]
        for one in (first, second):
            if one.broke is not None:
                self.fault(door, form, f"broke with {one.broke}, which is no refusal")
                return None
            if one.refusal is not None and one.units:
                self.fault(door, form, f"charged {one.units} units and then refused: {one.refusal}")
        if first.refusal != second.refusal:
            self.fault(door, form, f"neighbours are refused differently: {first.refusal} / {second.refusal}")
            return None
        if first.calls != second.calls or first.units != second.units:
            self.fault(door, form, "the noise or the charge differs between neighbours")
            return None
        return None if first.refusal is not None else (first, second)

    def measure(self, form: Form) -> Asked | None:
        """Ask the measuring door on both relations."""
        self.found.questions += 1
        self.found.kinds[form.kind] += 1
        try:
            with np.errstate(all="ignore"):
                question = form.build()
        except MaquetteError:
            self.found.refused += 1
            return None
        except Exception as error:
            self.fault("build", form, f"broke with {type(error).__name__}: {error}, which is no refusal")
            return None
        asked: Asked | None = None
        for relation, pair in self.pairs.items():
            answers = self.twice("measure", pair, form, lambda b: b.curator.measure(question, **b.price))
            if answers is None:
                self.found.refused += relation == "add-remove"
                return None
            results = [answer.result for answer in answers]
            grid = results[0].grid
            asked = asked or Asked(form, question, grid, np.shape(results[0].values))
            values = [self._whole("measure", form, result.values, grid) for result in results]
            asked.values.update({(relation, i): value for i, value in enumerate(values)})
            self.within_price("measure", form, results[0].event, values[0], values[1])
            if form.trusted:
                self._check_meaning(f"measure, {relation}", pair, asked, values)
                self._check_every_move(relation, asked, results[0].event)
        return asked

    def _whole(self, door: str, form: Form, values: Any, grid: int) -> list[int]:
        scaled = np.ravel(np.asarray(values, dtype=np.float64)) * grid
        if not np.array_equal(scaled, np.rint(scaled)):
            self.fault(door, form, "a value is off its grid")
        return [int(value) for value in scaled]

    def within_price(self, door: str, form: Form, event: Any, one: Iterable[int], other: Iterable[int]) -> None:
        """Neighbours differ by at most the sensitivity of the event."""
        moves = [abs(a - b) for a, b in zip(one, other, strict=True)]
        if isinstance(event, DiscreteLaplace):
            moved, priced = sum(moves), event.sensitivity
        else:
            moved, priced = sum(move**2 for move in moves), event.sensitivity_squared
        if moved > priced:
            norm = "L1" if isinstance(event, DiscreteLaplace) else "squared L2"
            self.fault(door, form, f"neighbours differ by {moved} in {norm}, and {priced} was priced")

    def _check_meaning(self, door: str, pair: Pair, asked: Asked, values: Sequence[list[int]]) -> None:
        form, grid = asked.form, asked.grid
        if asked.shape != form.shape:
            self.fault(door, form, f"values of shape {asked.shape}, expected {form.shape}")
            return
        for bench, found in zip(pair, values, strict=True):
            low, high = asked.expected(self._common, self._more[id(bench)])
            if not all(least <= value <= most for least, value, most in zip(low, found, high, strict=True)):
                off = [
                    (c, v, a, b) for c, (a, v, b) in enumerate(zip(low, found, high, strict=True)) if not a <= v <= b
                ]
                cell, value, least, most = off[0]
                self.fault(door, form, f"cell {cell} is {value}/{grid}, expected {least} to {most}")
        outside = [row for row in self.candidates[id(form)] if not form.within(row, TOLERANCE)]
        if outside:
            self.fault(door, form, f"accepted, though {outside[0]} weighs too little or too much, or is in two buckets")

    def _check_every_move(self, relation: str, asked: Asked, event: Any) -> None:
        """By the reference: no unit of these records that is added, removed or changed moves more than was priced."""
        form = asked.form
        rows = self.candidates[id(form)][:4]
        moves: list[dict[int, int]] = [{} for _ in rows]
        for move, row in zip(moves, rows, strict=True):
            for cell, least, most in asked.adds(row):
                if least != most:
                    return
                move[cell] = move.get(cell, 0) + least
        m = self.contributions
        changes = [_times(m, move) for move in moves]
        if relation == "replace":
            fewer = moves if m == 1 else [*moves, *changes]
            changes = [_less(a, b) for a in changes for b in fewer]
        for change in changes:
            self.within_price("measure", form, event, change.values(), [0] * len(change))


def _times(factor: int, move: dict[int, int]) -> dict[int, int]:
    return {cell: factor * moved for cell, moved in move.items()}


def _less(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """One change of cells minus another."""
    return {cell: one.get(cell, 0) - other.get(cell, 0) for cell in {**one, **other}}


def _candidates(form: Form, target: Record, rng: np.random.Generator) -> list[Record]:
    """Records that the question distinguishes: the target, and others with one level of each class of weights."""
    rows = [target]
    levels = form.levels()
    for _ in range(3):
        row = list(target)
        for position, found in levels.items():
            if found:
                row[position] = int(found[rng.integers(len(found))]) % form.schema.columns[position].size
        rows.append(tuple(row))
    return list(dict.fromkeys(rows))
