"""The command line: thin, each command calls one library function.

Exit codes: 0 done, 1 refused (the message says why), 2 wrong usage, 3 the budget does not suffice, 130 interrupted.
"""

from __future__ import annotations

import sys

import typer

from maquette.cli import account, demonstration, online, planning, publishing, schemas
from maquette.errors import BudgetExceeded, MaquetteError

EXCEEDED = 3

app = typer.Typer(
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode="rich",
    help="Very many questions about a private table, under one differential-privacy budget.",
)
app.add_typer(schemas.app, name="schema")
for command in (
    demonstration.demo,
    publishing.release,
    publishing.ask,
    publishing.sample,
    online.online,
    account.budget,
    account.verify,
    planning.plan,
):
    app.command()(command)


@app.callback()
def _root() -> None:
    """Very many questions about a private table, under one differential-privacy budget."""


def main() -> None:
    """Run the command line; Maquette's own errors are told in one line."""
    try:
        app()
    except BudgetExceeded as error:
        _fail(error, EXCEEDED)
    except MaquetteError as error:
        _fail(error, 1)


def _fail(error: MaquetteError, code: int) -> None:
    typer.echo(f"error ({error.code}): {error}", err=True)
    sys.exit(code)
