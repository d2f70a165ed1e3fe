"""With noise on: intervals cover DuckDB's numbers, also those of groups that were chosen by their noisy numbers.

Every statement of the list that works is asked of the same rows with fresh noise; a *miss* is an answer of which one
interval does not cover DuckDB's number. Seeds are fixed. Each test states its error rate: the probability that sound
intervals fail it (at most 1e-6), and that intervals half as wide pass it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import scipy
from test_ordinary import DATA, SCHEMA, WORKS, plain

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.schema import Schema

CONFIDENCE = 0.9


class SeededNoise(ScriptedNoise):
    """Discrete Laplace noise from a seed: good enough to test intervals, never for privacy."""

    def __init__(self, seed: int) -> None:
        super().__init__([])
        self.rng = np.random.default_rng(seed)

    def laplace(self, scale: Fraction, size: int) -> Any:
        stop = -np.expm1(-1.0 / float(scale))
        return (self.rng.geometric(stop, size) - self.rng.geometric(stop, size)).astype(np.int64)


CHOOSING = {  # statements whose groups are chosen, sorted or combined by noisy numbers
    "having": "SELECT visits, count(*) AS n FROM people GROUP BY visits HAVING count(*) > 200",
    "top": "SELECT age, count(*) AS n FROM people GROUP BY age ORDER BY n DESC LIMIT 3",
    "bottom": "SELECT age, count(*) AS n FROM people GROUP BY age ORDER BY n LIMIT 3",
    "ratio": "SELECT age, 1.0 * sum(visits) / count(*) AS r FROM people GROUP BY age ORDER BY r DESC LIMIT 2",
    "window": "SELECT region, sex, sum(count(*)) OVER (ORDER BY count(*)) AS n FROM people GROUP BY region, sex",
    "largest": "WITH g AS (SELECT age, count(*) AS n FROM people GROUP BY age) SELECT max(n) AS m FROM g",
}
EXACT = {  # the number of a group, whichever groups the noisy answer shows
    "having": "SELECT visits AS g, count(*) FROM people GROUP BY visits",
    "top": "SELECT age AS g, count(*) FROM people GROUP BY age",
    "bottom": "SELECT age AS g, count(*) FROM people GROUP BY age",
    "ratio": "SELECT age AS g, 1.0 * sum(visits) / count(*) FROM people GROUP BY age",
}


@pytest.fixture(scope="module")
def engine() -> Any:
    connection = duckdb.connect()
    connection.register("people", pa.table(DATA))
    return connection


@pytest.fixture(scope="module")
def table() -> mq.PrivateTable:
    return mq.open_table(DATA, SCHEMA)


def asked(table: mq.PrivateTable, text: str, seed: int, epsilon: float = 0.1) -> mq.Answered:
    with mq.Curator(table, mq.Budget(epsilon=9e3), noise=SeededNoise(seed)) as curator:
        return mq.answer(curator, text, epsilon=epsilon, confidence=CONFIDENCE)


def allowed(trials: int, doubt: float, error: float = 1e-6) -> int:
    """So many misses have a probability of at most `error` if each has `doubt`."""
    return int(scipy.stats.binom.isf(error, trials, doubt))


def missed(answer: mq.Answered, groups: dict[Any, float]) -> bool:
    """Whether some group's interval does not cover its number."""
    for row in answer.rows:
        (number,) = row.answers.values()
        key = (row.values or row.groups)[0]
        exact = groups[key if key in groups else type(next(iter(groups)))(key)]
        if not number.low - 1e-9 <= exact <= number.high + 1e-9:
            return True
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("name", EXACT)
def test_intervals_hold_for_all_groups_considered_together(engine: Any, table: mq.PrivateTable, name: str) -> None:
    """60 answers, at most 19 misses at doubt 0.1 (error 1e-6)."""
    groups = {plain_key(key): float(value) for key, value in engine.execute(EXACT[name]).fetchall()}
    trials, misses = 60, 0
    for seed in range(trials):
        misses += missed(asked(table, CHOOSING[name], seed), groups)
    assert misses <= allowed(trials, 1 - CONFIDENCE)


def plain_key(key: Any) -> Any:
    return key if key is not None else "NULL"


def test_single_intervals_of_chosen_groups_would_be_caught(engine: Any, table: mq.PrivateTable) -> None:
    """Power: as if every group's interval held by itself only, the three largest of 63 groups miss almost always."""
    groups = {key: float(value) for key, value in engine.execute(EXACT["top"]).fetchall()}
    trials, misses = 60, 0
    for seed in range(trials):
        answer = asked(table, CHOOSING["top"].replace("ORDER BY n DESC LIMIT 3", ""), seed)
        best = sorted(answer.rows, key=lambda row: -row["n"].value)[:3]
        misses += any(not row["n"].low <= groups[int(row.groups[0])] <= row["n"].high for row in best)
    assert misses > allowed(trials, 1 - CONFIDENCE)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", ["window", "largest"])
def test_a_combination_of_groups_is_covered(engine: Any, table: mq.PrivateTable, name: str) -> None:
    """The numbers that do not depend on the order of noisy ones: the last running sum, and the largest count."""
    exact = float(len(DATA["age"])) if name == "window" else float(engine.execute(CHOOSING[name]).fetchone()[0])
    trials, misses = 40, 0
    for seed in range(trials):
        last = max(asked(table, CHOOSING[name], seed).numbers, key=lambda one: one.value)
        misses += not last.low <= exact <= last.high
    assert misses <= allowed(trials, 1 - CONFIDENCE)


def covered(answer: mq.Answered, theirs: list[tuple[Any, ...]]) -> bool:
    """Whether every row of DuckDB is the row of ours with the same public columns, within its intervals."""
    numbers = {column.name: column for column in answer.rowset.columns if column.low is not None}
    public = [i for i, column in enumerate(answer.rowset.columns) if column.name not in numbers]
    ours: dict[tuple[Any, ...], list[int]] = {}
    for place, told in enumerate(answer.rowset):
        ours.setdefault(tuple(plain(told[i]) for i in public), []).append(place)
    for row in theirs:
        places = ours.get(tuple(plain(row[i]) for i in public))
        if places is None or len(places) > 1:
            return False
        for i, column in enumerate(answer.rowset.columns):
            if column.name not in numbers or row[i] is None:
                continue
            assert column.low is not None
            assert column.high is not None
            low, high = column.low[places[0]], column.high[places[0]]
            low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
            if not low - 1e-6 <= float(row[i]) <= high + 1e-6:
                return False
    return True


CHOSEN = ("LIMIT", "HAVING", "QUALIFY", "TOP", "OVER", "FROM (", "WITH", "OFFSET", "WHERE n", "rank")
COMPARABLE = [text for text in WORKS if not any(word in text for word in CHOSEN)]


@pytest.mark.thorough
def test_every_statement_of_the_list_covers_what_duckdb_gives(engine: Any, table: mq.PrivateTable) -> None:
    """Each statement 8 times: at most so many misses of all as doubt 0.1 gives with probability 1e-6."""
    assert len(COMPARABLE) >= 50
    trials, misses, worst = 0, 0, {}
    for text in COMPARABLE:
        theirs = engine.execute(text).fetchall()
        found = [not _together(asked(table, text, seed), theirs) for seed in range(8)]
        trials, misses = trials + len(found), misses + sum(found)
        worst[text] = sum(found)
    limit = allowed(trials, 1 - CONFIDENCE)
    assert misses <= limit, sorted(worst.items(), key=lambda item: -item[1])[:5]


def _together(answer: mq.Answered, theirs: list[tuple[Any, ...]]) -> bool:
    """One number of the answer, chosen by the statement's text alone: the first row, so that single intervals count."""
    return covered(answer, theirs[:1])


def test_half_an_interval_would_be_caught(table: mq.PrivateTable) -> None:
    """Power: intervals half as wide miss about three times in ten, and 200 answers show it."""
    trials, misses, exact = 200, 0, float(sum(DATA["smoker"]))
    for seed in range(trials):
        one = asked(table, "SELECT count(*) FROM people WHERE smoker", seed)
        quarter = (one.high - one.low) / 4
        misses += not one.value - quarter <= exact <= one.value + quarter
    assert misses > allowed(trials, 1 - CONFIDENCE)


def test_people_are_counted_within_their_intervals() -> None:
    rng = np.random.default_rng(3)
    person, region = rng.integers(0, 900, 2_000), rng.choice(["n", "s"], 2_000)
    schema = Schema([mq.Category("region", ["n", "s"])])
    rows = {"person": person.tolist(), "region": region.tolist()}
    people = mq.open_table(rows, schema, privacy_unit="person", max_contributions=20)
    exact = {r: float(len(set(person[region == r]))) for r in "ns"}
    misses = 0
    for seed in range(60):
        answer = asked(people, "SELECT region, count(DISTINCT person) AS n FROM people GROUP BY region", seed, 20.0)
        misses += not answer.row("n")["n"].low <= exact["n"] <= answer.row("n")["n"].high
    assert misses <= allowed(60, 1 - CONFIDENCE)
