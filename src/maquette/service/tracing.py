"""Tracing: OpenTelemetry spans and metrics, if the custodian switches them on; no private value in any of them.

A span or a metric has the attributes that are named here, and no other: no text of a question, an answer, a token, a
person or an error. Errors are told by their status and code; OpenTelemetry's own recording of exceptions, whose texts
could hold anything, is switched off. Traces of callers are continued (`traceparent`); what else they send along is not.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from maquette.version import __version__

NAME = "maquette.service"
ATTRIBUTES = frozenset(
    {"http.request.method", "http.route", "http.response.status_code", "maquette.request", "maquette.table",
     "maquette.questions", "maquette.source", "maquette.code"}
)  # fmt: skip
PACKAGES = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class Silent:
    """Tells nobody: tracing is off."""

    @contextmanager
    def request(self, method: str, parent: str) -> Iterator[Mark]:
        """A request, from its first byte to its last."""
        yield Mark(None)

    @contextmanager
    def asking(self, table: str, questions: int) -> Iterator[None]:
        """Questions to a table that are not known yet."""
        yield

    def count(self, what: str, number: int = 1, **facts: str | int) -> None:
        """So many more of something."""

    def lasted(self, seconds: float, **facts: str | int) -> None:
        """The time of a request."""


class Mark:
    """What is added to a span when it is known."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def ended(self, method: str, route: str, status: int, request: str) -> None:
        """The route and the status of a request."""
        if self._span is None:
            return
        self._span.update_name(f"{method} {route}")
        facts: dict[str, str | int] = {"http.request.method": method, "http.route": route}
        facts["http.response.status_code"] = status
        self._span.set_attributes(_chosen({**facts, "maquette.request": request}))


class Traces(Silent):
    """Spans and metrics of one service, for whatever OpenTelemetry is set up to do with them."""

    def __init__(self) -> None:
        trace: Any = importlib.import_module("opentelemetry.trace")
        metrics: Any = importlib.import_module("opentelemetry.metrics")
        carrier: Any = importlib.import_module("opentelemetry.trace.propagation.tracecontext")
        self._tracer = trace.get_tracer(NAME, __version__)
        self._kind = trace.SpanKind.SERVER
        self._carrier = carrier.TraceContextTextMapPropagator()
        meter = metrics.get_meter(NAME, __version__)
        self._counters = {what: meter.create_counter(f"maquette.{what}") for what in ("answers", "refusals")}
        self._seconds = meter.create_histogram("http.server.request.duration", unit="s")

    @contextmanager
    def request(self, method: str, parent: str) -> Iterator[Mark]:
        """A request, from its first byte to its last."""
        context = self._carrier.extract({"traceparent": parent})
        with self._span(method, context=context, kind=self._kind) as span:
            yield Mark(span)

    @contextmanager
    def asking(self, table: str, questions: int) -> Iterator[None]:
        """Questions to a table that are not known yet."""
        with self._span("ask") as span:
            span.set_attributes(_chosen({"maquette.table": table, "maquette.questions": questions}))
            yield

    def count(self, what: str, number: int = 1, **facts: str | int) -> None:
        """So many more of something."""
        self._counters[what].add(number, _chosen({f"maquette.{word}": value for word, value in facts.items()}))

    def lasted(self, seconds: float, **facts: str | int) -> None:
        """The time of a request."""
        names = {"method": "http.request.method", "route": "http.route", "status": "http.response.status_code"}
        self._seconds.record(seconds, _chosen({names[word]: value for word, value in facts.items()}))

    def _span(self, name: str, **given: Any) -> Any:
        return self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False, **given)


def missing() -> list[str]:
    """The packages of OpenTelemetry that are not installed."""
    return [name for name in PACKAGES if not _installed(name)]


def set_up() -> None:
    """Send spans and metrics to the collector that the OTEL_EXPORTER_OTLP_* variables name."""
    made: Any = importlib.import_module
    resource = made("opentelemetry.sdk.resources").Resource.create({"service.name": "maquette"})
    provider = made("opentelemetry.sdk.trace").TracerProvider(resource=resource)
    spans = made("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
    provider.add_span_processor(made("opentelemetry.sdk.trace.export").BatchSpanProcessor(spans))
    made("opentelemetry.trace").set_tracer_provider(provider)
    figures = made("opentelemetry.exporter.otlp.proto.http.metric_exporter").OTLPMetricExporter()
    reader = made("opentelemetry.sdk.metrics.export").PeriodicExportingMetricReader(figures)
    meters = made("opentelemetry.sdk.metrics").MeterProvider(metric_readers=[reader], resource=resource)
    made("opentelemetry.metrics").set_meter_provider(meters)


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _chosen(facts: Mapping[str, str | int]) -> dict[str, str | int]:
    """The facts, if all of them are among those that may be told."""
    unknown = facts.keys() - ATTRIBUTES
    assert not unknown, f"{sorted(unknown)} may not be told"
    return dict(facts)
