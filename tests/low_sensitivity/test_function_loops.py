"""Functions through the Net mechanism and the median, offline and online: updates, accuracy, charges and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from function_checks import PURE, SCHEMA

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.errors import BudgetExceeded, QueryError
from maquette.query import LowSensitivityQuery, Statistic, check_sensitivity
from maquette.releases.nets.functions import construct_functions, histograms_of, net_of_functions
from maquette.releases.nets.net import Net
from maquette.schema import Boolean, Category, Integer, Schema
from maquette.session.textbook.functions import OnlineFunctions

N = 120_000
NET = Net.small_databases(SCHEMA, 12)
TRUTH = np.array([7, 4, 1]) / 12


def functions(rows: int = N) -> list[LowSensitivityQuery]:
    one = 1 / rows
    return [
        LowSensitivityQuery("largest", np.max, sensitivity=one),
        LowSensitivityQuery("smallest", np.min, sensitivity=one),
        LowSensitivityQuery("range", np.ptp, sensitivity=2 * one),
        LowSensitivityQuery("collisions", lambda h: (h**2).sum(), sensitivity=2 * one),
        LowSensitivityQuery("middle", lambda h: np.sort(h)[1], sensitivity=one),
        LowSensitivityQuery("product", lambda h: h[0] * (1 - h[1]), sensitivity=2 * one),
    ]


def opened(budget: mq.Budget, *, relation: str = "replace", noise: object = None, schema: Schema = SCHEMA) -> Curator:
    rows = np.repeat(["p", "q", "r"], (TRUTH * N).round().astype(int))
    table = mq.open_table({"x": rows}, SCHEMA) if schema is SCHEMA else None
    assert table is not None
    return Curator(table, budget, relation=relation, noise=noise)  # type: ignore[arg-type]


BUDGETS = [mq.Budget(epsilon=2.0), mq.Budget(epsilon=2.0, delta=1e-9)]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_construction_keeps_its_promise_and_never_exceeds_log2_of_its_net(budget: mq.Budget, relation: str) -> None:
    for _ in range(4):
        with opened(budget, relation=relation) as curator:
            release = construct_functions(curator, functions(), NET, beta=1e-6)
            assert curator.ledger.spent() <= budget.limit
            assert release.certificate.units == curator.ledger.spent()
        assert release.updates <= math.floor(math.log2(len(NET))) == 6
        assert release.alpha < 0.5
        rows = N if relation == "replace" else None
        for f in functions():
            if rows:
                assert abs(release[f.name].value - f(TRUTH)) <= release.alpha
                assert release[f.name].low <= f(TRUTH) <= release[f.name].high


def test_without_noise_the_construction_errs_by_less_than_its_resolution() -> None:
    """Scripted: the worst function is always pointed at, and measured exactly."""

    class Pointing(ScriptedNoise):
        def exponential(self, scores: np.ndarray, scale: object) -> int:
            return int(np.argmax(scores))

    with opened(mq.Budget(epsilon=2.0, delta=1e-9), noise=Pointing([0] * 999)) as curator:
        release = construct_functions(curator, functions(), NET)
    assert 0 < release.updates <= 6
    assert max(abs(release[f.name].value - f(TRUTH)) for f in functions()) <= release.alpha / 2


def test_net_of_functions_chooses_within_its_bound() -> None:
    beta, epsilon = 1e-6, 1.0
    bound = 2 * (2 / N) * (math.log(len(NET)) + math.log(1 / beta)) / epsilon + 2 / N
    for _ in range(5):
        with opened(mq.Budget(epsilon=epsilon)) as curator:
            release = net_of_functions(curator, functions(), NET)
            assert 0.999 <= curator.spent.epsilon <= 1.0
        chosen = release.marginal("x")
        assert max(abs(f(chosen) - f(TRUTH)) for f in functions()) <= bound


@pytest.mark.parametrize("budget", BUDGETS, ids=["pure", "zcdp"])
def test_online_keeps_its_promise_and_charges_when_it_opens(budget: mq.Budget) -> None:
    asked = [
        LowSensitivityQuery(f"{f.name} {i}", lambda h, f=f, i=i: f.function(h) ** (1 + i / 20), sensitivity=4 / N)  # type: ignore[misc]
        for i in range(10)
        for f in functions()
    ]
    with opened(budget) as curator:
        session = OnlineFunctions(curator, NET, sensitivity=4 / N, queries=len(asked), beta=1e-6)
        spent = curator.ledger.spent()
        for f in asked:
            answer = session.ask(f)
            assert abs(answer.value - f(TRUTH)) <= session.alpha
            assert answer.guarantee is not None
            assert session.ask(f) is answer
        assert curator.ledger.spent() == spent
        assert session.updates <= 6
        assert session.status == "open"
        late = session.ask(LowSensitivityQuery("late", np.max, sensitivity=1 / N))
        assert late.guarantee is None
        assert (late.low, late.high) == (0.0, 1.0)


def test_online_updates_never_exceed_log2_of_the_net_whatever_the_noise() -> None:
    """A guard that always fires is sealed after log2 of the net, and the median keeps answering."""
    with opened(PURE, noise=ScriptedNoise([0] + [10**9, 5, 0] * 99)) as curator:
        session = OnlineFunctions(curator, NET, sensitivity=2 / N, queries=5)
        names = [LowSensitivityQuery(str(i), lambda h, i=i: h[i % 3], sensitivity=1 / N) for i in range(12)]  # type: ignore[misc]
        sources = [session.ask(f).source for f in names]
        assert session.status == "exhausted"
    assert sources.count("measured") == 6
    assert session.hypothesis.alive >= 1


def test_histograms_of_a_net_are_its_candidates() -> None:
    schema = Schema([Boolean("a"), Integer("b", 0, 2)])
    net = Net.random(schema, 5, 7, np.random.default_rng(1))
    table = histograms_of(net)
    assert table.shape == (7, 2, 3)
    for i, histogram in enumerate(table):
        records, shares = net[i]
        expected = np.zeros((2, 3))
        np.add.at(expected, tuple(records.T), shares)
        assert np.allclose(histogram, expected)


def test_sensitivities_are_checked_on_all_neighbours() -> None:
    schema = Schema([Category("x", ["p", "q", "r"])])
    for f in functions(6):
        found = check_sensitivity(f, schema, 6, relation="replace")
        assert 0.3 * f.sensitivity < found <= f.sensitivity * (1 + 1e-9)
    linear = LowSensitivityQuery("share", lambda h: h[0], sensitivity=1 / 6, high=9.0)
    assert check_sensitivity(linear, schema, 6, relation="add-remove") == pytest.approx(1 / 6)
    normalised = LowSensitivityQuery("of the rows there are", lambda h: h[0] / h.sum(), sensitivity=1 / 6)
    assert check_sensitivity(normalised, schema, 6, relation="replace") <= 1 / 6 + 1e-9
    with pytest.raises(QueryError, match="changes by 1 from counts"):
        check_sensitivity(normalised, schema, 6, relation="add-remove")
    lying = LowSensitivityQuery("range", np.ptp, sensitivity=1 / 6)
    with pytest.raises(QueryError, match="declare a larger sensitivity"):
        check_sensitivity(lying, schema, 6, relation="replace")
    with pytest.raises(QueryError, match="pairs of neighbours"):
        check_sensitivity(linear, Schema([Integer("x", 0, 99)]), 6)
    with pytest.raises(QueryError, match=r"the relation is .swap.; expected \"add-remove\" or \"replace\""):
        check_sensitivity(linear, schema, 6, relation="swap")


LARGE = Schema([Integer("x", 0, 4096)])
GOOD = functions()
REFUSED = {
    "no functions": (lambda c: construct_functions(c, [], NET), "at least one"),
    "the same name": (lambda c: construct_functions(c, [GOOD[0], GOOD[0]], NET), "different names"),
    "no function": (lambda c: net_of_functions(c, [np.max], NET), "LowSensitivityQuery"),  # type: ignore[list-item]
    "another schema": (
        lambda c: net_of_functions(c, GOOD, Net.small_databases(Schema([Boolean("x")]), 3)),
        "another schema",
    ),
    "tolerance": (lambda c: construct_functions(c, GOOD, NET, tolerance=-1.0), "tolerance of 0 or more"),
    "out of range": (
        lambda c: construct_functions(c, [LowSensitivityQuery("big", lambda h: 3.0, sensitivity=0.1)], NET),
        "gave 3, outside its range",
    ),
    "not finite": (
        lambda c: net_of_functions(c, [LowSensitivityQuery("nan", lambda h: math.nan, sensitivity=0.1)], NET),
        "expected a finite number",
    ),
    "too fine": (
        lambda c: net_of_functions(c, [LowSensitivityQuery("f", np.max, sensitivity=1e-9, high=1e9)], NET),
        "narrower range",
    ),
    "promise of nothing": (
        lambda c: construct_functions(c, [LowSensitivityQuery("f", np.max, sensitivity=0.9)], NET),
        "which says nothing",
    ),
    "online promise of nothing": (lambda c: OnlineFunctions(c, NET, sensitivity=0.9, queries=5), "which says nothing"),
    "online queries": (lambda c: OnlineFunctions(c, NET, sensitivity=0.1, queries=0), "at least 1 query"),
    "online sensitivity": (
        lambda c: OnlineFunctions(c, NET, sensitivity=-1.0, queries=5),
        "expected a positive, finite number",
    ),
    "online schema": (
        lambda c: OnlineFunctions(c, Net.small_databases(Schema([Boolean("x")]), 3), sensitivity=0.1, queries=5),
        "another schema",
    ),
    "large universe": (lambda c: Statistic(LARGE, GOOD[0], rows=5), "more points than"),
    "rows": (lambda c: Statistic(SCHEMA, GOOD[0], rows=0), "public number of rows"),
    "finer than declared": (lambda c: Statistic(SCHEMA, GOOD[0], rows=5, sensitivity=1e-9), "more than the"),
    "range": (lambda c: LowSensitivityQuery("f", np.max, sensitivity=1.0, low=1.0, high=0.0), "the range"),
}


@pytest.mark.thorough(fast=9)
@pytest.mark.parametrize("case", REFUSED)
def test_refusals_charge_nothing(case: str) -> None:
    act, message = REFUSED[case]
    with opened(mq.Budget(epsilon=1.0, delta=1e-9)) as curator:
        with pytest.raises(QueryError, match=message):
            act(curator)
        assert curator.ledger.spent() == 0


def test_a_session_refuses_a_function_more_sensitive_than_it_was_opened_for() -> None:
    with opened(mq.Budget(epsilon=2.0)) as curator:
        session = OnlineFunctions(curator, NET, sensitivity=2 / N, queries=5)
        with pytest.raises(QueryError, match="more than the"):
            session.ask(LowSensitivityQuery("wild", np.max, sensitivity=3 / N))
        assert session._tests == 0
        with pytest.raises(BudgetExceeded):
            net_of_functions(curator, functions(), NET, epsilon=1.0)
