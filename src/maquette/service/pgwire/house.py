"""House: what all connections of the door share: the service, its threads, the catalogues and the synthetic rows.

Everything here is public or post-processing of what was released: schemas, releases, and rows drawn from the public
model of a session. Calls that may wait run in `pool`, never on the event loop.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from maquette.schema import Column as SchemaColumn, Schema
from maquette.service.pgwire.catalogue import Catalogue, PublicColumn, Relation
from maquette.service.pgwire.settings import described
from maquette.service.pgwire.wiretypes import BOOL, DATE, FLOAT8, INT4, INT8, TEXT, TIMESTAMP

if TYPE_CHECKING:
    from maquette.releases import Release
    from maquette.service import Principal, ServedTable, Service

THREADS = 16
MAX_CATALOGUES = 8
MAX_LEVELS = 100_000  # combinations of declared levels that DISTINCT lists
PRIVATE = "private table: sums, counts and averages are answered with noise and at a price; rows shown are synthetic"
PUBLISHED = "release of {}: answered from its public model, free of charge; rows shown are synthetic"


@dataclass(frozen=True)
class View:
    """A release under the name of its view."""

    table: ServedTable
    release: Release


class House:
    """The shared part of one door."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="pgwire")
        self._lock = threading.Lock()
        self._catalogues: OrderedDict[object, Catalogue] = OrderedDict()

    def tables(self, principal: Principal) -> dict[str, ServedTable]:
        """The tables that this principal may see."""
        return {
            name: table
            for name, table in self.service.tables.items()
            if principal.tables is None or name in principal.tables
        }

    def views(self, principal: Principal) -> dict[str, View]:
        """The releases of these tables: `release_people` is the newest one, `release_people_NAME` each of them."""
        found = {}
        for name, table in self.tables(principal).items():
            for key, release in list(table.releases.items()):
                found[f"release_{name}_{key}".lower()] = View(table, release)
                found[f"release_{name}"] = View(table, release)
        return found

    def catalogue(self, principal: Principal) -> Catalogue:
        """The catalogue of what this principal may see; kept for others who see the same."""
        tables, views = self.tables(principal), self.views(principal)
        key = (tuple(tables), tuple((name, id(view.release)) for name, view in views.items()))
        with self._lock:
            known = self._catalogues.get(key)
            if known is not None:
                self._catalogues.move_to_end(key)
                return known
            relations = [_relation(name, "r", table.schema, PRIVATE) for name, table in tables.items()]
            relations += [_view(name, view) for name, view in views.items()]
            made = self._catalogues[key] = Catalogue(relations, described())
            while len(self._catalogues) > MAX_CATALOGUES:
                self._catalogues.popitem(last=False)
            return made

    def close(self) -> None:
        """Stop the threads; what runs is finished."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def synthetic(table: ServedTable, rows: int) -> pa.Table:
    """Rows drawn from the public model of a table's session."""
    schema = table.schema
    model = table.session.model
    generator = np.random.default_rng(0)  # a preview: the same rows each time
    if hasattr(model, "sample"):
        codes = model.sample(rows, generator)
    else:
        cells = np.maximum(model.marginal(schema.names).reshape(-1), 0.0)
        drawn = generator.choice(cells.size, size=rows, p=cells / cells.sum())
        codes = np.stack(np.unravel_index(drawn, schema.shape(schema.names)), axis=1).astype(np.int32)
    return schema.decode(codes)


def version_of(table: ServedTable, rows: int) -> object:
    """What synthetic rows depend on: what was measured, which the budget tells."""
    return table.session.spent.units, rows


def levels(schema: Schema, columns: Sequence[str]) -> pa.Table | None:
    """Every combination of the declared levels of these columns; None if there are too many."""
    shape = schema.shape(columns)
    if not columns or int(np.prod(shape, dtype=np.float64)) > MAX_LEVELS:
        return None
    codes = np.indices(shape).reshape(len(columns), -1).T.astype(np.int32)
    return pa.table({name: schema[name].decode(codes[:, i]) for i, name in enumerate(columns)})


def bounds(schema: Schema) -> pa.Table:
    """The least and the greatest declared value of every column, in two rows."""
    return pa.table({column.name: _bounds(column) for column in schema.columns})


def _bounds(column: SchemaColumn) -> pa.Array:
    declared = column.as_dict()
    edges = declared.get("edges") or [declared.get("low"), declared.get("high")]
    if edges[0] is not None:
        return pa.array([edges[0], edges[-1]]).cast(column.decode(np.zeros(0, dtype=np.int32)).type)
    values = column.decode(np.arange(column.size, dtype=np.int32))
    known = sorted(value for value in values.to_pylist() if value is not None)
    return pa.array([known[0], known[-1]], values.type)


def oid_of(kind: pa.DataType) -> int:
    """The type of a column on the wire."""
    if pa.types.is_boolean(kind):
        return BOOL
    if pa.types.is_integer(kind):
        return INT4 if kind.bit_width <= 32 else INT8
    if pa.types.is_floating(kind):
        return FLOAT8
    if pa.types.is_date(kind):
        return DATE
    return TIMESTAMP if pa.types.is_timestamp(kind) else TEXT


def column_oids(schema: Schema) -> dict[str, int]:
    """The type of every column of a table."""
    return {column.name: oid_of(column.decode(np.zeros(0, dtype=np.int32)).type) for column in schema.columns}


def _relation(name: str, kind: str, schema: Schema, comment: str, definition: str = "") -> Relation:
    oids = column_oids(schema)
    columns = tuple(PublicColumn(c.name, oids[c.name], c.nullable, _about(c)) for c in schema.columns)
    return Relation(name, kind, columns, comment, definition)


def _view(name: str, view: View) -> Relation:
    return _relation(
        name, "v", view.release.schema, PUBLISHED.format(view.table.name), f"-- a release of {view.table.name}"
    )


def _about(column: SchemaColumn) -> str:
    """The declared levels of a column, which are public."""
    if column.size > MAX_LEVELS:  # all of them in memory would be too many
        return f"{column.kind}: {column.size:,} levels"
    labels = column.labels
    if len(labels) <= 12:
        return f"{column.kind}: {', '.join(labels)}"[:500]
    return f"{column.kind}: {len(labels):,} levels, {labels[0]} to {labels[-1]}"[:500]
