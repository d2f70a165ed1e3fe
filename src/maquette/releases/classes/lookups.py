"""Listed look-ups, answered at once: each separately, or all from one table of the keys they touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from maquette.answers import Answer
from maquette.curator import Curator, Measurement
from maquette.errors import QueryError
from maquette.estimates import Estimate, NoEvidence, spread, units_for
from maquette.hypothesis import WeightedRecords
from maquette.privacy import DiscreteGaussian, Loss, check_confidence, recorded_price
from maquette.query import Keys, Lookup, Marginal
from maquette.releases.artifact import Release, certified

LookupMethod = Literal["auto", "each", "keys"]


def look_up(
    curator: Curator,
    lookups: Sequence[Lookup],
    *,
    method: LookupMethod = "auto",
    epsilon: float | None = None,
    rho: float | None = None,
    confidence: float = 0.95,
    request: str | None = None,
) -> list[Answer]:
    """The number of rows that each look-up counts, for one charge of `epsilon` or `rho` (default: what remains).

    "each" measures every look-up separately: the noise of k of them grows as sqrt(k), under a pure budget as k. "keys"
    measures one table of all keys that any of them touches: its cells are disjoint, so the noise of a cell does not
    grow with their number, and a look-up of m keys adds up m of them, which grows as sqrt(m). "auto" takes the method
    whose largest standard deviation, a public number, is smaller. Under "replace" a table has sqrt(2) times the noise
    (2 times under a pure budget).

    Privacy: one `Curator.measure_many`. Accuracy: each interval holds with probability `confidence`.

    >>> import maquette as mq
    >>> from maquette.query import lookup
    >>> schema = mq.Schema([mq.Integer("code", 0, 999_999)])
    >>> table = mq.open_table({"code": [4711] * 900 + [815] * 100}, schema)
    >>> curator = mq.Curator(table, mq.Budget(epsilon=1.0))
    >>> common, rare = look_up(curator, [lookup(schema, {"code": c}) for c in (4711, 815)], confidence=0.999999)
    >>> common.low <= 900 <= common.high and rare.low <= 100 <= rare.high
    True
    """
    check_confidence(confidence)
    if isinstance(lookups, Lookup) or not len(lookups) or not all(isinstance(one, Lookup) for one in lookups):
        raise QueryError(
            "there are no look-ups",
            expected="a list of look-ups, at least one",
            advice="`lookup(schema, keys)` makes them",
        )
    if method not in get_args(LookupMethod):
        raise QueryError(f"method is {method!r}", expected=f"one of {', '.join(get_args(LookupMethod))}")
    if method == "keys" and len({one.columns for one in lookups}) > 1:
        raise QueryError(
            "these look-ups have different key columns, so no table holds all keys", advice='use method="each"'
        )
    paid = recorded_price(curator.budget, units_for(curator, epsilon, rho))
    if (_cheaper(curator, lookups) if method == "auto" else method) == "each":
        measured = curator.measure_many(lookups, **paid, request=request)
        cost = curator.cost_of(measured)
        return [
            _answer(one, [1.0], m, np.zeros(1, dtype=np.int64), cost=cost, confidence=confidence)
            for one, m in zip(lookups, measured, strict=True)
        ]
    table = _table(lookups)
    whole = curator.measure(table, **paid, request=request)
    everything = Lookup(table.schema, table.columns, table.points, np.ones(len(table.points)))
    records = np.zeros((sum(len(one.points) for one in lookups), len(table.schema)), dtype=np.int32)
    records[:, [table.schema.position(n) for n in table.columns]] = np.concatenate([one.points for one in lookups])
    places = np.split(everything.locate(records), np.cumsum([len(one.points) for one in lookups])[:-1])
    return [
        _answer(one, one.values.tolist(), whole, place, cost=whole.cost, confidence=confidence)
        for one, place in zip(lookups, places, strict=True)
    ]


def keys_release(
    curator: Curator,
    lookups: Sequence[Lookup],
    *,
    confidence: float = 0.95,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """One table of all keys that the look-ups touch, as a release: a list of records with weights.

    All look-ups must have the same key columns. Rows with other keys are one record of a key that none of them touches;
    other columns are at their first level, and nothing is promised about them. Privacy: one `Curator.measure_many`, in
    which a tenth buys the number of rows where that is private. Accuracy: the certificate states how far the measured
    look-ups are from the table; their weights here add up to one, which can only move them where noise made some
    negative.
    """
    check_confidence(confidence)
    if len({one.columns for one in lookups}) > 1:
        raise QueryError("these look-ups have different key columns, so no table holds all keys", advice="use look_up")
    table, schema, public = _table(lookups), curator.schema, curator.relation.rows_are_public
    asked = [table] if public else [table, Marginal(schema)]
    with curator.account("look-ups") as account:
        shares = None if public else [0.9, 0.1]
        found = curator.measure_many(asked, units=units_for(curator, epsilon, rho), shares=shares)
        rows = curator.count_rows() if public else max(1.0, float(found[1].values))
    masses = np.maximum(found[0].values.reshape(-1), 0.0) / rows
    records = np.zeros((len(table.points) + 1, len(schema)), dtype=np.int32)
    places = [schema.position(name) for name in table.columns]
    records[:-1, places] = table.points
    records[-1, places] = _elsewhere(table)
    weights = np.append(masses, max(0.0, 1.0 - masses.sum()))
    if weights[-1] and len(table.points) == schema.cells(table.columns):
        weights[-1] = 0.0  # every key is touched
    if not weights.any():
        weights[:] = 1.0
    model = WeightedRecords(schema, records, weights=weights / weights.sum(), step="exact")
    summed = max(math.sqrt(float((one.values**2).sum())) for one in lookups)
    width = summed * spread(found[0]) * math.sqrt(2 * math.log(2 * len(lookups) / (1 - confidence)))
    promise = f"every look-up measured within {width:.4g} rows with probability {confidence:g}"
    gaussian = isinstance(found[0].event, DiscreteGaussian)
    certificate = certified(curator, "look-ups", account, accuracy=promise if gaussian else None)
    return Release(schema, model, NoEvidence(rows), certificate)


def _elsewhere(table: Keys) -> NDArray[np.int64]:
    """A key that is not in the table; the first one if all are."""
    shape = table.schema.shape(table.columns)
    taken = set(np.ravel_multi_index(tuple(table.points.T), shape).tolist())
    free = next((i for i in range(len(taken) + 1) if i not in taken), 0)
    return np.array(np.unravel_index(min(free, math.prod(shape) - 1), shape))


def _cheaper(curator: Curator, lookups: Sequence[Lookup]) -> Literal["each", "keys"]:
    """The method whose largest standard deviation is smaller, in units of that of one look-up alone."""
    if len({one.columns for one in lookups}) > 1:
        return "each"
    pure, ends = curator.budget.accountant.currency == "pure", 1 if curator.relation.kind == "add-remove" else 2
    each = len(lookups) if pure else math.sqrt(len(lookups))
    noise = (ends if pure else math.sqrt(ends)) if sum(len(one.points) for one in lookups) > 1 else 1
    summed = max(math.sqrt(float((one.values**2).sum())) for one in lookups)
    return "keys" if noise * summed <= each else "each"


def _table(lookups: Sequence[Lookup]) -> Keys:
    points = np.unique(np.concatenate([one.points for one in lookups]), axis=0)
    first = lookups[0]
    return Keys(first.schema, Lookup(first.schema, first.columns, points, np.ones(len(points))))


def _answer(
    asked: Lookup,
    weights: Sequence[float],
    measured: Measurement,
    places: NDArray[np.int64],
    *,
    cost: Loss,
    confidence: float,
) -> Answer:
    values, each = measured.values.reshape(-1)[places], spread(measured)
    estimate = Estimate(
        total=float(np.dot(weights, values)),
        deviation=each * math.sqrt(sum(weight**2 for weight in weights)),
        largest=each * max(weights),
        gaussian=isinstance(measured.event, DiscreteGaussian),
    )
    width = estimate.half_width(confidence)
    low, high = max(0.0, estimate.total - width), max(0.0, estimate.total + width)
    value = min(max(estimate.total, low), high)
    return Answer(
        value=value,
        low=low,
        high=high,
        unbiased=estimate.total,
        confidence=confidence,
        count=value if asked.is_predicate else None,
        source="measured",
        cost=cost,
    )
