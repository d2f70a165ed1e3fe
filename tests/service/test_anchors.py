"""An anchor reveals a database that was set back, also under a service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from rooms import house, settings

from maquette.errors import LedgerCorrupted
from maquette.service import Service
from postgres_server import Server


@pytest.mark.parametrize("shared", [False, True])
def test_a_database_of_yesterday_does_not_start(postgres: Server, name: str, tmp_path: Path, shared: bool) -> None:
    config = settings(tmp_path, analysts=(), groups=())
    table = replace(
        config.tables[0], name=name, ledger=postgres.address, shared=shared, anchor=str(tmp_path / "anchor")
    )
    config = replace(config, tables=(table,))
    copy = f"CREATE SCHEMA yesterday; CREATE TABLE yesterday.event AS TABLE maquette_{name}.event"
    back = f"DELETE FROM maquette_{name}.event WHERE seq NOT IN (SELECT seq FROM yesterday.event)"
    with house(config):
        pass
    with psycopg.connect(postgres.address) as database:
        database.execute(copy)
    with house(config) as made:
        assert made.ask("custodian", "smoker", table=name).json()["promised"]
    with psycopg.connect(postgres.address) as database:
        database.execute(back)
        database.execute("DROP SCHEMA yesterday CASCADE")
    with pytest.raises(LedgerCorrupted, match="anchor"):
        Service(config).start()
