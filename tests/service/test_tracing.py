"""OpenTelemetry: spans and metrics of requests, answers and refusals; canaries find no private value in any."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rooms import CANARY, house, settings

from maquette.service import tracing
from maquette.service.telemetry import LOGGER, JsonLines

trace = pytest.importorskip("opentelemetry.trace")
metrics = pytest.importorskip("opentelemetry.metrics")


class Kept(trace.NonRecordingSpan):  # type: ignore[misc, name-defined]
    """A span that writes down whatever it is told."""

    def __init__(self, name: str, context: Any, told: list[str]) -> None:
        super().__init__(context)
        self.told = told
        self.told.append(f"span {name}")

    def is_recording(self) -> bool:
        return True

    def update_name(self, name: str) -> None:
        self.told.append(f"name {name}")

    def set_attributes(self, attributes: Any) -> None:
        self.told.append(f"attributes {dict(attributes)}")

    def record_exception(self, exception: BaseException, *_: Any, **__: Any) -> None:
        self.told.append(f"exception {exception}")

    def set_status(self, *status: Any, **__: Any) -> None:
        self.told.append(f"status {status}")


class Tracer(trace.NoOpTracer):  # type: ignore[misc, name-defined]
    def __init__(self, told: list[str]) -> None:
        self.told = told

    @contextmanager
    def start_as_current_span(self, name: str, context: Any = None, **given: Any) -> Iterator[Any]:
        parent = trace.get_current_span(context).get_span_context()
        span = Kept(name, parent, self.told)
        self.told.append(f"trace {parent.trace_id:x}")
        with trace.use_span(
            span,
            record_exception=given.get("record_exception", True),
            set_status_on_exception=given.get("set_status_on_exception", True),
        ):
            yield span


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Everything that is told to OpenTelemetry."""
    found: list[str] = []

    class Meter(metrics.NoOpMeter):  # type: ignore[misc, name-defined]
        def create_counter(self, name: str, *_: Any, **__: Any) -> Any:
            return self._kept(name)

        def create_histogram(self, name: str, *_: Any, **__: Any) -> Any:
            return self._kept(name)

        def _kept(self, name: str) -> Any:
            def keep(value: float, attributes: Any) -> None:
                found.append(f"metric {name} {attributes}")

            return type("Instrument", (), {"add": staticmethod(keep), "record": staticmethod(keep)})

    monkeypatch.setattr(trace, "get_tracer", lambda *_: Tracer(found))
    monkeypatch.setattr(metrics, "get_meter", lambda *_: Meter("test"))
    return found


def test_spans_metrics_and_logs_hold_no_private_value(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "missing", list)  # no collector is needed here
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(JsonLines().format(record))

    handler = Keep()
    for name in (LOGGER, None):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        with house(replace(settings(tmp_path), opentelemetry=True)) as made:
            asked = f"city = '{CANARY}' AND smoker"
            answer = made.ask("ada", asked, traceparent=f"00-{'ab' * 16}-{'cd' * 8}-01")
            assert answer.status_code == 200
            assert made.ask("ada", "nonsense = 'secretword'").status_code == 422

            def broken(*_: object, **__: object) -> None:
                raise ValueError(f"a row holds {CANARY}")

            monkeypatch.setattr(made.service.tables["people"].session, "ask_many", broken)
            assert made.ask("ada", "a AND b").status_code == 500
            figures = made.call("custodian", "GET", "/v1/metrics").text
            fingerprint, tokens = made.service.tables["people"].curator.ledger.terms.table, list(made.tokens.values())
    finally:
        for name in (LOGGER, None):
            logging.getLogger(name).removeHandler(handler)
    assert f"trace {'ab' * 16}" in told  # the caller's trace goes on
    assert "name POST /v1/tables/{table}/ask" in told
    assert any(line.startswith("metric maquette.answers") for line in told)
    assert any("maquette.refusals" in line and "'query" in line for line in told)
    assert 'maquette_refusals_total{code="query' in figures
    assert not any(line.startswith(("exception", "status")) for line in told)
    private = [CANARY, "secretword", "smoker", "ada", str(answer.json()["value"]), fingerprint, *tokens]
    for line in told:
        assert not any(word in line for word in private), line
    for line in [*lines, *figures.splitlines()]:
        assert not any(word in line for word in private if word != "ada"), line


def test_what_is_not_chosen_is_not_told() -> None:
    with pytest.raises(AssertionError):
        tracing._chosen({"question": "age >= 50"})


def test_it_is_refused_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "PACKAGES", ("no_such_package.at_all",))
    found = list(replace(settings(tmp_path), opentelemetry=True).problems())
    assert found == [
        'opentelemetry is on, and no_such_package.at_all is not installed: pip install "maquette[telemetry]"'
    ]


def test_the_framework_tells_nothing_by_itself(tmp_path: Path) -> None:
    """Its own spans hold addresses with their parameters, its logs the texts of errors."""
    with house(settings(tmp_path)) as made:
        made.call("ada", "GET", "/v1/tables")
        own = getattr(made.app._app._app, "_telemetry", {})
        assert not any(own.get(word) for word in ("tracing", "metrics", "logs", "operation_spans", "auto_configure"))
