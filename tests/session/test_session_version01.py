"""A session that version 0.1 recorded goes on: every answer is the recorded one, and nothing is charged again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import maquette as mq

FILES = Path(__file__).with_name("files")
SCHEMA = mq.Schema(
    [mq.Integer("age", 0, 99, width=20), mq.Category("region", ["north", "east", "south"]), mq.Boolean("smoker")]
)
ROWS = {
    "age": [n * 37 % 100 for n in range(4000)],
    "region": [("north", "east", "south")[n * n % 3] for n in range(4000)],
    "smoker": [n % 4 == 0 for n in range(4000)],
}


def copied(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The ledger of a recorded session, and what it said."""
    path = folder / "ledger"
    for suffix in ("", ".key", ".head"):
        kept = FILES / f"{name}{suffix.replace('.', '-')}.bin"
        path.with_name(path.name + suffix).write_bytes(kept.read_bytes())
    return path, json.loads((FILES / f"{name}.json").read_text(encoding="utf-8"))


def test_a_session_of_version_01_repeats_its_answers_for_nothing(tmp_path: Path) -> None:
    path, said = copied("version-0.1-session", tmp_path)
    with mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(epsilon=3.0, delta=1e-9), ledger=path) as curator:
        session = mq.online(curator, alpha=0.05, simultaneous=False)
        for question, values in said["answers"].items():
            answer = session.ask(question)
            told = [[each.value, each.low, each.high] for each in answer.numbers]
            assert told == [pytest.approx(each, rel=1e-9) for each in values], question
        assert curator.ledger.spent() == said["spent"]


@pytest.mark.thorough
def test_a_session_that_began_with_another_account_of_the_doubt_keeps_it(tmp_path: Path) -> None:
    """Its answers all hold together; the intervals stay as wide as they were, before and after it pays again."""
    path, said = copied("version-0.1-together", tmp_path)
    for paying in (False, True):
        with mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(rho=5.0, delta=1e-9), ledger=path) as curator:
            session = mq.online(curator, alpha=0.05, warm_start="none", guard="never")
            assert session._knowledge.widths.account is None
            for question, values in said["answers"].items():
                told = [[each.value, each.low, each.high] for each in session.ask(question).numbers]
                assert told == [pytest.approx(each, rel=1e-9) for each in values], question
            assert (curator.ledger.spent() == said["spent"]) is not paying
            session.ask("SELECT age, smoker, count(*) FROM t WHERE region = 'east' GROUP BY age, smoker")
            session.ask("SELECT count(*) FROM t WHERE (age < 20 AND smoker) OR (age >= 40 AND region = 'north')")
