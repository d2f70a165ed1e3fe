"""The handle: nothing that can be reached from it holds a row or a number computed from rows."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType, ModuleType, NoneType
from typing import Any

import numpy as np
import pytest

from maquette import Budget, Curator
from maquette.curator.engines.counting import CountingEngine
from maquette.curator.open import open_table
from maquette.curator.table import PrivateTable, engine_of
from maquette.errors import DataError
from maquette.schema import Boolean, Integer, Schema

SCHEMA = Schema([Integer("age", 0, 99), Boolean("smoker")])
BOUND = (MethodType, MethodWrapperType, BuiltinMethodType)
LEAVES = (*BOUND, type, ModuleType, FunctionType, NoneType, str, bytes, int, float, np.ndarray)
ROWS: dict[str, list[Any]] = {"age": [i % 100 for i in range(1_237)], "smoker": [True] * 1_237}


def reachable(root: object) -> list[object]:
    """Everything that attributes, items and bound methods lead to; code, classes and modules are not followed."""
    seen: dict[int, object] = {}  # holds what it saw, so that an id is never used twice
    frontier = [root]
    while frontier:
        thing = frontier.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        assert len(seen) < 100_000, "the walk does not end"
        frontier += steps(thing)
    return list(seen.values())


def steps(thing: Any) -> list[object]:
    if isinstance(thing, dict):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        return list(thing)
    if isinstance(thing, LEAVES):
        return []
    values = [attribute(thing, name) for name in dir(thing)]
    # A bound method is made anew at every look, and so are its own methods: only what it is bound to counts.
    return [value.__self__ if isinstance(value, BOUND) else value for value in values]


def attribute(thing: Any, name: str) -> object:
    try:
        return getattr(thing, name)
    except Exception:
        return None


def test_no_attribute_leads_to_a_row() -> None:
    table = open_table(ROWS, SCHEMA)
    engine_of(table).counts(SCHEMA.names)
    found = reachable(table)
    assert SCHEMA in [thing for thing in found if isinstance(thing, Schema)]  # the walk does walk
    assert not [thing for thing in found if isinstance(thing, CountingEngine)]
    assert not [thing for thing in found if isinstance(thing, np.ndarray) and thing.dtype == np.uint8]
    assert 1_237 not in [thing for thing in found if type(thing) is int]
    assert any(isinstance(thing, CountingEngine) for thing in reachable([engine_of(table)]))  # it would have been seen


def test_no_attribute_of_the_ledger_is_a_digest_that_guessed_rows_give() -> None:
    """Whoever guesses the rows can compute the table's digest: what the ledger shows must not confirm the guess."""
    fewer = {name: values[:-1] for name, values in ROWS.items()}
    shown = []
    for rows in (ROWS, fewer):
        table, guess = open_table(rows, SCHEMA), open_table(rows, SCHEMA)
        digest = engine_of(guess).fingerprint
        with Curator(table, Budget(epsilon=1.0)) as curator, Curator(guess, Budget(epsilon=1.0)) as again:
            ledger = curator.ledger
            public = [getattr(ledger, name) for name in dir(ledger) if not name.startswith("_")]
            found = [*reachable([p for p in public if not isinstance(p, BOUND)]), repr(ledger), repr(public)]
            assert ledger.terms in found
            assert not [thing for thing in found if isinstance(thing, str) and digest in thing]
            shown += [ledger.terms.table, again.ledger.terms.table]
        assert digest == engine_of(table).fingerprint
    assert len(set(shown)) == 4  # not another function of the rows alone


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickling_and_copying_are_refused(take: Any) -> None:
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        take(open_table(ROWS, SCHEMA))


def test_the_repr_is_the_same_for_neighbouring_tables() -> None:
    fewer = {name: values[:-1] for name, values in ROWS.items()}
    tables = [open_table(rows, SCHEMA, privacy_unit="age", max_contributions=3) for rows in (ROWS, fewer)]
    assert repr(tables[0]) == repr(tables[1]) == "PrivateTable(2 columns, privacy unit: 'age', at most 3 rows)"
    assert str(tables[0]) == str(tables[1])


def test_what_was_declared_cannot_be_changed() -> None:
    table = open_table(ROWS, SCHEMA)
    for name in ("schema", "privacy_unit", "max_contributions", "anything"):
        with pytest.raises(AttributeError):
            setattr(table, name, None)


def test_rows_are_dropped_with_the_handle() -> None:
    table = open_table(ROWS, SCHEMA)
    engine = weakref.ref(engine_of(table))
    del table
    gc.collect()
    assert engine() is None


def test_only_handles_from_open_table_have_rows() -> None:
    for stranger in (PrivateTable(SCHEMA, None, 1), "table", None):
        with pytest.raises(DataError, match="open_table"):
            engine_of(stranger)  # type: ignore[arg-type]
