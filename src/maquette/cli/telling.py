"""How commands speak of trouble: one line for people, one JSON object for programs, always on standard error."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TextIO

import typer

from maquette.errors import BudgetExceeded, MaquetteError, OutOfDomain, PrivacyWarning, QueryError

REFUSED, USAGE, EXCEEDED, INTERRUPTED = 1, 2, 3, 130


def wants_json() -> bool:
    """Whether the command was typed with --json; asked before its arguments are read, which may be what is wrong."""
    return "--json" in sys.argv[1:]


def exit_code(error: MaquetteError) -> int:
    """What a command ends with when this is raised."""
    return EXCEEDED if isinstance(error, BudgetExceeded) else REFUSED


def tell_error(error: MaquetteError, as_json: bool) -> None:
    """Say what was refused."""
    if as_json:
        tell_json({**_facts(error), **_numbers(error)})
    else:
        typer.echo(f"error ({error.code}): {error}", err=True)


def tell_usage(message: str, code: int) -> None:
    """Say what was typed wrong, to a program."""
    tell_json({"error": "usage", "message": message, **_parts(message), "exit_code": code})


def tell_interrupt(what: str, as_json: bool) -> None:
    """Say what an interrupt left behind."""
    if as_json:
        tell_json({"error": "interrupted", "message": what, **_parts(what), "exit_code": INTERRUPTED})
    else:
        typer.echo(f"interrupted: {what}", err=True)


def tell_json(facts: dict[str, object]) -> None:
    """One object on one line, so that several can be told apart."""
    typer.echo(json.dumps(facts, ensure_ascii=False), err=True)


def warn(  # noqa: PLR0917 (the parameters are those of warnings.showwarning)
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Where in Maquette's source a custodian was warned is of no interest to the custodian."""
    if wants_json():
        tell_json({"warning": category.__name__, "message": str(message)})
    elif issubclass(category, PrivacyWarning):
        typer.echo(f"warning: {message}", err=True)
    else:
        typer.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def _facts(error: MaquetteError) -> dict[str, object]:
    return {
        "error": error.code,
        "message": str(error),
        **_parts(error.happened, error.expected, error.advice),
        "exit_code": exit_code(error),
    }


def _parts(happened: str, expected: str | None = None, advice: str | None = None) -> dict[str, object]:
    return {"happened": happened, "expected": expected, "advice": advice}


def _numbers(error: MaquetteError) -> dict[str, object]:
    """What a program would else have to read from the message."""
    match error:
        case BudgetExceeded():
            return {"requested": error.requested, "remaining": error.remaining}
        case OutOfDomain():
            return {"counts": error.counts}
        case QueryError() if error.line is not None:
            return {"line": error.line, "column": error.column}
    return {}
