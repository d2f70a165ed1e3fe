"""Intervals of graphical releases over many runs: as often right as they say, also where a question splits groups."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from release_checks import Seeded, open_records, rarely_missed, records, released

import maquette as mq
from maquette.estimates.merged import MergedEvidence, MergedModel

SCHEMA = mq.Schema([mq.Integer("age", 0, 21), mq.Category("region", ["n", "e", "s"]), mq.Boolean("smoker")])
ROWS = records(SCHEMA, 400)


@functools.cache
def opened_table() -> mq.PrivateTable:
    return open_records(SCHEMA, ROWS)


WHOLE = ["smoker", "age < 7", "region = 'n' AND smoker", "NOT (region = 's' OR smoker)"]
# No group of at most 16 holds these ages and no others: 22 levels make groups of neighbours.
SPLIT = ["age IN (1, 5, 9, 13, 17, 21) AND smoker", "age IN (0, 2, 4, 6, 8, 10) AND region = 'e'"]
GROUPED = "SELECT region, count(*) FROM t WHERE smoker GROUP BY region"


class Setting(NamedTuple):
    """Budget, relation and rounds, and how many runs."""

    budget: mq.Budget
    relation: str
    rounds: int
    runs: int


SETTINGS = {
    "Gaussian": Setting(mq.Budget(epsilon=2.0, delta=1e-6, accounting="gdp"), "add-remove", 1, 200),
    "Gaussian, two rounds": Setting(mq.Budget(rho=1.0, delta=1e-9), "replace", 2, 100),
    "pure": Setting(mq.Budget(epsilon=15.0), "add-remove", 1, 60),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_hold_the_truth_as_often_as_they_say(name: str) -> None:
    """At two confidences; only questions that the evidence covers count, and they are most."""
    setting = SETTINGS[name]
    truths = {text: float(mq.where(SCHEMA, text).evaluate(ROWS).mean()) for text in (*WHOLE, *SPLIT)}
    smokers = ROWS[ROWS[:, 2] == 1]
    groups = {label: int((smokers[:, 1] == level).sum()) for level, label in enumerate("nes")}
    held: dict[tuple[str, float], list[bool]] = {}
    widths: dict[str, list[float]] = {}
    split = 0
    for seed in range(setting.runs):
        made = _made(setting, seed)
        split += _splits(made)
        for (text, truth), confidence in itertools.product(truths.items(), (0.8, 0.95)):
            answer = made.answer(text, confidence=confidence)
            assert isinstance(answer, mq.Answer)
            if answer.guarantee is not None:
                held.setdefault((text, confidence), []).append(answer.low <= truth <= answer.high)
                widths.setdefault(text, []).append(answer.high - answer.low)
        table = made.answer(GROUPED, confidence=0.95)
        assert isinstance(table, mq.AnswerTable)
        for row, (label, truth) in zip(table, groups.items(), strict=True):
            (cell,) = row.answers.values()
            assert row.groups == (label,)
            if cell.guarantee is not None:
                held.setdefault((f"{GROUPED}: {label}", 0.95), []).append(cell.low <= truth <= cell.high)
    assert split > 0.9 * setting.runs, "the questions did not split groups"
    for (text, confidence), hits in held.items():
        assert len(hits) > 0.5 * setting.runs, f"{text}: hardly ever covered"
        if text in widths:
            assert np.mean(widths[text]) < 0.3, f"{text}: the interval says nothing"
        least = rarely_missed(len(hits), confidence, 3 * len(held))
        assert sum(hits) >= least, f"{text} at {confidence}: {np.mean(hits)} of {len(hits)}"


def _made(setting: Setting, seed: int) -> mq.Release:
    settings: dict[str, Any] = {"relation": setting.relation, "rounds": setting.rounds}
    workload = mq.marginals(SCHEMA, k=2)
    return released("graphical", opened_table(), setting.budget, Seeded(seed), workload=workload, **settings)


def _splits(made: mq.Release) -> bool:
    """Whether levels were merged, and the questions above tell merged levels apart."""
    if not (isinstance(made.model, MergedModel) and isinstance(made.evidence, MergedEvidence)):
        return False
    groups = made.evidence.merging.groups["age"]
    odd = np.isin(np.arange(22), [1, 5, 9, 13, 17, 21])
    return any(0 < odd[groups == group].mean() < 1 for group in range(int(groups.max()) + 1))
