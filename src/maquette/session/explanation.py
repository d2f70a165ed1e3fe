"""Explanation: what a session promises, and how a question would be answered now, in words, and what it would cost."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from maquette.answers import Source
from maquette.curator import Curator
from maquette.errors import LedgerError
from maquette.estimates import Columns
from maquette.privacy import Loss
from maquette.session.order import Order
from maquette.session.precision.bases import ANCHOR, is_plain, plain, summed, whole_kind

PROMISE = "counts within {tolerance:,.0f} rows ({alpha:g} of them){how}, over the noise on the binned, clamped table"

DEAR = "; more than remains: cheaper ways would be tried, then a wider interval, then the model without a guarantee"


@lru_cache(64)
def promise(alpha: float, beta: float, tolerance: float, *, together: bool) -> str:
    """What a session promises about its answers, in words."""
    how = f" with probability {1 - beta:g}"
    how += ", all answers together" if together else " for a question chosen independently of earlier noise"
    return PROMISE.format(tolerance=tolerance, alpha=alpha, how=how)


@dataclass(frozen=True)
class Explanation:
    """How a question would be answered now, and its price; computing this costs nothing."""

    route: Source
    cost: Loss
    half_width: float
    text: str

    def __str__(self) -> str:
        return self.text


def in_words(route: Source, plan: Order, cost: Loss, left: Callable[[], int]) -> str:
    """What a route means, and what would be bought; `left` tells what remains of the budget, in units."""
    if route == "cache":
        return "answered before: the same answer, free"
    if route == "derived":
        return "what is known already answers this within the tolerance, free"
    first = "a guard tests the model first, free; if the model is off: " if route == "hypothesis" else ""
    sets = [_named(key) for key in sorted(plan.parts, key=len)]
    single = [goal.marginal.columns for goal, _ in (*plan.directs.values(), *plan.rents.values())]
    bought = [*sets, *(f"this question alone ({' x '.join(columns) or 'all rows'})" for columns in single)]
    shown = ", ".join(bought[:4]) + (f" and {len(bought) - 4} more" if len(bought) > 4 else "")
    ending = "" if plan.units <= left() else DEAR
    return f"{first}to be measured: {shown}, for {cost}{ending}"


def _named(key: Columns) -> str:
    if (column := summed(key)) is not None:
        return f"{' x '.join(plain(key))} (sums of {column})"
    if key == ANCHOR:
        return "the number of rows"
    if whole_kind(key) is not None:
        return f"{' x '.join(plain(key))} (the whole table, for ranges)"
    return " x ".join(plain(key)) + ("" if is_plain(key) else " (for ranges)") or "the number of rows"


def page(facts: Mapping[str, str]) -> str:
    """Facts about a session as a small table for notebooks."""
    rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
    return f"<table><caption>Session</caption>{rows}</table>"


def spent_on(curator: Curator) -> str:
    """What was spent on the table, in words."""
    try:
        return f"spent {curator.spent}"
    except LedgerError:
        return "closed"
