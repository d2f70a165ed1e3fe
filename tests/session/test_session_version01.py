"""A session that version 0.1 recorded goes on: every answer is the recorded one, and nothing is charged again."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_a_session_of_version_01_repeats_its_answers_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for suffix in ("", ".key", ".head"):
        kept = FILES / f"version-0.1-session{suffix.replace('.', '-')}.bin"
        path.with_name(path.name + suffix).write_bytes(kept.read_bytes())
    said = json.loads((FILES / "version-0.1-session.json").read_text(encoding="utf-8"))
    with mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(epsilon=3.0, delta=1e-9), ledger=path) as curator:
        session = mq.online(curator, alpha=0.05, simultaneous=False)
        for question, values in said["answers"].items():
            answer = session.ask(question)
            told = [[each.value, each.low, each.high] for each in answer.numbers]
            assert told == [pytest.approx(each, rel=1e-9) for each in values], question
        assert curator.ledger.spent() == said["spent"]
