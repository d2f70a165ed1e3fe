"""All fuzz targets by name; each is built when it is asked for."""

from __future__ import annotations

import functools

from fuzz_runner import Target

TARGETS = ("sql", "predicate", "schema", "maq", "ledger")


@functools.cache
def target_of(name: str) -> Target:
    """The target of this name."""
    match name:
        case "sql":
            from fuzz_sql import SQL, warm

            warm()
            return SQL
        case "predicate":
            from fuzz_predicate import PREDICATE, warm as warm_conditions

            warm_conditions()
            return PREDICATE
        case "schema":
            from fuzz_schema import SCHEMA

            return SCHEMA
        case "maq":
            from fuzz_maq import MAQ

            return MAQ
        case "ledger":
            from fuzz_ledger import LEDGER

            return LEDGER
    raise KeyError(name)
