"""What an answer says of its intervals: together in a session whose answers hold together, else each."""

from __future__ import annotations

import pytest

import maquette as mq

SCHEMA = mq.Schema([mq.Boolean("smoker"), mq.Category("region", ["n", "s"])])
ROWS = {"smoker": [True, False] * 2_000, "region": ["n", "s", "s", "n"] * 1_000}


@pytest.mark.parametrize("simultaneous", [True, False])
def test_a_table_says_whether_its_intervals_hold_together(simultaneous: bool) -> None:
    curator = mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(epsilon=5.0, delta=1e-9))
    with curator:
        session = mq.online(curator, alpha=0.1, rows=4_000, simultaneous=simultaneous)
        table = session.ask("SELECT region, count(*) AS n FROM t GROUP BY region")
        again = session.ask("SELECT region, count(*) AS n FROM t GROUP BY region ORDER BY region")
        recalled = session.ask("SELECT region, count(*) AS n FROM t GROUP BY region")
    word = "together" if simultaneous else "each"
    assert all(f"at 95%, {word})" in str(answer) for answer in (table, again, recalled))
    assert all(one.together == simultaneous for answer in (table, again) for one in answer.numbers)
