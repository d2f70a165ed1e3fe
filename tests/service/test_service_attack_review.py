"""An attack review of the service: what it remembers by a text or a token, and for how long."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rooms import house, settings

import maquette as mq
from maquette.query.sql import parser
from maquette.service.errors import Unauthenticated

TODAY = "SELECT count(*) FROM visits WHERE day < current_date"


class Day(dt.date):
    """The calendar of the parser."""

    now = dt.date(2024, 3, 1)

    @classmethod
    def today(cls) -> dt.date:  # type: ignore[override]
        return cls.now


@pytest.mark.thorough
def test_a_text_about_today_is_answered_anew_tomorrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser, "dt", SimpleNamespace(date=Day))
    (tmp_path / "visits.csv").write_text("\n".join(["day", *["2024-02-20"] * 500, *["2024-03-01"] * 3_500]))
    (tmp_path / "visits.toml").write_text(mq.Schema([mq.Date("day", "2024-02-01", "2024-03-31")]).dumps())
    config = settings(tmp_path)
    source, schema = (str(tmp_path / f"visits.{ending}") for ending in ("csv", "toml"))
    table = replace(config.tables[0], name="visits", source=source, schema=schema)
    with house(replace(config, tables=(*config.tables, table))) as made:
        visits, who = made.service.tables["visits"], made.service.people.authenticate(made.tokens["custodian"])
        first, again = (visits.ask(who, TODAY).value for _ in range(2))
        assert first == again < 1_000
        monkeypatch.setattr(Day, "now", dt.date(2024, 3, 2))
        assert visits.ask(who, TODAY).value > 3_000
        assert visits.known(who, [TODAY]) is None


def test_a_token_revoked_while_its_row_is_read_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(settings(tmp_path)) as made:
        people, token = made.service.people, made.tokens["ada"]
        read = people._state.rows
        (facts,) = [one for one in people.list() if one.name == "ada"]

        def rows(chosen: Any) -> Any:
            found = read(chosen)
            monkeypatch.setattr(people._state, "rows", read)
            people.revoke(facts.id)
            return found

        monkeypatch.setattr(people._state, "rows", rows)
        people.authenticate(token)
        assert people.remembered(token) is None
        with pytest.raises(Unauthenticated):
            people.authenticate(token)
