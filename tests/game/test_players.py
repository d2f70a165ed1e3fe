"""Both players learn, capped play with private queries, and boosting: prices, promises, refusals."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from game_checks import Seeded, binary, booleans, largest_error, opened

import maquette as mq
from maquette.distinguisher import Clause
from maquette.errors import BudgetExceeded, MaquetteError, QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.query import LinearQuery
from maquette.releases import CellIndex, Repair, analyst_private, boosted, both_learn
from maquette.releases.game.both_learn import DataPlayer
from maquette.releases.game.budget import GameBudget
from maquette.theory import game as theory

both_learn_module: Any = importlib.import_module("maquette.releases.game.both_learn")

RECORDS = binary(6, 20_000, 0)
SCHEMA = booleans(RECORDS)
PAIRS = list(itertools.combinations(range(6), 2))
WORKLOAD = mq.marginals(SCHEMA, k=2)
ZCDP = mq.Budget(rho=0.1, delta=1e-9)


@functools.cache
def opened_table() -> mq.PrivateTable:
    return opened(RECORDS)[1]


def promise(release: mq.Release) -> float:
    assert release.certificate.accuracy is not None
    return float(release.certificate.accuracy.split("within ")[1].split(" of")[0])


def test_a_board_counts_records_and_projects_distributions_alike() -> None:
    schema = mq.Schema([mq.Boolean("a"), mq.Category("b", list("xyz")), mq.Boolean("c")])
    index = CellIndex.of(mq.queries(schema, ["a AND b = 'x'", "c", "b = 'y' AND c AND a"]))
    rng = np.random.default_rng(0)
    records = rng.integers((2, 3, 2), size=(500, 3))
    dense = np.zeros((2, 3, 2))
    np.add.at(dense, tuple(records.T), 1 / 500)
    assert np.allclose(index.fractions(records), index.project(dense))
    for cell in range(index.cells):
        holds = np.ones(500, dtype=bool)
        for column, level in index.clause(cell, 1).literals:
            holds &= records[:, column] == level
        assert index.fractions(records)[cell] == pytest.approx(holds.mean())


def test_the_data_player_keeps_its_regret() -> None:
    rounds, rng = 200, np.random.default_rng(1)
    eta = math.sqrt(8 * math.log(64) / rounds)
    player, gained, totals = DataPlayer(SCHEMA, eta), 0.0, np.zeros((2,) * 6)
    for _ in range(rounds):
        clause = Clause(((int(rng.integers(6)), 1),), int(rng.choice([-1, 1])))
        holds = np.zeros((2,) * 6)
        holds[tuple(1 if i == clause.literals[0][0] else slice(None) for i in range(6))] = 1.0
        gains = holds if clause.sign > 0 else 1 - holds
        gained += float((player.strategy * gains).sum())
        totals += gains
        player.learn([clause])
    assert (totals.max() - gained) / rounds <= math.sqrt(math.log(64) / (2 * rounds))


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("pure", [True, False])
def test_both_learn_pays_its_formula_and_keeps_its_promise(pure: bool) -> None:
    budget = mq.Budget(epsilon=4.0) if pure else mq.Budget(rho=0.3, delta=1e-9)
    rounds = 200
    with mq.Curator(opened_table(), budget, relation="replace", noise=Seeded(1)) as curator:
        made = both_learn(curator, WORKLOAD, calibration="theory", rounds=rounds, draws=1, rng=np.random.default_rng(2))
        spent = curator.ledger.spent() / UNITS_PER_ONE
    best = math.sqrt(2 * math.log(2 * 60) / rounds)
    facts: dict[str, Any] = {"draws": 1, "rounds": rounds, "rows": 20_000.0}
    eta = min(best, float(theory.affordable_eta(amount=budget.limit / UNITS_PER_ONE, pure=pure, **facts)))
    assert spent == pytest.approx((theory.draws_epsilon if pure else theory.draws_rho)(eta=eta, **facts), rel=1e-6)
    assert largest_error(made, RECORDS, PAIRS) <= promise(made) < 0.6


def test_both_learn_is_a_method_and_can_be_saved(tmp_path: Path) -> None:
    with mq.Curator(opened_table(), ZCDP, noise=Seeded(3)) as curator:
        made = mq.release(curator, WORKLOAD, method="both-learn", rounds=80, rng=np.random.default_rng(0))
        assert made.certificate.units == curator.ledger.spent() <= curator.budget.limit
    made.save(tmp_path / "both.maq")
    assert mq.Release.load(tmp_path / "both.maq").marginal("c0").tolist() == made.marginal("c0").tolist()
    uniform = max(abs(CellIndex.of(WORKLOAD).fractions(RECORDS) - 0.25))
    assert largest_error(made, RECORDS, PAIRS) < 0.4 * uniform


def test_impossible_combinations_have_no_mass() -> None:
    schema = mq.Schema([mq.Boolean("a"), mq.Boolean("b")], impossible=[{"a": "true", "b": "true"}])
    table = mq.open_table({"a": [True, False] * 50, "b": [False, False] * 50}, schema)
    with mq.Curator(table, ZCDP, noise=Seeded(3)) as curator:
        made = both_learn(curator, mq.marginals(schema, k=2), rounds=10)
    assert made.marginal("a", "b")[1, 1] == 0.0


QUERIES = [
    mq.where(SCHEMA, f"c{i} = {a} AND c{j} = {b}")
    for i, j in PAIRS
    for a in ("true", "false")
    for b in ("true", "false")
]
CAPPED: dict[str, Any] = {"analyst_epsilon": 30.0, "strength": 40.0, "rounds": 12, "draws": 25}


def test_capped_play_states_both_kinds_of_privacy() -> None:
    with mq.Curator(opened_table(), ZCDP, noise=Seeded(5)) as curator:
        made, said = analyst_private(curator, QUERIES, rho=0.05, **CAPPED)
        spent = curator.ledger.spent()
        assert made.certificate.units == spent <= 0.05 * UNITS_PER_ONE
        capped = [json.loads(c.description)["cap"] for c in curator.ledger.charges() if '"lottery"' in c.description]
        assert set(capped) == {said.cap}
        assert len(capped) == 11
        mended = Repair(curator, made, threshold=0.1, hits=3)
        assert 0 <= mended.ask("c0 AND c1") <= 1
        assert curator.ledger.spent() <= curator.budget.limit
    assert 29 < said.analyst_epsilon <= 30
    each = theory.analyst_round_epsilon(cap=said.cap, draws=25, strength=40.0)
    assert said.analyst_epsilon == pytest.approx(12 * each, rel=1e-3)
    assert theory.analyst_round_epsilon(cap=said.cap - 1, draws=25, strength=40.0) * 12 > 30 * (1 - 2e-3)
    assert f"epsilon {said.analyst_epsilon:.4g}" in str(made.certificate.accuracy)
    for charge in made.certificate.charges:
        assert set(json.loads(charge)) <= {"door", "events"}, "a charge must not tell what was asked"
    assert len(made.model.records) == 12  # type: ignore[attr-defined]


def test_a_repair_mends_what_is_off() -> None:
    with mq.Curator(opened_table(), mq.Budget(rho=5.0, delta=1e-9)) as curator:
        made, _ = analyst_private(curator, QUERIES, rho=0.01, **CAPPED)
        mended = Repair(curator, made, threshold=0.02, hits=60)
        for query in QUERIES[:40]:
            truth = float(query.evaluate(RECORDS).mean())
            assert abs(mended.ask(query) - truth) < 0.03


def test_capped_play_with_weights_between_zero_and_one() -> None:
    halves = [LinearQuery.product(SCHEMA, {f"c{i}": [0.25, 0.5 + i / 20]}) for i in range(6)]
    with mq.Curator(opened_table(), ZCDP, noise=Seeded(5)) as curator:
        made, said = analyst_private(curator, halves, analyst_epsilon=50.0, strength=5.0, rounds=4, draws=5)
    assert said.cap <= 12
    assert 0 <= made.model.answer(halves[0]) <= 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"analyst_epsilon": 0.1}, "signed queries; ask more"),
        ({"analyst_epsilon": 0.0}, "above 0"),
        ({"strength": -1.0}, "above 0"),
        ({"strength": 1e6}, "too much for 25 draws"),
        ({"rounds": 0}, "rounds is 0"),
        ({"asked": []}, "got 0 queries"),
    ],
)
def test_capped_play_refuses_before_any_charge(settings: dict[str, Any], words: str) -> None:
    with mq.Curator(opened_table(), ZCDP) as curator:
        named = {**CAPPED, "asked": QUERIES, **settings}
        with pytest.raises(QueryError, match=words):
            analyst_private(curator, named.pop("asked"), **named)
        with pytest.raises(QueryError, match="threshold is 2"):
            Repair(curator, None, threshold=2.0, hits=1)  # type: ignore[arg-type]
        assert curator.ledger.spent() == 0


def test_boosting_answers_by_the_median() -> None:
    with mq.Curator(opened_table(), ZCDP, noise=Seeded(7)) as curator:
        made = boosted(curator, WORKLOAD, rounds=5, draws=15, cap=10, rng=np.random.default_rng(3))
        assert made.certificate.units == curator.ledger.spent() <= curator.budget.limit
        doors = [json.loads(c.description) for c in curator.ledger.charges()]
    lotteries = [d for d in doors if d["door"] == "lottery"]
    assert [d["sensitivity"] // 2**20 for d in lotteries] == [1, 2, 3, 4], "one row of sensitivity for each structure"
    assert {d["cap"] for d in lotteries} == {10}
    query = mq.where(SCHEMA, "c0 AND c1")
    answers = [model.answer(query) for model in made.model.models]  # type: ignore[attr-defined]
    assert made.model.answer(query) == pytest.approx(np.median(answers))
    assert made.sample(7).num_rows == 7
    uniform = max(abs(CellIndex.of(WORKLOAD).fractions(RECORDS) - 0.25))
    assert largest_error(made, RECORDS, PAIRS) < 0.4 * uniform


def test_boosting_says_what_its_promise_rests_on() -> None:
    with mq.Curator(opened_table(), mq.Budget(rho=50.0, delta=1e-9), relation="replace", noise=Seeded(7)) as curator:
        made = boosted(
            curator,
            mq.marginals(SCHEMA, k=1),
            rounds=40,
            draws=2,
            good=0.05,
            bad=0.4,
            base=lambda curator, queries, rows, units: _Flat(),
        )
    assert "provided that every structure is within 0.05" in str(made.certificate.accuracy)
    with mq.Curator(opened_table(), ZCDP) as curator:
        for settings in ({"good": 0.5, "bad": 0.1}, {"rounds": 0}, {"cap": 10**6}):
            with pytest.raises(MaquetteError):
                boosted(curator, WORKLOAD, **settings)
        with pytest.raises(BudgetExceeded):
            boosted(curator, WORKLOAD, rho=1.0)
        with pytest.raises(QueryError, match="rounds is 0"):
            both_learn(curator, WORKLOAD, rounds=0)
        with pytest.raises(QueryError, match="calibration"):
            both_learn(curator, WORKLOAD, calibration="magic")  # type: ignore[arg-type]
        assert curator.ledger.spent() == 0


class _Flat:
    """A structure that knows nothing."""

    def answer(self, query: LinearQuery) -> float:
        return 0.5

    def marginal(self, columns: Any) -> np.ndarray:
        return np.full((2,) * len(columns), 0.5 ** len(columns))

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        return np.zeros((rows, 6), dtype=np.int32)


def test_a_universe_too_large_is_refused_before_any_charge() -> None:
    schema, table = opened(binary(30, 50, 1))
    with mq.Curator(table, ZCDP) as curator:
        with pytest.raises(QueryError, match="cells"):
            both_learn(curator, mq.marginals(schema, k=1))
        with pytest.raises(QueryError, match="records"):
            analyst_private(curator, ["c0"], analyst_epsilon=1.0)
        with pytest.raises(QueryError, match="cells"):
            boosted(curator, mq.marginals(schema, k=1))
        assert curator.ledger.spent() == 0


def test_both_learn_refuses_a_play_of_hours_before_any_charge() -> None:
    """At a million rows the best play takes hundreds of thousands of charges: said beforehand, with what fits."""
    with mq.Curator(opened_table(), mq.Budget(rho=5.0, delta=1e-9), relation="replace") as curator:
        with pytest.raises(QueryError) as refused:
            both_learn(curator, WORKLOAD, calibration="theory")
        assert curator.ledger.spent() == 0
    said = str(refused.value)
    assert "rounds, each with a charge" in said
    assert "minutes" in said
    assert "rounds=" in said
    assert "rows it would fit" in said


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("budget", [mq.Budget(epsilon=50.0), mq.Budget(epsilon=50.0, delta=1e-9), ZCDP])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_practical_play_spends_what_was_given(budget: mq.Budget, relation: Any) -> None:
    with mq.Curator(opened_table(), budget, relation=relation, noise=Seeded(4)) as curator:
        both_learn(curator, WORKLOAD, rounds=40, rng=np.random.default_rng(1))
        assert 0.999 * budget.limit <= curator.ledger.spent() <= budget.limit


def test_practical_rounds_grow_with_the_budget() -> None:
    """More budget buys more rounds, up to the most that a practical play takes; never fewer draws for it."""
    index = CellIndex.of(WORKLOAD)
    chosen = [
        both_learn_module._chosen(
            index,
            GameBudget(units=UNITS_PER_ONE // 60, rows=rows, slack=0.0, moves=1, beta=0.05, pure=False),
            "practical",
            None,
            None,
        )
        for rows in (1e3, 1e4, 1e5, 1e6, 1e7)
    ]
    assert [play.rounds for play in chosen] == sorted(play.rounds for play in chosen)
    assert chosen[0].draws < chosen[-1].draws == both_learn_module.DRAWS
    assert chosen[-1].rounds == both_learn_module.MOST_ROUNDS
