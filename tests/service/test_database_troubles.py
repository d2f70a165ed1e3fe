"""Servers go on, without overspending or contradicting themselves, when their PostgreSQL goes away and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cable import Cable
from needs import needs
from postgres_server import Server, running

if TYPE_CHECKING:
    from kill_servers import Nursery, Outcome

needs("fastapi")
pytest.importorskip("psycopg")
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    from kill_servers import Nursery

    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def database() -> Iterator[Server]:
    with running() as server:
        yield server


def asked_during(
    nursery: Nursery,
    folder: Path,
    address: str,
    trouble: Callable[[Callable[[], None]], None],
    state: str | None = None,
) -> Outcome:
    from kill_servers import Servers, under_load

    outcome = under_load(Servers(nursery, folder, address, count=2, state=state), trouble)
    assert +outcome.faults == {}, outcome
    return outcome


def test_a_restart_of_the_database(nursery: Nursery, database: Server, tmp_path: Path) -> None:
    def restarts(more: Callable[[], None]) -> None:
        database.restart()
        more()
        database.restart()

    asked_during(nursery, tmp_path, database.address, restarts)


def test_a_failover_to_a_synchronous_standby(nursery: Nursery, database: Server, tmp_path: Path) -> None:
    with database.standby() as standby:
        hosts = f"127.0.0.1:{database.port},127.0.0.1:{standby.port}"
        address = f"postgresql://maquette@{hosts}/postgres?target_session_attrs=read-write"  # of the state as well

        def failover(_: Callable[[], None]) -> None:
            database.stop()
            standby.promote()

        asked_during(nursery, tmp_path, address, failover, state=address)


def test_a_cut_between_a_commit_and_its_reply(nursery: Nursery, database: Server, tmp_path: Path) -> None:
    cable = Cable(database.port)

    def cuts(more: Callable[[], None]) -> None:
        for _ in range(3):
            cable.cut()
            more()

    address = database.address.replace(str(database.port), str(cable.port))
    outcome = asked_during(nursery, tmp_path, address, cuts)
    cable.close()
    assert outcome.states["answered"] >= 8
