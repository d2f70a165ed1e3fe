"""`maquette plan`: what each mechanism can promise, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.options import Delta, Json, Neighbours, busy, check_out
from maquette.cli.showing import print_json


def plan(
    *,
    rows: Annotated[int, typer.Option(min=1, help="Approximate number of rows.")] = 100_000,
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    schema: Annotated[Path | None, typer.Option("--schema", "-s", help="Schema file of the table.")] = None,
    universe: Annotated[int | None, typer.Option(help="Number of possible distinct rows, instead of a schema.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="With --theory: number of questions.")] = 1_000,
    delta: Delta = 0.0,
    alpha: Annotated[
        float | None,
        typer.Option(help="Say which epsilon and how many rows this error needs, as a fraction of rows."),
    ] = None,
    tables: Annotated[
        int, typer.Option(min=1, help="With --alpha: number of different tables that a session is to answer.")
    ] = 100,
    max_contributions: Annotated[
        int | None,
        typer.Option(min=1, help="Maximum rows kept per privacy unit (default: the one in the schema, else 1)."),
    ] = None,
    relation: Neighbours = "add-remove",
    chart: Annotated[Path | None, typer.Option(help="Also write a chart of running time against rows (SVG).")] = None,
    theory: Annotated[
        bool, typer.Option("--theory", help="Show what each mechanism guarantees for this many questions, by theorem.")
    ] = False,
    json: Json = False,
) -> None:
    """Say what a release and a session will give, before anything is read or spent.

    With a schema, it runs the default release on invented rows, drawn from the schema, and says how far its counts
    were off. With --theory it shows instead the error that each mechanism guarantees for this many questions.

    With --alpha it answers the other way round: the epsilon and the rows that this error needs.

    Example: maquette plan --rows 100000 --schema people.schema.toml --epsilon 1 --delta 1e-9
    """
    import maquette as mq

    if schema is None and universe is None:
        raise typer.BadParameter("name the table's schema: --schema people.schema.toml", param_hint="--schema")
    if schema is not None and not (theory or json or chart or universe):
        if alpha is not None and max_contributions is not None:
            raise typer.BadParameter(
                "with --alpha leave out --max-contributions, and multiply the epsilon in the answer by it"
            )
        typer.echo(
            _in_words(schema, max_contributions, rows=rows, epsilon=epsilon, delta=delta, alpha=alpha, tables=tables)
        )
        return
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
        chart.write_text(found.possibilities(), encoding="utf-8")
    if json:
        print_json(found.to_arrow().to_pylist())
    else:
        typer.echo(str(found))


def _in_words(
    path: Path, most: int | None, *, rows: int, epsilon: float, delta: float, alpha: float | None, tables: int
) -> str:
    """What a release and a session will give, or with alpha what they need."""
    from maquette.demo import foresee, needs
    from maquette.schema import Schema

    schema = Schema.load(path)
    with busy("trying it on invented rows"):
        if alpha is None:
            kept = most or (1 if schema.unit is None else schema.unit.max_contributions)
            return str(foresee(schema, rows=rows, epsilon=epsilon, delta=delta, max_contributions=kept))
        return str(needs(schema, rows=rows, epsilon=epsilon, delta=delta, alpha=alpha, tables=tables))
