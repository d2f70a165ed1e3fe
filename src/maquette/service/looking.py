"""Looking: pictures of what is publicly known of a table. Post-processing of released values, so nothing is charged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maquette.errors import MaquetteError, QueryError
from maquette.schema import identifier
from maquette.service.principals import Principal
from maquette.service.served import ServedTable

MOST_CELLS = 2_500  # of one picture


def picture(principal: Principal, table: ServedTable, columns: Sequence[str]) -> dict[str, Any]:
    """The cells of one or two columns as the public model has them: shares of the rows, with intervals."""
    if not 1 <= len(columns) <= 2 or len(set(columns)) < len(columns):
        raise QueryError(f"{len(columns)} columns are named", expected="one column, or two different ones")
    if (cells := table.schema.cells(columns)) > MOST_CELLS:
        raise QueryError(
            f"a picture of {cells:,} cells", expected=f"at most {MOST_CELLS:,}", advice="choose one column"
        )
    table.admit_look(principal)
    return _picture(table, columns)


def _picture(table: ServedTable, columns: Sequence[str]) -> dict[str, Any]:
    answer = table.session.peek(_counts(table, columns))
    rows = table.session.rows
    found = [
        {"levels": list(row.groups), "kind": "promise" if answer.guarantee else "guess", **_shares(row, rows)}
        for row in answer.rows
    ]
    known = "within the tolerance of the session" if answer.guarantee else "guesses of the model, with wide intervals"
    return {"columns": list(columns), "cells": found, "words": f"Shares of the rows; {known}."}


def doubts(principal: Principal, table: ServedTable) -> list[dict[str, Any]]:
    """For every column the widest interval of a level, as a share of the rows; None where nothing was measured.

    `free` says that its counts are known within the session's tolerance, so that asking for them costs nothing.
    """
    table.admit_look(principal)  # one look, however many columns
    found = []
    for column in table.schema:
        if column.size > MOST_CELLS:
            continue
        try:
            cells = _picture(table, [column.name])["cells"]
            width = max((cell["high"] - cell["low"]) / 2 for cell in cells)
            free = all(cell["kind"] == "promise" for cell in cells)
        except MaquetteError:
            width, free = 1.0, False
        found.append({"column": column.name, "width": None if width >= 0.5 else width, "free": free})
    return sorted(found, key=lambda doubt: -(1.0 if doubt["width"] is None else doubt["width"]))


def _counts(table: ServedTable, columns: Sequence[str]) -> str:
    names = ", ".join(identifier(column) for column in columns)
    return f"SELECT {names}, count(*) FROM {table.name} GROUP BY {names}"


def _shares(row: Any, rows: float) -> dict[str, float]:
    (answer,) = row.answers.values()
    ends = {"value": answer.value, "low": answer.low, "high": answer.high}
    return {name: min(1.0, max(0.0, value / rows)) for name, value in ends.items()}
