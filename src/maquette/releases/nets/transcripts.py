"""Dual nets: every table that an update rule can reach by few signed questions. Also nets for a VC dimension.

A rule that looks only at the sign of an error, started at its own first model, is within alpha of any table after at
most T(alpha) updates. So the models it reaches by all sequences ((f_1, s_1), ..., (f_t, s_t)), t <= T(alpha), are a
net: sum over t of (2 |Q|)^t transcripts. Different transcripts often reach the same table: multiplicative updates
commute, so only how often each question was raised or lowered matters. Public: nothing here looks at rows. Reference:
Dwork and Roth, section 5.3.1 (erratum A12: signs count); Mechanisms §3.2.4.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import NEVER, AnyRule, Hypothesis, MultiplicativeWeights, rule_of
from maquette.query import LinearQuery
from maquette.schema import Schema
from maquette.theory import net as theory

DIGITS = 9  # tables that agree to this many digits are one table
MAX_STEPS = 200_000  # most updates that are replayed to find the distinct tables

Values = NDArray[np.float64]


def tables_of_transcripts(
    schema: Schema, rule: AnyRule, asked: Sequence[LinearQuery], alpha: float, most: int
) -> tuple[Values, int]:
    """The distinct tables that the rule reaches in T(alpha) updates, one row each, and T(alpha).

    Breadth first: the tables of t + 1 updates are one update away from those of t, so no transcript is replayed whole.
    """
    found = rule_of(schema, rule)
    updates = found.updates(alpha)
    if updates >= NEVER:
        raise QueryError(f"{found.name} has no bound on its updates at alpha {alpha:g}", advice="choose a larger alpha")
    depth, first = math.floor(updates), found.start(alpha)
    _refuse(first, len(asked), depth, most)
    reached: dict[bytes, Values] = {_key(_table(first)): _table(first)}
    edge, steps = [first], 0
    for _ in range(depth):
        following: list[Hypothesis] = []
        for model, query, value in itertools.product(edge, asked, (1.0, 0.0)):
            steps += 1
            if steps > MAX_STEPS or len(reached) > most:
                raise QueryError(
                    f"{found.name} reaches more than {min(most, len(reached)):,} tables in {depth:,} updates",
                    advice="choose a larger alpha or fewer queries",
                )
            moved = copy.deepcopy(model)
            moved.update(query, value)
            table = _table(moved)
            if _key(table) not in reached:
                reached[_key(table)] = table
                following.append(moved)
        edge = following
    return np.stack(list(reached.values())), depth


def vc_dimension(schema: Schema, asked: Sequence[LinearQuery], points: NDArray[np.integer[Any]]) -> int:
    """The most points of the universe on which the 0/1 queries make every pattern; by trying all sets of points."""
    patterns = np.unique(np.stack([query.evaluate(points) for query in asked]), axis=0)
    if not np.isin(patterns, (0.0, 1.0)).all():
        raise QueryError("a VC dimension is of questions that count rows", expected="weights 0 and 1 only")
    dimension = 0
    while 2 ** (dimension + 1) <= len(patterns):
        size = dimension + 1
        if math.comb(schema.size, size) * len(patterns) > 10**8:
            raise QueryError(f"there are too many sets of {size} points to try", advice="use a smaller universe")
        chosen = itertools.combinations(range(schema.size), size)
        if not any(len(np.unique(patterns[:, list(places)], axis=0)) == 2**size for places in chosen):
            break
        dimension = size
    return dimension


def _refuse(first: Hypothesis, queries: int, depth: int, most: int) -> None:
    """Refuse a net that cannot be listed, with its size; for multiplicative weights that is known beforehand."""
    commute = isinstance(first, MultiplicativeWeights)
    size = theory.dual_net(queries=queries, steps=depth, commuting=commute)
    if commute and size > math.log(most):
        raise QueryError(
            f"{queries:,} queries and {depth:,} updates make 10^{size / math.log(10):.0f} tables",
            expected=f"at most {most:,}",
            advice="choose a larger alpha or fewer queries",
        )


def _table(model: Hypothesis) -> Values:
    cells = np.asarray(model.marginal(model.schema.names), dtype=np.float64).reshape(-1)
    if (cells < 0).any() or abs(cells.sum() - 1) > 1e-6:
        raise QueryError(
            f"{type(model).__name__} answers from something else than a distribution",
            advice='take a rule whose models are tables, such as "multiplicative-weights"',
        )
    return np.asarray(cells / cells.sum())


def _key(table: Values) -> bytes:
    return np.round(table, DIGITS).tobytes()
