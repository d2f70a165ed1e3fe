"""Records sampled from a graphical release as the public records that a later one weighs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from release_checks import Seeded, counts, open_records, records

import maquette as mq
from maquette.hypothesis import WeightedRecords
from maquette.hypothesis.graphical import GraphicalModel
from maquette.releases import mwem

SCHEMA = mq.Schema([mq.Boolean(f"b{i}") for i in range(30)])
ASKED = [("b0", "b1", "b2"), ("b1", "b2", "b3"), ("b2", "b3", "b4"), ("b3", "b4", "b5")]
UNASKED = [(f"b{i}", f"b{i + 1}") for i in range(10, 29)]


def far(made: mq.Release | WeightedRecords, rows: np.ndarray, sets: Sequence[tuple[str, ...]] = ASKED) -> float:
    """The mean over tables of half the L1 distance to the exact one."""
    tables = [made.marginal(*columns) if isinstance(made, mq.Release) else made.marginal(columns) for columns in sets]
    exact = [counts(SCHEMA, rows, columns) / len(rows) for columns in sets]
    return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(tables, exact, strict=True)]))


@pytest.mark.thorough
def test_records_of_a_graphical_release_are_a_warm_start() -> None:
    """Of a universe of 2^30: the first release pays for pairs, the second corrects tables of three; one budget."""
    rows = records(SCHEMA, 4000)
    odd = np.random.default_rng(1).random(len(rows)) < 0.6
    rows[odd, 2] = rows[odd, 0] ^ rows[odd, 1]  # pairs do not show it
    budget = mq.Budget(epsilon=4.0, delta=1e-9)
    with mq.Curator(open_records(SCHEMA, rows), budget, noise=Seeded(0)) as curator:
        first = mq.release(curator, mq.marginals(SCHEMA, k=2), method="graphical", rho=0.1, rounds=1)
        assert isinstance(first.model, GraphicalModel)
        public = SCHEMA.encode(first.sample(3000, rng=np.random.default_rng(0)))
        warm = WeightedRecords(SCHEMA, public, step="exact")
        start = far(warm, rows)
        assert start == pytest.approx(far(first, rows), abs=0.02)
        second = mwem(curator, mq.marginals(SCHEMA, columns=ASKED), model=warm, rounds=12)
        assert first.certificate.units + second.certificate.units == curator.ledger.spent() <= budget.limit
    cold = WeightedRecords(SCHEMA, np.random.default_rng(0).integers(0, 2, public.shape), step="exact")
    with mq.Curator(open_records(SCHEMA, rows), budget, noise=Seeded(0)) as curator:
        alone = mwem(curator, mq.marginals(SCHEMA, columns=ASKED), model=cold, rounds=12)
    assert far(second, rows) < 0.5 * start
    # What nobody asked of the second release is as the first one left it; records from nowhere do not know it.
    assert far(second, rows, UNASKED) < 0.5 * far(alone, rows, UNASKED)
