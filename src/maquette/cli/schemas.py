"""`maquette schema`: draft, check and show schemas."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Sequence
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
    check_out,
    opened,
    table_name,
    table_of,
)
from maquette.cli.showing import loss_facts, print_json
from maquette.cli.telling import warn
from maquette.errors import PrivacyWarning

if TYPE_CHECKING:
    from maquette.curator import Clamped, UnitReport
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
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Schema file to write (default: print the draft).")
    ] = None,
    json: Json = False,
) -> None:
    """Draft a schema by reading the data. Review every line before you use it.

    The draft says of each column what was seen and why it was chosen.

    Example: maquette schema guess people.csv --out people.schema.toml
    """
    from maquette.schema import FileFormat, Schema

    if out is not None:
        check_out(out)
        if out.exists():  # it may be reviewed already
            raise typer.BadParameter(f"{out} exists: delete it or name another file", param_hint="--out")
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
    if out is not None:
        draft.save(out)
    else:
        typer.echo(draft.dumps(), nl=False)
    _tell_draft(draft, source, out)


def _tell_draft(draft: Schema, source: str, out: Path | None) -> None:
    """What is in a draft, and the next step."""
    left = f", {len(draft.skipped)} left out (the file says why)" if draft.skipped else ""
    name = f"{re.sub(r'[^A-Za-z0-9_-]+', '_', Path(source).name.partition('.')[0]).strip('_') or 'table'}.schema.toml"
    name = name if out is None else shlex.quote(str(out))
    typer.echo(f"drafted {len(draft)} column{'s' * (len(draft) != 1)}{left}.", err=True)
    if draft.file.skip:
        many = "the first line is" if draft.file.skip == 1 else f"the first {draft.file.skip} lines are"
        typer.echo(f"{many} not a header: skipped (skip = {draft.file.skip} under [file]).", err=True)
    if draft.file.encoding is not None:
        from maquette.schema import spoken

        typer.echo(f"the file is not UTF-8: it is read as {spoken(draft.file.encoding)}. If letters look", err=True)
        typer.echo("wrong in the draft, try another --encoding.", err=True)
    if out is None and sys.stdout.isatty():  # printed, not kept
        typer.echo(f"to keep it: maquette schema guess {shlex.quote(source)} --out {name}", err=True)
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
    from maquette.cli.editing import walked
    from maquette.schema import Schema

    schema = Schema.load(path)
    for left_out in schema.skipped:
        typer.echo(f"left out: {left_out}")
    kept = walked(schema)
    if not kept:
        raise typer.BadParameter("every column was dropped; nothing was written", param_hint="path")
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
    typer.echo(f"next: maquette schema check FILE --schema {shlex.quote(str(path))}   (FILE: your table)")


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
    max_contributions: Annotated[
        int | None, typer.Option(min=1, help="Maximum rows kept per privacy unit (default: see what each would drop).")
    ] = None,
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
    from maquette.curator import BOUNDS, clamped_values, unit_report
    from maquette.schema import UnitDeclaration

    declared = mq.Schema.load(schema)
    most = max_contributions or 1
    table_of(source, declared, unit=unit, max_contributions=most, missing=missing, delimiter=delimiter)
    own = declared.unit
    whose = own.column if unit is None and own is not None else unit
    chosen = max_contributions or (own.max_contributions if own is not None and own.column == whose else None)
    bounds = sorted({*BOUNDS, *([] if chosen is None else [chosen])})
    counted = (
        None if whose is None else unit_report(source, whose, bounds=bounds, delimiter=delimiter, file=declared.file)
    )
    if json:
        facts: dict[str, object] = {"fits": True, "columns": len(declared), "cells": declared.size}
        if counted is not None:
            facts["unit"] = {**asdict(counted), "recommended": counted.recommended}
        print_json(facts)
        return
    cells = f"{declared.size:,}" if declared.size < 10**12 else "more than 10^12"
    typer.echo(f"{source} fits {schema}: {len(declared)} columns, {cells} possible rows")
    for one in clamped_values(source, declared, missing=missing or (), delimiter=delimiter):
        _tell_clamped(one, declared[one.column])
    if counted is not None and whose is not None:
        _tell_units(counted, whose, chosen)
        if adopt:
            declared.unit = UnitDeclaration(column=whose, max_contributions=counted.recommended, from_rows=True)
            declared.save(schema)
            typer.echo(
                f"{schema}: [unit] is now {whose}, at most {counted.recommended} rows each, chosen from the rows"
            )
    elif adopt:
        raise typer.BadParameter(
            "name the column that identifies the person (or other unit) of a row: --unit COLUMN", param_hint="--adopt"
        )
    if unit is None and declared.unit is None:
        _tell_rows(declared.skipped)
    _tell_next(source, schema, None if adopt else unit, max_contributions, draft=declared.guessed)


def _tell_clamped(found: Clamped, column: Column) -> None:
    """What the declared range of a column sets to its ends; exact numbers, for the custodian only."""
    sides = [f"{n:,} {where}" for n, where in ((found.below, "below"), (found.above, "above")) if n]
    share = (found.below + found.above) / max(found.rows, 1)
    pivot = (
        f"; is pivot = {column.as_dict()['pivot']} right?"
        if column.kind == "date" and column.as_dict().get("pivot") is not None
        else ""
    )
    typer.echo(
        f"For your eyes only: {found.column} has values outside its declared range ({' and '.join(sides)}, {share:.1%} "
        f"of rows). Each is set to the nearest end{pivot}"
    )


def _tell_rows(skipped: Sequence[str]) -> None:
    """Without a unit each row is protected alone, which is not enough where people have several."""
    keys = [text.partition(" (")[0] for text in skipped if "--unit" in text]
    named = f" (perhaps {' or '.join(keys)})" if keys else ""
    typer.echo(
        "Each row is protected on its own. If one person can have several rows, protect people instead: run this again "
        f"with --unit and the column that says whose row it is{named}."
    )


def _tell_next(source: str, schema: Path, unit: str | None, most: int | None, *, draft: bool) -> None:
    """What to type when a table fits its schema."""
    file, table = shlex.quote(str(schema)), shlex.quote(source)
    if draft:
        typer.echo(f"next: maquette schema edit {file}   (it is still a draft)")
        return
    release = f"maquette release {table} --schema {file}"
    budget = f"--epsilon 1 --delta 1e-9 --out {shlex.quote(f'{table_name(source)}.maq')}"
    if unit is not None and most is None:
        named = f"--unit {shlex.quote(unit)}"
        typer.echo(f"next: {release} {named} --max-contributions N {budget}   (N: the number you chose)")
        typer.echo(
            f"or:   maquette schema check {table} --schema {file} {named} --adopt   (use the recommended one; "
            "certificate and report will say that it was read from the rows)"
        )
        return
    bound = "" if unit is None else f" --max-contributions {most}"
    typer.echo(f"next: maquette plan --schema {file}{bound} --epsilon 1 --delta 1e-9   (what to expect; free)")
    kept = "" if unit is None else f" --unit {shlex.quote(unit)}{bound}"
    typer.echo(f"then: {release}{kept} {budget}")


def _tell_units(counted: UnitReport, unit: str, chosen: int | None) -> None:
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
