"""Best response: the record that satisfies most of the given signed conjunctions, by a solver on public input.

The data player of the query-release game answers queries that were drawn privately before, so this is post-processing:
an inexact solver costs accuracy, never privacy. Maximum satisfiability is hard in the worst case, but quick for the few
dozen clauses of a round with any number of columns. Mechanisms §7.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.schema import Schema

Record = NDArray[np.int32]
Literal = tuple[int, int]  # the position of a column, and one of its levels

MAX_UNIVERSE = 2**20
MAX_FORBIDDEN = 20_000


class Clause(NamedTuple):
    """A conjunction of literals on different columns; sign +1 asks that it hold, -1 that it fail."""

    literals: tuple[Literal, ...]
    sign: int


@dataclass(frozen=True, eq=False)
class Response:
    """A record, how many clauses hold on it, and a proven bound on how many can hold on any record."""

    record: Record
    satisfied: int
    bound: float

    @property
    def gap(self) -> float:
        """How many more clauses might hold on another record."""
        return max(0.0, self.bound - self.satisfied)


class Responder(Protocol):
    """Finds a record on which many clauses hold; breaks ties by public coins."""

    def __call__(self, schema: Schema, clauses: Sequence[Clause], rng: np.random.Generator) -> Response:
        """The response to these clauses."""


@dataclass(frozen=True, kw_only=True)
class Solver:
    """CP-SAT ("cp-sat", from ortools) or HiGHS ("highs", always there); "auto" takes the first that is installed.

    A solve that reaches `seconds` returns the best record found, with the bound proven by then.
    """

    engine: str = "auto"
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.engine not in ("auto", "cp-sat", "highs"):
            raise QueryError(f"the solver is {self.engine!r}", expected='"auto", "cp-sat" or "highs"')
        if not self.seconds > 0:
            raise QueryError(f"seconds is {self.seconds}", expected="a time limit above 0")
        if self.engine == "cp-sat" and find_spec("ortools") is None:
            raise QueryError(
                'the solver "cp-sat" is not installed',
                advice='run pip install "maquette[solver]", or take solver="highs", which needs nothing more',
            )

    def __call__(self, schema: Schema, clauses: Sequence[Clause], rng: np.random.Generator) -> Response:
        """The response to these clauses."""
        problem = _Problem(schema, clauses, rng)
        compiled = self.engine == "cp-sat" or (self.engine == "auto" and find_spec("ortools") is not None)
        levels, bound = (_cp_sat if compiled else _highs)(problem, self.seconds, int(rng.integers(2**31)))
        return problem.response(levels, bound, rng)


def enumerated(schema: Schema, clauses: Sequence[Clause], rng: np.random.Generator) -> Response:
    """The best response by trying every record of a universe of up to 2^20."""
    if schema.size > MAX_UNIVERSE:
        raise QueryError(f"{schema!r} has too many records to try each", advice="use Solver()")
    records = np.stack(np.unravel_index(np.arange(schema.size), schema.shape(schema.names)), axis=1).astype(np.int32)
    possible = _possible(schema, records)
    records = records[possible]
    totals = satisfied(clauses, records)
    best = np.flatnonzero(totals == totals.max())
    chosen = int(best[rng.integers(len(best))])
    return Response(records[chosen], int(totals[chosen]), float(totals[chosen]))


def satisfied(clauses: Sequence[Clause], records: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """How many clauses hold on each record."""
    totals = np.zeros(len(records), dtype=np.int64)
    for clause in clauses:
        holds = np.ones(len(records), dtype=np.bool_)
        for column, level in clause.literals:
            holds &= records[:, column] == level
        totals += holds if clause.sign > 0 else ~holds
    return totals


class _Problem:
    """Clauses counted and cancelled, with a binary variable for every (column, level) they mention."""

    def __init__(self, schema: Schema, clauses: Sequence[Clause], rng: np.random.Generator) -> None:
        self.schema = schema
        self.clauses = clauses
        net: Counter[tuple[Literal, ...]] = Counter()
        for clause in clauses:
            net[tuple(sorted(clause.literals))] += clause.sign
        # For every record exactly one of a clause and its negation holds.
        self.sure = (len(clauses) - sum(abs(n) for n in net.values())) // 2
        listed = [(literals, n) for literals, n in net.items() if n]
        self.wanted = [listed[i] for i in rng.permutation(len(listed))]
        self.forbidden = _forbidden(schema)
        named = [*(literals for literals, _ in self.wanted), *self.forbidden]
        mentioned = {literal for literals in named for literal in literals}
        self.levels: dict[int, list[int]] = {}
        for column, level in sorted(mentioned):
            self.levels.setdefault(column, []).append(level)
        self.variables = [(column, level) for column, levels in self.levels.items() for level in levels]

    def whole(self, column: int) -> bool:
        """Whether every level of a column has a variable, so that one of them must hold."""
        return len(self.levels[column]) == self.schema.columns[column].size

    def response(self, chosen: set[Literal] | None, bound: float, rng: np.random.Generator) -> Response:
        """The record of the chosen literals; columns that they leave open are drawn by public coins."""
        sizes = [column.size for column in self.schema]
        record = _random_possible(self.schema, rng)
        if chosen is not None:
            for column, levels in self.levels.items():
                free = sorted(set(range(sizes[column])) - set(levels))
                here = [level for level in levels if (column, level) in chosen]
                record[column] = here[0] if here else free[rng.integers(len(free))]
        record = self._shaken(record, rng)
        count = int(satisfied(self.clauses, record[None, :])[0])
        return Response(record, count, max(float(count), bound + self.sure))

    def _shaken(self, record: Record, rng: np.random.Generator) -> Record:
        """Each column that matters, in random order, is moved to a random one of its best levels."""
        if self.forbidden:
            return record
        here: dict[int, list[tuple[int, tuple[Literal, ...], int]]] = {column: [] for column in self.levels}
        for literals, times in self.wanted:
            for column, level in literals:
                here[column].append((level, tuple(other for other in literals if other[0] != column), times))
        codes = record.tolist()
        for column in rng.permutation(list(self.levels)).tolist():
            worth = [0] * self.schema.columns[column].size
            for level, others, times in here[column]:
                if all(codes[other] == asked for other, asked in others):
                    worth[level] += times
            best = [level for level, gain in enumerate(worth) if gain == max(worth)]
            codes[column] = best[rng.integers(len(best))]
        return np.array(codes, dtype=np.int32)


def _cp_sat(problem: _Problem, seconds: float, seed: int) -> tuple[set[Literal] | None, float]:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen = {literal: model.new_bool_var("") for literal in problem.variables}
    for column, levels in problem.levels.items():
        one = [chosen[column, level] for level in levels]
        (model.add_exactly_one if problem.whole(column) else model.add_at_most_one)(one)
    for literals in problem.forbidden:
        model.add_bool_or([chosen[literal].negated() for literal in literals])
    gains, total = [], 0
    for literals, times in problem.wanted:
        held = model.new_bool_var("")
        if times > 0:
            for literal in literals:
                model.add_implication(held, chosen[literal])
        else:
            model.add_bool_or([held.negated(), *(chosen[literal].negated() for literal in literals)])
        gains.append(abs(times) * held)
        total += abs(times)
    model.maximize(sum(gains))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, float(total)
    return {literal for literal, variable in chosen.items() if solver.value(variable)}, solver.best_objective_bound


def _highs(problem: _Problem, seconds: float, seed: int) -> tuple[set[Literal] | None, float]:
    """Binary variables: one for each literal, then one for each clause that holds."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    place = {literal: i for i, literal in enumerate(problem.variables)}
    size = len(place) + len(problem.wanted)
    entries: list[tuple[int, int, float]] = []
    low: list[float] = []
    high: list[float] = []

    def row(terms: Sequence[tuple[int, float]], least: float, most: float) -> None:
        entries.extend((len(low), index, value) for index, value in terms)
        low.append(least)
        high.append(most)

    for column, levels in problem.levels.items():
        row([(place[column, level], 1.0) for level in levels], 1.0 if problem.whole(column) else 0.0, 1.0)
    for literals in problem.forbidden:
        row([(place[literal], 1.0) for literal in literals], 0.0, len(literals) - 1.0)
    for j, (literals, times) in enumerate(problem.wanted, start=len(place)):
        if times > 0:
            for literal in literals:
                row([(j, 1.0), (place[literal], -1.0)], -np.inf, 0.0)
        else:
            row([(j, 1.0), *((place[literal], 1.0) for literal in literals)], -np.inf, len(literals))
    weights = np.zeros(size)
    weights[len(place) :] = [-abs(times) for _, times in problem.wanted]
    rows, columns, values = zip(*entries, strict=True)
    matrix = csr_array((values, (rows, columns)), shape=(len(low), size))
    solved = milp(
        weights,
        constraints=LinearConstraint(matrix, np.array(low), np.array(high)),
        bounds=Bounds(0, 1),
        integrality=np.ones(size),
        options={"time_limit": seconds},
    )
    if solved.x is None:
        return None, float(-weights.sum())
    proven = -weights.sum() if solved.mip_dual_bound is None else -solved.mip_dual_bound
    return {literal for literal, i in place.items() if solved.x[i] > 0.5}, float(np.floor(proven + 1e-6))


def _forbidden(schema: Schema) -> list[tuple[Literal, ...]]:
    """The impossible combinations of the schema as literals that never hold together."""
    found = [
        tuple((schema.position(name), int(level)) for name, level in zip(names, cell, strict=True))
        for names, table in schema.zeros
        for cell in np.argwhere(table)
    ]
    if len(found) > MAX_FORBIDDEN:
        raise QueryError(
            f"the schema has {len(found):,} impossible cells, more than the {MAX_FORBIDDEN:,} a solver takes"
        )
    return found


def _possible(schema: Schema, records: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    possible = np.ones(len(records), dtype=np.bool_)
    for names, table in schema.zeros:
        possible &= ~table[tuple(records[:, schema.position(name)] for name in names)]
    return possible


def _random_possible(schema: Schema, rng: np.random.Generator) -> Record:
    """A record drawn by public coins: the first possible one among a thousand, if there is one."""
    sizes = schema.shape(schema.names)
    drawn = rng.integers(sizes, size=(1000 if schema.impossible else 1, len(sizes)))
    return np.asarray(drawn[int(np.argmax(_possible(schema, drawn)))], dtype=np.int32)
