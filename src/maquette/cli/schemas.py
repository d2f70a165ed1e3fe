"""`maquette schema`: draft, check and show schemas."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from maquette.cli.helping import Commands
from maquette.cli.options import (
    Books,
    Delimiter,
    Delta,
    Epsilon,
    Json,
    LedgerFile,
    Missing,
    Most,
    Neighbours,
    SchemaFile,
    Source,
    Trust,
    Unit,
    busy,
    opened,
    table_name,
    table_of,
)
from maquette.cli.showing import loss_facts, print_json
from maquette.cli.telling import warn
from maquette.errors import MaquetteError, PrivacyWarning

if TYPE_CHECKING:
    from maquette.curator import UnitReport
    from maquette.schema import Column, Schema

app = Commands(no_args_is_help=True, help="Draft, review, check and show schemas.")


@app.command()
def bins(
    source: Source,
    *,
    schema: SchemaFile,
    epsilon: Epsilon,
    bins_epsilon: Annotated[float, typer.Option("--bins-epsilon", help="Epsilon to spend once on drawing the bins.")],
    delta: Delta = 0.0,
    accounting: Books = "auto",
    relation: Neighbours = "add-remove",
    unit: Unit = None,
    max_contributions: Most = 1,
    ledger: LedgerFile = None,
    missing: Missing = None,
    delimiter: Delimiter = None,
    trust_draft: Trust = False,
    json: Json = False,
) -> None:
    """Draw the bins of columns declared with bins = "auto", once for this ledger, and print the schema with them.

    Other commands then find the bins in the ledger: give them the same schema file.

    Example: maquette schema bins people.csv --schema people.schema.toml --epsilon 1 --delta 1e-9 --bins-epsilon 0.05
    """
    with opened(
        source,
        schema,
        epsilon=epsilon,
        delta=delta,
        accounting=accounting,
        relation=relation,
        unit=unit,
        max_contributions=max_contributions,
        ledger=ledger,
        missing=missing,
        delimiter=delimiter,
        trust_draft=trust_draft,
        bins_epsilon=bins_epsilon,
    ) as curator:
        drawn, charge, remaining = curator.schema, curator.bins_charge, curator.remaining
        cost = None if charge is None else curator.budget.accountant.loss(charge.units, curator.budget.delta)
    if json:
        columns = [{key: _plain(value) for key, value in column.as_dict().items()} for column in drawn]
        paid = None if cost is None else loss_facts(cost)
        print_json({"columns": columns, "cost": paid, "remaining": loss_facts(remaining)})
        return
    typer.echo(drawn.dumps(), nl=False)
    told = "there were no bins to draw" if cost is None else f"the bins cost {cost}"
    typer.echo(f"{told}; remaining {remaining}", err=True)


@app.command()
def guess(
    source: Annotated[str, typer.Argument(help="CSV, Excel or Parquet file, or several files as a pattern in quotes.")],
    *,
    delimiter: Delimiter = None,
    encoding: Annotated[str | None, typer.Option(help="Encoding of a CSV file (default: detected).")] = None,
    sheet: Annotated[str | None, typer.Option(help="Sheet of an Excel file (default: the first).")] = None,
    skip: Annotated[
        int | None, typer.Option(min=0, help="Lines above the header, such as a title (default: detected).")
    ] = None,
    names: Annotated[
        str | None, typer.Option(help="Column names in order, separated by commas, for a file without a header.")
    ] = None,
    json: Json = False,
) -> None:
    """Draft a schema by reading the data. Review every line before you use it.

    The draft says of each column what was seen and why it was chosen.

    Example: maquette schema guess people.csv > people.schema.toml
    """
    from maquette.schema import FileFormat, Schema

    listed = None if names is None else [name.strip() for name in names.split(",")]
    form = FileFormat(delimiter=delimiter, encoding=encoding, sheet=sheet, skip=skip, names=listed)
    with warnings.catch_warnings(record=True) as caught, busy(f"reading {source}"):
        warnings.simplefilter("always", PrivacyWarning)
        draft = Schema.guess(source, form)
    for warning in caught:
        warn(warning.message, warning.category, warning.filename, warning.lineno)
    if json:
        columns = [{key: _plain(value) for key, value in column.as_dict().items()} for column in draft]
        told = {"guessed": True, "columns": columns, "skipped": draft.skipped, "notes": draft.notes}
        print_json({**told, **asdict(draft.file)})
        return
    typer.echo(draft.dumps(), nl=False)
    if not sys.stdout.isatty():  # written to a file: say here what is in it, and what to do next
        _tell_draft(draft, source)


def _tell_draft(draft: Schema, source: str) -> None:
    """What is in a draft that was written to a file, and the next step."""
    left = f", {len(draft.skipped)} left out (the file says why)" if draft.skipped else ""
    name = f"{re.sub(r'[^A-Za-z0-9_-]+', '_', Path(source).name.partition('.')[0]).strip('_') or 'table'}.schema.toml"
    typer.echo(f"drafted {len(draft)} column{'s' * (len(draft) != 1)}{left}.", err=True)
    if draft.file.skip:
        many = "the first line is" if draft.file.skip == 1 else f"the first {draft.file.skip} lines are"
        typer.echo(f"{many} not a header: skipped (skip = {draft.file.skip} under [file]).", err=True)
    if draft.file.encoding is not None:
        from maquette.schema import spoken

        typer.echo(f"the file is not UTF-8: it is read as {spoken(draft.file.encoding)}. If letters look", err=True)
        typer.echo("wrong in the draft, try another --encoding.", err=True)
    typer.echo(
        f"Review every line, or walk through it with: maquette schema edit {name}\n"
        f"then: maquette schema check {shlex.quote(source)} --schema {name}",
        err=True,
    )


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | list | tuple) else str(value)


@app.command()
def edit(path: Annotated[Path, typer.Argument(help="Schema file, usually a draft.")]) -> None:
    """Walk through a draft, column by column, and write it as reviewed.

    Every decision is shown in plain words: keep it, give another range, or drop the column. The file is written at the
    end, without the mark of a draft, only if you confirm that you would declare every line without looking at the rows.

    Example: maquette schema edit people.schema.toml
    """
    from maquette.schema import Schema, preview

    schema = Schema.load(path)
    for left_out in schema.skipped:
        typer.echo(f"left out: {left_out}")
    kept = []
    for number, column in enumerate(schema, 1):
        typer.echo(f"\n{number} of {len(schema)}: {column.name}, a column of kind {column.kind}")
        for note in schema.notes.get(column.name, ()):
            typer.echo(f"   {note}")
        typer.echo(f"   {column.size:,} levels: {preview(column.labels)}")
        answer = typer.prompt("   keep, change or drop?", default="keep").strip().lower()
        if answer.startswith("d"):
            continue
        kept.append(_changed(column) if answer.startswith("c") else column)
    sure = typer.confirm("\nWould you have declared every line like this without looking at the rows?", default=False)
    known = {column.name for column in kept}
    rules = [rule for rule in schema.impossible if set(rule) <= known]
    Schema(
        kept,
        impossible=rules,
        guessed=schema.guessed and not sure,
        skipped=schema.skipped,
        notes=schema.notes,
        file=schema.file,
        unit=schema.unit,
    ).save(path)
    typer.echo(f"{path}: {len(kept)} columns, {'reviewed' if sure else 'still a draft, which `release` refuses'}")


_WORDS = {
    "low": "smallest value that can occur (low)",
    "high": "largest value that can occur (high)",
    "width": "how many whole numbers one bin holds (width)",
    "bins": 'number of bins, or "auto" to have them drawn privately (bins)',
    "edges": "where bins begin, and where the last bin ends (edges)",
    "atoms": "single values with a level of their own, such as 0 (atoms)",
    "precision": "digits after the decimal mark (precision)",
    "levels": "the values that can occur (levels)",
    "other": "the level for all other values (other)",
    "nullable": "may a value be missing? (nullable)",
    "missing": 'texts that mean "no value" (missing)',
    "decimal": "the decimal mark (decimal)",
    "thousands": "the mark between thousands (thousands)",
    "marks": "currency or percent marks to ignore (marks)",
    "unit": "day, week, month, quarter or year (unit)",
    "order": "order of day, month and year (order)",
    "pivot": "the last two-digit year that means 20xx (pivot)",
    "yes": "other words for yes (yes)",
    "no": "other words for no (no)",
}


def _changed(column: Column) -> Column:
    """The column with other values of its settings, asked one by one; a refused value is asked again."""
    from dataclasses import replace

    for name, value in column.as_dict().items():
        if name in ("name", "kind"):
            continue
        while True:
            text = typer.prompt(f"   {_WORDS.get(name, name)}", default=_written(value))
            if text == _written(value):
                break
            try:
                column = replace(column, **{name: tomllib.loads(f"x = {text}")["x"]})
                break
            except (MaquetteError, ValueError, TypeError) as error:
                typer.echo(f"   {error}")
    return column


def _written(value: object) -> str:
    """A setting as the schema file writes it."""
    from maquette.schema import written_value

    return written_value(value)


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
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="Write the recommended bound into the schema file; certificates say it came from the rows."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Check that a table fits a schema. For the custodian; charges nothing.

    Example: maquette schema check people.csv --schema people.schema.toml
    """
    import maquette as mq
    from maquette.curator import unit_report
    from maquette.schema import UnitDeclaration

    declared = mq.Schema.load(schema)
    table_of(source, declared, unit=unit, max_contributions=max_contributions, missing=missing, delimiter=delimiter)
    counted = None if unit is None else unit_report(source, unit, delimiter=delimiter, file=declared.file)
    if json:
        facts: dict[str, object] = {"fits": True, "columns": len(declared), "cells": declared.size}
        if counted is not None:
            facts["unit"] = {**asdict(counted), "recommended": counted.recommended}
        print_json(facts)
        return
    cells = f"{declared.size:,}" if declared.size < 10**12 else "more than 10^12"
    typer.echo(f"{source} fits {schema}: {len(declared)} columns, {cells} possible rows")
    if counted is not None and unit is not None:
        _tell_units(counted, unit, max_contributions)
        if adopt:
            declared.unit = UnitDeclaration(column=unit, max_contributions=counted.recommended, from_rows=True)
            declared.save(schema)
            typer.echo(f"{schema}: [unit] is now {unit}, at most {counted.recommended} rows each, chosen from the rows")
    elif adopt:
        raise typer.BadParameter(
            "name the column that identifies the person (or other unit) of a row: --unit COLUMN", param_hint="--adopt"
        )
    kept = "" if unit is None or adopt else f" --unit {shlex.quote(unit)} --max-contributions {max_contributions}"
    _tell_next(source, schema, kept, draft=declared.guessed)


def _tell_next(source: str, schema: Path, unit: str, *, draft: bool) -> None:
    """What to type when a table fits its schema."""
    file = shlex.quote(str(schema))
    if draft:
        typer.echo(f"next: maquette schema edit {file}   (it is still a draft)")
        return
    out = shlex.quote(f"{table_name(source)}.maq")
    most = unit[unit.index(" --max") :] if unit else ""
    typer.echo(f"next: maquette plan --schema {file}{most} --epsilon 1 --delta 1e-9   (what to expect; free)")
    typer.echo(
        f"then: maquette release {shlex.quote(source)} --schema {file}{unit} --epsilon 1 --delta 1e-9 --out {out}"
    )


def _tell_units(counted: UnitReport, unit: str, chosen: int) -> None:
    """What each bound would drop; exact numbers, for the custodian only."""
    typer.echo(f"For your eyes only: {counted.rows:,} rows, {counted.units:,} different values of {unit}.")
    typer.echo(f"{'at most':>9} {'rows dropped':>22} {unit + ' affected':>22}")
    for choice in counted.choices:
        mark = " <- chosen" if choice.bound == chosen else ""
        lost, cut = choice.rows / counted.rows, choice.units / counted.units
        typer.echo(f"{choice.bound:>9} {choice.rows:>13,} ({lost:6.1%}) {choice.units:>13,} ({cut:6.1%}){mark}")
        if choice.rows == 0:
            break
    typer.echo(
        f"recommended: --max-contributions {counted.recommended}, which drops at most 5% of the rows. Fewer rows per "
        f"{unit} mean less noise. This advice was read from the rows: prefer a number that you chose without looking."
    )
