"""Quality of synthetic rows: what is close is found close, what is wrong is found wrong, by paid numbers alone."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest
from report_checks import HOSTILE, SCHEMA, curator, released, rows

import maquette as mq
from maquette.errors import QueryError
from maquette.releases import mwem
from maquette.reports import similarity, test_data as declared, train_on_synthetic


def test_good_rows_are_at_noise_level_and_wrong_rows_are_not() -> None:
    made = mq.release(curator(), mq.marginals(SCHEMA, k=2), method="everything")
    good = similarity(made, 4_000, k=2, rng=np.random.default_rng(1))
    assert {len(one.columns) for one in good} == {1, 2}
    assert max(one.ratio for one in good) < 3
    table = made.sample(4_000, rng=np.random.default_rng(1)).to_pydict()
    table["kids"] = [3] * 4_000
    bad = {one.columns: one for one in similarity(made, table, k=2)}
    assert bad[("kids",)].ratio > 10
    assert bad[("kids",)].distance > 5 * bad[("kids",)].noise
    assert bad[("region",)].ratio < 3
    assert similarity(made, table, k=1)[0].columns == ("kids",)


def test_exact_rows_differ_from_measurements_by_their_noise() -> None:
    """On the private rows themselves the ratio is that of noise: a mean square of 1, here over 20 + 3 + 2 + 4 cells."""
    made = mq.release(curator(), mq.marginals(SCHEMA, k=1), method="everything")
    ratios = [one.ratio**2 for one in similarity(made, rows(), k=1)]
    assert 0.02 < float(np.mean(ratios)) < 6


def test_rows_that_cannot_be_compared_are_refused() -> None:
    schema = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
    table = mq.open_table({"a": [True, False] * 500, "b": [True, True] * 500}, schema)
    made = mwem(mq.Curator(table, mq.Budget(epsilon=1.0)), mq.marginals(schema, k=2), rounds=2)
    with pytest.raises(QueryError, match="keeps no measurements"):
        similarity(made)
    with pytest.raises(QueryError, match="k is 0"):
        similarity(released(), k=0)
    with pytest.raises(QueryError, match="no synthetic rows"):
        similarity(released(), released().sample(1).slice(0, 0))


def test_training_on_synthetic_rows_comes_close_to_real_ones() -> None:
    made = mq.release(curator(mq.Budget(epsilon=20.0, delta=1e-9)), mq.marginals(SCHEMA, k=2), method="everything")
    found = train_on_synthetic(made, declared(rows()), HOSTILE)
    assert found.real > found.majority + 0.05
    assert found.synthetic > found.majority + 0.05
    assert "trained on synthetic rows" in str(found)
    with pytest.raises(QueryError, match=r"expected mq\.test_data"):
        train_on_synthetic(made, rows(), "kids")  # type: ignore[arg-type]


def test_a_missing_learner_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(QueryError, match="pip install scikit-learn"):
        train_on_synthetic(released(), declared(rows()), "kids")
