"""Bound the rows of one person: at most m rows of every privacy unit are kept.

Why this bounds sensitivity. Let kept(D) be the table after bounding. Rows are grouped by unit, and which m rows of a
unit are kept is decided by an order on that unit's own rows, as a multiset of codes: not by other units' rows, nor by
where rows stand in the source. So kept(D) is the disjoint union over units u of keep(rows of u), and removing a unit
removes keep(rows of u), at most m rows, and changes nothing else. Every count vector over disjoint cells then moves by
at most m in L1.

The order is the MD5 of (unit, codes, how many equal rows of the unit come before): the same on every machine and for
every file format, and unrelated to what the codes mean, so that the kept rows are a fair sample of the unit's rows.
Rows of a unit with equal codes are interchangeable. A unit is identified by its text without the white space around
it. A row without a unit (NULL, blank, or NaN, which frames use for missing) cannot be bounded, as nobody knows whose
it is: such tables are refused, with a count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maquette.errors import OutOfDomain
from maquette.schema import INVALID, Schema, refuse_invalid, text_sql

if TYPE_CHECKING:
    import duckdb


def unit_sql(identifier: str) -> str:
    """The select item u: the unit of a row as text, NULL when it has none."""
    text = text_sql(identifier)
    return f"CASE WHEN {text} <> '' AND NOT coalesce(isnan(TRY_CAST({text} AS DOUBLE)), false) THEN {text} END AS u"


def bounded(
    codes: duckdb.DuckDBPyRelation, schema: Schema, privacy_unit: str, max_contributions: int
) -> duckdb.DuckDBPyRelation:
    """Keep at most `max_contributions` rows per unit of a relation u, k0, k1, ...; the result is k0, k1, ....

    All rows are checked before any is dropped: whether a table is accepted does not depend on which rows are kept.
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
