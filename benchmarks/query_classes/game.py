"""The query-release game on 100 binary columns: DualQuery against uniform, independent columns, Gaussian and graphical.

Rows are a mixture of six groups; the workload is random 3-way tables, 8 conjunctions each. Error is the largest and the
mean over all of them, as a fraction of rows, at epsilon 1, delta 1e-9. A second table compares the players of a small
game, where the universe can be listed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import maquette as mq

Values = NDArray[np.float64]
Sets = list[tuple[int, ...]]
EPSILON, DELTA = 1.0, 1e-9


def generated(rows: int, columns: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(0)
    likely = np.clip(rng.beta(0.6, 0.9, (6, columns)), 0.02, 0.98)
    return np.asarray(rng.random((rows, columns)) < likely[rng.integers(6, size=rows)])


def opened(records: NDArray[np.bool_]) -> tuple[mq.Schema, mq.PrivateTable]:
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(records.shape[1])])
    return schema, mq.open_table({name: records[:, i] for i, name in enumerate(schema.names)}, schema)


def errors(records: NDArray[np.bool_], sets: Sets, answer: Callable[[tuple[int, ...]], Values]) -> tuple[float, float]:
    """The largest and the mean error over all cells."""
    found = []
    for chosen in sets:
        truth = np.zeros((2,) * len(chosen))
        np.add.at(truth, tuple(records[:, j].astype(int) for j in chosen), 1 / len(records))
        found.append(np.abs(answer(chosen) - truth).ravel())
    return float(np.max(found)), float(np.mean(found))


def product_of(release: mq.Release) -> Callable[[tuple[int, ...]], Values]:
    ways = [np.clip(release.marginal(name), 0, 1) for name in release.schema.names]

    def answer(chosen: tuple[int, ...]) -> Values:
        return np.asarray(np.einsum("i,j,k->ijk", *(ways[j] for j in chosen)))

    return answer


def released(release: mq.Release) -> Callable[[tuple[int, ...]], Values]:
    return lambda chosen: release.marginal(*(f"c{j}" for j in chosen))


def wide(console: Console, quick: bool) -> list[dict[str, object]]:
    columns, tables = (40, 300) if quick else (100, 12_500)
    sizes = (10_000,) if quick else (1_000, 10_000, 100_000)
    rng = np.random.default_rng(1)
    every = list(itertools.combinations(range(columns), 3))
    sets = [every[i] for i in rng.choice(len(every), tables, replace=False)]
    shown = Table(title=f"{columns} binary columns, {8 * tables:,} conjunctions, epsilon {EPSILON}, delta {DELTA}")
    for head in ("rows", "method", "largest error", "mean error", "seconds"):
        shown.add_column(head, justify="left" if head == "method" else "right")
    points: list[dict[str, object]] = []
    for rows in sizes:
        records = generated(rows, columns)
        schema, table = opened(records)
        listed = [tuple(f"c{j}" for j in chosen) for chosen in sets]
        workload = mq.marginals(schema, columns=listed)
        methods: dict[str, Callable[[mq.Curator], Callable[[tuple[int, ...]], Values]]] = {
            "uniform": lambda _: lambda chosen: np.full((2, 2, 2), 0.125),
            "independent columns": lambda c: product_of(mq.release(c, mq.marginals(c.schema, k=1), method="gaussian")),
            "gaussian on all": lambda c, w=workload: released(mq.release(c, w, method="gaussian")),
            "dual-query": lambda c, w=workload: released(
                mq.release(c, w, method="dual-query", rounds=12 if quick else None, rng=np.random.default_rng(2))
            ),
            # Triples of a hundred columns are far more candidates than it takes: it chooses among pairs.
            "graphical": lambda c: released(mq.release(c, mq.marginals(c.schema, k=2), method="graphical")),
        }
        for name, made in methods.items():
            if quick and name == "graphical":
                continue
            start = time.perf_counter()
            with mq.Curator(table, mq.Budget(epsilon=EPSILON, delta=DELTA)) as curator:
                answer = made(curator)
            spent = time.perf_counter() - start
            largest, mean = errors(records, sets[:3000], answer)
            shown.add_row(f"{rows:,}", name, f"{largest:.3f}", f"{mean:.4f}", f"{spent:.1f}")
            points.append({"rows": rows, "method": name, "error": largest, "mean": mean})
    console.print(shown)
    return points


def small(console: Console, quick: bool) -> None:
    columns, rows = (6, 5_000) if quick else (10, 20_000)
    records = generated(rows, columns)
    schema, table = opened(records)
    sets: Sets = list(itertools.combinations(range(columns), 3))
    workload = mq.marginals(schema, k=3)
    shown = Table(title=f"{columns} binary columns, all 3-way tables, {rows:,} rows, epsilon {EPSILON}, delta {DELTA}")
    for head in ("method", "largest error", "mean error", "seconds"):
        shown.add_column(head, justify="left" if head == "method" else "right")
    fewer = {"rounds": 10} if quick else {}
    for name, settings in {"dual-query": fewer, "both-learn": fewer, "gaussian": {}, "auto": {}}.items():
        start = time.perf_counter()
        with mq.Curator(table, mq.Budget(epsilon=EPSILON, delta=DELTA)) as curator:
            made = mq.release(curator, workload, method=name, **settings)
        spent = time.perf_counter() - start
        largest, mean = errors(records, sets, released(made))
        shown.add_row(name, f"{largest:.3f}", f"{mean:.4f}", f"{spent:.1f}")
    console.print(shown)


def chart(points: list[dict[str, object]], path: Path) -> None:
    import altair as alt

    drawn = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("rows:Q", scale=alt.Scale(type="log"), title="rows"),
            y=alt.Y("error:Q", title="largest error, fraction of rows", scale=alt.Scale(type="log")),
            color=alt.Color("method:N", title=None),
        )
        .properties(width=420, height=260, title="3-way tables of 100 binary columns, epsilon 1")
    )
    drawn.save(str(path))


def run(console: Console, quick: bool, charts: Path | None) -> None:
    points = wide(console, quick)
    small(console, quick)
    if charts is not None:
        chart(points, charts / "game.svg")
