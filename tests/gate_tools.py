"""What exhaustive gates share: tables of people, their neighbours, and how sound code is broken for a mutant."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import maquette as mq
from maquette.privacy import DiscreteGaussian, DiscreteLaplace

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


def shrunk(event: Any, factor: int) -> Any:
    """An event of so many times less noise, as if it cost the same."""
    if isinstance(event, DiscreteLaplace):
        return DiscreteLaplace(event.scale / factor, event.sensitivity / factor)
    return DiscreteGaussian(event.variance / factor**2, event.sensitivity_squared / factor**2)
