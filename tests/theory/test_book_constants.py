"""constants="book" is one thing: the loop that runs, its certificate, and the plan that says it before."""

from __future__ import annotations

import math
import re
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maquette as mq
from maquette.hypothesis import MultiplicativeWeights
from maquette.session import OnlineIC
from maquette.theory import updates

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
ROWS = 1_000_000
WORKLOAD = mq.marginals(SCHEMA, k=2)
BUDGETS = {"pure": mq.Budget(epsilon=20.0), "zcdp": mq.Budget(epsilon=1.0, delta=1e-9)}


def curator(currency: str) -> mq.Curator:
    held = np.arange(ROWS) % 10 < 7
    table = mq.open_table({"a": held, "b": held}, SCHEMA)
    return mq.Curator(table, BUDGETS[currency], relation="replace")


def planned(currency: str, name: str, queries: int) -> Any:
    budget = BUDGETS[currency]
    return mq.plan(
        rows=ROWS,
        schema=SCHEMA,
        queries=queries,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation="replace",
    )[name]


def started(run: Any) -> tuple[Any, list[tuple[float | None, str, float]]]:
    """What a run made, and alpha, step and bound of every dense model that was started for it."""
    found: list[tuple[float | None, str, float]] = []
    original = MultiplicativeWeights.__init__

    def spy(model: MultiplicativeWeights, *facts: Any, **settings: Any) -> None:
        original(model, *facts, **settings)
        found.append((model.alpha, settings.get("step", "theory"), model.update_bound))

    with mock.patch.object(MultiplicativeWeights, "__init__", spy):
        return run(), found


def promised(text: str | None) -> float:
    found = re.search(r"within ([\d.e-]+) of the rows", text or "")
    assert found
    return float(found[1])


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("currency", BUDGETS)
def test_the_book_runs_certifies_and_plans_the_same_construction(currency: str) -> None:
    """T(alpha / 2) = 16 ln N / alpha^2 updates, steps alpha / 4: in the loop, in its certificate and in the plan."""
    with curator(currency) as rows:
        made, models = started(
            lambda: mq.release(rows, WORKLOAD, method="iterative-construction", constants="book", check=False)
        )
    said = planned(currency, "mw-ic-book", sum(table.cells for table in WORKLOAD.marginals)).error
    alpha = promised(made.certificate.accuracy)
    assert alpha == pytest.approx(said, rel=2e-3)
    resolution, step, bound = [model for model in models if model[0] is not None][-1]  # the first is tried, not used
    assert step == "book"
    assert resolution == pytest.approx(alpha / 2, rel=2e-3)
    assert bound == pytest.approx(updates.multiplicative_weights_book(SCHEMA.size, alpha / 2), rel=5e-3)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("currency", BUDGETS)
def test_the_book_runs_certifies_and_plans_the_same_session(currency: str) -> None:
    """T(alpha) = 4 ln N / alpha^2 hits with steps alpha / 2, error 3 alpha, in the session and in the plan."""
    with curator(currency) as rows:
        session, models = started(lambda: OnlineIC(rows, queries=1000, calibration="book"))
    said = planned(currency, "online-book", 1000).error
    resolution, step, bound = next(model for model in models if model[0] is not None)
    assert session.alpha == pytest.approx(said, rel=2e-3)
    assert step == "book"
    assert resolution == pytest.approx(session.alpha / 3, rel=2e-3)
    assert math.floor(bound) == math.floor(updates.multiplicative_weights_book(SCHEMA.size, resolution or 0.0))
