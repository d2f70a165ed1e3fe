"""Cuts of generated graphs: error over the number of edges against noise on every pair, and time per online question.

Three ways to ask: all bipartitions of a few vertices, a list of cuts between districts of a larger graph, and any cuts
online. Errors are in edges, the largest over the family; epsilon 1, delta 1e-9, edges protected (add-remove offline,
replace online).
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import maquette as mq
from maquette.query import Cuts, bipartitions, cut, cuts, edge_schema
from maquette.releases import cut_construction
from maquette.session import OnlineIC, cut_rule
from maquette.theory.cuts import dense_from, graph_norm

BUDGET = mq.Budget(epsilon=1.0, delta=1e-9)
DISTRICTS = 8
LISTED = 200
ONLINE = ("multiplicative-weights", "cut-decomposition", "online")

Matrix = NDArray[np.float64]
Edges = NDArray[np.int64]


def run(console: Console, quick: bool, charts: Path | None) -> None:
    few, many = (6, 40) if quick else (8, 100)
    points = errors(console, f"all bipartitions of {few} vertices", few, bipartitions, quick=quick)
    points += errors(console, f"{LISTED} cuts between districts of {many} vertices", many, districts, quick=quick)
    if charts is not None:
        draw(points, charts / "cuts.svg")
    online(console, ((40, 800, 100),) if quick else ((100, 5_000, 40), (1_000, 200_000, 1), (3_000, 1_000_000, 1)))


def graph_of(vertices: int, edges: int) -> tuple[Edges, Matrix]:
    """Vertices of uneven size in districts, with more edges inside a district than between two."""
    rng = np.random.default_rng(0)
    district, size = np.arange(vertices) % DISTRICTS, rng.gamma(1.0, 1.0, vertices)
    flows = np.outer(size, size) * np.where(district[:, None] == district, 4.0, 1.0)
    np.fill_diagonal(flows, 0.0)
    counts = rng.multinomial(edges, flows.reshape(-1) / flows.sum()).reshape(vertices, vertices)
    return np.argwhere(counts > 0).repeat(counts[counts > 0], axis=0), counts / edges


def districts(schema: mq.Schema) -> Cuts:
    """From some districts to some others, with a few vertices on the wrong side."""
    rng, count = np.random.default_rng(1), schema["from"].size
    district = np.arange(count) % DISTRICTS
    pairs: list[Any] = []
    for _ in range(LISTED):
        one, two = ((rng.random(DISTRICTS) < 0.5)[district] ^ (rng.random(count) < 0.05) for _ in range(2))
        pairs.append((one if one.any() else ~one, two if two.any() else ~two))
    return cuts(schema, pairs)


def errors(
    console: Console,
    title: str,
    vertices: int,
    family: Callable[[mq.Schema], Cuts],
    *,
    quick: bool,
) -> list[dict[str, Any]]:
    table = Table(*["edges", *METHODS], title=f"{title}: largest error, in edges (seconds)")
    points: list[dict[str, Any]] = []
    for edges in (10**3,) if quick else (10**3, 10**4, 10**5):
        rows, flows = graph_of(vertices, edges)
        schema = edge_schema(len(flows))
        asked, private = family(schema), mq.open_table(schema.decode(rows), schema)
        exact = asked.answers(Flows(schema, flows))
        shown = [f"{edges:,}"]
        for name, method in METHODS.items():
            start = time.perf_counter()
            with mq.Curator(private, BUDGET) as curator:
                try:
                    values = method(curator, asked, quick)
                except mq.QueryError:
                    shown.append("nothing promised")
                    continue
            worst = float(np.abs(np.clip(values, 0.0, 1.0) - exact).max() * edges)
            shown.append(f"{worst:,.0f} ({time.perf_counter() - start:,.1f})")
            points.append({"family": title, "edges": edges, "method": name, "error": worst})
        table.add_row(*shown)
    console.print(table)
    return points


class Flows:
    """A matrix of shares as a model."""

    def __init__(self, schema: mq.Schema, flows: Matrix) -> None:
        self.schema = schema
        self._flows = flows

    def marginal(self, columns: object) -> Matrix:
        return self._flows


def constructed(hypothesis: str) -> Callable[[mq.Curator, Cuts, bool], Matrix]:
    def method(curator: mq.Curator, asked: Cuts, quick: bool) -> Matrix:
        rounds = 10 if quick else None
        return asked.answers(cut_construction(curator, asked, hypothesis=hypothesis, rounds=rounds).model)  # type: ignore[arg-type]

    return method


def every_pair(curator: mq.Curator, asked: Cuts, quick: bool) -> Matrix:
    values = curator.measure(("from", "to"), rho=curator.remaining.rho, noise="gaussian").values
    return asked.answers(Flows(curator.schema, values / max(1.0, values.sum())))


def every_cut(curator: mq.Curator, asked: Cuts, quick: bool) -> Matrix:
    rho = float(curator.remaining.rho or 0.0)
    rows = curator.count_rows(rho=0.01 * rho)
    measured = curator.measure_many([*asked], rho=0.98 * rho, noise="gaussian")
    return np.array([float(one.values) for one in measured]) / max(1.0, rows)


def default(curator: mq.Curator, asked: Cuts, quick: bool) -> Matrix:
    return asked.answers(mq.release(curator, asked).model)  # type: ignore[arg-type]


METHODS: dict[str, Callable[[mq.Curator, Cuts, bool], Matrix]] = {
    "MW": constructed("multiplicative-weights"),
    "Perceptron": constructed("perceptron"),
    "cut decomposition": constructed("cut-decomposition"),
    "noise on every pair": every_pair,
    "noise on every cut": every_cut,
    "default release": default,
}


def online(console: Console, sizes: tuple[tuple[int, int, int], ...]) -> None:
    columns = ["vertices", "edges", "rule", "opens, s", "first, s", "median, ms", "promise", "kept for", "worst", "MB"]
    table = Table(*columns, title="online: 1,000 questions promised, 40 asked")
    for vertices, pairs, alike in sizes:
        for rule in ONLINE[1:] if len(sizes) == 1 else ONLINE:
            # A process for each, so that its peak of memory is its own.
            call = f"from query_classes.cuts import one; one({vertices}, {pairs}, {alike}, {rule!r})"
            folder = Path(__file__).parent.parent
            work = [sys.executable, "-c", call]
            done = subprocess.run(work, cwd=folder, capture_output=True, text=True, check=True)
            found = done.stdout.strip().splitlines()[-1].split("\t")
            table.add_row(f"{vertices:,}", f"{pairs * alike:,}", rule, *found)
        console.print(
            f"  {vertices:,} vertices: the decomposition needs fewer updates than multiplicative weights above "
            f"{dense_from(vertices):,.0f} edges, centred above {dense_from(vertices, centred=True):,.0f}"
        )
    console.print(table)


def one(vertices: int, edges: int, alike: int, rule: str) -> None:
    """One session on a graph in which every edge is there `alike` times, many from half to half; prints a row."""
    rng = np.random.default_rng(0)
    half = vertices // 2
    near = rng.integers(0, half, edges) * vertices + rng.integers(half, vertices, edges)
    pairs = rng.permutation(np.unique(np.concatenate([near, rng.integers(0, vertices**2, edges)])))[:edges]
    start, end = np.divmod(pairs.repeat(alike), vertices)
    schema = edge_schema(vertices)
    private = mq.open_table({"from": start, "to": end}, schema)
    opened = time.perf_counter()
    with mq.Curator(private, BUDGET, relation="replace") as curator:
        session: Any
        try:
            if rule == "online":
                session = mq.online(curator, alpha=0.05)
            elif rule == "multiplicative-weights":
                session = OnlineIC(curator, queries=1_000)
            else:
                norm = graph_norm(len(start), multiplicity=alike)
                session = OnlineIC(curator, cut_rule(schema, rule, norm=norm), queries=1_000)
        except mq.MaquetteError:
            print("\t".join(["nothing promised", *"------"]))
            return
        opens, times, worst = time.perf_counter() - opened, [], 0.0
        promised = 0
        for i in range(40):
            one_side = (np.arange(vertices) < half) ^ (rng.random(vertices) < i / 80)
            began = time.perf_counter()
            answer = session.ask(cut(schema, one_side))
            times.append(time.perf_counter() - began)
            if answer.guarantee is not None:
                promised += 1
                worst = max(worst, abs(answer.value - float((one_side[start] & ~one_side[end]).mean())))
    # The peak that getrusage tells would include that of the parent.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    memory = int(peak.split()[1]) / 1024
    median = 1000 * statistics.median(times)
    took = [f"{opens:.1f}", f"{times[0]:.2f}", f"{median:.0f}"]
    print("\t".join([*took, f"{session.alpha:.3f}", f"{promised}", f"{worst:.4f}", f"{memory:,.0f}"]))


def draw(points: list[dict[str, Any]], path: Path) -> None:
    import altair as alt

    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("edges:Q", title="edges in the graph").scale(type="log"),
            y=alt.Y("error:Q", title="largest error of a cut, in edges").scale(type="log"),
            color=alt.Color("method:N", title=None),
            column=alt.Column("family:N", title=None),
        )
        .properties(width=300, height=260)
    )
    chart.save(str(path))
