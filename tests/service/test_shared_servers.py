"""Three server processes share one table through PostgreSQL; some are killed under load."""

from __future__ import annotations

from pathlib import Path

import pytest

from needs import needs
from postgres_server import running

needs("fastapi")
pytest.importorskip("psycopg")


@pytest.mark.thorough
def test_killed_servers_neither_overspend_nor_contradict(tmp_path: Path) -> None:
    from kill_servers import Nursery, Servers, torture

    nursery = Nursery()
    try:
        with running() as server:
            outcome = torture(Servers(nursery, tmp_path, server.address), kills=6, clients=3)
    finally:
        nursery.close()
    assert outcome.answered >= 4
    assert +outcome.faults == {}, outcome
