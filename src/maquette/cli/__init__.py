"""The command line: thin, each command calls one library function.

Exit codes: 0 done, 1 refused (the message says why), 2 wrong usage, 3 the budget does not suffice, 130 interrupted.
"""

from __future__ import annotations

import sys
import warnings
from typing import TextIO

import typer

from maquette.cli import account, demonstration, online, planning, publishing, reporting, reuse, schemas
from maquette.errors import BudgetExceeded, MaquetteError, PrivacyWarning

EXCEEDED = 3

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    help="Very many questions about a private table, under one differential-privacy budget.",
)
app.add_typer(schemas.app, name="schema")
app.add_typer(reuse.app, name="holdout")
for command in (
    demonstration.demo,
    publishing.release,
    publishing.ask,
    publishing.sample,
    online.online,
    account.budget,
    account.verify,
    planning.plan,
    reporting.report,
    demonstration.bench,
):
    app.command()(command)


@app.callback()
def _root() -> None:
    """Very many questions about a private table, under one differential-privacy budget."""


def main() -> None:
    """Run the command line; Maquette's own errors and warnings are told in one line each."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            app()
    except BudgetExceeded as error:
        _fail(error, EXCEEDED)
    except MaquetteError as error:
        _fail(error, 1)


def _warn(  # noqa: PLR0917 (the parameters are those of warnings.showwarning)
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Where in Maquette's source a custodian was warned is of no interest to the custodian."""
    if issubclass(category, PrivacyWarning):
        typer.echo(f"warning: {message}", err=True)
    else:
        typer.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def _fail(error: MaquetteError, code: int) -> None:
    typer.echo(f"error ({error.code}): {error}", err=True)
    sys.exit(code)
