"""Baselines without a guard: what they cost, how often they keep their word, and what they do not pay twice."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.errors import BudgetError, BudgetExceeded, QueryError
from maquette.query import LinearQuery
from maquette.schema import Schema
from maquette.session.baselines.baseline import Baseline
from maquette.session.baselines.exact_cache import ExactCache
from maquette.session.baselines.one_histogram import OneHistogram
from maquette.session.baselines.whole_marginals import WholeMarginals

sys.path.append(str(Path(__file__).parent.parent / "release"))
from release_checks import Seeded, rarely_missed

SCHEMA = Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"]), mq.Integer("c", 0, 4)])
ROWS = 20_000
BUDGETS = {
    "pure": mq.Budget(epsilon=1.0),
    "zcdp": mq.Budget(epsilon=1.0, delta=1e-9),
    "gdp": mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp"),
}
KINDS: list[type[Baseline]] = [ExactCache, WholeMarginals, OneHistogram]
WEIGHTED = LinearQuery.product(SCHEMA, {"b": [0.25, 1 / 3, 0.9], "a": [0.1, 1.0]})
TEXTS = ("a AND b = 'x'", "b = 'y'", "NOT a OR c >= 2", "c BETWEEN 1 AND 3 AND b IN ('x', 'z')", "a")
ASKED = (*(mq.where(SCHEMA, text) for text in TEXTS), WEIGHTED)


@functools.cache
def people() -> tuple[mq.PrivateTable, np.ndarray]:
    rng = np.random.default_rng(5)
    records = np.stack([(size * rng.random(ROWS) ** 2).astype(np.int64) for size in (2, 3, 5)], axis=1)
    return mq.open_table(SCHEMA.decode(records), SCHEMA), records


def truth(query: LinearQuery) -> float:
    return float(query.evaluate(people()[1]).mean())


def opened(budget: str = "zcdp", relation: Any = "replace", noise: Any = None) -> mq.Curator:
    return mq.Curator(people()[0], BUDGETS[budget], relation=relation, noise=noise)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    ("budget", "relation"),
    [("pure", "replace"), ("pure", "add-remove"), ("zcdp", "replace"), ("zcdp", "add-remove"), ("gdp", "replace")],
)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_within_alpha_as_often_as_promised(kind: type[Baseline], budget: str, relation: Any) -> None:
    """Each answer misses alpha, and its own interval, with probability 0.1 at most; at 1e-6 over all of them."""
    trials, alpha, beta = 20, 0.05, 0.1
    kept = np.zeros((len(ASKED), 2))
    for seed in range(trials):
        with opened(budget, relation, Seeded(seed)) as curator:
            session = kind(curator, alpha=alpha, beta=beta)
            for i, query in enumerate(ASKED):
                answer = session.ask(query)
                kept[i] += abs(answer.value - truth(query)) <= alpha, answer.low <= truth(query) <= answer.high
                assert answer.guarantee is not None
                assert answer.low <= answer.value <= answer.high
                assert max(answer.high - answer.value, answer.value - answer.low) <= alpha * (1 + 1e-9)
    assert kept.min() >= rarely_missed(trials, 1 - beta, kept.size), kept / trials


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", KINDS)
def test_widths_are_not_far_too_wide(kind: type[Baseline]) -> None:
    """The first answer of a cache is as wide as alpha allows, so its noise has the deviation that beta implies."""
    errors = []
    for seed in range(60):
        with opened("zcdp", noise=Seeded(seed)) as curator:
            session = kind(curator, alpha=0.05, beta=0.1)
            query = ASKED[0] if kind is not OneHistogram else mq.where(SCHEMA, "c < 2 OR c = 2 AND a")
            answer = session.ask(query)
            errors.append((answer.unbiased or 0.0) - truth(query))
    assert np.std(errors) == pytest.approx(0.05 / 1.645, rel=0.5)
    assert abs(np.mean(errors)) < 5 * 0.05 / 1.645 / math.sqrt(60)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("kind", KINDS)
def test_repeats_are_free_and_the_same(kind: type[Baseline], relation: Any) -> None:
    with opened("zcdp", relation, Seeded(1)) as curator:
        session = kind(curator, alpha=0.05, beta=0.01)
        first = [session.ask(query) for query in ASKED]
        spent = curator.ledger.spent()
        for query, before in zip(ASKED, first, strict=True):
            again = session.ask(~~query)
            assert (again.value, again.low, again.high, again.unbiased) == (
                before.value,
                before.low,
                before.high,
                before.unbiased,
            )
            assert (again.source, again.cost.units) == ("cache", 0)
        assert session.ask("a") is session.ask("NOT NOT a")
        assert curator.ledger.spent() == spent


def test_an_exact_cache_pays_for_every_question() -> None:
    """5.41 / (alpha n)^2 of rho, or 6.91 / (alpha n) of epsilon, at beta = 1e-3; whatever the relation."""
    for budget, unit in (("zcdp", 5.41 / (0.05 * ROWS) ** 2), ("pure", 6.91 / (0.05 * ROWS))):
        for relation in ("replace", "add-remove"):
            with opened(budget, relation, Seeded(0)) as curator:
                session = ExactCache(curator, alpha=0.05, beta=1e-3, rows=ROWS)
                costs = [session.ask(query).cost for query in ASKED[:5]]
            assert [cost.rho if budget == "zcdp" else cost.epsilon for cost in costs] == pytest.approx(
                [unit] * 5, rel=5e-3
            )


def test_the_noise_of_an_exact_cache_is_the_one_asked_for() -> None:
    for law, budget in (("laplace", "pure"), ("laplace", "zcdp"), ("gaussian", "zcdp")):
        noise = Seeded(0)
        with opened(budget, noise=noise) as curator:
            ExactCache(curator, alpha=0.05, beta=0.01, noise=law).ask(ASKED[0])  # type: ignore[arg-type]
        assert [call.kind for call in noise.calls] == [law]


def test_a_whole_marginal_costs_what_one_of_its_cells_costs() -> None:
    unit = 5.41 / (0.05 * ROWS) ** 2
    with opened("zcdp", "add-remove", Seeded(0)) as curator:
        session = WholeMarginals(curator, alpha=0.05, beta=1e-3, rows=ROWS)
        cells = [mq.where(SCHEMA, f"c = {c} AND b = '{b}'") for c, b in itertools.product(range(5), "xyz")]
        answers = [session.ask(query) for query in cells]
        assert [a.source for a in answers] == ["measured"] + ["derived"] * 14
        assert curator.spent.rho == pytest.approx(unit * (1 - 1 / 15), rel=5e-3)  # the cells sum to the rows
        assert all(abs(a.value - truth(q)) <= 0.05 for a, q in zip(answers, cells, strict=True))


def test_only_the_missing_precision_is_bought() -> None:
    """In zCDP precision adds: a cell first and half the table later cost together what half the table costs."""
    cell = mq.where(SCHEMA, "c = 0 AND b = 'x'")
    half = mq.where(SCHEMA, "c < 2 OR c = 2 AND b = 'x'")
    spent = []
    for stream in ((cell, half), (half,), (half, cell)):
        with opened("zcdp", "add-remove", Seeded(0)) as curator:
            session = WholeMarginals(curator, alpha=0.05, beta=1e-3, rows=ROWS)
            last = [session.ask(query) for query in stream][-1]
            spent.append(curator.ledger.spent())
            assert last.source == ("measured" if stream[-1] is half else "derived")
    assert spent[0] == pytest.approx(spent[1], rel=1e-3)
    assert spent[2] == spent[1]


def test_larger_tables_serve_their_subsets() -> None:
    with opened("zcdp", "add-remove", Seeded(2)) as curator:
        session = WholeMarginals(curator, alpha=0.05, beta=1e-3, rows=ROWS)
        session.ask("a AND b <> 'y' OR NOT a AND b = 'y'")  # three of six cells, as noisy as any question can be
        (table,) = session._tables.values()
        answer = session.ask("a")
        assert (answer.source, answer.cost.units, len(session._tables)) == ("derived", 0, 1)
        assert answer.unbiased == pytest.approx(0.5 + float((table.values[1] - table.values[0]).sum()) / 2 / ROWS)


def test_tables_are_merged_by_inverse_variance_and_topped_up() -> None:
    """A cell of six and one of ten leave too little for their common column; what is missing is bought on it alone."""
    unit = 5.41 / (0.05 * ROWS) ** 2
    with opened("zcdp", "add-remove", Seeded(2)) as curator:
        session = WholeMarginals(curator, alpha=0.05, beta=1e-3, rows=ROWS)
        session.ask("a AND b = 'x'")
        session.ask("a AND c = 1")
        answer = session.ask("a")
        # Variances in units of what alpha allows: a cell bought at 1, the sum of m cells with weights 1/2 and -1/2.
        have = sum(1 / (m / 4 / (1 - 1 / m)) for m in (6, 10))
        assert answer.cost.rho == pytest.approx(unit * (1 - have) / 2, rel=0.02)
        tables = list(session._tables.values())
        sums = [float((t.values[1] - t.values[0]).sum()) / 2 for t in tables]
        precision = np.array([1 / (t.values.size * t.deviation**2) for t in tables])
        assert answer.unbiased == pytest.approx(0.5 + float(precision @ np.array(sums) / precision.sum()) / ROWS)


def test_one_histogram_sums_its_cells() -> None:
    script = [int(value) for value in np.random.default_rng(1).integers(-9, 9, 30)]
    noise = ScriptedNoise(script)
    with opened("pure", noise=noise) as curator:
        session = OneHistogram(curator, alpha=0.2, beta=1e-3)
        assert curator.ledger.spent() == session.cost.units
        cells = np.array(script).reshape(2, 3, 5)
        for query in ASKED:
            weights = np.broadcast_to(query.weights(SCHEMA.names), cells.shape)
            answer, shifts = session.ask(query), (0.0, 1.0, float(weights.mean()))
            errors = [float(((weights - shift) * cells).sum()) / ROWS for shift in shifts]
            assert min(abs((answer.unbiased or 0.0) - truth(query) - error) for error in errors) < 1e-6
            assert answer.source == "derived"
        assert curator.ledger.spent() == session.cost.units


def test_a_histogram_for_small_questions_promises_nothing_to_large_ones() -> None:
    with opened("zcdp", noise=Seeded(0)) as curator:
        session = OneHistogram(curator, alpha=0.05, beta=1e-3, cells=2)
        assert session.ask("a AND b = 'x' AND c IN (1, 2)").guarantee is not None
        assert session.ask("NOT (a AND b = 'x' AND c IN (1, 2))").guarantee is not None
        assert session.ask("b = 'x'").guarantee is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_every_row_weighs_alike_in_is_exact(kind: type[Baseline]) -> None:
    with opened("zcdp", "add-remove", Seeded(0)) as curator:
        session = kind(curator, alpha=0.05, beta=1e-3)
        spent = curator.ledger.spent()
        answers = [session.ask(text) for text in ("a OR NOT a", "a AND NOT a")]
        assert [(a.value, a.low, a.high, a.source) for a in answers] == [(1, 1, 1, "derived"), (0, 0, 0, "derived")]
        assert curator.ledger.spent() == spent


@pytest.mark.parametrize("budget", ["pure", "zcdp"])
def test_private_rows_cost_little_beside_the_questions(budget: str) -> None:
    """An estimate to a quarter of the deviation: 16 counts in zCDP, 4 under a pure budget, with the rough looks."""
    unit = 5.41 / (0.02 * ROWS) ** 2 if budget == "zcdp" else 6.91 / (0.02 * ROWS)
    with opened(budget, "add-remove", Seeded(0)) as curator:
        session = ExactCache(curator, alpha=0.02, beta=1e-3)
        spent = curator.spent.rho if budget == "zcdp" else curator.spent.epsilon
        assert spent == pytest.approx((16 if budget == "zcdp" else 4) * unit, rel=0.25)
        assert session.rows.size == pytest.approx(ROWS, abs=5 * session.rows.deviation)
        cost = session.ask("a").cost
        assert (cost.rho if budget == "zcdp" else cost.epsilon) == pytest.approx(unit, rel=0.15)


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_done_is_refused_uncharged(kind: type[Baseline]) -> None:
    with opened("pure") as curator:
        for settings in (
            {"alpha": 0.0},
            {"alpha": 1.0},
            {"beta": 0.0},
            {"beta": 1.0},
            {"noise": "normal"},
            {"rows": 0},
        ):
            facts: Any = {"alpha": 0.05, "beta": 0.01, **settings}
            with pytest.raises(QueryError, match="expected"):
                kind(curator, **facts)
        with pytest.raises(BudgetError):
            kind(curator, alpha=0.05, beta=0.01, noise="gaussian")
        with pytest.raises(BudgetExceeded):
            kind(curator, alpha=5e-4, beta=1e-6).ask("a AND b = 'x'")
        assert curator.ledger.spent() == 0
        session = kind(curator, alpha=0.2, beta=0.01)
        spent = curator.ledger.spent()
        for asked in ("SELECT count(*) FROM people", mq.where(Schema([mq.Boolean("d")]), "d"), "e = 3"):
            with pytest.raises(QueryError):
                session.ask(asked)
        assert curator.ledger.spent() == spent
    with opened("pure") as curator, pytest.raises(QueryError, match="half the universe, 15"):
        OneHistogram(curator, alpha=0.2, beta=0.01, cells=16)


def test_few_rows_that_are_private_are_refused_kindly() -> None:
    table = mq.open_table({"a": [True], "b": ["x"], "c": [1]}, SCHEMA)
    with (
        mq.Curator(table, BUDGETS["pure"]) as curator,
        pytest.raises(QueryError, match="too little to estimate the number of rows"),
    ):
        ExactCache(curator, alpha=0.01, beta=0.001)


@pytest.mark.parametrize("kind", KINDS)
def test_a_baseline_shows_itself_in_one_line(kind: type[Baseline]) -> None:
    with opened("zcdp") as curator:
        shown = repr(kind(curator, alpha=0.05, beta=0.01))
    assert shown.startswith(f"{kind.__name__}(within 0.05, 0 answers, spent epsilon")
