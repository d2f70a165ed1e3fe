"""Telemetry: structured logs (JSON lines) and Prometheus metrics, with no private value at any level.

What is logged is chosen here, field by field: never a question unless the custodian asked for it, never an answer, a
token or the text of an unexpected error. Metrics count routes, sources of answers, refusals and the budget's sums.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

from maquette.service.tracing import Silent, Traces

LOGGER = "maquette.service"
LATENCY = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class JsonLines(logging.Formatter):
    """One JSON object per line; only the fields that were given as `facts`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record; an exception is told by the names of its class and places, never by its text."""
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(level: str, stream: TextIO | None = None) -> logging.Logger:
    """Log to standard error, as JSON lines."""
    logger = logging.getLogger(LOGGER)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
    return logger


class Telemetry:
    """The logs and metrics of one service."""

    def __init__(self, *, traced: bool = False) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._logger = logging.getLogger(LOGGER)
        self.traces = Traces() if traced else Silent()
        self.registry = CollectorRegistry()
        labels = ("door", "route", "method", "status")
        self._requests = Counter("maquette_requests_total", "Requests.", labels, registry=self.registry)
        self._seconds = Histogram(
            "maquette_request_seconds", "Time of requests.", ("door", "route"), buckets=LATENCY, registry=self.registry
        )
        self._answers = Counter(
            "maquette_answers_total", "Answers by source.", ("table", "source"), registry=self.registry
        )
        self._refusals = Counter("maquette_refusals_total", "Refusals by code.", ("code",), registry=self.registry)
        self._budget = Gauge(
            "maquette_budget_epsilon", "The budget as epsilon.", ("table", "what"), registry=self.registry
        )
        self._charges = Gauge(
            "maquette_ledger_units", "Units charged to the table.", ("table",), registry=self.registry
        )
        self._waiting = Gauge("maquette_waiting", "Questions in line.", ("table",), registry=self.registry)

    def request(self, scope: MutableMapping[str, Any], route: str, status: int, seconds: float) -> None:
        """A finished request of the HTTP door."""
        method = method_of(scope)
        self._requests.labels("http", route, method, str(status)).inc()
        self._seconds.labels("http", route).observe(seconds)
        self.traces.lasted(seconds, method=method, route=route, status=status)
        if self._logger.isEnabledFor(logging.INFO):
            facts = {
                "request": scope["maquette.request"],
                "method": method,
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 2),
                "who": scope.get("maquette.who"),
            }
            self.log(logging.INFO, "request", facts)

    def answered(self, table: str, source: str, number: int = 1) -> None:
        """Answers, by where they came from."""
        self._answers.labels(table, source).inc(number)
        self.traces.count("answers", number, table=table, source=source)

    def refused(self, code: str) -> None:
        """A refusal, by its code."""
        self._refusals.labels(code).inc()
        self.traces.count("refusals", code=code)

    def failure(self, request: str, error: BaseException) -> None:
        """An error that nobody expected: its class and the places it passed, never its text or values."""
        places, trace = [], error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
            trace = trace.tb_next
        self.log(logging.ERROR, "failure", {"request": request, "error": type(error).__name__, "places": places[-8:]})

    def log(self, level: int, event: str, facts: Mapping[str, Any]) -> None:
        """A line of the log."""
        self._logger.log(level, event, extra={"facts": dict(facts)})

    def exposition(self, tables: Mapping[str, Any]) -> bytes:
        """The metrics in Prometheus' text format; budgets are read now."""
        from prometheus_client import generate_latest

        for name, table in tables.items():
            spent, remaining = table.session.spent, table.session.remaining
            self._budget.labels(name, "spent").set(float(spent.epsilon))
            self._budget.labels(name, "remaining").set(float(remaining.epsilon))
            self._charges.labels(name).set(spent.units)
            self._waiting.labels(name).set(table.waiting)
        return generate_latest(self.registry)


def method_of(scope: MutableMapping[str, Any]) -> str:
    """The method of a request, if it is one of those there are."""
    return scope["method"] if scope["method"] in _METHODS else "other"


_METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})
