"""What a plan may reckon with: every need once, and of a table measured as asked only what the record will keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import maquette as mq
from maquette.answers import Answer, Answered
from maquette.schema import Category, Schema
from maquette.session.knowledge import Knowledge
from maquette.session.planner import Planner
from maquette.session.pricing import Pricing
from maquette.session.question import Goal, Question, everyone
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


def goals(session: Session, *questions: str) -> list[Goal]:
    return [goal for text in questions for goal in Question.of(session.curator.schema, text).goals]


def numbers(answer: Answered) -> list[Answer]:
    return list(answer.numbers)


@pytest.mark.thorough(fast=4)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 4, 5)])
@pytest.mark.parametrize("columns", [("c2",), ("c0", "c1"), ("c0", "c1", "c2")])
def test_a_need_that_is_named_twice_is_paid_once(sizes: tuple[int, ...], columns: tuple[str, ...]) -> None:
    session = opened(sizes)
    once = session._planner.plan(goals(session, table(*columns)))
    assert session._planner.plan(goals(session, *[table(*columns)] * 3)) == once
    before = session.curator.ledger.spent()
    session.ask_many([table(*columns)] * 3)
    assert session.curator.ledger.spent() - before <= once.units


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("warm_start", ["none", "histogram"])
@pytest.mark.parametrize("simultaneous", [True, False])
@pytest.mark.parametrize("tables", [[("c0",)], [("c0",), ("c1",)], [("c0", "c1"), ("c2",)]])
def test_what_was_paid_for_is_known(warm_start: str, simultaneous: bool, tables: list[tuple[str, ...]]) -> None:
    """A record about cells keeps a table measured as asked for its one question; nothing else may rely on it."""
    session = opened((12, 9, 30), warm_start=warm_start, simultaneous=simultaneous)
    finer = Knowledge(session._record, session._knowledge.widths, session.tolerance / 2)
    planner = Planner(finer, Pricing(session.curator), expect=None)
    wanted = [*goals(session, *(table(*columns) for columns in tables)), everyone(session.curator.schema)]
    assert all(finer.state(goal) is None for goal in wanted)
    order = planner.plan(wanted)
    assert order.directs or warm_start == "none"
    session._record.charge(order, analyst="someone")
    assert all(finer.state(goal) is not None for goal in wanted)


def test_a_tolerance_that_no_noise_meets_is_answered_without_a_promise() -> None:
    first = opened((3, 4), relation="replace", rows=None)
    first.ask("c0 = '1' AND c1 = '1'")
    finer = mq.online(first.curator, alpha=1e-4, guard="never")  # a fifth of a row
    before = finer.curator.ledger.spent()
    answers = finer.ask_many([table("c0"), table("c1"), table("c0", "c1")])
    assert finer.curator.ledger.spent() == before
    assert all(one.guarantee is None for answer in answers for one in numbers(answer))
