"""Three server processes share one table through PostgreSQL; some are killed under load."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_servers import torture

from postgres_server import running

pytest.importorskip("fastapi")
pytest.importorskip("psycopg")


@pytest.mark.thorough
def test_killed_servers_neither_overspend_nor_contradict(tmp_path: Path) -> None:
    with running() as server:
        outcome = torture(tmp_path, server.address, kills=2, clients=2, answers=2)
    assert outcome.answered >= 4
    assert +outcome.faults == {}, outcome
