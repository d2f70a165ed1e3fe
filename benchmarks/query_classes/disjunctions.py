"""Disjunctions of k of d yes/no columns: coefficients, noise on all tables, projection, models, the block basis.

Error: the mean (and the largest) distance from the rows' own shares over sampled monotone disjunctions, at epsilon 1
and delta 1e-9, add-remove; runs with real noise. Over many columns the default release is a graphical model of pairs.
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
from maquette.hypothesis import BlockPolynomial
from maquette.query import LinearQuery, Marginal
from maquette.releases import coefficients, projection

Answer = Callable[[LinearQuery], float]
Method = Callable[[mq.Curator], Answer]
BUDGET = mq.Budget(epsilon=1.0, delta=1e-9)


def rows_of(count: int, columns: int) -> NDArray[np.int32]:
    """Two hidden groups, columns of different weight, some of which follow their neighbour."""
    rng = np.random.default_rng(columns)
    ill = rng.random(count) < 0.3
    chance = np.where(ill, 0.3, 0.05)[:, None] * rng.uniform(0.3, 1.5, columns)
    rows = rng.random((count, columns)) < chance
    for i in range(0, columns - 1, 4):
        rows[:, i + 1] |= rows[:, i] & (rng.random(count) < 0.6)
    return rows.astype(np.int32)


def released(make: Callable[[mq.Curator], mq.Release]) -> Method:
    def method(curator: mq.Curator) -> Answer:
        model = make(curator).model
        return lambda query: min(1.0, max(0.0, model.answer(query)))

    return method


def constant(curator: mq.Curator) -> Answer:
    return lambda query: 0.5


def block_basis(k: int, rounds: int) -> Method:
    """Select the worst disjunction, measure it, update the block polynomial; rounds chosen, not the theorem's."""

    def method(curator: mq.Curator) -> Answer:
        schema = curator.schema
        model = BlockPolynomial(schema, k=k, alpha=0.25)
        queries = list(mq.disjunctions(schema, k, monotone=True, up_to=True))
        questions = [Marginal(schema, (), query) for query in queries]
        share = curator.remaining.rho / (2 * rounds + 1) * (1 - 1e-9)
        rows = curator.count_rows(rho=share)
        for _ in range(rounds):
            answers = [np.array(model.answer(query) * rows) for query in queries]
            worst = queries[curator.select_worst(questions, answers, rho=share).index]
            value = float(curator.measure(worst, rho=share).values) / rows
            for _ in range(20):  # public: repeat a step until the value is met
                if abs(value - model.answer(worst)) < 0.01:
                    break
                model.update(worst, value)
        return model.answer

    return method


def case(  # noqa: PLR0917 -- one line of the benchmark
    console: Console, title: str, columns: int, k: int, sizes: list[int], methods: dict[str, Method], runs: int
) -> list[dict[str, object]]:
    table = Table(title=title, title_justify="left")
    for name in ("rows", "method", "mean error", "largest", "seconds"):
        table.add_column(name, justify="left" if name == "method" else "right")
    schema = mq.Schema([mq.Boolean(f"s{i}") for i in range(columns)])
    points: list[dict[str, object]] = []
    for count in sizes:
        rows = rows_of(count, columns)
        private = mq.open_table({name: rows[:, i] == 1 for i, name in enumerate(schema.names)}, schema)
        queries = mq.disjunctions(schema, k, monotone=True).sample(100, np.random.default_rng(1))
        truth = np.array([query.evaluate(rows).mean() for query in queries])
        for name, method in methods.items():
            errors, start = [], time.perf_counter()
            for _ in range(runs):
                with mq.Curator(private, BUDGET) as curator:
                    answer = method(curator)
                errors.append(np.abs(np.array([answer(query) for query in queries]) - truth))
            seconds = (time.perf_counter() - start) / runs
            mean, largest = float(np.mean(errors)), float(np.mean([each.max() for each in errors]))
            table.add_row(f"{count:,}", name, f"{mean:.4f}", f"{largest:.4f}", f"{seconds:.1f}")
            points.append({"rows": count, "method": name, "error": mean, "title": title})
    console.print(table)
    return points


def run(console: Console, quick: bool, charts: Path | None) -> None:
    """All cases; `quick` takes small ones."""
    runs = 1 if quick else 2
    sizes = [2_000, 20_000] if quick else [1_000, 10_000, 100_000]
    small, wide, k = (10, 14, 3) if quick else (12, 40, 4)
    everything = mq.Schema([mq.Boolean(f"s{i}") for i in range(small)])
    many = mq.Schema([mq.Boolean(f"s{i}") for i in range(wide)])
    few = mq.Schema([mq.Boolean(f"s{i}") for i in range(8)])
    points = case(
        console,
        f"any of {k} of {small} columns",
        small,
        k,
        sizes,
        {
            "one half": constant,
            "gaussian, all tables": released(
                lambda c: mq.release(c, mq.disjunctions(everything, k), method="gaussian")
            ),
            "coefficients": released(lambda c: coefficients(c, mq.disjunctions(everything, k))),
            "default release": released(lambda c: mq.release(c, mq.disjunctions(everything, k), progress=False)),
        },
        runs,
    )
    points += case(
        console,
        f"any of {k} of {wide} columns",
        wide,
        k,
        sizes[:2],  # a graphical model of more rows takes minutes
        {
            "one half": constant,
            "coefficients": released(lambda c: coefficients(c, mq.disjunctions(many, k))),
            "default release of pairs": released(lambda c: mq.release(c, mq.marginals(many, 2), progress=False)),
        },
        1,
    )
    points += case(
        console,
        f"any of 2 of {wide} columns",
        wide,
        2,
        sizes,
        {
            "gaussian, all tables": released(lambda c: mq.release(c, mq.marginals(many, 2), method="gaussian")),
            "coefficients": released(lambda c: coefficients(c, mq.disjunctions(many, 2))),
            "projection": released(projection),
        },
        1,
    )
    case(
        console,
        "any of 2 of 8 columns",
        8,
        2,
        sizes[-1:],
        {
            "block basis": block_basis(2, 10 if quick else 40),
            "coefficients": released(lambda c: coefficients(c, mq.disjunctions(few, 2))),
            "default release": released(lambda c: mq.release(c, mq.disjunctions(few, 2), progress=False)),
        },
        runs,
    )
    if charts is not None:
        _chart(points).save(str(charts / "disjunctions.svg"))


def _chart(points: list[dict[str, object]]):  # type: ignore[no-untyped-def]
    import altair as alt

    return (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("rows:Q", scale=alt.Scale(type="log")),
            y=alt.Y("error:Q", scale=alt.Scale(type="log"), title="mean error, fraction of rows"),
            color=alt.Color("method:N"),
            column=alt.Column("title:N", title=None),
        )
        .properties(width=240, height=260)
    )
