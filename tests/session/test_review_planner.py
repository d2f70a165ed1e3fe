"""What a plan may reckon with: every need once, and of a table measured as asked only what the record will keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import maquette as mq
from maquette.release.answer import Answer, AnswerTable
from maquette.schema import Category, Schema
from maquette.session.need import Asked, Need
from maquette.session.session import Session

ROWS = 2_000


def opened(sizes: Sequence[int], *, epsilon: float = 50.0, relation: str = "add-remove", **named: object) -> Session:
    rng = np.random.default_rng(1)
    schema = Schema([Category(f"c{i}", [str(level) for level in range(size)]) for i, size in enumerate(sizes)])
    columns = {f"c{i}": [str(level) for level in rng.integers(0, size, ROWS)] for i, size in enumerate(sizes)}
    budget = mq.Budget(epsilon=epsilon, delta=1e-9)
    curator = mq.Curator(mq.open_table(columns, schema), budget, relation=relation)  # type: ignore[arg-type]
    return mq.online(curator, **{"alpha": 0.05, "rows": ROWS, "guard": "never", "warm_start": "none", **named})  # type: ignore[arg-type]


def table(*columns: str) -> str:
    return f"SELECT {', '.join(columns)}, count(*) FROM t GROUP BY {', '.join(columns)}"


def needs(session: Session, *questions: str) -> list[Need]:
    return [need for text in questions for need in Asked.of(session.curator.schema, text).needs]


def numbers(answer: Answer | AnswerTable) -> list[Answer]:
    return [answer] if isinstance(answer, Answer) else [one for row in answer for one in row.answers.values()]


@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 4, 5)])
@pytest.mark.parametrize("columns", [("c2",), ("c0", "c1"), ("c0", "c1", "c2")])
def test_a_need_that_is_named_twice_is_paid_once(sizes: tuple[int, ...], columns: tuple[str, ...]) -> None:
    session = opened(sizes)
    once = session._planner.plan(needs(session, table(*columns)))
    assert session._planner.plan(needs(session, *[table(*columns)] * 3)) == once
    before = session.curator.ledger.spent()
    session.ask_many([table(*columns)] * 3)
    assert session.curator.ledger.spent() - before <= once.units


@pytest.mark.parametrize("question", ["c0 = '1' OR c1 = '1'", "c1 <> '0'"])
def test_cells_learn_nothing_from_a_table_measured_as_asked(question: str) -> None:
    """The record of a session about cells keeps such a table for its one question, so nothing else may rely on it."""
    session = opened((12, 9, 30), warm_start="histogram", simultaneous=False)
    alone = session._planner.plan(needs(session, question))
    both = session._planner.plan(needs(session, table("c0"), question))
    assert [need.marginal.columns for need, _ in both.directs.values()][0] == ("c0",)
    assert (both.parts, both.rents) == (alone.parts, alone.rents)
    answers = session.ask_many([table("c0"), question])
    assert all(one.guarantee is not None for answer in answers for one in numbers(answer))


def test_a_tolerance_that_no_noise_meets_is_answered_without_a_promise() -> None:
    first = opened((3, 4), relation="replace", rows=None)
    first.ask("c0 = '1' AND c1 = '1'")
    finer = mq.online(first.curator, alpha=1e-4, guard="never")  # a fifth of a row
    before = finer.curator.ledger.spent()
    answers = finer.ask_many([table("c0"), table("c1"), table("c0", "c1")])
    assert finer.curator.ledger.spent() == before
    assert all(one.guarantee is None for answer in answers for one in numbers(answer))
