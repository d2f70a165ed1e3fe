"""What is shipped for an institution: the settings start as they are; unit and containers name real things."""

from __future__ import annotations

import http.server
import json
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from rooms import write_table

from maquette.service import load_config
from needs import needs
from postgres_server import Server

needs("fastapi")
DEPLOY = Path(__file__).parents[2] / "deploy"
STARTS = 5


def test_the_settings_lack_nothing_but_their_files() -> None:
    problems = list(load_config(DEPLOY / "maquette.toml").problems())
    assert all("there is no" in one and "/data/people" in one for one in problems), problems


def _served(config: Path, kept: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A server and what it told. A start that misses its deadline on a busy machine is made again, as by the unit."""
    started = "from maquette.cli import main; main()"
    command = [sys.executable, "-c", started, "serve", "--json", "--config", str(config)]
    for _ in range(STARTS):
        with open(kept, "w") as log:
            server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert server.stdout is not None
        if line := server.stdout.readline():
            return server, json.loads(line)
        server.wait(60)
        assert "ledger.deadline-missed" in kept.read_text(), kept.read_text()
    raise AssertionError(f"{STARTS} starts were late")


@pytest.mark.thorough
def test_the_settings_start(postgres: Server, tmp_path: Path) -> None:
    source, schema = write_table(tmp_path)
    text = (DEPLOY / "maquette.toml").read_text()
    for shipped, here in {
        "/var/lib/maquette": str(tmp_path / "kept"),
        "/data/people.parquet": source,
        "/data/people.schema.toml": schema,
        "postgresql://maquette@database/maquette": postgres.address,
        "port = 8765": "port = 0",
        "epsilon = 1.0": "epsilon = 8.0",  # this table is small: alpha would be out of reach, or nearly
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    (tmp_path / "maquette.toml").write_text(text)
    server, told = _served(tmp_path / "maquette.toml", tmp_path / "log")
    try:
        token = Path(told["token_file"]).read_text()
        assert token not in json.dumps(told)  # standard output of a service is kept as a log
        port = told["url"].rpartition(":")[2]
        assert httpx.get(f"http://127.0.0.1:{port}/v1/ready").json() == {"ready": True}  # as the container looks
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert events[0] == "no PostgreSQL door"  # it would need a certificate; the proxy brings HTTP only
    assert {"started", "stopping"} <= set(events)
    assert server.returncode == 0


class Ready(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/v1/ready" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("secure", "status", "healthy"), [(False, 200, True), (True, 200, True), (False, 503, False)])
def test_the_container_is_healthy_with_tls_and_without(
    tmp_path: Path, secure: bool, status: int, healthy: bool
) -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    (check,) = (line.strip().removeprefix("CMD ") for line in lines if line.strip().startswith('CMD ["python"'))
    server = http.server.HTTPServer(("127.0.0.1", 0), type("Now", (Ready,), {"status": status}))
    if secure:
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=maquette", "-days", "2"]
        made = ["-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "crt")]
        subprocess.run([*make, *made], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        _, option, code = json.loads(check.replace("8765", str(server.server_port)))
        done = subprocess.run([sys.executable, option, code], capture_output=True, check=False)
        assert (done.returncode == 0) is healthy, done.stderr
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_the_unit_is_valid(tmp_path: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd is not installed")
    unit = tmp_path / "maquette.service"
    unit.write_text((DEPLOY / "maquette.service").read_text().replace("/opt/maquette/bin/maquette", "/bin/true"))
    checked = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_containers_name_files_and_ports_that_exist() -> None:
    yaml = pytest.importorskip("yaml")
    services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]
    ours = services["maquette"]
    assert (DEPLOY / ours["build"]["context"] / ours["build"]["dockerfile"]).is_file()
    config = load_config(DEPLOY / "maquette.toml")
    assert [each.rpartition(":")[2] for each in ours["ports"]] == [str(config.port)]
    targets = [each.split(":")[1] for each in ours["volumes"]]
    assert str(config.directory) in targets
    assert all(any(str(table.source).startswith(target) for target in targets) for table in config.tables)
    assert f"@{next(name for name in services if name != 'maquette')}/" in str(config.tables[0].ledger)
