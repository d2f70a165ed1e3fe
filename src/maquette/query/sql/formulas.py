"""Formulas over measured numbers: a call of one of the functions that `answers/moments.py` evaluates."""

from __future__ import annotations

from typing import Any

from sqlglot import exp


def call(name: str, *arguments: Any) -> Any:
    """A function of our own over columns and numbers; no user can write its name."""
    nodes = [
        argument if isinstance(argument, exp.Expression) else exp.Literal.number(argument) for argument in arguments
    ]
    return exp.Anonymous(this=name, expressions=nodes)
