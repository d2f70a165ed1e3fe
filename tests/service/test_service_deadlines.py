"""With a deadline, fresh answers and refusals leave no earlier than declared; what is known leaves at once."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from rooms import house, settings

DEADLINE = 0.6


def test_a_fresh_answer_leaves_at_its_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(tmp_path)
    table = replace(config.tables[0], deadline=DEADLINE)
    with house(replace(config, tables=(table, config.tables[1]))) as made:
        began = time.perf_counter()
        fresh = made.ask("ada", "age >= 50 AND a")
        assert fresh.status_code in (200, 410), fresh.text  # 410 on a busy machine: late, charged, never released
        assert time.perf_counter() - began >= DEADLINE
        waited: list[float] = []
        monkeypatch.setattr(time, "sleep", waited.append)
        if fresh.status_code == 200:
            assert made.ask("ada", "age >= 50 AND a").json()["source"] == "cache"
        assert made.ask("ada", "age >= 51 AND a").status_code == 422
        assert waited == []


def test_a_late_answer_is_refused_with_one_text_and_its_key_never_pays_again(tmp_path: Path) -> None:
    config = settings(tmp_path)
    table = replace(config.tables[0], deadline=DEADLINE)
    with house(replace(config, tables=(table, config.tables[1]))) as made:
        curator = made.service.tables["people"].curator
        engine = type(curator._engine)
        counts = engine.counts

        def slow(self: object, *given: object, **named: object) -> object:
            time.sleep(DEADLINE)
            return counts(self, *given, **named)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "counts", slow)
            late = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
        assert (late.status_code, late.json()["code"]) == (410, "ledger.deadline-missed")
        paid = curator.ledger.spent()
        again = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k")
        assert again.json()["detail"] == late.json()["detail"]
        assert curator.ledger.spent() == paid
