"""A session that began with the earlier division of the doubt keeps it: same answers, same intervals, same prices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_session_version01 import ROWS as TABLE, copied

import maquette as mq
from maquette.session.precision import shares

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
