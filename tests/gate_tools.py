"""What exhaustive gates share: tables of people, their neighbours, and how sound code is broken for a mutant."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

import maquette as mq
from maquette.curator import compile as compile_module
from maquette.curator.compile import Compiler, asked_of
from maquette.curator.compiled import Compiled, tally
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, Relation

Unit = tuple[tuple[Any, ...], ...]  # the rows of one person


@functools.cache
def table_of(schema: mq.Schema, units: tuple[Unit, ...], contributions: int) -> mq.PrivateTable:
    """A table of units (people), each with its rows; opened once."""
    rows = [(name, *row) for name, unit in enumerate(units) for row in unit]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("person", *schema.names))}
    if contributions == 1:
        return mq.open_table(columns, schema)
    return mq.open_table(columns, schema, privacy_unit="person", max_contributions=contributions)


def units_of(points: Sequence[tuple[Any, ...]], contributions: int) -> list[Unit]:
    """Every unit: a multiset of up to `contributions` points."""
    sizes = range(1, contributions + 1)
    return [unit for size in sizes for unit in itertools.combinations_with_replacement(points, size)]


def neighbours_of(
    base: Sequence[Unit], points: Sequence[tuple[Any, ...]], relation: str, contributions: int
) -> Iterator[tuple[tuple[Unit, ...], tuple[Unit, ...]]]:
    """Pairs of tables over a fixed rest; by linearity of counts these are all the differences there are."""
    every = units_of(points, contributions)
    if relation == "add-remove":
        yield from (((*base,), (*base, unit)) for unit in every)
    else:
        yield from (((*base, one), (*base, other)) for one, other in itertools.permutations(every, 2))


def patched(target: Any, name: str, value: Any) -> AbstractContextManager[Any]:
    return mock.patch.object(target, name, value)


def wrapped(target: Any, name: str, change: Callable[..., Any]) -> AbstractContextManager[Any]:
    """Replace a function or method by one that is given the original first."""
    original = getattr(target, name)
    return patched(target, name, lambda *args, **named: change(original, *args, **named))


@contextmanager
def noted_steps(ledger: Any, steps: list[str]) -> Iterator[None]:
    """Write "reserve" and "commit" among the steps when the ledger has done them."""

    def after(name: str) -> Callable[..., Any]:
        def call(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
            done = original(*args, **named)
            steps.append(name)
            return done

        return call

    with wrapped(ledger, "reserve", after("reserve")), wrapped(ledger, "commit", after("commit")):
        yield


def shrunk(event: Any, factor: int) -> Any:
    """An event of so many times less noise, as if it cost the same."""
    if isinstance(event, DiscreteLaplace):
        return DiscreteLaplace(event.scale / factor, event.sensitivity / factor)
    return DiscreteGaussian(event.variance / factor**2, event.sensitivity_squared / factor**2)


class Rows:
    """An engine of public encoded records: what the wall's forms read, with nothing remembered."""

    def __init__(self, schema: mq.Schema, records: Any) -> None:
        self.schema = schema
        self.records = np.asarray(records, dtype=np.int32).reshape(-1, len(schema))
        self.rows = len(self.records)
        self.fingerprint = ""

    def counts(self, columns: Sequence[str]) -> Any:
        counts = np.zeros(self.schema.shape(columns), dtype=np.int64)
        places = tuple(self.records[:, self.schema.position(name)] for name in columns)
        np.add.at(counts, places if columns else (), 1 if columns else self.rows)
        return counts

    def blocks(self) -> Iterator[Any]:
        middle = self.rows // 2
        yield from (self.records[:middle], self.records[middle:])

    def prefetch(self, column_sets: Any) -> None:
        list(column_sets)


class Counts:
    """An engine of public counts over the whole universe."""

    def __init__(self, schema: mq.Schema, table: Any) -> None:
        self.schema = schema
        self.table = np.asarray(table, dtype=np.int64)
        self.rows = int(self.table.sum())

    def counts(self, columns: Sequence[str]) -> Any:
        kept = [self.schema.position(name) for name in columns]
        summed = self.table.sum(axis=tuple(set(range(self.table.ndim)) - set(kept)))
        return summed.transpose([sorted(kept).index(position) for position in kept])

    def prefetch(self, column_sets: Any) -> None:
        list(column_sets)


def compiled(question: Any, schema: mq.Schema | None = None) -> Compiled:
    """The question as the wall evaluates it, if it is not that already."""
    if isinstance(question, Compiled):
        return question
    own = question.schema if schema is None else schema
    return Compiler(own)(asked_of(own, question))


def tallied(engine: Any, question: Any) -> Any:
    """What the wall reads of an engine to answer a question."""
    return tally(engine, compiled(question))


def exact(question: Any, records: Any) -> Any:
    """The values of a question on public encoded records, by the wall's own forms, from counts where these are few."""
    return tallied(Rows(question.schema, records), question)


def exact_by_records(question: Any, records: Any) -> Any:
    """The same from the records one by one."""
    with patched(compile_module, "FEW_CELLS", 0):
        return exact(question, records)


@contextmanager
def one_contribution(where: Callable[[Relation], bool] = lambda _: True) -> Iterator[None]:
    """Sensitivities as if every unit had one row."""
    with ExitStack() as stack:
        for name in ("one_cell", "l1", "l2_squared"):
            sound = getattr(Relation, name)

            def broken(self: Relation, m: Any, sound: Any = sound) -> int:
                return sound(replace(self, max_contributions=1) if where(self) else self, m)

            stack.enter_context(patched(Relation, name, broken))
        yield


def lose_no_more_than_charged(
    schema: mq.Schema,
    questions: Sequence[Any],
    base: Sequence[Unit],
    points: Sequence[tuple[Any, ...]],
    settings: Iterable[tuple[str, int]],
) -> None:
    """On every pair of neighbours: the noise asked for is the same, and the values move by no more than was charged.

    `settings` are relations with the rows that one person may have. Without noise, a charge of Laplace noise is the L1
    distance over its scale; one of Gaussian noise is the squared L2 distance over twice its variance.
    """
    from maquette.audit.reference import ScriptedNoise
    from maquette.curator import Curator
    from maquette.privacy import UNITS_PER_ONE

    budgets = {"laplace": mq.Budget(epsilon=9e3), "gaussian": mq.Budget(rho=1e3, delta=1e-9)}
    for (relation, m), (law, budget) in itertools.product(settings, budgets.items()):

        @functools.cache
        def seen(units: Any, relation: Any = relation, m: int = m, budget: mq.Budget = budget) -> Any:
            noise = ScriptedNoise([0] * 9_999)
            with Curator(table_of(schema, units, m), budget, relation=relation, noise=noise) as curator:
                price: dict[str, Any] = {"epsilon": 0.7} if budget.accounting == "pure" else {"rho": 0.7}
                released = [curator.measure(question, **price) for question in questions]
                charges = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
            return [np.ravel(one.values) * one.grid for one in released], noise.calls, charges

        for one, other in neighbours_of(base, points, relation, m):
            (first, calls, charges), (second, others, _) = seen(one), seen(other)
            assert calls == others, "the noise asked for depends on the rows"
            for a, b, call, charged in zip(first, second, calls, charges, strict=True):
                shift, scale = np.abs(a - b), float(call.scale)
                lost = shift.sum() / scale if law == "laplace" else (shift**2).sum() / (2 * scale)
                assert lost <= charged * (1 + 1e-9), f"{relation}, m={m}, {law}: lost {lost}, charged {charged}"
