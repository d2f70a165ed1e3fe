"""Report: the answer to a program, from the answers to its statements; free post-processing, the same for everyone.

Accuracy: the statements are answered at a confidence at which all numbers behind one result hold together (or all
numbers of the program, where groups are chosen or combined); every result is bounded over that box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.answers.api import Answered
from maquette.answers.assembly import OutputColumn, values_of
from maquette.answers.frame import Box, Counted, Frame, Vector, exact
from maquette.answers.relations import MOST, Evaluation
from maquette.answers.result import NOISE_ONLY, Answer, AnswerTable, BoundKind, Row, Source, promise_of
from maquette.answers.rowset import Standing
from maquette.errors import QueryError
from maquette.privacy import Loss
from maquette.query import Marginal, Program, Statement

KINDS: tuple[BoundKind, ...] = ("logical", "measured", "certified")
Solve = Callable[[Statement], Mapping[str, OutputColumn]]


def report(program: Program, solve: Solve, confidence: float, cost: Loss, source: Source) -> Answered:
    """The answer; `solve` answers each statement, at the confidence that `program.joint` asks for."""
    for statement in program.statements:
        _check_size(statement)  # before an array of it is made
    box = Box()
    promises: list[str | None] = []
    cores = [_core(statement, solve(statement), box, promises) for statement in program.statements]
    frame = Evaluation(program, cores, box).frame(program.relation)
    frame = frame.take(np.flatnonzero(frame.inside))
    told = next((promise for promise in promises if promise is not None), NOISE_ONLY)
    columns = {title: frame.columns[name] for name, title in program.outputs}
    numbers = [title for title, vector in columns.items() if _numeric(vector)]
    groups = [title for title in columns if title not in numbers]
    computed = any(columns[title].noisy for title in groups)

    def answer(title: str, row: int) -> Answer:
        return _answer(columns[title], row, title, confidence, cost, source, told, program.together)

    rows = tuple(
        Row(
            tuple(_label(columns[title].values[row]) for title in groups),
            {title: answer(title, row) for title in numbers},
            tuple(columns[title].values[row] for title in groups),
            tuple(_standing(columns[title], row) for title in groups) if computed else (),
        )
        for row in range(frame.size)
    )
    if len(rows) == 1 and not groups and len(numbers) == 1:
        return rows[0][numbers[0]]
    return AnswerTable(
        tuple(groups), tuple(numbers), rows, cost, tuple(columns), together=program.together, sure=confidence
    )


def _core(statement: Statement, solved: Mapping[str, OutputColumn], box: Box, promises: list[str | None]) -> Frame:
    """The groups of a statement as a frame, every number a variable of the box."""
    shape = Marginal(statement.schema, statement.axes).shape
    shown = np.flatnonzero(statement.shown)
    places = np.array(np.unravel_index(shown, shape)) if shape else np.zeros((0, 1), dtype=int)
    columns: dict[str, Vector] = {}
    for i, axis in enumerate(statement.axes):
        values = values_of(statement.schema, axis)
        bins = (isinstance(axis, str) and statement.schema[axis].midpoints is not None) or _dated(statement, axis)
        columns[f"axis {i}"] = exact([values[place] for place in places[i]], places[i] if bins else None)
    counts = {output.title for output in statement.outputs if output.kind == "count"}
    for title, column in solved.items():
        first = len(box.low)
        columns[title] = replace(_numbers(column, shown, box), never_null=title in counts)
        _note_counted(box, statement, title, range(first, first + len(shown)), shown)
        promises.append(column.guarantee)
    return Frame(columns, len(shown), box)


def _note_counted(box: Box, statement: Statement, title: str, variables: range, shown: NDArray[np.int64]) -> None:
    """Tell the box which rows its variables count, where a number is a count of rows or a multiple of one."""
    (output,) = (output for output in statement.outputs if output.title == title)
    measure = output.measure
    if measure is None or measure.signed or output.per is not None or type(measure.marginal) is not Marginal:
        return
    if measure.scale > 0 and measure.values is None:
        rows = measure.marginal.weight
        box.counted.append(Counted(variables, rows, measure.scale, tuple(statement.axes), shown))


def _check_size(statement: Statement) -> None:
    size = math.prod(Marginal(statement.schema, statement.axes).shape)
    numbers = sum(output.measure is not None for output in statement.outputs)
    if size * max(1, numbers) > 20 * MOST or size > MOST:
        raise QueryError(
            f"{size:,} groups are too many to sort, filter or combine; at most {MOST:,}",
            advice="ask GROUP BY alone, or group by fewer columns",
        )


def _dated(statement: Statement, axis: Any) -> bool:
    return isinstance(axis, str) and statement.schema[axis].kind == "date"


def _numbers(column: OutputColumn, shown: NDArray[np.int64], box: Box) -> Vector:
    low, high, raw = (
        np.asarray(part, dtype=np.float64).reshape(-1)[shown] for part in (column.low, column.high, column.value)
    )
    values = np.empty(len(raw), dtype=object)
    values[:] = np.clip(raw, low, high).tolist()
    kinds = np.ones(len(raw), dtype=np.int8)
    if column.kinds is not None:
        kinds = np.array([KINDS.index(kind) for kind in column.kinds.reshape(-1)[shown]], dtype=np.int8)
    promised = np.full(len(raw), column.guarantee is not None)
    return Vector(
        values, [box.add(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)], low, high, kinds, promised
    )


def _numeric(vector: Vector) -> bool:
    numbers = all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in vector.values
    )
    return vector.noisy and numbers


def _standing(vector: Vector, row: int) -> Standing:
    """Whether a label is public, surely what it says, or left open by the noise."""
    if not vector.noisy or vector.low is None or vector.high is None or vector.promised is None:
        return "exact"
    certain = math.isnan(vector.low[row]) or vector.low[row] == vector.high[row]  # a text has no ends
    return "promised" if certain and vector.promised[row] else "guessed"


def _label(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _answer(  # noqa: PLR0917
    vector: Vector, row: int, title: str, confidence: float, cost: Loss, source: Source, told: str, together: bool
) -> Answer:
    assert vector.low is not None
    assert vector.high is not None
    value = math.nan if vector.values[row] is None else float(vector.values[row])
    low, high = float(vector.low[row]), float(vector.high[row])
    bound = KINDS[int(vector.weakest[row])] if vector.weakest is not None else "measured"
    promised = bool(vector.promised[row]) if vector.promised is not None else True
    guarantee = told if bound == "measured" else promise_of(bound)
    return Answer(
        value=value,
        low=low,
        high=high,
        confidence=confidence,
        count=None,
        source=source,
        cost=cost,
        guarantee=guarantee if promised else None,
        bound=bound,
        title=title,
        together=together,
    )
