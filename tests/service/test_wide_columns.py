"""A column can have two thousand million levels: nothing that anybody may look at lists them all."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import maquette as mq
from maquette.schema import Schema
from needs import needs

needs("fastapi")

WIDE = 500_000  # enough to be seen, and still no danger to whoever runs the test where it fails
SCHEMA = Schema([mq.Integer("pay", 0, WIDE - 1), mq.Integer("debt", 0, WIDE - 1, nullable=True), mq.Boolean("smoker")])


def as_json(schema: Schema) -> Any:
    from maquette.service.http import asking

    room: Any = SimpleNamespace(table=lambda caller, name: SimpleNamespace(schema=schema))
    caller: Any = None
    request: Any = SimpleNamespace(headers={})
    return json.loads(bytes(asking.schema("people", caller, room, request).body))


def as_bounds(schema: Schema) -> Any:
    from maquette.service.pgwire.house import bounds

    return bounds(schema).to_pydict()


def as_types(schema: Schema) -> Any:
    from maquette.service.pgwire.house import column_oids

    return column_oids(schema)


def as_comments(schema: Schema) -> Any:
    from maquette.service.pgwire.house import _about

    return [_about(column) for column in schema]


@pytest.mark.parametrize("look", [as_json, as_bounds, as_types, as_comments])
def test_no_look_at_a_schema_lists_all_levels(look: Callable[[Schema], Any]) -> None:
    look(Schema([mq.Boolean("smoker")]))  # imports
    fresh = Schema.loads(SCHEMA.dumps())
    tracemalloc.start()
    try:
        assert look(fresh)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


def test_what_is_told_of_wide_columns() -> None:
    assert as_bounds(SCHEMA) == {"pay": [0, WIDE - 1], "debt": [0, WIDE - 1], "smoker": [False, True]}
    assert as_comments(SCHEMA)[0] == "integer: 500,000 levels"
    told = as_json(SCHEMA)["columns"]
    assert told[0]["labels"][:2] == ["0", "1"]
    assert [len(column["labels"]) for column in told] == [1000, 1000, 2]


def test_first_labels_are_the_first_of_all() -> None:
    for column in (mq.Integer("a", 0, 3, nullable=True), mq.Category("b", ["x", "y"]), mq.Boolean("c", nullable=True)):
        for count in range(7):
            assert column.first_labels(count) == column.labels[:count]


@pytest.mark.parametrize("text", ["0000010001000000000", "1" + "0" * 9, "0", "100001", "", "1e3"])
def test_a_number_of_synthetic_rows_is_checked_as_it_is_used(text: str) -> None:
    """The first nine digits were checked, and all of them used."""
    from maquette.service.pgwire.settings import Settings
    from maquette.service.pgwire.sqlstate import Problem

    with pytest.raises(Problem):
        Settings().set("maquette.sample_rows", text)
    assert Settings().sample_rows == 1000
