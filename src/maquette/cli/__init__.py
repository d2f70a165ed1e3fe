"""The command line: each command calls one library function."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from maquette.errors import MaquetteError, PrivacyWarning

app = typer.Typer(no_args_is_help=True, add_completion=True, help="Very many questions about a private table.")
schema_app = typer.Typer(no_args_is_help=True, help="Draft, check and show schemas.")
app.add_typer(schema_app, name="schema")


@app.callback()
def _root() -> None:
    """Very many questions about a private table, under one differential-privacy budget."""


@app.command()
def demo(rows: Annotated[int, typer.Option(min=1_000, help="How many people to invent.")] = 100_000) -> None:
    """Tell the whole story on an embedded, generated table. Example: maquette demo"""
    from maquette.demo import tell

    tell(rows)


@schema_app.command("guess")
def schema_guess(source: Annotated[Path, typer.Argument(help="A CSV or Parquet file.")]) -> None:
    """Draft a schema by reading the data. Example: maquette schema guess people.csv > people.schema.toml"""
    from maquette.schema import Schema

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        text = Schema.guess(source).dumps()
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    typer.echo(text, nl=False)


@schema_app.command("show")
def schema_show(path: Annotated[Path, typer.Argument(help="A schema file.")]) -> None:
    """Check a schema file and list its columns. Example: maquette schema show people.schema.toml"""
    from maquette.schema import Schema
    from maquette.schema.schema import preview

    schema = Schema.load(path)
    if schema.guessed:
        typer.echo("DRAFT, made by reading the data: review every bound and level, then delete `guessed = true`.")
    for column in schema:
        remark = f" ({column.remark})" if column.remark else ""
        typer.echo(f"{column.name:24} {column.kind:10} {column.size:6} levels  {preview(column.labels)}{remark}")
    typer.echo(repr(schema))


def main() -> None:
    """Run the command line; Maquette's own errors are told in one line, with exit code 1."""
    try:
        app()
    except MaquetteError as error:
        typer.echo(f"error ({error.code}): {error}", err=True)
        sys.exit(1)
