"""A server of its own process: how many connections it can hold."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from rooms import settings

from maquette.service import ConfigError
from maquette.service.http.gate import Gate
from maquette.service.running import _listen, _where


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


@pytest.mark.parametrize(
    ("host", "hosts", "shown"),
    [
        ("0.0.0.0", (), "localhost"),
        ("::", ("maquette.example.org",), "maquette.example.org"),
        ("0.0.0.0", ("[2001:db8::7]",), "[2001:db8::7]"),
        ("::1", (), "[::1]"),
    ],
)
def test_the_address_that_is_printed_is_one_that_the_gate_lets_in(
    tmp_path: Path, host: str, hosts: tuple[str, ...], shown: str
) -> None:
    service, listening = mock.Mock(tables={}), mock.Mock()
    service.config = replace(settings(tmp_path), host=host, hosts=hosts, trust_proxy=True)
    listening.getsockname.return_value = (host, 8765)
    url = _where(service, listening, None).url
    assert url == f"http://{shown}:8765"
    gate = Gate(mock.AsyncMock(), service.config, mock.Mock())
    gate._check({"headers": [(b"host", url.partition("//")[2].encode())], "path": "/"})


def test_a_name_that_is_no_host_is_told() -> None:
    with pytest.raises(ConfigError, match=r"port 0 of no\.such\.host\.invalid cannot be used \((?!Unknown)"):
        _listen("no.such.host.invalid", 0)
