"""DualQuery: its price to the last unit, what its records depend on, what inexact solvers cost, and its errors."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from game_checks import Seeded, binary, booleans, largest_error, opened

import maquette as mq
from maquette.distinguisher import Clause, Response, Solver
from maquette.distinguisher.best_response import enumerated, satisfied
from maquette.errors import BudgetError, MaquetteError, QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Marginal
from maquette.releases import CellIndex, dual_query
from maquette.releases.game.budget import QueryPlayer, fund
from maquette.theory import game as theory

RECORDS = binary(8, 3000, 0)
SCHEMA = booleans(RECORDS)
PAIRS = list(itertools.combinations(range(8), 2))
WORKLOAD = mq.marginals(SCHEMA, k=2)


@functools.cache
def opened_table() -> mq.PrivateTable:
    return opened(RECORDS)[1]


def coins(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("pure", [True, False])
def test_the_ledger_holds_what_the_formula_says(relation: Any, pure: bool) -> None:
    budget = mq.Budget(epsilon=2.0) if pure else mq.Budget(rho=0.05, delta=1e-9)
    rounds, draws = 12, 7
    with mq.Curator(opened_table(), budget, relation=relation) as curator:
        made = dual_query(curator, WORKLOAD, rounds=rounds, draws=draws, responses=1, rows=2500)
        assert made.certificate.units == curator.ledger.spent()
        assert curator.ledger.spent() <= budget.limit
        charges = list(curator.ledger.charges())
    amount = curator.budget.limit / UNITS_PER_ONE
    facts = {"draws": draws, "rounds": rounds, "rows": 2500.0}
    eta = float(theory.affordable_eta(amount=amount, pure=pure, **facts))
    spent = sum(charge.units for charge in charges) / UNITS_PER_ONE
    formula = theory.draws_epsilon if pure else theory.draws_rho
    assert spent == pytest.approx(formula(eta=eta, **facts), rel=1e-7)  # type: ignore[arg-type]
    assert len(charges) == rounds - 1, "the first round is free"
    for turn, charge in enumerate(charges, start=2):
        (event,) = json.loads(charge.description)["events"]
        assert event["kind"] == "selection"
        assert event["times"] == draws
        assert event["epsilon"] == pytest.approx(theory.draw_epsilon(eta=eta, turn=turn, rows=2500.0), rel=1e-6)


def test_each_unit_of_many_rows_is_paid_for() -> None:
    rows = {"who": [i // 2 for i in range(400)], **{f"c{i}": RECORDS[:400, i].astype(bool) for i in range(8)}}
    table = mq.open_table(rows, SCHEMA, privacy_unit="who", max_contributions=2)
    with mq.Curator(table, mq.Budget(rho=0.1, delta=1e-9)) as curator:
        dual_query(curator, WORKLOAD, rounds=5, draws=3, responses=1, rows=400)
        last = json.loads(list(curator.ledger.charges())[-1].description)
    epsilon = last["events"][0]["epsilon"]
    assert last["sensitivity"] == 2 * 2**20
    assert float(Fraction(last["scale"])) == pytest.approx(2 * last["sensitivity"] / epsilon, rel=1e-5)


class Replayed(Seeded):
    """Draws once recorded, drawn again whatever the scores say."""

    def __init__(self, recorded: Sequence[int]) -> None:
        super().__init__(0)
        self.left = list(recorded)

    def exponential(self, scores: np.ndarray, scale: Fraction) -> int:
        return self.left.pop(0)


class Recorded(Seeded):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[int] = []

    def exponential(self, scores: np.ndarray, scale: Fraction) -> int:
        self.drawn.append(super().exponential(scores, scale))
        return self.drawn[-1]


def test_records_depend_on_rows_only_through_what_was_drawn() -> None:
    settings: dict[str, Any] = {"rounds": 8, "draws": 6, "rows": 3000}
    noise = Recorded(1)
    with mq.Curator(opened_table(), mq.Budget(rho=0.1, delta=1e-9), noise=noise) as curator:
        first = dual_query(curator, WORKLOAD, rng=coins(), **settings)
    _, other = opened(1 - RECORDS[:100])
    with mq.Curator(other, mq.Budget(rho=0.1, delta=1e-9), noise=Replayed(noise.drawn)) as curator:
        second = dual_query(curator, WORKLOAD, rng=coins(), **settings)
        spent = curator.ledger.spent()
    assert np.array_equal(first.model.records, second.model.records)  # type: ignore[attr-defined]
    assert first.certificate.units == spent
    assert "NOT PRIVATE" in first.certificate.method


@pytest.mark.thorough
def test_with_many_draws_a_response_is_the_exact_best_response() -> None:
    """The weights themselves, known here, value the response within what so many draws can miss."""
    index = CellIndex(SCHEMA, [Marginal(SCHEMA, table.names) for table in WORKLOAD.marginals])
    truth = index.fractions(RECORDS)
    draws, rng = 4000, coins(3)
    with mq.Curator(opened_table(), mq.Budget(rho=50.0, delta=1e-9), relation="replace", noise=Seeded(2)) as curator:
        funds = fund(curator, index, curator.budget.limit, None, 0.05)
        player = QueryPlayer(curator, curator.lottery(index.tables), funds, eta=0.8, draws=draws)
        points = np.stack(np.unravel_index(np.arange(256), (2,) * 8), axis=1)
        totals = np.zeros(index.cells)
        for done in range(4):
            drawn = [index.clause(*move) for move in player.play(totals / done if done else None, rng)]
            response = enumerated(SCHEMA, drawn, rng)
            gains = 0.8 * (done * truth - totals)
            weights = np.exp(np.concatenate([gains, -gains]))
            weights /= weights.sum()
            clauses = [index.clause(i % index.cells, 1 if i < index.cells else -1) for i in range(2 * index.cells)]
            value = sum(w * satisfied([c], points) for w, c in zip(weights, clauses, strict=True))
            missed = 2 * math.sqrt(math.log(2 * 256 * 1e6) / (2 * draws))
            mine = int(np.ravel_multi_index(tuple(response.record), (2,) * 8))
            assert value[mine] >= value.max() - missed
            totals[index.find(response.record)] += 1


@pytest.mark.thorough
def test_it_comes_closer_than_uniform_and_keeps_its_promise() -> None:
    with mq.Curator(opened_table(), mq.Budget(rho=0.5, delta=1e-9), relation="replace", noise=Seeded(4)) as curator:
        made = dual_query(curator, WORKLOAD, rounds=60, draws=20, responses=1, solver=enumerated, rng=coins())
    uniform = max(abs(board_error) for board_error in CellIndex.of(WORKLOAD).fractions(RECORDS) - 0.25)
    assert largest_error(made, RECORDS, PAIRS) < 0.4 * uniform
    assert made.certificate.accuracy is None
    with mq.Curator(opened_table(), mq.Budget(rho=2.0, delta=1e-9), relation="replace", noise=Seeded(1)) as curator:
        settings: dict[str, Any] = {"rounds": 50, "draws": 250, "responses": 1, "solver": enumerated, "rng": coins(1)}
        made = dual_query(curator, WORKLOAD, calibration="theory", **settings)
    assert made.certificate.accuracy is not None
    promised = float(made.certificate.accuracy.split("within ")[1].split(" of")[0])
    assert largest_error(made, RECORDS, PAIRS) <= promised < 0.7


def hopeless(schema: mq.Schema, clauses: Sequence[Clause], rng: np.random.Generator) -> Response:
    record = np.zeros(len(schema), dtype=np.int32)
    return Response(record, int(satisfied(clauses, record[None, :])[0]), float(len(clauses)))


def test_a_bad_solver_costs_accuracy_and_nothing_else() -> None:
    spent, errors = [], []
    for solver in (hopeless, Solver(engine="highs")):
        with mq.Curator(opened_table(), mq.Budget(rho=0.5, delta=1e-9), noise=Seeded(5)) as curator:
            made = dual_query(curator, WORKLOAD, rounds=25, draws=10, rows=3000, solver=solver, rng=coins())
            spent.append(curator.ledger.spent())
        errors.append(largest_error(made, RECORDS, PAIRS))
    assert spent[0] == spent[1]
    assert errors[0] > 0.5 > errors[1]


@pytest.mark.thorough
def test_a_gap_is_added_to_the_promise() -> None:
    promises = []
    for slack in (0.0, 25.0):

        def gapped(
            schema: mq.Schema, clauses: Sequence[Clause], rng: np.random.Generator, slack: float = slack
        ) -> Response:
            found = enumerated(schema, clauses, rng)
            return Response(found.record, found.satisfied, found.bound + slack)

        with mq.Curator(opened_table(), mq.Budget(rho=2.0, delta=1e-9), relation="replace", noise=Seeded(6)) as curator:
            settings: dict[str, Any] = {"rounds": 30, "draws": 250, "responses": 1, "rng": coins()}
            made = dual_query(curator, WORKLOAD, calibration="theory", solver=gapped, **settings)
        assert made.certificate.accuracy is not None
        promises.append(float(made.certificate.accuracy.split("within ")[1].split(" of")[0]))
    assert promises[1] - promises[0] == pytest.approx(0.1, abs=1e-3)


@pytest.mark.thorough
def test_many_columns_are_released_saved_and_loaded(tmp_path: Path) -> None:
    records = binary(150, 4000, 7)
    schema, table = opened(records)
    sets = [tuple(f"c{i}" for i in (j, j + 1, (j + 50) % 150)) for j in range(149)]
    with mq.Curator(table, mq.Budget(epsilon=3.0, delta=1e-9)) as curator:
        made = mq.release(
            curator, mq.marginals(schema, columns=sets), method="dual-query", rounds=12, draws=30, responses=1
        )
        assert 0.99 * curator.budget.limit <= curator.ledger.spent() <= curator.budget.limit
    assert made.sample(20).num_columns == 150
    digest = made.save(tmp_path / "wide.maq")
    again = mq.Release.load(tmp_path / "wide.maq", digest=digest)
    assert np.array_equal(again.marginal(*sets[0]), made.marginal(*sets[0]))
    assert again.certificate == made.certificate


def test_interrupting_releases_the_records_there_are() -> None:
    calls = []

    def impatient(schema: mq.Schema, clauses: Sequence[Clause], rng: np.random.Generator) -> Response:
        calls.append(len(clauses))
        if len(calls) > 5:
            raise KeyboardInterrupt
        return enumerated(schema, clauses, rng)

    with mq.Curator(opened_table(), mq.Budget(rho=0.5, delta=1e-9), noise=Seeded(0)) as curator:
        made = dual_query(curator, WORKLOAD, rounds=50, draws=4, responses=1, rows=3000, solver=impatient)
        assert made.certificate.units == curator.ledger.spent() < curator.budget.limit
    assert len(made.model.records) == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"draws": 1.5}, "draws is 1.5"),
        ({"responses": True}, "responses is True"),
        ({"calibration": "magic"}, "calibration is 'magic'"),
        ({"solver": "minisat"}, "the solver is 'minisat'"),
        ({"seconds": 0.0}, "seconds is 0"),
        ({"beta": 1.0}, "beta=1.0"),
        ({"rows": 0}, "rows=0"),
        ({"rho": 9.0}, "remains"),
        ({"workload": mq.marginals(mq.Schema([mq.Boolean("q")]), k=1)}, "another schema"),
        ({"calibration": "theory", "rows": 50}, "which says nothing"),
    ],
)
def test_bad_input_is_refused_before_any_charge(settings: dict[str, Any], words: str) -> None:
    with mq.Curator(opened_table(), mq.Budget(rho=0.5, delta=1e-9)) as curator:
        asked = {"workload": WORKLOAD, **settings}
        with pytest.raises(MaquetteError, match=words):
            dual_query(curator, asked.pop("workload"), **asked)
        assert curator.ledger.spent() == 0


def test_a_missing_solver_is_refused_before_any_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maquette.distinguisher.best_response.find_spec", lambda name: None)
    with mq.Curator(opened_table(), mq.Budget(rho=0.5, delta=1e-9)) as curator:
        with pytest.raises(QueryError, match=r"maquette\[solver\]"):
            dual_query(curator, WORKLOAD, solver="cp-sat")
        assert curator.ledger.spent() == 0


def test_other_currencies_are_refused_with_advice() -> None:
    with mq.Curator(opened_table(), mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp")) as curator:
        with pytest.raises(BudgetError, match="zcdp"):
            dual_query(curator, WORKLOAD)
        assert curator.ledger.spent() == 0
