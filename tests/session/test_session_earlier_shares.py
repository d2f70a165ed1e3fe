"""A session that began with the earlier division of the doubt keeps it: same answers, same intervals, same prices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_session_version01 import ROWS as TABLE, copied

import maquette as mq
from maquette.session.precision import shares
from maquette.session.precision.bases import ANCHOR, bare_kind

SCHEMA = mq.Schema([mq.Integer("age", 0, 15), mq.Category("region", ["north", "east", "south"]), mq.Boolean("smoker")])
ROWS = {**TABLE, "age": np.asarray(TABLE["age"]) * 16 // 100}


def test_a_session_that_began_with_the_earlier_shares_repeats_its_answers(tmp_path: Path) -> None:
    """Single numbers, two whole tables and parts; nothing is charged again."""
    path, said = copied("earlier-shares", tmp_path)
    with mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(rho=5.0, delta=1e-9), ledger=path) as curator:
        session = mq.online(curator, alpha=0.05, rows=4_000, warm_start="none", guard="never")
        account = session._knowledge.widths.account
        assert account is not None
        assert account.division is shares.EARLIER
        for question, values in said["answers"].items():
            told = [[each.value, each.low, each.high] for each in session.ask(question).numbers]
            assert told == [pytest.approx(each, rel=1e-9) for each in values], question
        assert curator.ledger.spent() == said["spent"]
        assert session._record.wholes == {("", "", "", "steps", "age"): 3, ("", "", "", "waves", "age"): 9}


LEVELS = {"a": 5, "b": 4, "c": 6, "d": 3, "e": 7}
WIDER = mq.Schema(
    [
        mq.Integer("age", 0, 15),
        mq.Integer("days", 0, 11),
        *(mq.Category(name, [f"{name}{i}" for i in range(size)]) for name, size in LEVELS.items()),
    ]
)
MORE = {
    "age": [n * 37 % 16 for n in range(4000)],
    "days": [n * n % 12 for n in range(4000)],
    **{name: [f"{name}{n * n * (i + 2) % size}" for n in range(4000)] for i, (name, size) in enumerate(LEVELS.items())},
}


def test_a_session_that_began_before_tables_shared_the_number_of_rows_repeats_its_answers(tmp_path: Path) -> None:
    """Counts from half of the rows, a whole table and parts; it buys no bare table later."""
    path, said = copied("third-shares", tmp_path)
    with mq.Curator(mq.open_table(MORE, WIDER), mq.Budget(rho=50.0, delta=1e-9), ledger=path) as curator:
        session = mq.online(curator, alpha=0.05, rows=4_000, warm_start="none", guard="never")
        account = session._knowledge.widths.account
        assert account is not None
        assert account.division is shares.HALF
        for question, values in said["answers"].items():
            told = [[each.value, each.low, each.high] for each in session.ask(question).numbers]
            assert told == [pytest.approx(each, rel=1e-9) for each in values], question
        assert curator.ledger.spent() == said["spent"]
        assert ANCHOR in session._record.wholes
        for cut in range(1, 14):
            session.ask(f"SELECT count(*) FROM t WHERE age <= {cut}")
        assert not any(bare_kind(key) for key in session._record.wholes)
