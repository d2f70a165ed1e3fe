"""OnlineIC: its theorems under noise at the edge of its bounds, its audits, its promises and its refusals."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import re
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from textbook_checks import GATES, calibrated_once, guards, textbook

import maquette as mq
from maquette.audit.reference import Call
from maquette.errors import BudgetError, BudgetExceeded, QueryError
from maquette.hypothesis import (
    RULES,
    Median,
    MirrorDescent,
    MultiplicativeWeights,
    Perceptron,
    WeightedRecords,
    registry,
)
from maquette.query import LinearQuery
from maquette.schema import Schema
from maquette.session.baselines.known_rows import SHARE, known_rows
from maquette.session.textbook.online_ic import OnlineIC
from maquette.session.textbook.plan import ROWS_DOUBT, Plan, Setting, _widths, plan
from maquette.theory import online as theory, updates

TINY = Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"])])
CELLS = [(a, b) for a in (False, True) for b in "xyz"]
ROWS = 60_000
BUDGETS = {
    "pure": mq.Budget(epsilon=1.0),
    "zcdp": mq.Budget(epsilon=1.0, delta=1e-9),
    "gdp": mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp"),
}
GRID = 2**20


@pytest.fixture(autouse=True)
def _calibrate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of equal budgets have equal guards, whose noise takes long to find."""
    monkeypatch.setattr(guards, "_calibrated", calibrated_once(guards._calibrated))


@pytest.mark.thorough
@pytest.mark.parametrize("gate", GATES)
def test_the_session_as_a_whole_passes(gate: str) -> None:
    GATES[gate]()


@functools.cache
def lopsided() -> tuple[mq.PrivateTable, np.ndarray]:
    """A table far from uniform, and its fractions."""
    many = np.array([12, 0, 1, 2, 0, 5]) * (ROWS // 20)
    records = [cell for cell, times in zip(CELLS, many, strict=True) for _ in range(times)]
    columns = {"a": [cell[0] for cell in records], "b": [cell[1] for cell in records]}
    return mq.open_table(columns, TINY), many.reshape(2, 3) / ROWS


@functools.cache
def questions() -> tuple[tuple[LinearQuery, float], ...]:
    """Every predicate that is not constant, as a linear query, and its fraction on the table."""
    fractions, found = lopsided()[1], []
    atoms = [mq.where(TINY, f"{'' if a else 'NOT '}a AND b = '{b}'") for a, b in CELLS]
    for chosen in itertools.product((False, True), repeat=6):
        if 0 < sum(chosen) < 6:
            terms = [term for atom, kept in zip(atoms, chosen, strict=True) if kept for term in atom.terms]
            query = LinearQuery(TINY, terms)
            found.append((query, float((query.weights(("a", "b")) * fractions).sum())))
    return tuple(found)


class _Edge:
    """Noise at the edge of what the theorem allows: tests off by one bound, answers and rows by theirs."""

    def __init__(self, tests: float, answers: float, rows: float = 0.0) -> None:
        self.tests, self.answers, self.rows = tests, answers, rows
        self.calls: list[Call] = []
        self._guard: list[Fraction] = []

    def begin(self) -> None:
        """What was drawn so far was the number of rows; the threshold comes next."""
        self._guard = []

    def laplace(self, scale: Fraction, size: int) -> np.ndarray:
        self.calls.append(Call("laplace", scale, size))
        if self.rows and scale < 1000 * 1000 and not self._guard:
            return np.array([int(self.rows)])
        self._guard.append(scale)
        threshold, query = self._guard[0], self._guard[min(1, len(self._guard) - 1)]
        if len(self._guard) == 1 or scale == threshold:
            return np.array([0])
        return np.array([int((self.tests if scale == query else self.answers) * GRID)])

    def gaussian(self, variance: Fraction, size: int) -> np.ndarray:
        self.calls.append(Call("gaussian", variance, size))
        if self.rows and not self._guard:
            return np.array([int(self.rows)])
        return np.array([int(self.answers * GRID)])


Edge: Any = _Edge  # all of a noise source that is drawn from here


def opened(curator: mq.Curator, noise: Edge, rule: str, *, spare: int = 1, **settings: Any) -> tuple[OnlineIC, Plan]:
    """A session whose noise is, from now on, at the given sides of its own bounds; with hits to spare, for audits."""
    made: list[tuple[Setting, Plan]] = []

    def spy(rule: Any, setting: Setting, calibration: Any) -> Plan:
        made.append((setting, plan(rule, setting, calibration)))
        return replace(made[0][1], hits=spare * made[0][1].hits)

    with mock.patch.object(textbook, "plan", spy):
        session = OnlineIC(curator, rule, **settings)
    setting, found = made[0]
    tests, answers = _widths(replace(setting, units=found.units), found.hits, found.refreshed)
    noise.tests, noise.answers = noise.tests * tests, noise.answers * answers
    return session, found


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("push", [-1, 1])
@pytest.mark.parametrize("greedy", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_updates_never_exceed_T(rule: str, greedy: bool, push: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tests that fire as early as they may and answers as wrong as they may be, T(a') updates are enough.

    The guard is given hits to spare; an adversary asks what is most wrong, or least but still a' wrong.
    """
    monkeypatch.setattr(registry, "MAX_NET", 2**14)
    noise = Edge(1, push)
    with mq.Curator(lopsided()[0], BUDGETS["pure"], relation="replace", noise=noise) as curator:
        session, found = opened(curator, noise, rule, queries=1000, spare=4)
        while True:
            errors = [abs(session.hypothesis.answer(query) - truth) for query, truth in questions()]
            wrong = [(error, i) for i, error in enumerate(errors) if error >= found.resolution * (1 + 1e-6)]
            if not wrong:
                break
            session._answers.clear()
            assert session.ask(questions()[(max if greedy else min)(wrong)[1]][0]).source == "measured"
            assert session.updates <= found.hits, f"{rule} made more than T(a') = {found.hits} updates"
    assert session.updates >= 1


CASES = (
    ("multiplicative-weights", "tight", "pure"),
    ("multiplicative-weights", "tight", "zcdp"),
    ("multiplicative-weights", "tight", "gdp"),
    ("multiplicative-weights", "book", "pure"),
    ("multiplicative-weights", "book", "zcdp"),
    ("perceptron", "book", "pure"),
    ("mirror-descent", "tight", "pure"),
    ("perceptron", "tight", "zcdp"),
    ("median", "tight", "zcdp"),
    ("median", "book", "zcdp"),
)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize(("rule", "calibration", "currency"), CASES)
def test_every_answer_is_within_alpha_while_noise_is_within_its_bound(
    rule: str, calibration: Any, currency: str, relation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_NET", 2**14)
    asked = questions()
    slack = 0 if relation == "replace" else _row_slack(currency)
    for tests, answers in itertools.product((-1, 1), repeat=2):
        rows = -tests * answers * slack
        noise = Edge(tests, answers, rows)
        with mq.Curator(lopsided()[0], BUDGETS[currency], relation=relation, noise=noise) as curator:
            session, _ = opened(curator, noise, rule, queries=len(asked), calibration=calibration)
            assert session.rows == ROWS + rows
            assert curator.ledger.spent() == session.cost.units <= curator.budget.limit
            for query, truth in asked:
                answer = session.ask(query)
                assert abs(answer.value - truth) <= session.alpha < 1
                if session.status == "open":
                    assert answer.guarantee is not None
                    assert answer.low - 1e-12 <= truth <= answer.high + 1e-12


def _row_slack(currency: str) -> int:
    budget = BUDGETS[currency]
    with mq.Curator(lopsided()[0], budget, noise=Edge(0, 0, 1)) as curator:
        known = known_rows(curator, SHARE * budget.limit)
    return math.floor(known.slack(ROWS_DOUBT * 0.05))


def seeded(seed: int) -> Any:
    sys.path.append(str(Path(__file__).parent.parent / "release"))
    from release_checks import Seeded

    return Seeded(seed)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("currency", BUDGETS)
def test_the_promise_is_kept_in_every_run(currency: str, relation: Any) -> None:
    """A failure has probability 0.05 at most, and the union bounds are so loose that none is expected."""
    for seed in range(5):
        with mq.Curator(lopsided()[0], BUDGETS[currency], relation=relation, noise=seeded(seed)) as curator:
            session = OnlineIC(curator, queries=len(questions()))
            for query, truth in questions():
                answer = session.ask(query)
                assert answer.low <= truth <= answer.high
                assert abs(answer.value - truth) <= session.alpha
            assert session.status == "open"
            assert session.updates >= 1


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("rule", RULES)
def test_quiet_answers_are_the_models_to_the_bit(rule: str) -> None:
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace", noise=seeded(3)) as curator:
        session = OnlineIC(curator, rule, queries=100)
        for query, _ in questions():
            before = copy.deepcopy(session.hypothesis)
            answer = session.ask(query)
            if answer.source == "hypothesis":
                assert answer.value == min(1.0, max(0.0, before.answer(query)))
                assert session.hypothesis.answer(query) == before.answer(query)
            again = session.ask(~~query)
            assert again is answer


@pytest.mark.thorough
def test_rules_start_in_their_own_state() -> None:
    """Zero for the Perceptron, the whole net for the Median, uniform weights only for weights (erratum A10)."""
    starts = {}
    for rule in RULES:
        with mq.Curator(lopsided()[0], BUDGETS["pure"], relation="replace", noise=Edge(-ROWS, 0)) as curator:
            session = OnlineIC(curator, rule, queries=100)
            starts[rule] = session.ask("b = 'x'").value
            if isinstance(session.hypothesis, Median):
                assert session.hits_left == session.hypothesis.update_bound == session.hypothesis.alive.bit_length() - 1
    assert starts["perceptron"] == starts["mirror-descent"] == 0.0
    assert starts["multiplicative-weights"] == pytest.approx(1 / 3)
    assert starts["median"] == pytest.approx(1 / 3, abs=0.05)


def test_a_model_is_used_as_it_is() -> None:
    prior = np.array([[6.0, 1, 1], [1, 1, 2]])
    model = MultiplicativeWeights(TINY, alpha=0.1, prior=prior)
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace", noise=Edge(-ROWS, 0)) as curator:
        session = OnlineIC(curator, model, queries=100)
        assert session.hypothesis is model
        assert session.hits_left == math.floor(model.update_bound) == math.floor(math.log(12) / 0.02)
        assert session.ask("b = 'x'").value == pytest.approx(7 / 12)


def test_the_session_seals_after_c_hits_and_keeps_answering() -> None:
    noise = Edge(ROWS, 0)
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace", noise=noise) as curator:
        model = MultiplicativeWeights(TINY, alpha=0.3)
        session = OnlineIC(curator, model, queries=100)
        allowed = session.hits_left
        assert allowed == math.floor(math.log(6) / 0.18)
        first = session.ask(questions()[0][0])
        measured = [session.ask(query) for query, _ in questions()[: allowed + 3]]
        assert [a.source for a in measured] == ["measured"] * allowed + ["hypothesis"] * 3
        assert (session.status, session.hits_left, session.updates) == ("exhausted", 0, allowed)
        drawn, spent = len(noise.calls), curator.ledger.spent()
        late = session.ask(questions()[-1][0])
        assert late.guarantee is None
        assert (late.low, late.high) == (0.0, 1.0)
        assert late.value == model.answer(questions()[-1][0])
        assert session.ask(questions()[0][0]) is first
        assert first.guarantee is not None
        assert (len(noise.calls), curator.ledger.spent()) == (drawn, spent)


def test_answers_past_the_announced_number_carry_no_guarantee() -> None:
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace", noise=seeded(0)) as curator:
        session = OnlineIC(curator, queries=4)
        kept = [session.ask(query).guarantee is not None for query, _ in (*questions()[:4], *questions()[:6])]
    assert kept == [True] * 8 + [False] * 2


def test_everything_is_charged_when_it_opens() -> None:
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace", noise=seeded(0)) as curator:
        session = OnlineIC(curator, queries=100, epsilon=0.5)
        spent = curator.spent
        assert spent == session.cost
        assert 0.499 < spent.epsilon <= 0.5
        assert all(session.ask(query).cost.units == 0 for query, _ in questions())
        assert curator.spent == spent
        with pytest.raises(BudgetExceeded):
            OnlineIC(curator, queries=100, epsilon=0.9)
        assert curator.spent == spent


@pytest.mark.parametrize("queries", [10**3, 10**6])
def test_tight_is_what_the_theory_says(queries: int) -> None:
    """Within 2% of the best split between tests and answers; this guard's is fixed."""
    expected = theory.tight(
        updates=lambda alpha: updates.multiplicative_weights(TINY.size, alpha),
        queries=queries,
        epsilon=1.0,
        delta=1e-9,
        rows=ROWS,
        beta=0.05,
    ).alpha
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace", noise=seeded(0)) as curator:
        alpha = OnlineIC(curator, queries=queries).alpha
    assert expected * (1 - 1e-6) <= alpha <= 1.02 * expected


@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_the_book_is_what_the_book_says(currency: str) -> None:
    """Its error and its noise on tests; under a delta a lower charge than its epsilon, since the guard knows better."""
    budget = BUDGETS[currency]
    noise = seeded(0)
    expected = theory.book(
        updates=lambda alpha: updates.multiplicative_weights_book(TINY.size, alpha),
        queries=1000,
        epsilon=1.0,
        delta=budget.delta,
        rows=ROWS,
        beta=0.05,
    )
    with mq.Curator(lopsided()[0], budget, relation="replace", noise=noise) as curator:
        session = OnlineIC(curator, queries=1000, calibration="book")
        session.ask("a")
        hits = session.hits_left + session.updates
        assert session.alpha == pytest.approx(expected, rel=1e-9)
        assert hits == math.floor(updates.multiplicative_weights_book(TINY.size, session.alpha / 3))
        scales = (
            theory.resampled(hits=hits, epsilon=1.0)
            if currency == "pure"
            else theory.resampled_approximate(hits=hits, epsilon=1.0, delta=1e-9)
        )
        asked = [float(call.scale) / GRID for call in noise.calls[:2]]
        assert asked == pytest.approx([scales.threshold, scales.query], rel=1e-6)
        if currency == "pure":
            assert 1 - 1e-5 < curator.spent.epsilon <= 1
        else:
            assert 0.3 < curator.spent.epsilon < 0.5


@pytest.mark.thorough
def test_more_rows_of_one_person_mean_more_noise() -> None:
    columns = {"a": [True, False] * 100_000, "b": ["x"] * 200_000, "id": list(range(200_000))}
    alphas, scales = [], []
    for most in (1, 3):
        table = mq.open_table(columns, TINY, privacy_unit="id", max_contributions=most)
        noise = seeded(0)
        with mq.Curator(table, BUDGETS["zcdp"], noise=noise) as curator:
            model = MultiplicativeWeights(TINY, alpha=0.2)
            alphas.append(OnlineIC(curator, model, queries=100, rows=200_000).alpha)
            scales.append(noise.calls[0].scale)
    assert scales[1] / scales[0] == pytest.approx(3)
    assert alphas[1] - 0.2 == pytest.approx(3 * (alphas[0] - 0.2), rel=1e-3)


def test_a_promise_of_nothing_is_refused_before_any_charge() -> None:
    table = mq.open_table({"a": [True, False] * 100, "b": ["x"] * 200}, TINY)
    calibration: Any
    for budget, calibration in itertools.product(("pure", "zcdp"), ("tight", "book")):
        with mq.Curator(table, BUDGETS[budget], relation="replace") as curator:
            with pytest.raises(QueryError, match="which says nothing: it takes about") as refused:
                OnlineIC(curator, queries=1000, calibration=calibration)
            assert curator.ledger.spent() == 0
            assert not list(curator.ledger.charges())
            enough = re.search(r"about ([\d,]+) rows", str(refused.value))
            assert enough
            rows = int(enough[1].replace(",", ""))
            assert 0.7 < OnlineIC(curator, queries=1000, calibration=calibration, rows=rows).alpha < 1


def test_where_rows_are_private_a_refusal_costs_the_row_estimate_once() -> None:
    table = mq.open_table({"a": [True, False] * 100, "b": ["x"] * 200}, TINY)
    with mq.Curator(table, BUDGETS["zcdp"]) as curator:
        for _ in range(3):
            with pytest.raises(QueryError, match="which says nothing"):
                OnlineIC(curator, queries=1000, rho=0.01)
        assert 0.99e-4 < curator.spent.rho <= 1e-4  # type: ignore[operator]
        with pytest.raises(QueryError, match="which says nothing"):
            OnlineIC(curator, queries=1000, rho=0.01, rows=200)
        assert len(list(curator.ledger.charges())) == 1


def test_what_cannot_be_asked_is_refused_uncharged() -> None:
    other = Schema([mq.Boolean("c")])
    records = np.array([[0, 0], [1, 2]])
    cases: list[tuple[Any, dict[str, Any], str]] = [
        ("hedge", {}, "expected one of multiplicative-weights"),
        ("weighted-records", {}, "make the model yourself"),
        (MultiplicativeWeights(TINY, step="exact"), {}, "no bound on its updates"),
        (Perceptron(TINY, alpha=0.1, step="kaczmarz"), {}, "no bound on its updates"),
        (MultiplicativeWeights(other, alpha=0.1), {}, "another schema"),
        (MirrorDescent(TINY, alpha=0.001), {}, "promises an error of inf"),
        ("median", {"queries": 0}, "at least 1 query"),
        ("median", {"beta": 0.0}, "0 < beta < 1"),
        ("median", {"calibration": "practical"}, '"tight" or "book"'),
        ("median", {"rows": 0}, "at least one"),
    ]
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace") as curator:
        for hypothesis, settings, message in cases:
            with pytest.raises(QueryError, match=message):
                OnlineIC(curator, hypothesis, **{"queries": 100, **settings})
        assert curator.ledger.spent() == 0
        session = OnlineIC(curator, WeightedRecords(TINY, records, alpha=0.2), queries=100)
        spent, left = curator.ledger.spent(), session.hits_left
        for asked in ("SELECT count(*) FROM people", mq.where(other, "c"), "d = 3"):
            with pytest.raises(QueryError):
                session.ask(asked)
        assert (curator.ledger.spent(), session.hits_left) == (spent, left)
    with (
        mq.Curator(lopsided()[0], mq.Budget(rho=0.01), relation="replace") as curator,
        pytest.raises(BudgetError, match="needs a delta"),
    ):
        OnlineIC(curator, queries=100, calibration="book")


def test_the_session_shows_itself_in_one_line() -> None:
    with mq.Curator(lopsided()[0], BUDGETS["zcdp"], relation="replace", noise=seeded(0)) as curator:
        shown = repr(OnlineIC(curator, queries=100))
    assert re.fullmatch(
        r"OnlineIC\(MultiplicativeWeights\(6 cells, step theory\), within 0\.\d+, 0 updates, open\)", shown
    )
