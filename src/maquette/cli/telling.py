"""How commands report errors: one line for people, one JSON object for programs, always on standard error."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TextIO

import typer

from maquette.errors import BudgetExceeded, MaquetteError, OutOfDomain, PrivacyWarning, QueryError

REFUSED, USAGE, EXCEEDED, INTERRUPTED = 1, 2, 3, 130


def wants_json() -> bool:
    """Whether the command was typed with --json; checked before its arguments are parsed, which may fail."""
    return "--json" in sys.argv[1:]


def exit_code(error: MaquetteError) -> int:
    """The exit code of a command when this error is raised."""
    return EXCEEDED if isinstance(error, BudgetExceeded) else REFUSED


def tell_error(error: MaquetteError, as_json: bool) -> None:
    """Print what was refused."""
    if as_json:
        tell_json({**_facts(error), **_numbers(error)})
    else:
        typer.echo(f"error ({error.code}): {error}", err=True)


def tell_usage(message: str, code: int) -> None:
    """Print a usage error for a program."""
    tell_json({"error": "usage", "message": message, **_parts(message), "exit_code": code})


def tell_interrupt(what: str, as_json: bool) -> None:
    """Print what an interrupt left behind."""
    if as_json:
        tell_json({"error": "interrupted", "message": what, **_parts(what), "exit_code": INTERRUPTED})
    else:
        typer.echo(f"interrupted: {what}", err=True)


def tell_json(facts: dict[str, object]) -> None:
    """One object per line, so that several can be separated."""
    typer.echo(json.dumps(facts, ensure_ascii=False), err=True)


def warn(  # noqa: PLR0917 (the parameters are those of warnings.showwarning)
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning without its place in Maquette's source, which does not matter to a custodian."""
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
    """Numbers of the error as fields, so that a program need not parse the message."""
    match error:
        case BudgetExceeded():
            return {"requested": error.requested, "remaining": error.remaining}
        case OutOfDomain():
            return {"counts": error.counts}
        case QueryError() if error.line is not None:
            return {"line": error.line, "column": error.column}
    return {}
