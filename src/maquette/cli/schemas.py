"""`maquette schema`: draft, check and show schemas."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.options import Delimiter, Json, Missing, Most, SchemaFile, Source, Unit, busy, table_of
from maquette.cli.showing import print_json
from maquette.cli.telling import warn
from maquette.errors import PrivacyWarning

app = typer.Typer(no_args_is_help=True, help="Draft, check and show schemas.")


@app.command()
def guess(source: Annotated[Path, typer.Argument(help="CSV or Parquet file.")], json: Json = False) -> None:
    """Draft a schema by reading the data; review every line before it is used.

    Example: maquette schema guess people.csv > people.schema.toml
    """
    from maquette.schema import Schema

    with warnings.catch_warnings(record=True) as caught, busy(f"reading {source}"):
        warnings.simplefilter("always", PrivacyWarning)
        draft = Schema.guess(source)
    for warning in caught:
        warn(warning.message, warning.category, warning.filename, warning.lineno)
    delimiter = _delimiter(source)
    if json:
        columns = [{key: _plain(value) for key, value in column.as_dict().items()} for column in draft]
        print_json({"guessed": True, "columns": columns, "skipped": draft.skipped, "delimiter": delimiter})
        return
    typer.echo(draft.dumps(), nl=False)
    if not sys.stdout.isatty():  # written to a file: say here what is in it, and what to do next
        usual = "\t" if ".tsv" in source.suffixes else ","
        mark = "" if delimiter in (None, usual) else f" --delimiter {shlex.quote(delimiter)}"
        left = f", {len(draft.skipped)} left out (the file says why)" if draft.skipped else ""
        typer.echo(
            f"drafted {len(draft)} columns{left}. Review every line, then: maquette schema check "
            f"{shlex.quote(str(source))} --schema {source.stem}.schema.toml{mark}",
            err=True,
        )


def _delimiter(source: Path) -> str | None:
    """The field delimiter of a CSV file; None if there is only one field or it is not CSV."""
    from maquette.schema import delimiter_of, header_line

    if source.suffix.lower() in (".parquet", ".pq") or not source.is_file():
        return None
    header = header_line(source)
    return delimiter_of(header) if delimiter_of(header) in header else None


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | list | tuple) else str(value)


@app.command()
def show(path: Annotated[Path, typer.Argument(help="Schema file.")], json: Json = False) -> None:
    """Check a schema file and list its columns.

    Example: maquette schema show people.schema.toml
    """
    from maquette.schema import Schema, preview

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
    delimiter: Delimiter = None,
    json: Json = False,
) -> None:
    """Check that a table fits a schema. For the custodian; charges nothing.

    Example: maquette schema check people.csv --schema people.schema.toml
    """
    import maquette as mq

    declared = mq.Schema.load(schema)
    table_of(source, declared, unit=unit, max_contributions=max_contributions, missing=missing, delimiter=delimiter)
    if json:
        print_json({"fits": True, "columns": len(declared), "cells": declared.size})
    else:
        typer.echo(f"{source} fits {schema}: {len(declared)} columns, {declared.size:,} cells")
