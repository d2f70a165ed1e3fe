"""The state in PostgreSQL, at an address that names several servers, of which some do not answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from rooms import house, settings

from maquette.service import Service, state as kept
from maquette.service.errors import ConfigError
from maquette.service.state import State
from postgres_server import Server, free_port

pytest.importorskip("psycopg")

SESSION = "target_session_attrs=read-write"
FORMS = {
    "as for ledgers": f"postgresql://maquette@127.0.0.1:{{dead}},127.0.0.1:{{port}}/postgres?{SESSION}",
    "hosts and ports apart": f"postgresql://maquette@/postgres?host=127.0.0.1,127.0.0.1&port={{dead}},{{port}}&{SESSION}",
    "SQLAlchemy's": f"postgresql+psycopg://maquette@/postgres?host=127.0.0.1:{{dead}}&host=127.0.0.1:{{port}}&{SESSION}",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_server_that_answers_is_taken(postgres: Server, form: str) -> None:
    address = FORMS[form].format(dead=free_port(), port=postgres.port)
    state = State(address)
    line = {"at": 1.0, "who": "-", "role": None, "what": form, "table": None, "outcome": "done", "facts": "{}"}
    state.later(kept.log, line)
    state.flush()
    state.close()
    again = State(address)
    try:
        assert again.secret == state.secret
        assert form in [row["what"] for row in again.rows(sa.select(kept.log))]
        assert again.ready
    finally:
        again.close()


def test_a_service_with_a_state_on_several_hosts(postgres: Server, tmp_path: Path) -> None:
    address = FORMS["as for ledgers"].format(dead=free_port(), port=postgres.port)
    with house(settings(tmp_path, state=address)) as made:
        first = made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json()
    with house(settings(tmp_path, state=address)) as made:
        assert made.ask("ada", "age >= 50 AND a", Idempotency_Key="k").json() == first
        assert made.call(None, "GET", "/v1/ready").status_code == 200


@pytest.mark.parametrize("form", FORMS)
def test_a_state_that_no_server_keeps_is_refused_in_words(tmp_path: Path, form: str) -> None:
    config = settings(tmp_path, state=FORMS[form].format(dead=free_port(), port=free_port()))
    with pytest.raises(ConfigError, match=r"state cannot be used \(.+\); look for a full"):
        Service(config).start()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    config = settings(tmp_path, directory=tmp_path / "file" / "data")
    with pytest.raises(ConfigError, match=r"data' cannot be used \(Not a directory\)"):
        Service(config).start()
