"""What an independent attack on deadlines found."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import maquette as mq
from maquette.errors import DeadlineMissed, RequestBusy

DEADLINE = 2.0  # seconds: many times what an answer takes, also on a busy machine
ASKED = "SELECT count(*) FROM t WHERE smoker"


@pytest.mark.parametrize("spanned", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_another_thread_is_not_told_what_is_recorded_and_not_released(late: bool, spanned: bool) -> None:
    """Between the record of an answer and its release a retry heard it: early, or though it was then withheld."""
    schema = mq.Schema([mq.Boolean("smoker")])
    table = mq.open_table({"smoker": [True, False] * 50}, schema)
    with mq.Curator(table, mq.Budget(epsilon=4.0), deadline=None if spanned else DEADLINE) as curator:
        ledger: Any = curator.ledger
        commit, told = ledger.commit, []

        def ask(deadline: float | None = None) -> None:
            try:
                mq.answer(curator, ASKED, epsilon=0.5, deadline=deadline)
                told.append("told")
            except (RequestBusy, DeadlineMissed) as refusal:
                told.append(type(refusal).__name__)

        def slow(*given: Any, **more: Any) -> Any:
            receipt = commit(*given, **more)
            other = threading.Thread(target=ask)
            other.start()
            other.join()
            if late:
                time.sleep(1.2 * DEADLINE)
            return receipt

        ledger.commit = slow
        ask(DEADLINE)
        assert told == ["RequestBusy", "DeadlineMissed" if late else "told"]
        ledger.commit = commit
        ask()
        assert told[-1] == ("DeadlineMissed" if late else "told")
        assert curator.spent.epsilon == 0.5
