"""plan: its promises are those the holdout keeps, and its table and chart say what it found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.holdout import Holdout, WeightsGuesser, plan
from maquette.schema import Boolean, Schema
from maquette.theory.holdout import fresh_width


@pytest.mark.parametrize("name", [interval.name for interval in plan(rows=100, queries=10, universe=4)])
def test_holdout_keeps_the_promise(name: str) -> None:
    """A holdout opened with the settings gives no wider interval, with the planned number of failures or fewer."""
    rows, queries, failures = 4000, 40, 5
    promise = plan(rows=rows, queries=queries, failures=failures, universe=4)[name]
    rng = np.random.default_rng(5)
    data = rng.random((rows, queries)) < 0.5
    holdout = Holdout(data, **promise.settings)
    answers = [holdout.ask(lambda rows, j=j: rows[:, j], guess=0.95 if j < failures else 0.5) for j in range(queries)]  # type: ignore[misc]
    assert max(answer.half_width for answer in answers) <= min(1.0, promise.half_width) + 1e-9
    if name.startswith("guess-and-check"):
        assert answers[-1].half_width == pytest.approx(promise.half_width, rel=0.06)
    if name in ("description-length", "gaussian"):
        assert answers[-1].half_width == pytest.approx(promise.half_width)
    if name in ("guess-and-check", "guess-and-check-counted", "description-length"):
        assert answers[-1].failures == failures


def test_failures_early_are_the_worst() -> None:
    rows, queries, failures = 4000, 60, 4
    promised = plan(rows=rows, queries=queries, failures=failures)["guess-and-check"].half_width
    data = np.random.default_rng(6).random((rows, 1)) < 0.5
    for failing in ({0, 1, 2, 3}, {7, 20, 21, 40}, {55, 56, 57, 58}):
        holdout = Holdout(data)
        answers = [
            holdout.ask(lambda rows: rows[:, 0], guess=0.95 if turn in failing else 0.5) for turn in range(queries)
        ]
        assert answers[-1].failures == failures
        assert answers[-1].half_width <= promised


def test_weights_promise_is_for_the_weights_guesser() -> None:
    schema = Schema([Boolean("a"), Boolean("b")])
    settings = plan(rows=4000, queries=1000, universe=schema.size)["weights"].settings
    guesser = WeightsGuesser(schema, tolerance=settings["tolerance"])
    assert guesser.max_failures(queries=1000, tolerance=settings["tolerance"]) == settings["failures"]
    assert "weights" not in [interval.name for interval in plan(rows=4000, queries=1000)]


def test_which_method_wins() -> None:
    """Splitting for a few questions or bad guesses, guess-and-check for many; noise where all guesses fail."""

    def best(**facts: int) -> str:
        found = plan(**facts).best
        assert found is not None
        return found.name

    assert best(rows=10_000, queries=5) == "splitting"
    assert best(rows=10_000, queries=1000) == "description-length"
    assert best(rows=10**6, queries=3000, failures=3000) == "gaussian"
    assert plan(rows=50, queries=10**6, failures=10**6).best is None


def test_no_method_beats_questions_fixed_beforehand() -> None:
    for rows, queries in ((100, 1), (10_000, 300), (10**6, 10**6)):
        found = plan(rows=rows, queries=queries, failures=0, universe=16)
        assert found.fresh == fresh_width(rows=rows, queries=queries, beta=found.reuse.beta)
        assert all(interval.half_width >= found.fresh - 1e-12 for interval in found)


def test_rows_for_a_target() -> None:
    found = plan(rows=1000, queries=100, half_width=0.05)
    for interval in found:
        assert interval.rows_needed is not None
        assert plan(rows=interval.rows_needed, queries=100)[interval.name].half_width <= 0.05
        assert plan(rows=round(interval.rows_needed * 0.98), queries=100)[interval.name].half_width > 0.05


def test_table_and_chart_name_every_method() -> None:
    found = plan(rows=10_000, queries=1000, half_width=0.1)
    for text in (str(found), found.chart(), found._repr_html_()):
        assert all(interval.title in text for interval in found)
        assert "questions fixed beforehand" in text
    assert repr(found).startswith("HoldoutPlan(best description-length, half-width 0.14")
    assert "\n" not in repr(found)
    assert len(found) == 6
    with pytest.raises(KeyError, match="there are guess-and-check"):
        found["naive"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": 0, "queries": 1}, "rows is 0"),
        ({"rows": 10, "queries": 1.5}, "queries is 1.5"),
        ({"rows": 10, "queries": 1, "failures": -1}, "failures is -1"),
        ({"rows": 10, "queries": 1, "half_width": 0.7}, "half_width is 0.7"),
        ({"rows": 10, "queries": 1, "universe": 1}, "universe is 1"),
    ],
)
def test_bad_input_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        plan(**given)
