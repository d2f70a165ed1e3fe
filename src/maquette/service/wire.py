"""Answers as plain data and back: the same fields over HTTP, in the transcript and in the Python client."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from dataclasses import fields
from typing import Any

import numpy as np

from maquette.answers import Answer, Answered, AnswerTable, Row, RowsetColumn
from maquette.privacy import Loss

_PLAIN = tuple(each.name for each in fields(Answer) if each.name not in ("cost", "remaining"))
_STATEMENT = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)


def is_statement(text: str) -> bool:
    """Whether a question is sent as `sql`: a condition may begin with a column whose name begins so, as in selected."""
    return _STATEMENT.match(text) is not None


def loss_data(loss: Loss) -> dict[str, Any]:
    """An amount of privacy; an infinite epsilon is null."""
    epsilon = float(loss.epsilon)
    return {
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "delta": loss.delta,
        "rho": loss.rho,
        "units": loss.units,
        "currency": loss.currency,
    }


def loss_of(data: dict[str, Any]) -> Loss:
    """The amount that `loss_data` wrote."""
    epsilon = math.inf if data["epsilon"] is None else data["epsilon"]
    return Loss(epsilon=epsilon, delta=data["delta"], rho=data["rho"], units=data["units"], currency=data["currency"])


def answer_data(answer: Answered) -> dict[str, Any]:
    """An answer or a table of answers, complete.

    `promised` says in one word whether the numbers carry the session's promise; without it they are the public model's
    guess, or wider than the tolerance.
    """
    shared: dict[str, Any] = {
        "kind": "table" if isinstance(answer, AnswerTable) else "number",
        "promised": answer.guarantee is not None,
        "source": answer.source,
        "guarantee": answer.guarantee,
        "confidence": answer.confidence,
        "cost": loss_data(answer.cost),
        "remaining": None if answer.remaining is None else loss_data(answer.remaining),
        "columns": [_column(column) for column in answer.rowset.columns],
    }
    if isinstance(answer, AnswerTable):
        rows = [
            {
                "groups": list(row.groups),
                "values": [_cell(value) for value in row.values],
                "answers": [_number(row[title]) for title in answer.titles],
                **({"standings": list(row.standings)} if row.standings else {}),
            }
            for row in answer.rows
        ]
        shared |= {"together": answer.together, "sure": answer.sure}
        shared["order"] = None if answer.order is None else list(answer.order)
        return {**shared, "group_titles": list(answer.group_titles), "titles": list(answer.titles), "rows": rows}
    (number,) = answer.numbers
    return {**shared, **_number(number)}


def answer_json(answer: Answered) -> bytes:
    """The same as JSON."""
    return as_json(answer_data(answer))


def as_json(content: Any) -> bytes:
    """Plain data as JSON."""
    return _encode(content).encode()


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def answer_of(data: dict[str, Any]) -> Answered:
    """The answer that `answer_data` wrote."""
    cost = loss_of(data["cost"])
    remaining = None if data["remaining"] is None else loss_of(data["remaining"])
    if data["kind"] == "number":
        return _answer(data, cost, remaining)
    titles = tuple(data["titles"])
    rows = tuple(
        Row(
            tuple(row["groups"]),
            {title: _answer(one, cost, remaining) for title, one in zip(titles, row["answers"], strict=True)},
            tuple(_uncell(value) for value in row["values"]),
            tuple(row.get("standings", ())),
        )
        for row in data["rows"]
    )
    order = None if data["order"] is None else tuple(data["order"])
    return AnswerTable(
        tuple(data["group_titles"]), titles, rows, cost, order=order, together=data["together"], sure=data["sure"]
    )


def _column(column: RowsetColumn) -> dict[str, Any]:
    """A column of the select list: what a door that only shows answers needs."""
    return {
        "name": column.name,
        "type": column.type,
        "values": [_finite(value) if isinstance(value, int | float | None) else str(value) for value in column.values],
        "low": None if column.low is None else [_finite(value) for value in column.low],
        "high": None if column.high is None else [_finite(value) for value in column.high],
        "standing": list(column.standing),
    }


def _number(answer: Answer) -> dict[str, Any]:
    return {name: _finite(getattr(answer, name)) for name in _PLAIN}


def _cell(value: Any) -> Any:
    """A group's value; a date is an object, so that it can be told from a text."""
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _uncell(value: Any) -> Any:
    return dt.date.fromisoformat(value["date"]) if isinstance(value, dict) else value


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _answer(data: dict[str, Any], cost: Loss, remaining: Loss | None) -> Answer:
    plain: dict[str, Any] = {
        name: _again(data[name]) if name in _NUMBERS else data[name] for name in _PLAIN if name in data
    }
    return Answer(**plain, cost=cost, remaining=remaining)


_NUMBERS = ("value", "low", "high")


def _again(value: Any) -> float:
    return math.nan if value is None else float(value)
