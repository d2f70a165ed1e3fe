"""Average distances: Gaussian noise on each site, one histogram a column, the default release, separable weights.

Errors are of the binned table, in thousandths of the diameter, at epsilon 1, delta 1e-9, replace (rows public): the
mean and the largest over all sites. `promise` is what the theorem of separable weights states at probability 0.95.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import maquette as mq
from maquette.errors import QueryError
from maquette.query import Box, Distances, LinearQuery
from maquette.releases import distance_construction, histograms
from maquette.session import OnlineIC, distance_rule

BUDGET = {"epsilon": 1.0, "delta": 1e-9}
Values = NDArray[np.float64]
Method = Callable[[mq.Curator, Distances], Callable[[LinearQuery], float]]


def run(console: Console, quick: bool, charts: Path | None) -> None:
    """Error and time over sites, rows and columns; then the online construction."""
    sites = (4, 16, 64) if quick else (1, 4, 16, 64, 256)
    points = _over_sites(console, sites, rows=20_000, repeats=2 if quick else 4)
    if charts is not None:
        _chart(points, charts / "distances.svg")
    sizes = [(20_000, 2), (20_000, 50)] if quick else [(n, d) for n in (20_000, 200_000) for d in (2, 50)]
    _over_sizes(console, sizes, sites=16 if quick else 100)
    _online(console, rows=50_000 if quick else 300_000, columns=(2, 20) if quick else (2, 10, 50), asked=100)


def _gaussian(curator: mq.Curator, sites: Distances) -> Callable[[LinearQuery], float]:
    measured = curator.measure_many(list(sites), rho=curator.remaining.rho)
    rows = curator.count_rows()
    found = {m.marginal.weight.key: float(m.values) / rows for m in measured}
    return lambda query: found[query.key]


def _histograms(curator: mq.Curator, sites: Distances) -> Callable[[LinearQuery], float]:
    return histograms(curator, sites).model.answer


def _default(curator: mq.Curator, sites: Distances) -> Callable[[LinearQuery], float]:
    return mq.release(curator, sites).model.answer


def _constructed(curator: mq.Curator, sites: Distances) -> Callable[[LinearQuery], float]:
    return distance_construction(curator, sites).model.answer


METHODS: dict[str, Method] = {
    "Gaussian on each site": _gaussian,
    "histograms": _histograms,
    "default release": _default,
    "separable weights": _constructed,
}


class _Case:
    """A table of points in a unit cube, most of them near one corner, and random sites."""

    def __init__(self, rows: int, columns: int, sites: int, levels: int = 100) -> None:
        rng = np.random.default_rng(rows + columns)
        schema = mq.Schema([mq.Number(f"x{i}", 0.0, 1.0, bins=levels) for i in range(columns)])
        raw = rng.random((rows, columns)) ** 2
        self.box = Box(schema)
        self.table = mq.open_table({name: raw[:, i] for i, name in enumerate(schema.names)}, schema)
        self.sites = self.box.distances(rng.random((sites, columns)))
        binned = (np.floor(raw * levels) + 0.5) / levels
        self.truth = np.array([np.abs(binned - point).sum(axis=1).mean() for point in self.sites.points]) / columns

    def curator(self) -> mq.Curator:
        return mq.Curator(self.table, mq.Budget(**BUDGET), relation="replace")

    def errors(self, method: Method, repeats: int) -> tuple[Values, float]:
        """Absolute errors of every run and site, and the seconds of one run with all its answers."""
        start, found = time.perf_counter(), []
        for _ in range(repeats):
            answer = method(self.curator(), self.sites)
            found.append([abs(answer(query) - true) for query, true in zip(self.sites, self.truth, strict=True)])
        return np.array(found), (time.perf_counter() - start) / repeats


def _over_sites(console: Console, counts: tuple[int, ...], *, rows: int, repeats: int) -> list[dict[str, object]]:
    table = Table("sites", *METHODS, title=f"mean error (thousandths of the diameter), {rows:,} rows, 2 columns of 100")
    points: list[dict[str, object]] = []
    for count in counts:
        case, cells = _Case(rows, 2, count), []
        for name, method in METHODS.items():
            errors, _ = case.errors(method, repeats)
            cells.append(f"{1000 * errors.mean():.2f}")
            points.append({"sites": count, "method": name, "error": float(1000 * errors.mean())})
        table.add_row(f"{count:,}", *cells)
    console.print(table)
    return points


def _over_sizes(console: Console, sizes: list[tuple[int, int]], *, sites: int) -> None:
    table = Table(
        "rows", "columns", "method", "mean error", "largest", "seconds", title=f"{sites} sites, columns of 100 levels"
    )
    for rows, columns in sizes:
        case = _Case(rows, columns, sites)
        for name, method in METHODS.items():
            errors, seconds = case.errors(method, 1)
            facts = (f"{1000 * errors.mean():.2f}", f"{1000 * errors.max():.2f}", f"{seconds:.2f}")
            table.add_row(f"{rows:,}", str(columns), name, *facts)
    console.print(table)


def _online(console: Console, *, rows: int, columns: tuple[int, ...], asked: int) -> None:
    table = Table(
        "columns", "rule", "promise", "mean error", "updates", "ms a question", title=f"online, {rows:,} rows"
    )
    for count in columns:
        case = _Case(rows, count, asked, levels=50)
        rules = {"separable weights": distance_rule(case.box), "multiplicative weights": "multiplicative-weights"}
        for name, rule in rules.items():
            if name == "multiplicative weights" and case.box.schema.size > 2**24:
                table.add_row(str(count), name, f"{case.box.schema.size:.0e} cells: cannot start", "", "", "")
                continue
            try:
                session = OnlineIC(case.curator(), rule, queries=1000)
            except QueryError:
                table.add_row(str(count), name, "none at this size", "", "", "")
                continue
            start = time.perf_counter()
            answers = np.array([session.ask(query).value for query in case.sites])
            each = 1000 * (time.perf_counter() - start) / asked
            error = 1000 * float(np.abs(answers - case.truth).mean())
            table.add_row(
                str(count), name, f"{1000 * session.alpha:.0f}", f"{error:.1f}", str(session.updates), f"{each:.1f}"
            )
    console.print(table)


def _chart(points: list[dict[str, object]], path: Path) -> None:
    import altair as alt

    chart = (
        alt.Chart(alt.Data(values=points), title="Error of an average distance, 20,000 rows, epsilon 1")
        .mark_line(point=True)
        .encode(
            x=alt.X("sites:Q", title="sites asked about", scale=alt.Scale(type="log")),
            y=alt.Y("error:Q", title="mean error (thousandths of the diameter)", scale=alt.Scale(type="log")),
            color=alt.Color("method:N", title=None, sort=list(METHODS)),
        )
        .properties(width=460, height=300)
    )
    chart.save(path)
