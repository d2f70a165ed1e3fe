"""Contribution bound: keep at most m rows of every privacy unit.

Why this bounds sensitivity. Let kept(D) be the table after bounding. Rows are grouped by unit. An order on the unit's
own rows, as a multiset of codes, decides which m of them are kept; other units' rows and the position of rows in the
source play no part. So kept(D) is the disjoint union over units u of keep(rows of u). Removing a unit removes keep(rows
of u), at most m rows, and changes nothing else. Every count vector over disjoint cells then changes by at most m in L1.

The order is the MD5 of (unit, codes, number of equal rows of the unit before this one). It is the same on every machine
and for every file format, and unrelated to the meaning of the codes, so the kept rows are a fair sample of the unit's
rows. Rows of a unit with equal codes are interchangeable. A unit is identified by its text without surrounding white
space. A row without a unit (NULL, blank, or NaN, which data frames use for missing) cannot be bounded, because its unit
is unknown: such tables are refused, with a count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maquette.errors import OutOfDomain
from maquette.schema import INVALID, Schema, refuse_invalid, text_sql

if TYPE_CHECKING:
    import duckdb


def unit_sql(identifier: str) -> str:
    """The select item u: the unit of a row as text, NULL if it has none."""
    text = text_sql(identifier)
    return f"CASE WHEN {text} <> '' AND NOT coalesce(isnan(TRY_CAST({text} AS DOUBLE)), false) THEN {text} END AS u"


def bounded(
    codes: duckdb.DuckDBPyRelation, schema: Schema, privacy_unit: str, max_contributions: int
) -> duckdb.DuckDBPyRelation:
    """Keep at most `max_contributions` rows per unit of a relation u, k0, k1, ...; the result is k0, k1, ....

    All rows are checked before any is dropped, so acceptance does not depend on which rows are kept.
    """
    names = [f"k{i}" for i in range(len(schema))]
    checks = [f"count(*) FILTER (WHERE {name} = {INVALID})" for name in names]
    lost, *invalid = codes.aggregate(", ".join(["count(*) - count(u)", *checks])).fetchall()[0]
    if lost:
        raise OutOfDomain(
            f"{lost} rows have no value in the privacy unit {privacy_unit!r}, so nobody knows whose they are. Give "
            "each an owner, or remove them from the source",
            {privacy_unit: lost},
        )
    refuse_invalid(schema, invalid)
    listed = ", ".join(names)
    copies = codes.project(f"{listed}, u, row_number() OVER (PARTITION BY u, {listed}) AS copy")
    order = f"md5(concat_ws('|', {listed}, copy, u)), {listed}"
    ranked = copies.project(f"{listed}, row_number() OVER (PARTITION BY u ORDER BY {order}) AS place")
    return ranked.filter(f"place <= {max_contributions}").project(listed)
