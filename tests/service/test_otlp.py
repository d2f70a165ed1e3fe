"""The export of OpenTelemetry, run for real: a server sends to a collector in the test, which reads every message."""

from __future__ import annotations

import functools
import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from rooms import CANARY, write_table

from maquette.service import tracing
from needs import needs

needs("fastapi", "opentelemetry", "opentelemetry.proto", "opentelemetry.exporter.otlp.proto.http")
pytestmark = pytest.mark.thorough


@functools.cache
def messages() -> dict[str, Any]:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    return {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


class Collector(ThreadingHTTPServer):
    """Receives OTLP over HTTP and keeps every message as it was decoded."""

    def __init__(self) -> None:
        self.received: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Receiver)

    @property
    def spans(self) -> list[Any]:
        """Every span of every message."""
        scopes = [
            scope for resource in self._resources("/v1/traces", "resource_spans") for scope in resource.scope_spans
        ]
        return [span for scope in scopes for span in scope.spans]

    @property
    def figures(self) -> dict[str, Any]:
        """The last state of every metric, by its name."""
        resources = self._resources("/v1/metrics", "resource_metrics")
        scopes = [scope for resource in resources for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def _resources(self, path: str, name: str) -> list[Any]:
        return [resource for at, message in self.received if at == path for resource in getattr(message, name)]


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        server: Any = self.server
        server.received.append((self.path, messages()[self.path].FromString(body)))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_spans_and_metrics_reach_a_collector_and_hold_nothing_private(tmp_path: Path, collector: Collector) -> None:
    write_table(tmp_path)
    (tmp_path / "maquette.toml").write_text(
        'port = 0\nlog_level = "debug"\nopentelemetry = true\n[[table]]\nname = "people"\nsource = "people.csv"\n'
        'schema = "people.schema.toml"\nepsilon = 5.0\ndelta = 1e-9\nalpha = 0.05\n'
    )
    command = [sys.executable, "-c", "from maquette.cli import main; main()", "serve", "--json", "--pg-port", "0"]
    own = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}"}
    server = subprocess.Popen(
        [*command, "--config", str(tmp_path / "maquette.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **own},
    )
    try:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        token = Path(told["token_file"]).read_text().strip()
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        with httpx.Client(base_url=told["url"], headers={"Authorization": f"Bearer {token}"}) as client:
            headers = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "Idempotency-Key": "canary-key"}
            asked = {"where": f"city = '{CANARY}' AND age >= 50"}
            answer = client.post("/v1/tables/people/ask", json=asked, headers=headers, timeout=60)
            assert answer.status_code == 200
            assert client.post("/v1/tables/people/ask", json={"where": "canary_column"}).status_code == 422
    finally:
        server.terminate()
        _, logged = server.communicate(timeout=60)  # what was not sent yet is sent at the end

    asks = [span for span in collector.spans if span.name == "ask"]
    requests = [span for span in collector.spans if span.kind == 2]
    assert len(asks) >= 1
    assert len(requests) == 2
    assert len(collector.spans) == len(asks) + len(requests), "nobody else makes spans"
    assert any(span.trace_id.hex() == trace for span in requests), "the caller's trace goes on"
    told_attributes = {one.key for span in collector.spans for one in span.attributes}
    assert told_attributes <= tracing.ATTRIBUTES
    attributes = {one.key: one.value.string_value for span in collector.spans for one in span.attributes}
    assert attributes["http.route"] == "/v1/tables/{table}/ask"
    assert attributes["maquette.table"] == "people"
    figures = collector.figures
    assert {"maquette.answers", "maquette.refusals", "http.server.request.duration"} <= figures.keys()
    durations = figures["http.server.request.duration"].histogram.data_points
    assert sum(point.count for point in durations) == 2

    everything = "".join(str(message) for _, message in collector.received)
    value = answer.json()["value"]
    for private in (CANARY, "canary", token, str(value), "age >=", "custodian"):
        assert private not in everything
    for private in (CANARY, "canary", token, str(value), "age >="):
        assert private not in logged
