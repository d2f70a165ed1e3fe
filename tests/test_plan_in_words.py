"""`maquette plan` in words, in both directions: what a budget gives, and what an error needs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

import maquette as mq
from maquette.cli import main
from maquette.demo import Foreseen, foresee, needs
from maquette.errors import QueryError

SCHEMA = mq.Schema([mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker"), mq.Number("x", 0, 1000, bins="auto")])


@pytest.mark.thorough
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_both_directions_agree(delta: float) -> None:
    found = needs(SCHEMA, rows=50_000, epsilon=1.0, delta=delta, alpha=0.002)
    there = foresee(SCHEMA, rows=50_000, epsilon=found.release.epsilon, delta=delta)
    assert 100 / 4 < there.errors[2] < 100 * 4  # one run each, of unseeded noise
    less = foresee(SCHEMA, rows=50_000, epsilon=found.release.epsilon / 20, delta=delta)
    assert less.errors[2] > 100 * 2
    assert found.release.rows == pytest.approx(50_000 * found.release.epsilon, rel=0.5)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_a_session_is_planned_by_one_rule(delta: float) -> None:
    schema = mq.Schema([mq.Boolean("smoker")])
    found = needs(schema, rows=20_000, epsilon=1.0, delta=delta, alpha=0.02, tables=200)
    told = foresee(schema, rows=20_000, epsilon=found.session.epsilon, delta=delta).session
    assert told == pytest.approx(200, abs=2)


@pytest.mark.thorough
def test_plan_speaks_in_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mq.Schema([mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker")]).save(tmp_path / "s.toml")
    monkeypatch.chdir(tmp_path)

    def told(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["maquette", "plan", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return printed.err if ended.value.code else printed.out

    assert "With epsilon 1 and a table of 100,000 rows" in told("-s", "s.toml")
    text = told("-s", "s.toml", "--alpha", "0.01", "--rows", "5000")
    assert "To be within 0.01 of the rows (50 of 5,000) you need about" in text
    assert "the number of rows for epsilon 1." in text
    assert "name the table's schema" in told()


def test_impossible_errors_are_refused() -> None:
    with pytest.raises(QueryError, match="alpha is 2"):
        needs(SCHEMA, rows=100, epsilon=1.0, delta=0.0, alpha=2.0)
    with pytest.raises(QueryError, match="rows is 0"):
        needs(SCHEMA, rows=0, epsilon=1.0, delta=0.0, alpha=0.1)


def test_several_rows_of_one_person_cost_what_a_smaller_budget_does() -> None:
    small = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
    one = foresee(small, rows=2_000, epsilon=0.2, delta=0.0)
    five = foresee(small, rows=2_000, epsilon=1.0, delta=0.0, max_contributions=5)
    assert five.session == one.session
    assert "at most 5 per person (noise is 5 times as large" in str(five)
    assert "of one person" not in str(one)
    with pytest.raises(QueryError, match="max_contributions is 0"):
        foresee(small, rows=2_000, epsilon=1.0, delta=0.0, max_contributions=0)


def test_averages_that_only_bins_tell_are_named_with_what_to_type() -> None:
    """One level for each value needs nothing."""
    told = Foreseen(1_000, 1.0, 1e-9, {1: 5.0}, 0.01, 3, binned=("net pay", "weight", "a", "b"))
    assert "averages     of net pay, weight, a and 1 more: to within their bins" in str(told)
    assert "release --sums 'net pay'" in str(told)
    assert "averages" not in str(replace(told, binned=()))
