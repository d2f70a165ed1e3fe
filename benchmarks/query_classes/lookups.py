"""Look-ups of a few keys in a universe that cannot be listed, and functions of a table that can.

Look-ups: the largest error (fraction of rows) and time of measuring each, of one table of known keys, of sparse weights
behind a guard, and of the default release where the table over the key columns can be listed. Functions: measuring
each, the net, the median of a net, and the function of a released marginal. Epsilon 1, delta 1e-9, generated rows.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import maquette as mq
from maquette.hypothesis import SparseWeights
from maquette.privacy import zcdp_rho
from maquette.query import Lookup, LowSensitivityQuery, Statistic, lookup
from maquette.releases import Net, construct_functions, look_up, net_of_functions
from maquette.session import OnlineFunctions, OnlineIC
from maquette.theory.online import tight
from maquette.theory.updates import sparse

BUDGET = mq.Budget(epsilon=1.0, delta=1e-9)
SUPPORT = 5
LISTED = 2**14  # cells of a table for which the default release takes seconds


def run(console: Console, quick: bool, charts: Path | None) -> None:
    _lookups(console, rows=50_000 if quick else 400_000, asked=40 if quick else 300)
    _promises(console, charts)
    _functions(console, rows=60_000 if quick else 120_000)


def _lookups(console: Console, rows: int, asked: int) -> None:
    table = Table(title=f"{asked} look-ups of {SUPPORT} keys, {rows:,} rows, epsilon 1, delta 1e-9")
    for head in ("levels per key column", "method", "largest error", "promised (95%)", "updates", "seconds"):
        table.add_column(head, justify="left" if head == "method" else "right")
    for levels in (100, 1_000_000):
        schema = mq.Schema([mq.Integer("code", 0, levels - 1), mq.Integer("site", 0, levels - 1)])
        rng = np.random.default_rng(1)
        ranked = (rng.zipf(1.6, rows) % 100) * (levels // 100)
        data = {"code": ranked, "site": rng.integers(0, 3, rows)}
        private = mq.open_table(data, schema)
        popular = np.unique(ranked)[:60]
        asks = [
            lookup(schema, [{"code": int(rng.choice(popular)), "site": int(rng.integers(3))} for _ in range(SUPPORT)])
            for _ in range(asked)
        ]
        counts = {}
        for code, site in zip(data["code"].tolist(), data["site"].tolist(), strict=True):
            counts[code, site] = counts.get((code, site), 0) + 1
        truth = np.array([sum(counts.get(tuple(point), 0) for point in q.points.tolist()) for q in asks]) / rows
        for method in ("each", "keys", "sparse weights", "release"):
            start = time.perf_counter()
            found = _answers(method, private, asks, rows)
            if found is None:
                table.add_row(f"{levels:,}", method, "-", "-", "-", "table too large")
                continue
            values, promised, updates = found
            spent = time.perf_counter() - start
            error = float(np.abs(values - truth).max())
            table.add_row(f"{levels:,}", method, f"{error:.2g}", promised, updates, f"{spent:.1f}")
    console.print(table)


def _answers(method: str, private: Any, asks: list[Lookup], rows: int) -> tuple[np.ndarray, str, str] | None:
    schema = private.schema
    with mq.Curator(private, BUDGET) as curator:
        if method in ("each", "keys"):
            confidence = 1 - 0.05 / len(asks)
            answers = look_up(curator, asks, method=method, epsilon=1.0, confidence=confidence)  # type: ignore[arg-type]
            width = max(a.high - (a.unbiased or 0.0) for a in answers)
            return np.array([a.unbiased for a in answers]) / rows, f"{width / rows:.2g}", "-"
        if method == "release":
            if schema.size > LISTED:
                return None
            release = mq.release(curator, mq.marginals(schema, columns=[("code", "site")]))
            marginal = release.marginal("code", "site")
            return np.array([marginal[tuple(q.points.T)].sum() for q in asks]), "-", "-"
        facts = {"queries": len(asks), "epsilon": 1.0, "delta": 1e-9, "rows": rows, "beta": 0.05}
        best = tight(updates=lambda a: sparse(SUPPORT, a), **facts)  # type: ignore[arg-type]
        model = SparseWeights(schema, support=SUPPORT, alpha=best.resolution)
        session = OnlineIC(curator, model, queries=len(asks), rows=rows)
        values = np.array([session.ask(q).value for q in asks])
        return values, f"{session.alpha:.2g}", str(session.updates)


def _promises(console: Console, charts: Path | None) -> None:
    """Where the promise for all look-ups together is smaller with sparse weights than with each measured alone."""
    table = Table(title="look-ups from which sparse weights promise less than measuring each (keys unknown)")
    for head in ("rows", "keys per look-up", "look-ups", "error there", "one table of known keys"):
        table.add_column(head, justify="right")
    deviation = 1 / math.sqrt(2 * zcdp_rho(1.0, 1e-9))
    lines = []
    for rows in (10**5, 10**6):
        for support in (1, 20, 1000):
            low, high = 1e2, 1e10
            for _ in range(12):
                k = math.sqrt(low * high)
                each, online = (
                    deviation * math.sqrt(2 * k * math.log(2 * k / 0.05)) / rows,
                    _online(support, int(k), rows),
                )
                low, high = (k, high) if each < online else (low, k)
            known = deviation * math.sqrt(2 * support * math.log(2 * k / 0.05)) / rows
            table.add_row(f"{rows:,}", f"{support:,}", f"{k:,.0f}", f"{online:.2g}", f"{known:.2g}")
    console.print(table)
    if charts is None:
        return
    import altair as alt

    for exponent in np.linspace(0, 8, 25):
        k = int(10**exponent)
        tail = math.sqrt(2 * math.log(2 * k / 0.05))
        lines.append({"k": k, "error": deviation * tail * math.sqrt(k) / 10**5, "way": "each by itself"})
        lines.append({"k": k, "error": deviation * tail * math.sqrt(20) / 10**5, "way": "one table of known keys"})
        lines.append({"k": k, "error": _online(20, k, 10**5), "way": "sparse weights, keys unknown"})
    axis = {"type": "log"}
    chart = alt.Chart(alt.Data(values=[x for x in lines if x["error"] <= 1]), width=520, height=300)
    chart.mark_line(strokeWidth=2.5).encode(
        x=alt.X("k:Q", scale=alt.Scale(**axis), title="look-ups in all", axis=alt.Axis(format="~s", tickCount=9)),
        y=alt.Y("error:Q", scale=alt.Scale(**axis), title="largest error, fraction of rows"),
        color=alt.Color("way:N", title=None, legend=alt.Legend(orient="top")),
    ).properties(title="Promised error of look-ups of 20 keys, 100,000 rows").save(str(charts / "lookups.svg"))


def _online(support: int, queries: int, rows: int) -> float:
    return tight(
        updates=lambda a: sparse(support, a), queries=queries, epsilon=1.0, delta=1e-9, rows=rows, beta=0.05
    ).alpha


def _functions(console: Console, rows: int) -> None:
    table = Table(title=f"six functions of three groups, {rows:,} rows, epsilon 1, delta 1e-9, net of 325 tables")
    for head in ("method", "largest error", "promised (95%)", "updates"):
        table.add_column(head, justify="left" if head == "method" else "right")
    schema = mq.Schema([mq.Category("x", ["p", "q", "r"])])
    share = np.array([0.55, 0.35, 0.10])
    private = mq.open_table({"x": np.repeat(["p", "q", "r"], (share * rows).astype(int))}, schema)
    makers = {
        "largest": np.max,
        "smallest": np.min,
        "range": np.ptp,
        "alike": lambda h: (h**2).sum(),
        "middle": lambda h: np.sort(h)[1],
        "product": lambda h: h[0] * (1 - h[1]),
    }
    asked = [LowSensitivityQuery(name, f, sensitivity=2 / rows) for name, f in makers.items()]
    truth = {f.name: f(share) for f in asked}
    net = Net.small_databases(schema, 24)
    for method in ("each", "net", "median offline", "median online", "function of a release"):
        promised, updates = "-", "-"
        with mq.Curator(private, BUDGET, relation="replace") as curator:
            if method == "each":
                statistics = [Statistic(schema, f, rows=rows) for f in asked]
                measured = curator.measure_many(statistics, epsilon=1.0)
                found = {f.name: float(m.values) * s.unit for f, m, s in zip(asked, measured, statistics, strict=True)}
                promised = f"{measured[0].half_width(1 - 0.05 / 6) * statistics[0].unit:.2g}"
            elif method == "median offline":
                made = construct_functions(curator, asked, net, tolerance=0.06)
                found = {name: answer.value for name, answer in made.answers.items()}
                promised, updates = f"{made.alpha:.2g}", str(made.updates)
            elif method == "median online":
                session = OnlineFunctions(curator, net, sensitivity=2 / rows, queries=6, tolerance=0.06)
                found = {f.name: session.ask(f).value for f in asked}
                promised, updates = f"{session.alpha:.2g}", str(session.updates)
            else:
                release = (
                    net_of_functions(curator, asked, net)
                    if method == "net"
                    else mq.release(curator, mq.marginals(schema, k=1))
                )
                found = {f.name: f(release.marginal("x")) for f in asked}
        error = max(abs(found[name] - truth[name]) for name in truth)
        table.add_row(method, f"{error:.2g}", promised, updates)
    console.print(table)
