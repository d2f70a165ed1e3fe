"""Columns of very many levels: a session asks for no square matrix of them, and what it keeps stays bounded."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest

import maquette as mq
from maquette.bounded import PAGE, Bounded
from maquette.query import Marginal
from maquette.session import question
from maquette.session.precision.view_of import MAX_WRITTEN
from maquette.session.question import Goal, Question

LEVELS = 200_001
SCHEMA = mq.Schema([mq.Integer("x", 0, LEVELS - 1), mq.Integer("y", 0, 4_999), mq.Boolean("b")])
ASKED = {
    "a condition": "SELECT count(*) FROM t WHERE x < 5",
    "conditions on two columns": "SELECT count(*) FROM t WHERE x BETWEEN 3 AND 77 AND b",
    "more combinations than a table may have": "SELECT count(*) FROM t WHERE y < 300 AND x < 3000 AND b",
    "either of two": "SELECT count(*) FROM t WHERE x < 5 OR y < 5",
    "an average": "SELECT b, avg(x) FROM t GROUP BY b",
    "groups": "SELECT x, count(*) FROM t GROUP BY x",
}
# Each square matrix of the levels would take 298 GiB: with this limit the process would end where one is asked for.
SCRIPT = """
import resource
import sys
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
import maquette as mq
schema = mq.Schema([mq.Integer("x", 0, {levels} - 1), mq.Integer("y", 0, 4_999), mq.Boolean("b")])
table = mq.open_table({{"x": [1, 2], "y": [3, 4], "b": [True, False]}}, schema)
for simultaneous in (True, False):
    with mq.Curator(table, mq.Budget(epsilon=10.0, delta=1e-9)) as curator:
        session = mq.online(curator, alpha=0.05, rows=2_000, simultaneous=simultaneous)
        assert "new sets of 2 columns" in session.outlook(), session.outlook()
        for text in sys.argv[1:]:
            session.explain(text)
            session.ask(text)
        session.outlook(), session.outlook(1)
"""


@pytest.mark.thorough
def test_no_question_needs_the_square_of_a_columns_levels() -> None:
    script = textwrap.dedent(SCRIPT.format(levels=LEVELS))
    done = subprocess.run(
        [sys.executable, "-c", script, *ASKED.values()], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2_000:]


def test_the_groups_of_a_wide_column_are_told_as_they_were_measured() -> None:
    rows = np.arange(400_000) % 5_000
    table = mq.open_table({"x": rows}, mq.Schema([mq.Integer("x", 0, 4_999)]))
    with mq.Curator(table, mq.Budget(rho=1_000.0, delta=1e-9)) as curator:
        session = mq.online(curator, alpha=2e-5, rows=400_000)
        answer = session.ask("SELECT x, count(*) FROM t GROUP BY x")
        counts = np.array([number.value for number in answer.numbers])
        assert np.abs(counts - np.bincount(rows, minlength=5_000)).max() <= 2e-5 * 400_000 + 1
        spent = curator.ledger.spent()
        again = session.ask("SELECT x, count(*) FROM t GROUP BY x")
        assert [number.value for number in again.numbers] == [number.value for number in answer.numbers]
        assert curator.ledger.spent() == spent


def test_a_large_value_takes_the_place_of_many() -> None:
    kept: Bounded[int, list[int]] = Bounded(10, lambda value: PAGE * len(value))
    for key in range(9):
        kept[key] = []
    assert len(kept) == 9
    kept[9] = [0] * 4  # takes five places: the oldest four make room
    assert list(kept) == [4, 5, 6, 7, 8, 9]
    kept[9] = []
    for key in range(10, 14):
        kept[key] = []
    assert list(kept) == [*range(4, 14)]
    kept[20] = [0] * 10  # more than there is room for: nothing is kept, and nothing is broken
    assert list(kept) == []
    kept[1] = []
    kept.clear()
    for key in range(30):
        kept[key] = []
    assert list(kept) == [*range(20, 30)]


def test_questions_written_out_over_many_cells_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question, "_PARSED", Bounded(question.PARSED, lambda one: one.weight))
    schema = mq.Schema([mq.Integer(name, 0, 99) for name in "xyz"])
    for level in range(50):
        Question.of(schema, f"SELECT count(*) FROM t WHERE x < {level + 1} OR y < 3 OR z > 9")
    assert len(question._PARSED) < 10  # a million cells each
    for level in range(50):
        Question.of(schema, f"SELECT count(*) FROM t WHERE x < {level + 1} AND y < 3 AND z > 9")
    assert len(question._PARSED) >= 50  # a condition for each column


def test_a_question_is_not_written_out_over_a_large_histogram() -> None:
    """A custodian may ask for a histogram of any size; groups multiply its numbers."""
    schema = mq.Schema([mq.Integer("x", 0, 2**11 - 1), mq.Integer("y", 0, 2**11 - 1)])
    wide, narrow = (Goal(Marginal(schema, axes)) for axes in (["x"], []))
    tracemalloc.start()
    try:
        assert wide.view(cells=True) is None  # it is measured as asked
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert narrow.marginal.cells * schema.size <= MAX_WRITTEN
