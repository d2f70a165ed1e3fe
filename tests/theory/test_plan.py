"""plan: its numbers are the theory's, its advice can be followed, its refusals say what to do."""

from __future__ import annotations

import math
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from maquette import Boolean, Integer, Schema
from maquette.errors import BudgetError, QueryError
from maquette.privacy.conversion import zcdp_rho
from maquette.theory import Plan, noise, offline, plan, updates
from maquette.theory.planning.limits import OPEN
from maquette.theory.planning.mechanisms import MECHANISMS
from maquette.theory.planning.plan import MAX_ROWS
from maquette.theory.planning.question import Question

FACTS: dict[str, Any] = {"rows": 10**5, "universe": 2**20, "queries": 10**6, "epsilon": 1.0, "delta": 1e-9}


@pytest.fixture(scope="module")
def example() -> Plan:
    return plan(**FACTS, alpha=0.05, relation="replace")


@pytest.mark.thorough
def test_promises_are_the_bounds(example: Plan) -> None:
    facts: dict[str, Any] = {"queries": 10**6, "rows": 10**5, "beta": 0.05}
    assert example["laplace"].error == noise.laplace_accuracy(**facts, epsilon=1.0)
    assert example["gaussian"].error == noise.gaussian_accuracy(**facts, rho=zcdp_rho(1.0, 1e-9))
    averaged = offline.averaged(**facts, universe=2**20, epsilon=1.0, delta=1e-9)
    assert example["mw-averaged"].error == averaged.alpha
    assert example["online"].error == pytest.approx(0.335, abs=0.001)
    assert [p.name for p in example] == [m.name for m in MECHANISMS]
    assert len({p.name for p in example}) == len(example) == len(MECHANISMS)


def _best(**changed: Any) -> str:
    found = plan(**{**FACTS, **changed}).best
    assert found is not None
    return found.name


def test_best_is_the_least_useful_error(example: Plan) -> None:
    assert example.best is not None
    assert example.best is example["mw-averaged"]
    assert all(p.error >= example.best.error for p in example if p.runnable and p.general and p.proved)
    # On a small universe one noisy histogram answers everything.
    assert _best(universe=2**10) == "histogram"
    assert _best(rows=10**6, queries=100) == "gaussian"


def test_what_is_only_expected_is_shown_and_never_best() -> None:
    many = plan(rows=10**6, universe=2**24, queries=10**7, epsilon=1.0, delta=1e-9)
    lazy = many["online-lazy"]
    assert lazy.runnable
    assert lazy.error < min(p.error for p in many if p.runnable and p.general and p is not lazy)
    assert many.best is lazy
    wide = plan(rows=10**6, universe=2**300, queries=10**5, epsilon=1.0, delta=1e-9)
    expected = [p for p in wide if not p.proved]
    assert {p.name for p in expected} == {"projection", "everything", "graphical"}
    assert any(p.runnable and p.error < (wide.best or p).error for p in expected)
    assert all(wide.best is not p for p in expected)
    assert "expected, not promised" in str(wide)


SPECIAL = ("functions", "mirror-ic", "cuts", "distances", "coefficients", "projection", "everything")


@pytest.mark.thorough
def test_every_mechanism_has_a_line_with_rows_epsilon_time_and_a_point() -> None:
    schema = Schema([Boolean(f"c{i}") for i in range(12)])
    found = plan(rows=10**6, schema=schema, queries=2000, epsilon=1.0, delta=1e-9, alpha=0.2)
    names = {p.name for p in found}
    assert {*SPECIAL, "graphical", "dual-query", "both-learn", "sparse-ic"} <= names
    for name in (*SPECIAL, "graphical"):
        promise = found[name]
        assert promise.rows_needed is not None, name
        assert promise.epsilon_needed is not None, name
        assert promise.seconds > 0, name
        assert promise.title in found.possibilities(), name
        mechanism = next(m for m in MECHANISMS if m.name == name)
        enough = mechanism.promise(replace(found.question, epsilon=promise.epsilon_needed))[0].error
        assert enough <= 0.2, name
        assert mechanism.promise(replace(found.question, epsilon=0.97 * promise.epsilon_needed))[0].error > 0.2, name


def test_lines_for_marginals_follow_the_schema() -> None:
    """40 two-level columns and 3,000 cells are pairs: 780 tables, 820 parities."""
    schema = Schema([Boolean(f"c{i}") for i in range(40)])
    facts: dict[str, Any] = {"rows": 10**5, "queries": 3000, "epsilon": 1.0, "delta": 1e-9, "relation": "replace"}
    found, rho = plan(schema=schema, **facts), zcdp_rho(1.0, 1e-9)
    assert found.question.order == (2, 780)
    pairs = math.sqrt(2 * 780 / (2 * rho)) / 10**5 * math.sqrt(2 * math.log(6000))
    assert found["everything"].error == pytest.approx(pairs)
    parity = 2 * math.sqrt(820 / (2 * rho)) / 10**5
    assert found["coefficients"].error == pytest.approx(parity / 2 * math.sqrt(2 * math.log(6000 / 0.05)))
    assert found["projection"].error <= parity
    mixed = plan(schema=Schema([Integer("age", 0, 99), Boolean("a"), Boolean("b"), Boolean("c")]), **facts)
    assert mixed["coefficients"].obstacle == mixed["projection"].obstacle == "columns of more than two levels: 1"


def test_norms_reach_the_plan() -> None:
    """A norm of 0.05 divides the updates of the perceptron by 400: the promise falls."""
    facts: dict[str, Any] = {"rows": 10**6, "universe": 13_000, "queries": 1000, "epsilon": 1.0, "delta": 1e-9}
    plain, small = plan(**facts), plan(**facts, norm=0.05)
    assert small["perceptron-ic"].error < 0.25 * plain["perceptron-ic"].error
    assert small["mirror-ic"].error < plain["mirror-ic"].error
    assert small["perceptron-ic"].error == small["mirror-ic"].error
    assert plan(**facts, norm=0.05, query_norm=10.0)["mirror-ic"].error < small["mirror-ic"].error
    bad: list[dict[str, Any]] = [{"norm": 2.0}, {"p": 1.0}, {"query_norm": 0.0}]
    for wrong in bad:
        with pytest.raises(QueryError, match="1 < p <= 2, 0 < norm <= 1"):
            plan(**facts, **wrong)


def test_sizes_decide_what_can_run(example: Plan) -> None:
    assert "candidate tables" in str(example["small-db"].obstacle)
    assert "candidate tables" in str(example["median-ic"].obstacle)
    toy = plan(rows=20, universe=3, queries=3, epsilon=1.0)
    assert toy["small-db"].runnable
    assert toy["median-ic"].runnable
    wide = plan(**{**FACTS, "universe": 2**200})
    assert wide["mw-ic"].obstacle == wide["online"].obstacle == "cells: 10^60.2, at most 16,777,216"
    assert wide.best is wide["gaussian"]
    assert plan(**{**FACTS, "queries": 10**9})["gaussian"].obstacle == "queries: 1,000,000,000, at most 100,000,000"


def test_vacuous_promises_are_called_none() -> None:
    poor = plan(rows=1000, universe=2**20, queries=10**6, epsilon=1.0, delta=1e-9)
    assert poor.best is None
    assert all(p.vacuous for p in poor if p.runnable and p.general)
    assert "no promise" in str(poor)
    assert "vacuous" not in str(poor)
    assert "nothing useful can run" in repr(poor)


def test_a_pure_budget_has_no_gaussian(example: Plan) -> None:
    pure = plan(**{**FACTS, "delta": 0.0})
    for name in ("gaussian", "histogram", "online-lazy"):
        assert pure[name].obstacle == "needs delta > 0"
        assert math.isinf(pure[name].error)
    assert pure["mw-ic"].accounting == "pure"
    assert all(pure[p.name].error >= p.error for p in example)


@pytest.mark.thorough
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-9])
def test_rows_needed_are_enough_and_not_many_too_many(relation: str, delta: float) -> None:
    alpha = 0.08
    found = plan(**{**FACTS, "delta": delta, "relation": relation}, alpha=alpha)
    for mechanism in MECHANISMS:
        rows = found[mechanism.name].rows_needed
        if rows is None:
            at_most = replace(found.question, rows=MAX_ROWS)
            assert mechanism.promise(at_most)[0].error > alpha
            assert delta == 0 or mechanism.name == "online-lecture"  # n^(-1/3), and delta bounds the rows
            continue
        assert mechanism.promise(replace(found.question, rows=rows))[0].error <= alpha
        assert mechanism.promise(replace(found.question, rows=int(0.985 * rows)))[0].error > alpha


@pytest.mark.thorough
def test_unreachable_alpha_says_what_is_reachable() -> None:
    with pytest.raises(QueryError, match="out of reach: even 9,999 rows, the most this delta allows") as refusal:
        plan(**{**FACTS, "rows": 5000, "delta": 1e-4}, alpha=1e-6)
    advised = float(str(refusal.value).split("at least ")[1].split(",")[0])
    assert plan(**{**FACTS, "rows": 5000, "delta": 1e-4}, alpha=advised).alpha == advised
    with pytest.raises(QueryError, match="out of reach"):
        plan(**{**FACTS, "rows": 5000, "delta": 1e-4}, alpha=0.98 * advised)


@pytest.mark.thorough
def test_nothing_to_run_is_said(example: Plan) -> None:
    with pytest.raises(QueryError, match="No mechanism can run for 1,000,000,000 queries"):
        plan(**{**FACTS, "queries": 10**9, "universe": 2**40}, alpha=0.1)


def test_a_private_row_count_costs_models_a_little(example: Plan) -> None:
    private = plan(**FACTS)
    assert "(add-remove)" in repr(private)
    for p in private:
        if p.name in ("laplace", "gaussian"):
            assert p.error == example[p.name].error
        elif p.name in ("coefficients", "projection", "everything", "graphical"):
            assert p.error < example[p.name].error  # a replaced row moves a table or a parity twice
        else:
            assert 1.001 < p.error / example[p.name].error < 1.5
    count_error = math.log(1 / (0.05 * 0.05)) / (0.05 * 10**5)
    rest: dict[str, Any] = {"universe": 2**20, "queries": 10**6, "rows": 10**5, "delta": 1e-9}
    averaged = offline.averaged(**rest, epsilon=0.95, beta=0.95 * 0.05)
    assert private["mw-averaged"].error == pytest.approx(averaged.alpha + count_error, rel=1e-12)


def test_the_universe_is_the_schemas() -> None:
    schema = Schema([Integer("age", 0, 99), Boolean("smoker")])
    facts: dict[str, Any] = {"rows": 10**4, "queries": 100, "epsilon": 1.0}
    other = plan(universe=200, **facts)
    assert all(p == other[p.name] for p in plan(schema=schema, **facts) if p.general)


def test_whole_numbers_may_be_floats_or_numpy() -> None:
    facts: dict[str, Any] = {"universe": 200, "epsilon": 1.0}
    loose: dict[str, Any] = {"rows": 1e4, "queries": np.int64(100)}
    assert plan(**loose, **facts) == plan(rows=10**4, queries=100, **facts)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rows": 0}, QueryError, "rows is 0; expected a whole number of at least 1"),
        ({"rows": 10.5}, QueryError, "rows is 10.5"),
        ({"rows": True}, QueryError, "rows is True"),
        ({"rows": math.inf}, QueryError, "rows is inf"),
        ({"queries": 0}, QueryError, "queries is 0"),
        ({"queries": "many"}, QueryError, "queries is 'many'"),
        ({"universe": -1}, QueryError, "universe is -1"),
        ({"universe": None}, QueryError, "exactly one of them"),
        ({"schema": Schema([Boolean("a")])}, QueryError, "exactly one of them"),
        ({"epsilon": 0.0}, BudgetError, "epsilon is 0.0; expected a finite number above 0"),
        ({"epsilon": math.nan}, BudgetError, "epsilon is nan"),
        ({"delta": -1e-9}, BudgetError, "delta is -1e-09"),
        ({"delta": 1e-5}, BudgetError, "not below 1 / rows"),
        ({"beta": 0.0}, QueryError, "beta is 0.0; expected a probability"),
        ({"beta": 1.0}, QueryError, "beta is 1.0"),
        ({"alpha": 0.0}, QueryError, "alpha is 0.0; expected a fraction of rows between 0 and 1"),
        ({"alpha": -0.1}, QueryError, "alpha is -0.1"),
        ({"alpha": 1.0}, QueryError, "alpha is 1.0"),
        ({"relation": "swap"}, BudgetError, "the relation is .swap.; expected"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan(**{**FACTS, **change})


def test_unknown_mechanism_lists_the_known_ones(example: Plan) -> None:
    with pytest.raises(KeyError, match="mw-averaged"):
        example["magic"]


def test_arrow_has_a_row_for_each_mechanism(example: Plan) -> None:
    table = example.to_arrow()
    assert table.num_rows == len(MECHANISMS)
    assert table["error"].to_pylist() == [p.error for p in example]
    assert table["rows_needed"].to_pylist() == [p.rows_needed for p in example]
    assert table["runnable"].to_pylist() == [p.runnable for p in example]


def test_text_and_page_show_the_same(example: Plan) -> None:
    text, page = str(example), example._repr_html_()
    assert "\n" not in repr(example)
    assert "best mw-averaged, error 0.123" in repr(example)
    assert len(text.splitlines()) == 2 + len(example) + len(example.limits) + len(OPEN)
    assert "rows for 0.05" in text
    for promise in example:
        assert promise.title in text
        assert promise.title in page
    assert "replace" in text  # the relation stands beside epsilon
    assert page.endswith("</svg>")


def test_chart_is_valid_svg_with_bars_in_order(example: Plan) -> None:
    root = ET.fromstring(example.chart())
    name = "{http://www.w3.org/2000/svg}"
    assert "1,000,000 queries" in (root.findtext(f"{name}title") or "")
    widths = [float(bar.get("width", "")) for bar in root.iter(f"{name}rect")]
    errors = [min(p.error, 1.0) for p in example]
    assert [round(w, 1) for _, w in sorted(zip(errors, widths, strict=True))] == sorted(round(w, 1) for w in widths)
    strong = [bar for bar in root.iter(f"{name}rect") if bar.get("fill") == "#2a7f62"]
    assert len(strong) == 1
    edge = plan(rows=1, universe=1, queries=1, epsilon=1e-6, delta=1e-3)
    ET.fromstring(edge.chart())


@pytest.mark.parametrize("universe", [1, 2, 10**400])
def test_extreme_universes_have_a_plan(universe: int) -> None:
    found = plan(rows=10**6, universe=universe, queries=1, epsilon=1.0, delta=1e-9)
    assert not any(math.isnan(p.error) for p in found)
    assert found.best is not None


@pytest.mark.thorough
def test_plan_is_quick() -> None:
    start = time.process_time()
    plan(rows=123_457, universe=3 * 2**18, queries=10**5, epsilon=0.9, delta=1e-9, alpha=0.07)
    assert time.process_time() - start < 4.0  # 25 lines, about 1 on two idle cores


def test_median_takes_all_databases_where_they_are_fewer() -> None:
    median = next(m for m in MECHANISMS if m.name == "median-ic")
    facts: dict[str, Any] = {"rows": 50, "universe": 3, "queries": 10**5, "epsilon": 1e4, "delta": 0.0, "beta": 0.05}
    whole = updates.median(math.log(math.comb(52, 50)))
    public = median.promise(Question(**facts, relation="replace"))[0]
    private = median.promise(Question(**facts, relation="add-remove"))[0]
    assert public.rounds == whole < private.rounds
