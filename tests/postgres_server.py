"""A real PostgreSQL for tests: a cluster of its own in a temporary folder, on a free port of the loopback address."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PLACES = ("/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/15/bin", "/usr/local/bin")


def program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join((*PLACES, os.environ.get("PATH", ""))))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        found: int = free.getsockname()[1]
    return found


@dataclass
class Server:
    folder: Path
    port: int
    user: str | None
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"postgresql://maquette@127.0.0.1:{self.port}/postgres"

    def _as_user(self, *command: str) -> list[str]:
        return list(command) if self.user is None else ["runuser", "-u", self.user, "--", *command]

    def start(self) -> None:
        settings = ["-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder), "-c", "max_connections=60"]
        command = self._as_user(str(program("postgres")), "-D", str(self.folder / "data"), *settings)
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        import psycopg

        for _ in range(1_200):  # after a crash it first syncs every file of every ledger
            try:
                psycopg.connect(self.address, connect_timeout=2).close()
                return
            except psycopg.Error:
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not start")

    def stop(self) -> None:
        control = self._as_user(str(program("pg_ctl")), "-D", str(self.folder / "data"), "-m", "immediate", "stop")
        subprocess.run(control, check=False, capture_output=True)
        if self.process is not None:
            self.process.wait(60)

    def restart(self) -> None:
        self.stop()
        self.start()

    @contextmanager
    def standby(self) -> Iterator[Server]:
        """A second server that has every transaction before this one says that it is committed."""
        import psycopg

        other = Server(Path(tempfile.mkdtemp(prefix="maquette-standby-")), free_port(), self.user)
        try:
            if self.user is not None:
                shutil.chown(other.folder, self.user, self.user)
            copy = (str(program("pg_basebackup")), "-R", "--no-sync", "-c", "fast", "-D", str(other.folder / "data"))
            subprocess.run(self._as_user(*copy, "-d", self.address), check=True, capture_output=True)
            other.start()
            with psycopg.connect(self.address, autocommit=True) as admin:
                admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                admin.execute("SELECT pg_reload_conf()")
                follows = "SELECT sync_state FROM pg_stat_replication"
                for _ in range(200):
                    if admin.execute(follows).fetchall() == [("sync",)]:
                        break
                    time.sleep(0.05)
                else:
                    raise RuntimeError("the standby does not follow")
            yield other
        finally:
            other.stop()
            shutil.rmtree(other.folder, ignore_errors=True)

    def promote(self) -> None:
        """Make a standby the server that is written to."""
        control = (str(program("pg_ctl")), "-D", str(self.folder / "data"), "-w", "promote")
        subprocess.run(self._as_user(*control), check=True, capture_output=True)


@contextmanager
def running() -> Iterator[Server]:
    if program("initdb") is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    root = os.geteuid() == 0
    if root:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    folder = Path(tempfile.mkdtemp(prefix="maquette-postgres-"))
    server = Server(folder, free_port(), "postgres" if root else None)
    try:
        if root:
            shutil.chown(folder, "postgres", "postgres")
        make = (str(program("initdb")), "-D", str(folder / "data"), "-U", "maquette", "-A", "trust", "--no-sync")
        subprocess.run(server._as_user(*make), check=True, capture_output=True)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all files that ask for it."""
    with running() as found:
        yield found


_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """The name of a ledger that no other test has."""
    return f"ledger_{next(_numbers)}"
