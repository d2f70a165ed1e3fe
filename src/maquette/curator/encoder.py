"""The one encoder: DuckDB turns raw rows into codes, with expressions that follow from the schema alone.

Every source brings its rows here; executors of a cluster run this same code on the rows of their partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from maquette.curator.contributions import unit_sql
from maquette.curator.engines.encoding import codes_sql, present_sql
from maquette.curator.engines.reading import Declared
from maquette.curator.engines.values import values_sql
from maquette.schema import cleaned_sql

if TYPE_CHECKING:
    import duckdb

_REAL = ("FLOAT", "DOUBLE")


def encoded(
    rows: duckdb.DuckDBPyRelation, identifiers: Mapping[str, str], declared: Declared, missing: Sequence[str]
) -> duckdb.DuckDBPyRelation:
    """The relation of codes k0, k1, ..., values v0, v1, ... where bins hold several, and with a privacy unit `u`."""
    values = {name: f"v{i}" for i, name in enumerate(identifiers)}
    raw = rows.project(", ".join(f"{identifiers[name]} AS {value}" for name, value in values.items()))
    raw = raw.project(
        ", ".join(f"{_with_nan(v, str(kind))} AS {v}" for v, kind in zip(raw.columns, raw.types, strict=True))
    )
    texts = raw.project(
        ", ".join(f"{cleaned_sql(v, kind)} AS {v}" for v, kind in zip(raw.columns, raw.types, strict=True))
    )
    present = texts.project(", ".join(f"{present_sql(value, missing)} AS {value}" for value in values.values()))
    schema, unit = declared.schema, declared.privacy_unit
    items = [codes_sql(schema, values), *values_sql(schema, values)]
    if unit is not None:
        items.append(unit_sql(values[unit]))
    return present.project(", ".join(items))


def _with_nan(identifier: str, kind: str) -> str:
    """A number as DuckDB must see it: possibly NaN.

    A Parquet file states its largest number without NaN, and DuckDB takes comparisons with NaN for true where these
    statistics say so. The statistics of a CASE are those of all its branches, and one of them is NaN.
    """
    return (
        f"CASE WHEN isnan({identifier}) THEN CAST('nan' AS {kind}) ELSE {identifier} END"
        if kind in _REAL
        else identifier
    )
