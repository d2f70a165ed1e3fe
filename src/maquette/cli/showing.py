"""What commands print: text for people, JSON for programs."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from maquette.answers import Answered
    from maquette.privacy import Loss


def print_json(value: object, *, lines: bool = True) -> None:
    """One JSON document on standard output, on several lines or one; infinite numbers are null."""
    typer.echo(json.dumps(_plain(value), indent=2 if lines else None, ensure_ascii=False))


def loss_facts(loss: Loss) -> dict[str, Any]:
    """An amount of privacy."""
    return {"epsilon": loss.epsilon, "delta": loss.delta, "rho": loss.rho, "currency": loss.currency}


def answer_facts(answer: Answered) -> dict[str, Any]:
    """An answer, or the rows of a table of them, and its cost."""
    return {**answer.as_dict(), "cost": loss_facts(answer.cost)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
