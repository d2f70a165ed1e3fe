"""`maquette plan`: what each mechanism can promise, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.options import Delta, Json, Neighbours, check_out
from maquette.cli.showing import print_json


def plan(
    *,
    rows: Annotated[int, typer.Option(min=1, help="Approximate number of rows.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")],
    schema: Annotated[Path | None, typer.Option("--schema", "-s", help="Schema file of the table.")] = None,
    universe: Annotated[int | None, typer.Option(help="Number of possible distinct rows, instead of a schema.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 1_000,
    delta: Delta = 0.0,
    alpha: Annotated[
        float | None, typer.Option(help="Also show how many rows this error (a fraction of rows) needs.")
    ] = None,
    relation: Neighbours = "add-remove",
    chart: Annotated[Path | None, typer.Option(help="Also write a chart (SVG).")] = None,
    json: Json = False,
) -> None:
    """Show the error each mechanism guarantees for this many questions. Uses public numbers only.

    Example: maquette plan --rows 100000 --schema people.schema.toml --queries 1000 --epsilon 1 --delta 1e-9
    """
    import maquette as mq

    if chart is not None:
        check_out(chart)
    found = mq.plan(
        rows=rows,
        schema=None if schema is None else mq.Schema.load(schema),
        universe=universe,
        queries=queries,
        epsilon=epsilon,
        delta=delta,
        alpha=alpha,
        relation=relation,
    )
    if chart is not None:
        chart.write_text(found.chart(), encoding="utf-8")
    if json:
        print_json(found.to_arrow().to_pylist())
    else:
        typer.echo(str(found))
