"""Contribution bound: keep at most m rows of every privacy unit.

Why this bounds sensitivity. Let kept(D) be the table after bounding. Rows are grouped by unit. An order on the unit's
own rows, as a multiset of codes, decides which m of them are kept; other units' rows and the position of rows in the
source play no part. So kept(D) is the disjoint union over units u of keep(rows of u). Removing a unit removes keep(rows
of u), at most m rows, and changes nothing else. Every count vector over disjoint cells then changes by at most m in L1.

The order is the MD5 of (unit, codes, number of equal rows of the unit before this one). It is the same on every machine
and for every file format, and unrelated to the meaning of the codes, so the kept rows are a fair sample of the unit's
rows. Rows of a unit with equal codes are numbered in the order of their values, so which values are kept is again
decided by the unit's own rows alone. A unit is identified by its text without surrounding white
space. A row without a unit (NULL, blank, or NaN, which data frames use for missing) cannot be bounded, because its unit
is unknown: such tables are refused, with a count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from maquette.schema import INVALID, Schema, untyped_sql

if TYPE_CHECKING:
    import duckdb


NOTED = 1_000  # rows left out of one unit that are noted at most


def unit_sql(identifier: str) -> str:
    """The select item u: the unit of a row as text, NULL if it has none."""
    text = untyped_sql(identifier)
    return f"CASE WHEN {text} <> '' AND NOT coalesce(isnan(TRY_CAST({text} AS DOUBLE)), false) THEN {text} END AS u"


def bounded(
    codes: duckdb.DuckDBPyRelation, schema: Schema, max_contributions: int, *, numbered: bool = False
) -> duckdb.DuckDBPyRelation:
    """Keep at most `max_contributions` rows per unit of a relation u, k0, k1, ..., v0, ...; `lost` replaces u.

    If `numbered`, `over` follows: on the first kept row of a unit how many of its rows were left out, 0 on all others.
    It is read by `Seen` alone, for the door `count_cut`. If a unit may have several rows, its number `unit` comes next,
    from 0 on in the order of the units' texts: rows of one unit share it, so that units can be counted. It is read by
    `UnitEngine.units` alone.

    Rows that must be refused (`lost`: without a unit; or with a code that fits no level) are never dropped, so that one
    pass finds them all: acceptance does not depend on which rows are kept.
    """
    names = [f"k{i}" for i in range(len(schema))]
    listed = ", ".join(names)
    values = [name for name in codes.columns if name.startswith("v")]
    kept = ", ".join([*names, *values])
    equal = f"PARTITION BY u, {listed}" + (f" ORDER BY {', '.join(values)}" if values else "")
    copies = codes.project(f"{kept}, u, row_number() OVER ({equal}) AS copy")
    order = f"md5(concat_ws('|', {listed}, copy, u)), {listed}"
    held = ", count(*) OVER (PARTITION BY u) AS held" if numbered else ""
    ranked = copies.project(f"{kept}, u, row_number() OVER (PARTITION BY u ORDER BY {order}) AS place{held}")
    refused = f"u IS NULL OR least({listed}, 0) = {INVALID}"
    chosen = ranked.filter(f"place <= {max_contributions} OR {refused}")
    number = (
        ", CAST(dense_rank() OVER (ORDER BY u) - 1 AS INTEGER) AS unit" if numbered and max_contributions > 1 else ""
    )
    left_out = f"CASE WHEN place = 1 THEN least(greatest(held - {max_contributions}, 0), {NOTED}) ELSE 0 END"
    over = f", CAST({left_out} AS SMALLINT) AS over" if numbered else ""
    return chosen.project(f"{kept}, CAST(u IS NULL AS TINYINT) AS lost{over}{number}")
