"""L2: the exact privacy loss of every door on tiny tables, over all neighbours, compared with the charge.

With zero noise a door shows the centre of its distribution; the requested noise scale and the charge are public. So the
loss between two centres is known exactly, and must not exceed the charge.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from maquette.audit.benches import Bench, Outcome
from maquette.audit.reference.guard_patterns import GuardNoise, pattern_loss, patterns
from maquette.audit.reference.laws import exponential_law, permute_and_flip_law
from maquette.audit.tiny import (
    ANSWERS,
    BASE,
    FAMILY,
    FAMILY_ANSWERS,
    PURE,
    QUESTIONS,
    SCHEMA,
    SETTINGS,
    SEVERAL,
    ZCDP,
    asked,
    bench,
    neighbours,
)
from maquette.curator import Curator
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Marginal

TOLERANCE = 1 + 1e-9
UNIT = 2**20  # one row, in the units of guards

Ask = Callable[[Curator, dict[str, Any]], Any]


@dataclass(frozen=True)
class Loss:
    """The largest loss found for a door, as a share of its charge."""

    door: str
    pairs: int
    share: float


def noisy_losses(*, questions: tuple[Any, ...] = QUESTIONS, stop: bool = False) -> list[Loss]:
    """The doors that add noise; with `stop`, the first loss above its charge raises."""
    far = np.array([[5.0, 0.4], [0.4, 0.4], [0.4, 0.4]])
    asks: dict[str, list[Ask]] = {
        "measure": [lambda c, price, q=q: [c.measure(q, **price)] for q in questions],  # type: ignore[misc]
        "measure_many": [lambda c, price: c.measure_many(SEVERAL, shares=[1, 2, 0.5], **price)],
        "measure_error": [
            lambda c, price: [c.measure_error(SEVERAL, ANSWERS, **price)],
            lambda c, price: [c.measure_error(SEVERAL[:1], [far], **price)],
            lambda c, price: [c.measure_error(FAMILY, FAMILY_ANSWERS, **price)],
        ],
        "count_rows": [lambda c, price: c.count_rows(**price)],
    }
    return [_worst(door, some, _noise_share, stop) for door, some in asks.items()]


def selection_losses(*, stop: bool = False) -> list[Loss]:
    """The doors that select, by every mechanism and accounting; `stop` as above."""
    table = np.array([[0, 1, 2, 0, 1, 0, 1.0, 0.2, 0.5], [3, 0, 0, 1, 0, 0, 0.0, 1.0, 1.5], np.zeros(9)])
    flat = np.linspace(0.2, 1.7, 9)
    worst: list[Ask] = [
        lambda c, price, kind=kind, signed=signed: c.select_worst(  # type: ignore[misc]
            SEVERAL, ANSWERS, signed=signed, mechanism=kind, **price
        )
        for kind in ("auto", "exponential", "permute-and-flip")
        for signed in (False, True)
    ]
    whole: Ask = lambda c, price: c.select_worst(  # noqa: E731
        SEVERAL, ANSWERS, over="marginals", weights=[0.3, 1.0, 2.5], penalties=[1, 0.25, 0], **price
    )
    best: list[Ask] = [
        lambda c, price, kind=kind: c.select_best(SEVERAL, table, mechanism=kind, **price)  # type: ignore[misc]
        for kind in ("auto", "exponential", "permute-and-flip")
    ]
    draws: list[Ask] = [
        lambda c, price, between=between, cap=cap: c.lottery(SEVERAL, between=between).draw(  # type: ignore[misc]
            flat, draws=1, cap=cap, **price
        )
        for between in (None, (0.5, 1.5))
        for cap in (None, 4)
    ]
    return [
        _worst("select_worst", [*worst, whole], _selection_share, stop),
        _worst("select_best", best, _selection_share, stop),
        _worst("lottery", draws, _selection_share, stop),
    ]


def _guarded(curator: Curator, hits: int) -> Any:
    guard = curator.guard(2.0, hits=hits, epsilon=1.0, numeric=False, refreshed=True)
    return guard.test(asked("a"), 0.0)


def guard_losses() -> Loss:
    """Guards: the exact probabilities of all patterns of hits, at the requested scales, in rows."""
    share, pairs = 0.0, 0
    for relation, m in SETTINGS:
        for hits in (1, 2):
            table = bench(BASE, max(m, 1), PURE, relation)
            seen = table.ask(partial(_guarded, hits=hits))
            threshold, query = (float(call.scale) / UNIT for call in seen.calls[:2])
            guard = GuardNoise(hits, threshold, query, refreshed=True)
            lost = max(pattern_loss(guard, p, (-4, 0, 4), sensitivity=m) for p in patterns(2, hits))
            share, pairs = max(share, lost / (seen.units / UNITS_PER_ONE)), pairs + 1
            table.close()
    return Loss("guard", pairs, share)


def check_noisy_losses() -> None:
    """No door that adds noise loses more than it charges."""
    noisy_losses(stop=True)


def check_selection_losses() -> None:
    """No selection loses more than it charges."""
    selection_losses(stop=True)


def check_guard_losses() -> None:
    """No guard loses more than it charges."""
    _hold(guard_losses())


def check_one_bucket() -> None:
    """One weighted bucket: a row that leaves it takes its whole weight along, also under replace."""
    noisy_losses(questions=(QUESTIONS[6], QUESTIONS[7], Marginal(SCHEMA, (), QUESTIONS[4])), stop=True)


def _hold(loss: Loss) -> None:
    assert loss.share <= TOLERANCE, f"{loss.door} loses {loss.share:.4g} times what it charges"


def _worst(door: str, asks: list[Ask], share_of: Callable[[Bench, Outcome, Outcome], float], stop: bool) -> Loss:
    share, pairs = 0.0, 0
    for relation, m in SETTINGS:
        for budget in (PURE, ZCDP):
            price: dict[str, Any] = {"epsilon": 0.7} if budget is PURE else {"rho": 0.7}
            benches: dict[Any, tuple[Bench, list[Outcome]]] = {}
            for pair in neighbours(relation, m):
                for units in pair:
                    if units not in benches:
                        made = bench(units, m, budget, relation)
                        benches[units] = (made, [made.ask(partial(_priced, ask, price)) for ask in asks])
                for one, other in zip(*(benches[units][1] for units in pair), strict=True):
                    assert one.broke is None, one.broke
                    assert one.refusal is None, one.refusal
                    assert one.calls == other.calls, f"{door}: the noise asked for depends on the rows"
                    assert one.units == other.units, f"{door}: the charge depends on the rows"
                    share, pairs = max(share, share_of(benches[pair[0]][0], one, other)), pairs + 1
                if stop:
                    _hold(Loss(door, pairs, share))
            for made, _ in benches.values():
                made.close()
    return Loss(door, pairs, share)


def _priced(ask: Ask, price: dict[str, Any], curator: Curator) -> Any:
    return ask(curator, price)


def _noise_share(made: Bench, one: Outcome, other: Outcome) -> float:
    """The exact loss between two centres of noise, as a share of the charge."""
    if isinstance(one.result, float):  # the number of rows
        if one.units == 0:
            assert one.result == other.result, "an exact number of rows that neighbours do not share is released"
            return 0.0
        centres = [(np.array([one.result]), np.array([other.result]))]
    else:
        centres = [
            (np.ravel(a.values) * _grid(a), np.ravel(b.values) * _grid(b))
            for a, b in zip(one.result, other.result, strict=True)
        ]
    lost = 0.0
    for (first, second), call in zip(centres, one.calls, strict=True):
        shift, spread = first - second, float(call.scale)
        assert np.array_equal(shift, np.rint(shift)), "a released value is off the grid"
        assert call.size == len(shift), "cells do not have noise of their own"
        if call.kind == "laplace":
            epsilon = float(np.abs(shift).sum() / spread)
            lost += epsilon if made.curator.budget.accounting == "pure" else epsilon**2 / 2
        else:
            lost += float((shift**2).sum() / (2 * spread))
    assert one.units > 0, "nothing was charged"
    return lost / (one.units / UNITS_PER_ONE)


def _grid(measured: Any) -> int:
    grid: int = measured.grid
    return grid


def _selection_share(made: Bench, one: Outcome, other: Outcome) -> float:
    """The exact loss of one selection, as a share of the epsilon that was charged."""
    (call,) = one.calls
    scores = [outcome.scores[0] for outcome in (one, other)]
    assert all(s.dtype == np.int64 for s in scores), "scores must be integers"
    first, second = (_log_law(call.kind, tuple((s - s.max()).tolist()), float(call.scale)) for s in scores)
    ratio = first - second
    strength = float(made.strength(one.units, call.kind))
    # Under zCDP an exponential mechanism pays for the range of the log ratio, everything else for its maximum.
    ranged = call.kind == "exponential" and made.curator.budget.accounting != "pure"
    return float(np.ptp(ratio) if ranged else np.abs(ratio).max()) / strength


@functools.lru_cache(2**12)
def _log_law(kind: str, scores: tuple[int, ...], scale: float) -> np.ndarray:
    law = permute_and_flip_law if kind == "permute_and_flip" else exponential_law
    return np.log(law(np.array(scores, dtype=np.int64), scale))
