"""Graphical releases: what they spend, how close they come, what they save, and what an interruption leaves."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from release_checks import BUDGETS, SCHEMA, Seeded, counts, covered, open_records, records, released, table_of

import maquette as mq
from maquette.estimates.merged import MergedEvidence, MergedModel, Merging
from maquette.hypothesis.graphical import GraphicalModel
from maquette.hypothesis.junction_tree import JunctionTree
from maquette.query import Contrasts
from maquette.releases.methods.selection import Candidate, chosen, groups
from maquette.schema import Schema

MANY = mq.Schema([mq.Integer("age", 0, 39), mq.Category("region", ["n", "e", "s"]), mq.Boolean("smoker")])
WIDE = mq.Schema([mq.Integer(f"c{i}", 0, 2 + i % 3) for i in range(12)])
CLOSE = mq.Budget(rho=5000.0, delta=1e-9)
loop: Any = importlib.import_module("maquette.releases.methods.graphical")


def distance(made: mq.Release, schema: Schema, rows: Any, k: int) -> float:
    """The mean over k-way tables of half the L1 distance to the exact one."""
    far = [
        np.abs(made.marginal(*columns) - counts(schema, rows, columns) / len(rows)).sum() / 2
        for columns in itertools.combinations(schema.names, k)
    ]
    return float(np.mean(far))


@pytest.mark.thorough(fast=16)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("currency", BUDGETS)
@pytest.mark.parametrize("rounds", [None, 1, 9])
def test_the_whole_price_is_spent_never_more_and_certified(currency: str, relation: Any, rounds: int | None) -> None:
    budget = BUDGETS[currency]
    with mq.Curator(table_of(SCHEMA, 300), budget, relation=relation, noise=Seeded(1)) as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=2), method="graphical", rounds=rounds, check=False)
        spent = curator.ledger.spent()
    assert 0.97 * budget.limit <= spent <= budget.limit
    assert made.certificate.units == spent


def test_every_access_is_a_door_and_every_noise_has_its_price() -> None:
    """Columns, errors, residuals: three charges, and no noise beside theirs."""
    noise = Seeded(2)
    with mq.Curator(table_of(SCHEMA, 300), BUDGETS["gdp"], noise=noise) as curator:
        mq.release(curator, mq.marginals(SCHEMA, k=2), method="graphical", rounds=1, check=False)
        doors = [charge.description.split('"door": "')[1].split('"')[0] for charge in curator.ledger.charges()]
    assert doors == ["measure", "measure_error", "measure"]
    assert {call.kind for call in noise.calls} == {"gaussian"}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_without_noise_to_speak_of_pairs_are_exact(currency: str) -> None:
    schema = mq.Schema(WIDE.columns[:6])
    rows = records(schema, 4000)
    budget = mq.Budget(epsilon=9000.0) if currency == "pure" else CLOSE
    made = released("graphical", open_records(schema, rows), budget, Seeded(0), rounds=1)
    assert distance(made, schema, rows, 1) < 0.002
    assert distance(made, schema, rows, 2) < 0.01


@pytest.mark.thorough
def test_it_beats_independent_columns_and_respects_its_size() -> None:
    rows = records(WIDE, 20_000)
    table = open_records(WIDE, rows)
    workload = mq.marginals(WIDE, k=3)
    budget = mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp")
    made = released("graphical", table, budget, Seeded(0), workload=workload, max_cells=2000)
    alone = released("graphical", table, budget, Seeded(0), workload=mq.marginals(WIDE, k=1))
    assert isinstance(made.model, GraphicalModel)
    assert made.model.cells <= 2000
    assert distance(made, WIDE, rows, 3) < 0.6 * distance(alone, WIDE, rows, 3)


def test_a_second_round_finds_what_pairs_cannot_say() -> None:
    """The third column is the parity of two fair coins: every pair is independent."""
    schema = mq.Schema([mq.Boolean(name) for name in "abcd"])
    coins = np.random.default_rng(0).integers(0, 2, (5000, 3))
    rows = np.column_stack([coins[:, 0], coins[:, 1], coins[:, 0] ^ coins[:, 1], coins[:, 2]])
    workload = mq.marginals(schema, k=3)
    table = open_records(schema, rows)
    once, twice = (
        released("graphical", table, mq.Budget(rho=0.5, delta=1e-9), Seeded(0), workload=workload, rounds=rounds)
        for rounds in (1, 3)
    )
    assert np.abs(once.marginal("a", "b", "c") - counts(schema, rows, "abc") / 5000).sum() > 0.9
    assert np.abs(twice.marginal("a", "b", "c") - counts(schema, rows, "abc") / 5000).sum() < 0.1


def merged_release(seed: int, rows: Any) -> mq.Release:
    budget = mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp")
    return released("graphical", open_records(MANY, rows), budget, Seeded(seed), workload=mq.marginals(MANY, k=2))


def test_rare_levels_are_merged_and_answers_agree_with_tables() -> None:
    made = merged_release(0, records(MANY, 2000))
    assert isinstance(made.model, MergedModel)
    assert made.marginal("age", "smoker").shape == (40, 2)
    assert made.marginal("age", "region", "smoker").sum() == pytest.approx(1)
    for text, cells in (("age >= 30 AND smoker", np.s_[30:, 1]), ("age < 7", np.s_[:7])):
        asked = made.answer(text)
        assert isinstance(asked, mq.Answer)
        assert asked.value == pytest.approx(made.marginal("age", "smoker")[cells].sum())
        assert asked.low <= asked.value <= asked.high


@pytest.mark.thorough
@pytest.mark.parametrize("merge", [False, True])
def test_intervals_hold_the_truth(merge: bool) -> None:
    """Also where the question tells merged levels apart."""
    schema = MANY if merge else SCHEMA
    rows = records(schema, 1500)
    questions = ["smoker", "age >= 30 AND smoker", "region = 'n' AND smoker", "age < 10"]
    truths = [mq.where(schema, text).evaluate(rows).mean() for text in questions]
    table = open_records(schema, rows)

    def intervals(seed: int) -> list[tuple[float, float, float]]:
        budget = mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp")
        made = released("graphical", table, budget, Seeded(seed), workload=mq.marginals(schema, k=2), rounds=1)
        answers = [made.answer(text) for text in questions]
        return [(a.low, t, a.high) for a, t in zip(answers, truths, strict=True)]

    covered(40, 0.95, intervals)


@pytest.mark.thorough
@pytest.mark.parametrize("merge", [False, True])
def test_a_saved_release_is_the_same(merge: bool, tmp_path: Path) -> None:
    rows = records(MANY if merge else WIDE, 2000)
    made = merged_release(0, rows) if merge else released("graphical", open_records(WIDE, rows), CLOSE, Seeded(0))
    digest = made.save(tmp_path / "made.maq")
    again = mq.Release.load(tmp_path / "made.maq", digest=digest)
    first, second = made.schema.names[0], made.schema.names[-1]
    np.testing.assert_allclose(again.marginal(first, second), made.marginal(first, second), atol=1e-12)
    assert (again.rows, again.certificate) == (made.rows, made.certificate)
    asked = mq.where(made.schema, f"{first} >= 1")
    assert again.answer(asked).low == pytest.approx(made.answer(asked).low)
    assert type(again.model) is type(made.model)
    if isinstance(made.model, GraphicalModel) and isinstance(again.model, GraphicalModel):
        assert again.model.cells == made.model.cells


def test_samples_follow_the_model() -> None:
    made = merged_release(0, records(MANY, 2000))
    sampled = MANY.encode(made.sample(20_000, rng=np.random.default_rng(0))).astype(np.int64)
    for columns in (("age",), ("age", "smoker")):
        far = np.abs(counts(MANY, sampled, columns) / 20_000 - made.marginal(*columns)).sum() / 2
        assert far < 0.02


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_an_interrupted_run_releases_what_was_paid_for(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted during the first fit, at the choice, at the measurement, and during the last fit."""
    rows = records(WIDE, 3000)

    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    if at in (1, 2):
        monkeypatch.setattr(loop._Run, {1: "_errors", 2: "_measure"}[at], stop)
    else:
        original, calls = loop.estimates, itertools.count()

        def coarse(*given: Any, **settings: Any) -> Any:
            fits = original(*given, **settings)
            yield next(fits)
            if next(calls) == (0 if at == 0 else 1):
                raise KeyboardInterrupt
            yield from fits

        monkeypatch.setattr(loop, "estimates", coarse)
    with mq.Curator(open_records(WIDE, rows), CLOSE, noise=Seeded(0)) as curator:
        made = mq.release(curator, mq.marginals(WIDE, k=2), method="graphical", rounds=1)
        assert made.certificate.units == curator.ledger.spent()
    assert distance(made, WIDE, rows, 1) < 0.01
    assert made.sample(10).num_rows == 10


def test_an_interruption_before_anything_was_measured_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop._Run, "columns", stop)
    with pytest.raises(KeyboardInterrupt):
        released("graphical", table_of(SCHEMA, 50), CLOSE, Seeded(0))


def test_columns_of_one_level_and_columns_outside_the_workload() -> None:
    schema = mq.Schema([mq.Integer("one", 0, 0), mq.Boolean("a"), mq.Boolean("b"), mq.Boolean("unasked")])
    rows = np.column_stack([np.zeros(200, dtype=np.int64), *np.random.default_rng(0).integers(0, 2, (3, 200))])
    for columns in ([("one", "a", "b")], [("one",)], [("a",)], [("one", "a"), ("b",)]):
        workload = mq.marginals(schema, columns=columns)
        made = released("graphical", open_records(schema, rows), BUDGETS["zcdp"], Seeded(0), workload=workload)
        assert made.marginal("one", "a", "unasked").sum() == pytest.approx(1)


def test_chosen_tables_fit_and_the_useful_come_first() -> None:
    tree = JunctionTree({"a": 10, "b": 10, "c": 10, "d": 10})
    found = [Candidate(("a", "b"), 500.0), Candidate(("b", "c"), 400.0), Candidate(("a", "c"), 300.0)]
    settings = {"doubt": 1.0, "deviation": 1.0}
    assert chosen(tree, found, max_cells=300, **settings) == [("a", "b"), ("b", "c")]
    assert chosen(tree, found, max_cells=2000, **settings) == [("a", "b"), ("b", "c"), ("a", "c")]
    assert chosen(tree, found, max_cells=2000, doubt=1.0, deviation=1000.0) == []
    assert chosen(tree, [Candidate(("a", "d"), 1.5)], max_cells=2000, **settings) == []


def test_groups_are_runs_of_ordered_levels_and_the_rarest_of_others() -> None:
    masses = np.array([1000.0, *[1.0] * 37, 1000.0, -5.0])
    found = groups(MANY, "age", masses, 1.0)
    assert (np.diff(found) >= 0).all()
    assert found.max() == 15
    kinds = mq.Schema([mq.Category("kind", [f"k{i}" for i in range(40)])])
    assert groups(kinds, "kind", masses, 1.0)[0] != groups(kinds, "kind", masses, 1.0)[38]
    assert (groups(MANY, "age", np.full(40, 1e6), 1.0) == np.arange(40)).all()
    assert (groups(MANY, "region", np.zeros(3), 1.0) == np.arange(3)).all()


def test_merged_contrasts_are_residuals_of_the_merged_table() -> None:
    """Sensitivity, blindness to smaller tables, and the same coefficients as from the merged rows."""
    rows = records(MANY, 500)
    merging = Merging(MANY, {"age": np.arange(40) // 7})
    table = counts(MANY, rows, ("age", "region"))
    coarse = np.zeros((6, 3), dtype=np.int64)
    np.add.at(coarse, merging.groups["age"], table)
    whole = merging.table(("age", "region"))
    assert isinstance(whole, Contrasts)
    assert (whole.combine(table) == coarse).all()
    question = merging.residual(("age", "region"))
    assert (question.combine(np.ones((40, 1)) * np.arange(3)[None, :] * 0 + 1).shape) == (5, 2)
    even = np.repeat(1.0 / np.bincount(merging.groups["age"])[merging.groups["age"]][:, None], 3, axis=1)
    np.testing.assert_allclose(question.combine(even), 0.0, atol=1e-6)
    assert question.gains[2] == max(
        int((question.combine(np.eye(120, dtype=np.int64)[i].reshape(40, 3)) ** 2).sum()) for i in range(120)
    )


def test_evidence_of_groups_bounds_what_it_cannot_tell_apart() -> None:
    made = merged_release(1, records(MANY, 2000))
    evidence = made.evidence
    assert isinstance(evidence, MergedEvidence)
    weights = np.zeros((40, 2))
    weights[:20] = 1.0
    sharp = evidence.estimate(weights, ("age", "smoker"))
    weights[20:] = np.arange(20)[:, None] % 2
    blurred = evidence.estimate(weights, ("age", "smoker"))
    assert blurred.half_width(0.95) > sharp.half_width(0.95)


def test_single_columns_get_the_whole_budget() -> None:
    schema = mq.Schema([mq.Integer("a", 0, 4), mq.Integer("b", 0, 6), mq.Boolean("c")])
    table = mq.open_table({"a": [1, 2] * 50, "b": [3, 4] * 50, "c": [True, False] * 50}, schema)
    curator = mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9))
    mq.release(curator, mq.marginals(schema, k=1), method="graphical", check=False)
    remaining, spent = curator.remaining.rho, curator.spent.rho
    assert remaining is not None
    assert spent is not None
    assert remaining < 1e-6 * spent
