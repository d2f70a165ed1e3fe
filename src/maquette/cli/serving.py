"""`maquette serve`: private tables as a service, on a laptop or in an institution."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import options
from maquette.cli.showing import print_json
from maquette.errors import QueryError

if TYPE_CHECKING:
    from maquette.service import Running, ServiceConfig


def serve(
    source: Annotated[str | None, typer.Argument(help=options.SOURCE)] = None,
    *,
    schema: Annotated[Path | None, typer.Option("--schema", "-s", help="Schema file (TOML) of the table.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Total privacy budget of the table.")] = None,
    delta: options.Delta = 0.0,
    config: Annotated[Path | None, typer.Option(help="Settings file, for one or more tables (maquette.toml).")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a generated table, `survey`, to try it.")] = False,
    name: Annotated[str | None, typer.Option(help="Name of the table (default: the name of the file).")] = None,
    alpha: Annotated[float, typer.Option(help="Maximum error of an answer, as a fraction of rows.")] = 0.02,
    beta: Annotated[float, typer.Option(help="Probability that some answer exceeds that error.")] = 0.05,
    accounting: options.Books = "auto",
    relation: options.Neighbours = "add-remove",
    unit: options.Unit = None,
    max_contributions: options.Most = 1,
    ledger: options.LedgerFile = None,
    missing: options.Missing = None,
    delimiter: options.Delimiter = None,
    deadline: options.Seconds = None,
    max_rows: Annotated[
        int | None,
        typer.Option(
            help="Number of rows the table will never exceed; answers then leave after a fixed time, to hide timing."
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on (default: 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port of HTTP and the console (default: 8765).")] = None,
    pg_port: Annotated[int | None, typer.Option(help="Port for PostgreSQL clients (default: 5433).")] = None,
    directory: Annotated[Path | None, typer.Option(help="Folder for ledgers, state and releases.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File for the custodian's token, mode 0600.")] = None,
    bins_epsilon: options.BinsEpsilon = None,
    trust_draft: options.Trust = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the settings and exit, without opening a table.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Serve tables to people: HTTP, a console in the browser, and PostgreSQL clients.

    Example: maquette serve people.csv --schema people.schema.toml --epsilon 1 --delta 1e-9
    """
    from maquette.schema import Schema
    from maquette.service import TableConfig, demonstration, load_config, run

    with ExitStack() as stack:
        settings: ServiceConfig
        if sum((source is not None, config is not None, demo)) != 1:
            raise QueryError(
                "the command does not say what to serve, or says it twice",
                expected="exactly one of a source, --config FILE or --demo",
            )
        if config is not None:
            settings = load_config(config)
        elif demo:
            settings = demonstration(directory or Path(stack.enter_context(tempfile.TemporaryDirectory())))
        else:
            assert source is not None
            if schema is None or epsilon is None:
                missing = ["--schema FILE"] * (schema is None) + ["--epsilon NUMBER"] * (epsilon is None)
                drafted = f"draft a schema with `maquette schema guess {shlex.quote(source)}`"
                raise QueryError(
                    f"{' and '.join(missing)} {'are' if missing[1:] else 'is'} missing",
                    advice=drafted if schema is None else "an epsilon from 0.1 to 10 is usual",
                )
            options.refuse_draft(Schema.load(schema), schema, trust_draft)
            table = TableConfig(
                name=name or options.table_name(source),
                source=source,
                schema=str(schema),
                epsilon=epsilon,
                delta=delta,
                accounting=accounting,
                relation=relation,
                unit=unit,
                max_contributions=max_contributions,
                missing=tuple(missing or ()),
                delimiter=delimiter,
                ledger=_ledger(source, ledger, directory),
                alpha=alpha,
                beta=beta,
                deadline=deadline,
                max_rows=max_rows,
                bins_epsilon=bins_epsilon,
                trust_draft=trust_draft,
            )
            settings = _one_table(table, directory or Path(f"{table.name}.maquette"))
        settings = _changed(settings, host=host, port=port, pg_port=pg_port, directory=directory, token_file=token_file)
        settings.check()
        if check:
            many = f"{len(settings.tables)} table{'s' * (len(settings.tables) != 1)}"
            typer.echo(f"the settings are valid: {many}; nothing was opened")
            return
        run(settings, lambda running: _tell(running, as_json=json, secret=config is None))


def _ledger(source: str, given: Path | None, directory: Path | None) -> str | None:
    """Beside the source, as for every other command, unless a directory was named."""
    if given is not None:
        return str(given)
    return None if directory is not None else str(options.ledger_of(source))


def _one_table(table: Any, directory: Path) -> ServiceConfig:
    from maquette.service import ServiceConfig

    return ServiceConfig(directory=directory, tables=(table,))


def _changed(settings: ServiceConfig, **given: Any) -> ServiceConfig:
    return replace(settings, **{word: value for word, value in given.items() if value is not None})


def _tell(running: Running, *, as_json: bool, secret: bool) -> None:
    """Say where the service is reached. With `--config` standard output is often a log, which holds no token."""
    if as_json:
        shown = {word: value for word, value in vars(running).items() if secret or word != "token"}
        print_json(shown, lines=False)
        return
    table = running.tables[0]
    typer.echo(f"console     {running.url}/")
    typer.echo(f"HTTP        {running.url}/v1/")
    if running.postgres is not None:
        typer.echo(f"PostgreSQL  {running.postgres}   (the token is the password)")
    typer.echo(f"tables      {', '.join(running.tables)}")
    token = f"{running.token}   (the custodian's; also in" if secret else "(the custodian's: in"
    typer.echo(f"token       {token} {running.token_file})")
    typer.echo("next        in another terminal:")
    question = f'{{"sql": "SELECT count(*) FROM {table}"}}'
    typer.echo(
        f'  curl -s {running.url}/v1/tables/{table}/ask -H "Authorization: Bearer $(cat {running.token_file})" '
        f"-H 'Content-Type: application/json' -d '{question}'"
    )
    typer.echo("Ctrl-C stops the service.")
