"""A PostgreSQL server of the tests' own, on a socket in a temporary directory; it is stopped at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    named = shutil.which("postgres")
    return found[-1].parent if found else Path(named).parent if named else None


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of a new server, without TLS; a test that cannot have one is skipped."""
    pytest.importorskip("psycopg")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    owner: dict[str, int] = {}
    if os.geteuid() == 0:
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        owner = {"user": account.pw_uid, "group": account.pw_gid}
    home = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if owner:
            os.chown(home, owner["user"], owner["group"])
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": home, **owner}
        options = ["-D", str(home / "data")]
        subprocess.run([programs / "initdb", *options, "-U", "maquette", "-A", "trust", "-N"], check=True, **quiet)  # type: ignore[call-overload]
        settings = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync=off -c logging_collector=off"
        start = [programs / "pg_ctl", *options, "-w", "-o", settings, "-l", str(home / "log"), "start"]
        subprocess.run(start, check=True, **quiet)  # type: ignore[call-overload]
        try:
            yield f"postgresql://maquette@/postgres?host={home}"
        finally:
            stop = [programs / "pg_ctl", *options, "-m", "immediate", "stop"]
            subprocess.run(stop, check=(home / "data" / "postmaster.pid").exists(), **quiet)  # type: ignore[call-overload]
    finally:
        shutil.rmtree(home, ignore_errors=True)
