"""`maquette holdout`: how many questions one sample can answer, and a sample that stays valid under reuse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.helping import Commands
from maquette.cli.options import Json, SchemaFile, check_out
from maquette.cli.showing import print_json

app = Commands(no_args_is_help=True, help="Ask a holdout set adaptive questions; all intervals stay valid together.")

Sure = Annotated[float, typer.Option(help="Probability that all intervals are right at once.")]


@app.command()
def plan(
    *,
    rows: Annotated[int, typer.Option("--rows", "--n", "-n", min=1, help="Number of rows in the holdout.")],
    queries: Annotated[int, typer.Option("--queries", "--k", "-k", min=1, help="Number of adaptive questions.")],
    failures: Annotated[int, typer.Option(min=0, help="Number of wrong guesses to allow for.")] = 10,
    universe: Annotated[int | None, typer.Option(help="Number of possible distinct rows, if small.")] = None,
    half_width: Annotated[float | None, typer.Option(help="Also show how many rows this half-width needs.")] = None,
    confidence: Sure = 0.95,
    chart: Annotated[Path | None, typer.Option(help="Also write a chart (SVG).")] = None,
    json: Json = False,
) -> None:
    """Show the interval width of each method for this many adaptive questions. Uses public numbers only.

    Example: maquette holdout plan --n 10000 --k 500
    """
    from maquette.holdout import plan as intended

    if chart is not None:
        check_out(chart)
    found = intended(
        rows=rows,
        queries=queries,
        failures=failures,
        confidence=confidence,
        universe=universe,
        half_width=half_width,
    )
    if chart is not None:
        chart.write_text(found.chart(), encoding="utf-8")
    if not json:
        typer.echo(str(found))
        return
    methods = [
        {"name": i.name, "half_width": i.half_width, "rows_needed": i.rows_needed, "settings": dict(i.settings)}
        for i in found
    ]
    best = None if found.best is None else found.best.name
    print_json({"best": best, "fixed_beforehand": found.fresh, "methods": methods})


@app.command()
def ask(
    rows: Annotated[Path, typer.Argument(help="Holdout file, CSV or Parquet, that is used for nothing else.")],
    condition: Annotated[str, typer.Argument(help="Condition such as 'age >= 65 AND smoker'.")],
    *,
    schema: SchemaFile,
    guess: Annotated[
        float | None, typer.Option(help="Your guess, as a fraction of rows; a good guess costs nothing.")
    ] = None,
    train: Annotated[Path | None, typer.Option(help="Training file, to make the guess from.")] = None,
    state: Annotated[Path | None, typer.Option(help="State file (default: the holdout's name with .holdout).")] = None,
    confidence: Sure = 0.95,
    json: Json = False,
) -> None:
    """Estimate how often a condition holds in the population; intervals stay valid under adaptive questions.

    Example: maquette holdout ask held.csv "age >= 65 AND smoker" --schema people.schema.toml --guess 0.12
    """
    import maquette as mq

    kept = rows.with_suffix(".holdout") if state is None else state
    trained = None if train is None else _read(train)
    with mq.Holdout(
        _read(rows), train=trained, schema=mq.Schema.load(schema), confidence=confidence, state=kept
    ) as holdout:
        answer = holdout.ask(condition, guess)
    if json:
        print_json({**answer.as_dict(), "low": answer.low, "high": answer.high})
        return
    typer.echo(f"{answer.value:.4g} [{answer.low:.4g}, {answer.high:.4g}]  from the {answer.source}")
    typer.echo(
        f"question {answer.queries:,}, {answer.failures:,} answered by the holdout; "
        f"all intervals are right at once with probability {answer.level:g}"
    )


def _read(path: Path) -> object:
    """The rows of a file; values of a CSV file stay text, and the schema interprets them."""
    import duckdb

    from maquette.errors import UnreadableSource

    if not path.is_file():
        raise UnreadableSource(f"there is no file {str(path)!r}", expected="a CSV or Parquet file")
    reader = "read_parquet(?)" if path.suffix == ".parquet" else "read_csv(?, header = true, all_varchar = true)"
    try:
        with duckdb.connect() as engine:
            return engine.sql(f"SELECT * FROM {reader}", params=[str(path)]).to_arrow_table()
    except duckdb.Error:
        # The engine's message may quote rows.
        raise UnreadableSource(
            f"cannot read {str(path)!r}: it is not a well-formed table", advice="Check it with the tool that wrote it"
        ) from None
