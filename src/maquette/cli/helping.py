"""Help texts that name what an option wants (FILE, COLUMN, NUMBER) instead of a Python type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

_Usage = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])  # UsageError, which typer does not export
_BY_NAME = {
    **dict.fromkeys(("unit", "target", "sums"), "COLUMN"),
    **dict.fromkeys(("folder", "directory"), "FOLDER"),
    **dict.fromkeys(("name", "sheet", "analyst", "method", "encoding"), "NAME"),
    "delimiter": "CHARACTER",
    "deadline": "SECONDS",
    "host": "ADDRESS",
    "public": "NAME=FILE:KEY",
}
_BY_TYPE: dict[Any, str] = {int: "NUMBER", float: "NUMBER", Path: "FILE", str: "TEXT", list[str]: "TEXT"}


Function = TypeVar("Function", bound=Callable[..., Any])


class _Plain:
    """The part of a command or a group that names its parameters."""

    callback: Callable[..., object] | None

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, each with a word for the value it takes."""
        wanted = {} if self.callback is None else get_type_hints(self.callback)
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            _name_value(parameter, wanted.get(parameter.name))
        return list(parameters)


class _PlainCommand(_Plain, TyperCommand):
    """A command with plain help. A pattern that the shell wrote out as several files is told to need quotes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments of a command line."""
        try:
            return list(super().parse_args(ctx, args))
        except _Usage as error:
            if "extra argument" in error.message and any(parameter.name == "source" for parameter in self.params):
                error.message += ". Several files are one pattern in quotes: 'visits-*.csv'"
            raise


class _PlainGroup(_Plain, TyperGroup):
    """A group of commands with plain help."""


class Commands(typer.Typer):
    """Commands whose help says what each option wants; use it like `typer.Typer`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_PlainGroup, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Add a command."""
        return super().command(name, cls=_PlainCommand, **settings)


def _name_value(parameter: Any, wanted: object) -> None:
    """Say what one option or argument takes: nothing for a switch, the choices, or a word in capitals."""
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda ctx: None  # its name and its help say it
        return
    if parameter.metavar is None:
        parameter.metavar = "" if getattr(parameter, "is_flag", False) else _word(parameter.name, wanted)
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is not None or high is not None:
        told = f"at least {low:,}" if high is None else f"{low or 0:,} to {high:,}"
        parameter._get_number_range_help_str = lambda: told


def _word(name: str, wanted: object) -> str:
    """What to write after the option."""
    held = [kind for kind in get_args(wanted) if kind is not NoneType]
    plain = held[0] if NoneType in get_args(wanted) and len(held) == 1 else wanted
    if get_origin(plain) is Literal:
        return "|".join(str(choice) for choice in get_args(plain))
    return _BY_NAME.get(name) or _BY_TYPE.get(plain, "VALUE")
