"""`maquette schema`: draft, check and show schemas."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.options import Json, Missing, Most, SchemaFile, Source, Unit
from maquette.cli.showing import print_json
from maquette.errors import PrivacyWarning

app = typer.Typer(no_args_is_help=True, help="Draft, check and show schemas.")


@app.command()
def guess(source: Annotated[Path, typer.Argument(help="A CSV or Parquet file.")]) -> None:
    """Draft a schema by reading the data; review every line before it is used.

    Example: maquette schema guess people.csv > people.schema.toml
    """
    from maquette.schema import Schema

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        text = Schema.guess(source).dumps()
    for warning in caught:
        typer.echo(f"warning: {warning.message}", err=True)
    typer.echo(text, nl=False)


@app.command()
def show(path: Annotated[Path, typer.Argument(help="A schema file.")], json: Json = False) -> None:
    """Check a schema file and list its columns.

    Example: maquette schema show people.schema.toml
    """
    from maquette.schema import Schema
    from maquette.schema.schema import preview

    schema = Schema.load(path)
    if json:
        columns = [{"name": c.name, "kind": c.kind, "levels": c.size, "remark": c.remark} for c in schema]
        print_json({"guessed": schema.guessed, "cells": schema.size, "digest": schema.digest, "columns": columns})
        return
    if schema.guessed:
        typer.echo("DRAFT, made by reading the data: review every bound and level, then delete `guessed = true`.")
    for column in schema:
        remark = f" ({column.remark})" if column.remark else ""
        typer.echo(f"{column.name:24} {column.kind:10} {column.size:6} levels  {preview(column.labels)}{remark}")
    typer.echo(repr(schema))


@app.command()
def check(
    source: Source,
    *,
    schema: SchemaFile,
    unit: Unit = None,
    max_contributions: Most = 1,
    missing: Missing = None,
    json: Json = False,
) -> None:
    """Open a table under a schema and say whether it fits. It speaks to the custodian and charges nothing.

    Example: maquette schema check people.csv --schema people.schema.toml
    """
    import maquette as mq

    declared = mq.Schema.load(schema)
    mq.open_table(source, declared, privacy_unit=unit, max_contributions=max_contributions, missing=missing or ())
    if json:
        print_json({"fits": True, "columns": len(declared), "cells": declared.size})
    else:
        typer.echo(f"{source} fits {schema}: {len(declared)} columns, {declared.size:,} cells")
