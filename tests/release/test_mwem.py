"""MWEM over dense weights and over public records of a universe that cannot be listed."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq
from maquette.errors import QueryError
from maquette.hypothesis import MultiplicativeWeights, WeightedRecords
from maquette.releases import mwem

BUDGET = mq.Budget(epsilon=2.0, delta=1e-9)


def correlated(columns: int, rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows)
    return (rng.random((rows, columns)) < 0.15 + 0.7 * hidden[:, None] * (np.arange(columns) % 3 + 1) / 3).astype(int)


def opened(schema: mq.Schema, records: np.ndarray) -> mq.PrivateTable:
    return mq.open_table({name: records[:, i].astype(bool) for i, name in enumerate(schema.names)}, schema)


def error(release: mq.Release, records: np.ndarray) -> float:
    schema = release.schema
    worst = 0.0
    for i in range(3):
        for j in range(i + 1, 4):
            truth = np.zeros((2, 2))
            np.add.at(truth, (records[:, i], records[:, j]), 1 / len(records))
            worst = max(worst, float(np.abs(release.marginal(schema.names[i], schema.names[j]) - truth).max()))
    return worst


def test_it_comes_close_and_spends_what_it_was_given() -> None:
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(4)])
    records = correlated(4, 20_000, 1)
    with mq.Curator(opened(schema, records), BUDGET) as curator:
        made = mwem(curator, mq.marginals(schema, k=2))
        assert 0.97 * BUDGET.limit <= curator.ledger.spent() <= BUDGET.limit
        assert made.certificate.units == curator.ledger.spent()
    # Measurement noise is about 60 rows of 20,000; uniform is off by 0.15 and more.
    assert error(made, records) < 0.05


@pytest.mark.thorough
def test_public_records_stand_for_a_universe_of_two_to_the_two_hundred() -> None:
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(200)])
    records = correlated(200, 5_000, 2)
    public = correlated(200, 2_000, 3)
    model = WeightedRecords(schema, public, step="exact")
    workload = mq.marginals(schema, columns=[("c0", "c1"), ("c1", "c2"), ("c2", "c3"), ("c0", "c3")])
    with mq.Curator(opened(schema, records), BUDGET) as curator:
        made = mwem(curator, workload, model=model, rounds=10)
    assert made.sample(50).num_columns == 200
    assert error(made, records) < 0.1


def test_bad_settings_are_refused_before_any_charge() -> None:
    schema = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
    other = MultiplicativeWeights(mq.Schema([mq.Boolean("a")]), step="exact")
    with mq.Curator(opened(schema, correlated(2, 50, 4)), mq.Budget(epsilon=1.0)) as curator:
        for settings in ({"rounds": 0}, {"replays": -1}, {"model": other}):
            with pytest.raises(QueryError):
                mwem(curator, mq.marginals(schema, k=2), **settings)
        assert curator.ledger.spent() == 0
