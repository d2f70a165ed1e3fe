"""Sums and averages in sessions add up the values themselves, clamped, not the middles of bins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_checks import NoNoise, SeededNoise

import maquette as mq
from maquette.session.question import Question, restored, stored

SCHEMA = mq.Schema(
    [
        mq.Integer("gain", 0, 9_999, width=2_500, nullable=True),
        mq.Number("change", -50.0, 50.0, bins=2, precision=1),
        mq.Boolean("a"),
    ]
)
ROWS = 4_000


def rows() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    gain = [
        None if rng.random() < 0.1 else int(g)
        for g in np.where(rng.random(ROWS) < 0.8, 0, rng.integers(1, 12_000, ROWS))
    ]
    return {"gain": gain, "change": np.round(rng.normal(3, 20, ROWS), 1), "a": rng.random(ROWS) < 0.3}


TABLE = rows()
GAIN = np.array([np.nan if g is None else min(g, 9_999) for g in TABLE["gain"]])
CHANGE = np.clip(TABLE["change"], -50, 50)
TRUTHS = {
    "SELECT sum(gain) FROM t": np.nansum(GAIN),
    "SELECT avg(gain) FROM t": np.nanmean(GAIN),
    "SELECT avg(gain) FROM t WHERE a": np.nanmean(GAIN[TABLE["a"]]),
    "SELECT sum(change) FROM t WHERE NOT a": CHANGE[~TABLE["a"]].sum(),
    "SELECT avg(change) FROM t": CHANGE.mean(),
}


def opened(noise: Any, *, epsilon: float = 50.0, **settings: Any) -> mq.Curator:
    return mq.Curator(mq.open_table(TABLE, SCHEMA), mq.Budget(epsilon=epsilon, delta=1e-9), noise=noise, **settings)


@pytest.mark.thorough(fast=3)
@pytest.mark.filterwarnings("ignore::maquette.errors.PrivacyWarning")
@pytest.mark.parametrize("asked", TRUTHS)
def test_a_sum_is_that_of_the_clamped_values(asked: str) -> None:
    with opened(NoNoise(0)) as curator:
        session = mq.online(curator, alpha=0.05)
        answer = session.ask(asked)
        assert answer.value == pytest.approx(TRUTHS[asked], rel=1e-6, abs=0.06)
        assert answer.low <= answer.value <= answer.high
        spent = curator.spent.epsilon
        assert session.ask(asked).value == answer.value
        assert curator.spent.epsilon == spent


@pytest.mark.filterwarnings("ignore::maquette.errors.PrivacyWarning")
def test_order_by_does_not_change_a_sum() -> None:
    plain, ordered = (
        "SELECT a, sum(gain) AS s FROM t GROUP BY a",
        "SELECT a, sum(gain) AS s FROM t GROUP BY a ORDER BY s",
    )
    with opened(NoNoise(0)) as curator:
        session = mq.online(curator, alpha=0.05)
        found = [sorted(n.value for n in ask(text).numbers) for ask in (session.ask,) for text in (plain, ordered)]
        found += [sorted(n.value for n in mq.answer(curator, text, epsilon=5.0).numbers) for text in (plain, ordered)]
    truth = sorted(np.nansum(GAIN[TABLE["a"] == side]) for side in (False, True))
    for numbers in found:
        assert numbers == pytest.approx(truth)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::maquette.errors.PrivacyWarning")
def test_intervals_of_sums_hold_as_often_as_they_say() -> None:
    """At most 5% of intervals may miss: more than 40 misses in 300 have odds below one in a million."""
    missed = 0
    for seed in range(60):
        with opened(SeededNoise(seed)) as curator:
            session = mq.online(curator, alpha=0.02)
            for asked, truth in TRUTHS.items():
                answer = session.ask(asked)
                missed += not answer.low - 0.06 <= truth <= answer.high + 0.06
    assert missed <= 40


@pytest.mark.thorough
def test_a_restart_knows_what_was_bought(tmp_path: Path) -> None:
    asked = "SELECT a, avg(gain) FROM t GROUP BY a"
    found = []
    for _ in range(2):
        with mq.Curator(mq.open_table(TABLE, SCHEMA), mq.Budget(epsilon=9.0), ledger=tmp_path / "t.ledger") as curator:
            found.append(([n.value for n in mq.online(curator, alpha=0.05).ask(asked).numbers], curator.spent.epsilon))
    assert found[0] == found[1]


def test_a_goal_is_restored_from_its_note() -> None:
    for goal in Question.of(SCHEMA, "SELECT a, avg(gain) FROM t WHERE change < 0 GROUP BY a").goals:
        again = restored(SCHEMA, stored(goal))
        assert (again.key, again.unit, again.as_asked.key) == (goal.key, goal.unit, goal.as_asked.key)
