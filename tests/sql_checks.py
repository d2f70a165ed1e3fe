"""Answering a statement with noise off: the program on the exact numbers of its statements."""

from __future__ import annotations

from typing import Any

import numpy as np

import maquette as mq
from gate_tools import exact
from maquette.answers import OutputColumn, report, tabulate
from maquette.audit.reference import ScriptedNoise
from maquette.query import Context, Program, Statement, parse

FREE = mq.Loss(epsilon=0.0, delta=0.0, rho=None, units=0, currency="pure")


def columns(statement: Statement, records: np.ndarray) -> dict[str, OutputColumn]:
    """Every output of a statement, exactly."""
    found = {}
    for output in statement.outputs:
        if output.measure is None:
            continue
        cells = exact(output.measure.marginal, records) / output.measure.marginal.grid
        values = output.measure.scale * (cells[..., 1] - cells[..., 0] if output.measure.signed else cells)
        if output.per is not None:
            rows = exact(output.per, records) / output.per.grid
            values = output.measure.centre + values / np.maximum(rows, 1.0)
        found[output.title] = OutputColumn(values, values, values)
    return found


class Shifted(ScriptedNoise):
    """The same noise for every count: it stays within every interval."""

    def __init__(self, by: int) -> None:
        super().__init__([])
        self.by = by

    def laplace(self, scale: Any, size: int) -> Any:
        return np.full(size, round(self.by * float(scale) / 10), dtype=np.int64)


def answered_exactly(schema: mq.Schema, data: dict[str, Any], text: str) -> list[tuple[Any, ...]]:
    """The rows of a statement without noise."""
    records = np.stack([column.encode(data[column.name]) for column in schema], axis=1)
    parsed = parse(schema, text, context=Context(table="people"))
    if isinstance(parsed, Program):
        answer = report(parsed, lambda one: columns(one, records), 0.95, FREE, "measured")
    else:
        answer = tabulate(parsed, columns(parsed, records), 0.95, FREE, "measured")
    return list(answer.rowset)


def report_of(program: Program, solve: Any) -> mq.Answered:
    """The answer of a program from the numbers of its statements."""
    return report(program, solve, 0.95, FREE, "measured")
