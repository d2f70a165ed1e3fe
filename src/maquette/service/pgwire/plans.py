"""Plan: a statement that was understood and not run. Describe reads it, Execute runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import Column


@dataclass
class Result:
    """What a statement gives: rows if it has columns, a tag, notices, and settings that clients are told of."""

    tag: str
    columns: tuple[Column, ...] | None = None
    rows: Sequence[tuple[Any, ...]] = ()
    notices: list[Problem] = field(default_factory=list)
    changed: list[tuple[str, str]] = field(default_factory=list)
    copy: CopyFormat | None = None


@dataclass(frozen=True)
class CopyFormat:
    """How COPY writes rows."""

    form: str = "text"
    delimiter: str = "\t"
    null: str = "\\N"
    header: bool = False
    quote: str = '"'


@dataclass(frozen=True)
class Plan:
    """A statement: the types of its parameters, the columns it will give, and how to run it.

    `columns` is None for a statement without rows; finding them charges nothing. `run` takes the parameters; it is
    called once for each fresh portal, never by Describe. `ends` marks what may run in a failed transaction.
    """

    text: str
    run: Callable[[Sequence[Any]], Result]
    find_columns: Callable[[], tuple[Column, ...] | None] = lambda: None
    types: tuple[int, ...] = ()
    ends: bool = False

    @cached_property
    def columns(self) -> tuple[Column, ...] | None:
        """The columns of the result."""
        return self.find_columns()


def notice(message: str, *, detail: str | None = None, hint: str | None = None) -> Problem:
    """A notice."""
    return Problem("00000", message, detail=detail, hint=hint)
