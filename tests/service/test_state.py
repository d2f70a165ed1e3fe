"""The service's own state: rows are written in groups, and known answers are ready to be sent."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from rooms import house, settings

from maquette.errors import QueryError
from maquette.service import state as kept
from maquette.service.config import Limits
from maquette.service.errors import TooLarge
from maquette.service.served import check_text
from maquette.service.state import GROUP, State


def line(number: int) -> dict[str, object]:
    return {"at": 1.0, "who": "-", "role": None, "what": str(number), "table": None, "outcome": "done", "facts": "{}"}


def written(state: State) -> list[str]:
    return [row["what"] for row in state.rows(sa.select(kept.log).order_by(kept.log.c.id))]


def test_rows_are_written_in_groups_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(f"sqlite:///{tmp_path / 'state'}")
    groups: list[int] = []
    keep = State._keep
    monkeypatch.setattr(State, "_keep", lambda self, rows: (groups.append(len(rows)), keep(self, rows))[1])
    try:
        for number in range(2 * GROUP + 10):
            state.later(kept.log, line(number))
        state.flush()
        assert written(state) == [str(number) for number in range(2 * GROUP + 10)]
        assert max(groups) <= GROUP
        assert len([size for size in groups if size]) <= 5
    finally:
        state.close()


def test_a_row_is_written_soon_and_a_flush_waits_for_no_group(tmp_path: Path) -> None:
    state = State(f"sqlite:///{tmp_path / 'state'}")
    try:
        state.later(kept.log, line(0))
        until = time.monotonic() + 60
        while not written(state) and time.monotonic() < until:
            time.sleep(0.02)
        assert written(state) == ["0"]
        state.later(kept.log, line(1))
        state.flush()
        assert written(state) == ["0", "1"]
        state.later(kept.log, line(2))
    finally:
        state.close()
    again = State(f"sqlite:///{tmp_path / 'state'}")
    try:
        assert written(again) == ["0", "1", "2"], "closing writes what waits"
    finally:
        again.close()


def test_the_state_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """In a folder that others may read, and also if it was made by somebody who let them."""
    tmp_path.chmod(0o755)
    path = tmp_path / "state"
    for _ in range(2):
        state = State(f"sqlite:///{path}")
        try:
            state.later(kept.log, line(0))
            state.flush()
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
            assert "state-wal" in modes
            assert set(modes.values()) == {0o600}, modes
        finally:
            state.close()
        path.chmod(0o644)


def test_a_known_answer_is_the_same_alone_and_among_others(tmp_path: Path) -> None:
    with house(settings(tmp_path)) as made:
        fresh = made.ask("ada", "age >= 50 AND a").json()
        known = made.ask("ada", "age >= 50 AND a")
        body = {"questions": [{"where": "age >= 50 AND a"}, "age >= 50 AND a"]}
        many = made.call("ada", "POST", "/v1/tables/people/ask-many", json=body).json()["answers"]
        assert known.headers["content-type"] == "application/json"
        assert many == [known.json()] * 2
        own = ("source", "cost", "columns")  # which say that it is known
        alike = [{word: value for word, value in one.items() if word not in own} for one in (fresh, known.json())]
        assert alike[0] == alike[1]
        assert known.json()["source"] == "cache"
        questions = made.call("ada", "GET", "/v1/tables/people/transcript").json()["questions"]
        assert [one["source"] for one in questions] == [fresh["source"], "cache", "cache", "cache"]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("((a))", False),
        ("((((a))))", True),
        ("(a) AND (a) AND (a) AND (a)", False),
        (")" * 9 + "(" * 5, False),
        ("(((", False),
    ],
)
def test_how_deep_brackets_nest(text: str, refused: bool) -> None:
    limits = Limits(question_depth=3, question_bytes=100)
    if refused:
        with pytest.raises(QueryError, match="brackets nest 4 deep"):
            check_text(text, limits)
    else:
        check_text(text, limits)
    with pytest.raises(TooLarge):
        check_text(text + " " * 100, limits)
