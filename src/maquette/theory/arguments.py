"""`checked`: a bound refuses arguments outside its range, by name, before it computes anything with them.

The letters of the theory mean the same everywhere, so each has one range: beta is a probability, epsilon a positive
number, queries a number of at least one. A bound that needs another range says so: `checked(delta=PROBABILITY)`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from maquette.errors import QueryError

P = ParamSpec("P")
R = TypeVar("R")


class Range(NamedTuple):
    """Which values are allowed, as a test (of a number or an array) and in words."""

    holds: Callable[[Any], Any]
    words: str


POSITIVE = Range(lambda value: value > 0, "a number above 0")
NOT_NEGATIVE = Range(lambda value: value >= 0, "a number of at least 0")
NOT_POSITIVE = Range(lambda value: value <= 0, "a number of at most 0")
COUNT = Range(lambda value: value >= 1, "a number of at least 1")
PROBABILITY = Range(lambda value: (value > 0) & (value < 1), "a number above 0 and below 1")
SHARE = Range(lambda value: (value >= 0) & (value <= 1), "a number from 0 to 1")
PART = Range(lambda value: (value > 0) & (value <= 1), "a number above 0, at most 1")
MAYBE_NONE = Range(lambda value: (value >= 0) & (value < 1), "0, or a number above 0 and below 1")
HALF = Range(lambda value: (value > 0) & (value <= 0.5), "a number above 0, at most 1/2")
ORDER = Range(lambda value: (value > 1) & (value <= 2), "a number above 1, at most 2")

RANGES: dict[str, Range] = {
    **dict.fromkeys(("alpha", "alpha0", "epsilon", "round_epsilon", "rho", "rows", "scale", "strength"), POSITIVE),
    **dict.fromkeys(("width", "norm", "error", "threshold", "tolerance", "weight", "query_norm", "strong"), POSITIVE),
    **dict.fromkeys(
        ("universe", "queries", "candidates", "accesses", "hits", "rounds", "draws", "turn", "tests"), COUNT
    ),
    **dict.fromkeys(("vertices", "edges", "support", "levels", "values", "directions", "grid", "concepts"), COUNT),
    **dict.fromkeys(("multiplicity", "cap", "stretch", "features", "attributes", "dimension", "bits", "k"), COUNT),
    **dict.fromkeys(
        ("log_members", "log_ratio", "log_universe", "log_actions", "log_queries", "optimum"), NOT_NEGATIVE
    ),
    **dict.fromkeys(("amount", "eta", "total_epsilon", "sample_error", "c", "failures", "refusals"), NOT_NEGATIVE),
    **dict.fromkeys(
        ("successes", "asked", "log_answers", "degree", "optimum", "size", "steps", "passed"), NOT_NEGATIVE
    ),
    **dict.fromkeys(("beta", "gamma", "test_share"), PROBABILITY),
    **dict.fromkeys(("place", "mean"), SHARE),
    "largest": PART,
    "delta": MAYBE_NONE,
    "margin": HALF,
    "p": ORDER,
    "log_failure": NOT_POSITIVE,
}


def checked(**other: Range) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check every argument of a bound against its range in `RANGES`, or against another one that is given here."""

    def wrap(bound: Callable[P, R]) -> Callable[P, R]:
        names = tuple(inspect.signature(bound).parameters)
        ranges = {name: found for name in names if (found := other.get(name) or RANGES.get(name)) is not None}

        @functools.wraps(bound)
        def wrapped(*given: P.args, **named: P.kwargs) -> R:
            for name, value in (*zip(names, given, strict=False), *named.items()):
                if value is not None and name in ranges:
                    _check(bound.__name__, name, value, ranges[name])
            return bound(*given, **named)

        return wrapped

    return wrap


def _check(bound: str, name: str, value: object, allowed: Range) -> None:
    try:
        fits = bool(np.all(allowed.holds(value))) if isinstance(value, np.ndarray) else bool(allowed.holds(value))
    except TypeError:
        fits = False
    if not fits:
        raise QueryError(f"{name} is {value!r} in the bound {bound}", expected=allowed.words)
