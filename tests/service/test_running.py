"""A server of its own process: how many connections it can hold."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path

import pytest

from needs import needs

needs("fastapi")


@pytest.mark.thorough
def test_a_low_limit_of_open_files_is_raised(tmp_path: Path) -> None:
    """Shells often allow 1,024 open files where 2,000 people may be connected."""
    few = ["sh", "-c", 'ulimit -S -n 64 && exec "$@"', "sh"]
    command = [*few, sys.executable, "-c", "from maquette.cli import main; main()", "serve", "--demo", "--json"]
    server = subprocess.Popen(
        [*command, "--port", "0", "--pg-port", "0", "--directory", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    held = []
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["url"].partition("//")[2]
        for _ in range(200):
            held.append(http.client.HTTPConnection(address, timeout=60))
            held[-1].request("GET", "/v1/health")
            got = held[-1].getresponse()
            assert got.status == 200
            got.read()
    finally:
        for connection in held:
            connection.close()
        server.terminate()
        server.wait(60)
