"""Solvers on public input: optimal against enumeration, limited in time, fair in ties; the oracle among them."""

from __future__ import annotations

import importlib.util
import time

import numpy as np
import pytest

import maquette as mq
from maquette.distinguisher import Clause, Solver, best_query
from maquette.distinguisher.best_response import enumerated, satisfied
from maquette.errors import QueryError

MIXED = mq.Schema(
    [*(mq.Boolean(f"c{i}") for i in range(5)), mq.Category("k", list("abcd")), mq.Category("m", list("xyz"))]
)


def clauses(schema: mq.Schema, count: int, width: int, rng: np.random.Generator) -> list[Clause]:
    sizes = schema.shape(schema.names)
    return [
        Clause(
            tuple((int(c), int(rng.integers(sizes[c]))) for c in rng.choice(len(sizes), width, replace=False)),
            int(rng.choice([-1, 1])),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("engine", ["cp-sat", "highs"])
def test_a_solver_finds_what_enumeration_finds(engine: str) -> None:
    rng = np.random.default_rng(0)
    for width in (1, 2, 3, 4):
        for count in (1, 9, 25):
            asked = clauses(MIXED, count, width, rng)
            asked += [Clause(asked[0].literals, -asked[0].sign), asked[0]]
            best, found = enumerated(MIXED, asked, rng), Solver(engine=engine)(MIXED, asked, rng)
            assert found.satisfied == best.satisfied == found.bound
            assert found.satisfied == satisfied(asked, found.record[None, :])[0]


@pytest.mark.parametrize("engine", ["cp-sat", "highs"])
def test_impossible_combinations_are_never_answered(engine: str) -> None:
    schema = mq.Schema(
        [mq.Boolean("a"), mq.Boolean("b"), mq.Category("c", list("xyz"))],
        impossible=[{"a": "true", "b": "true"}, {"b": "true", "c": "x"}],
    )
    rng = np.random.default_rng(1)
    wanted = [Clause(((0, 1),), 1), Clause(((1, 1),), 1), Clause(((2, 0),), 1)] * 2
    for _ in range(5):
        found = Solver(engine=engine)(schema, wanted, rng)
        a, b, c = found.record.tolist()
        assert not (a and b)
        assert not (b and c == 0)
        assert found.satisfied == enumerated(schema, wanted, rng).satisfied == 4


@pytest.mark.parametrize("engine", ["cp-sat", "highs"])
def test_a_time_limit_is_kept_and_leaves_a_bound(engine: str) -> None:
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(100)])
    rng = np.random.default_rng(2)
    asked = clauses(schema, 400, 3, rng)
    start = time.perf_counter()
    found = Solver(engine=engine, seconds=0.05)(schema, asked, rng)
    assert time.perf_counter() - start < 20  # generous: a solver that ignored its limit would need hours
    assert found.gap > 0
    assert found.satisfied == satisfied(asked, found.record[None, :])[0] > 200


@pytest.mark.parametrize("engine", ["cp-sat", "highs"])
def test_what_no_clause_decides_is_left_to_public_coins(engine: str) -> None:
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(4)])
    asked = [Clause(((0, 1),), 1), Clause(((1, 0), (2, 1)), -1)]
    rng = np.random.default_rng(3)
    records = np.array([Solver(engine=engine)(schema, asked, rng).record for _ in range(60)])
    assert (records[:, 0] == 1).all()
    assert 5 < records[:, 3].sum() < 55
    assert len(np.unique(records, axis=0)) >= 5
    again = [Solver(engine=engine)(schema, asked, np.random.default_rng(4)).record.tolist() for _ in range(2)]
    assert again[0] == again[1]


def test_a_missing_solver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "maquette.distinguisher.best_response.find_spec", lambda name: None if name == "ortools" else found(name)
    )
    with pytest.raises(QueryError, match=r"maquette\[solver\]"):
        Solver(engine="cp-sat")
    rng = np.random.default_rng(5)
    assert Solver()(MIXED, clauses(MIXED, 5, 2, rng), rng).gap == 0, (
        "auto falls back to the solver that is always there"
    )
    with pytest.raises(QueryError, match="expected"):
        Solver(engine="minisat")
    with pytest.raises(QueryError, match="seconds"):
        Solver(seconds=0)
    with pytest.raises(QueryError, match="too many records"):
        enumerated(mq.Schema([mq.Boolean(f"c{i}") for i in range(40)]), [], rng)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("literals", [1, 2, 3])
def test_the_distinguisher_is_an_optimisation_oracle(literals: int) -> None:
    rng = np.random.default_rng(literals)
    sizes = MIXED.shape(MIXED.names)
    table, model = (rng.integers(sizes, size=(40, len(sizes))) for _ in range(2))
    weights = rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(40))
    lists = (table, weights[0]), (model, weights[1])
    solved = best_query(MIXED, *lists, literals=literals)
    listed = best_query(MIXED, *lists, literals=literals, how="enumerate")
    assert solved.optimal
    assert abs(solved.gap) == pytest.approx(abs(listed.gap))
    said = float(listed.query.evaluate(table) @ weights[0] - listed.query.evaluate(model) @ weights[1])
    assert listed.gap == pytest.approx(said)
    with pytest.raises(QueryError, match="how is"):
        best_query(MIXED, *lists, literals=literals, how="guess")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="encoded records"):
        best_query(MIXED, (table, weights[0][:3]), lists[1], literals=literals)


def test_an_oracle_plays_the_query_player_of_a_public_game() -> None:
    """Best responses by the oracle have no regret, so the average model errs by the data player's regret alone."""
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(5)])
    rng = np.random.default_rng(9)
    points = np.stack(np.unravel_index(np.arange(32), (2,) * 5), axis=1)
    table = rng.dirichlet(np.full(32, 0.3))
    rounds = 150
    eta = np.sqrt(8 * np.log(32) / rounds)
    logs, average = np.zeros(32), np.zeros(32)
    for _ in range(rounds):
        model = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
        average += model / rounds
        worst = best_query(schema, (points, table), (points, model), literals=2, how="enumerate")
        logs += eta * np.sign(worst.gap) * worst.query.evaluate(points)
    error = abs(best_query(schema, (points, table), (points, average), literals=2, how="enumerate").gap)
    assert error <= np.sqrt(np.log(32) / (2 * rounds))
