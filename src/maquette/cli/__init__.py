"""The command line: thin, each command calls one library function.

Exit codes: 0 done, 1 refused (the message says why), 2 wrong usage, 3 the budget is too small, 130 interrupted.
With --json, standard output holds the result or nothing, and every line of standard error is an object: an error
(error, message, happened, expected, advice, exit_code) or a warning (warning, message).
"""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from typing import Annotated, cast

import typer

from maquette.cli import (
    account,
    auditing,
    demonstration,
    ledgers,
    online,
    planning,
    previewing,
    publishing,
    reporting,
    reuse,
    schemas,
    serving,
)
from maquette.cli.helping import Commands
from maquette.cli.telling import exit_code, tell_error, tell_usage, wants_json, warn
from maquette.errors import DataError, MaquetteError

_Usage = cast(type[typer.BadParameter], typer.BadParameter.__mro__[2])  # ClickException, which typer does not export


app = Commands(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,  # they may hold rows
    epilog="Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the budget is too small, 130 interrupted.",
)
PREPARE, PUBLISH, QUESTIONS, KEEP = "Prepare a table", "Publish it", "Answer questions live", "Account and checks"
app.add_typer(schemas.app, name="schema", rich_help_panel=PREPARE)
app.add_typer(reuse.app, name="holdout", rich_help_panel=QUESTIONS)
app.add_typer(ledgers.app, name="ledger", rich_help_panel=KEEP)
for panel, commands in {
    PREPARE: (demonstration.demo, planning.plan, previewing.preview),
    PUBLISH: (publishing.release, publishing.ask, publishing.sample, reporting.report),
    QUESTIONS: (online.online, serving.serve),
    KEEP: (account.budget, account.verify, auditing.audit, demonstration.bench),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"maquette {version('maquette')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def _root(asked: Version = False) -> None:
    """Answer many questions about a private table under one differential-privacy budget.

    New here? `maquette demo` shows every step on a generated table. For a table of yours, start with
    `maquette schema guess FILE`.
    """


def main() -> None:
    """Run the command line; Maquette's own errors and warnings are printed on one line each."""
    as_json = wants_json()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = warn
            sys.exit(app(standalone_mode=not as_json))
    except MaquetteError as error:
        tell_error(error, as_json)
        sys.exit(exit_code(error))
    except OSError as error:  # a full disk, or a folder without write permission
        refused = DataError(
            f"{error.filename or 'a file'!r}: {error.strerror or error}", advice="fix this and try again"
        )
        tell_error(refused, as_json)
        sys.exit(exit_code(refused))
    except _Usage as error:
        tell_usage(error.format_message(), error.exit_code)
        sys.exit(error.exit_code)
