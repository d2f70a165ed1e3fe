"""Settings of one question: read from arguments, comments and SET; kept to; and refused before anything is charged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.errors import BudgetExceeded, QueryError, RequestConflict
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Settings, settings_of

SCHEMA = mq.Schema([mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker"), mq.Category("g", ["a", "b", "c"])])
ROWS = 20_000


def opened(**named: Any) -> mq.Session:
    rng = np.random.default_rng(1)
    data = {
        "age": rng.integers(0, 100, ROWS).tolist(),
        "smoker": (rng.random(ROWS) < 0.3).tolist(),
        "g": rng.choice(list("abc"), ROWS).tolist(),
    }
    curator = mq.Curator(mq.open_table(data, SCHEMA), mq.Budget(epsilon=20.0, delta=1e-9))
    return mq.online(curator, **{"alpha": 0.05, "simultaneous": False, "rows": ROWS, **named})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT count(*) FROM t", Settings()),
        ("/* alpha = 0.01 */ SELECT count(*) FROM t", Settings(alpha=0.01)),
        ("SELECT count(*) FROM t -- alpha = 0.01, confidence = 0.99", Settings(alpha=0.01, confidence=0.99)),
        ("/*+ max_cost = 0 */ age > 3", Settings(max_cost=0.0)),
        ("SET alpha = 0.01; SET cuts TO between; SELECT count(*) FROM t", Settings(alpha=0.01, cuts="between")),
        ("SET maquette.alpha = 0.01; SELECT count(*) FROM t", Settings(alpha=0.01)),
        ("SELECT count(*) FROM t /* the old ones */", Settings()),
        ("g = '/* alpha = 0.01 */'", Settings()),
        ("SELECT 'x -- alpha = 0.5' FROM t", Settings()),
        ("/* a = b */ SELECT count(*) FROM t", Settings()),
        ("/* beta = 0.25 */ SELECT count(*) FROM t", Settings(confidence=0.75)),
    ],
)
def test_settings_are_read_from_a_text(text: str, wanted: Settings) -> None:
    assert settings_of(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/* alpha = 2 */ age > 3", "alpha is 2"),
        ("/* alpha = x */ age > 3", "alpha is 'x'"),
        ("/* alfa = 0.1 */ age > 3", "did you mean alpha"),
        ("/* cuts = maybe */ age > 3", "cuts is"),
        ("SET speed = 3; SELECT count(*) FROM t", "no setting"),
        ("SET alpha; SELECT count(*) FROM t", "SET cannot be read"),
        ("/* max_cost = -1 */ age > 3", "max_cost is"),
        ("SET beta = 1.5; age > 3", "confidence is -0.5"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_charged(text: str, message: str) -> None:
    session = opened()
    before = session.spent.units
    with pytest.raises(QueryError, match=message):
        session.ask(text)
    assert session.spent.units == before


def test_an_alpha_of_its_own_is_kept_to_and_paid_for() -> None:
    session, asked = opened(), "SELECT count(*) FROM t WHERE age >= 60"
    coarse = session.ask(asked)
    fine = session.ask(asked, alpha=0.01)
    assert fine.high - fine.low <= 2 * 0.01 * ROWS * (1 + 1e-6) < coarse.high - coarse.low
    assert fine.cost.units > coarse.cost.units
    assert session.ask(f"/* alpha = 0.01 */ {asked}").source == "cache"
    assert session.ask(asked) == coarse.recalled(coarse.cost.__class__(**{**vars(coarse.cost), **_free(session)}))
    assert "0.01 of them" in str(fine.guarantee)


def _free(session: mq.Session) -> dict[str, Any]:
    return vars(session.curator.cost_of([]))


def test_answers_follow_from_the_record_after_a_restart(tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    data = {
        "age": rng.integers(0, 100, 5_000).tolist(),
        "smoker": [True] * 5_000,
        "g": ["a"] * 5_000,
    }
    found = []
    for _ in range(2):
        table, budget = mq.open_table(data, SCHEMA), mq.Budget(epsilon=5.0, delta=1e-9)
        with mq.Curator(table, budget, ledger=tmp_path / "t.ledger") as curator:
            session = mq.online(curator, alpha=0.05, rows=5_000)
            values = [session.ask("age >= 60", alpha=a, confidence=c).value for a, c in ((0.02, None), (0.03, 0.99))]
            found.append([*values, curator.spent.units])
    assert found[0] == found[1]


@pytest.mark.parametrize("text", [False, True])
def test_a_confidence_of_its_own_draws_on_the_doubt(text: bool) -> None:
    session = opened()
    asked = "/* confidence = 0.999 */ smoker" if text else "smoker"
    usual, sure = session.ask("smoker"), session.ask(asked, confidence=None if text else 0.999)
    assert (usual.confidence, sure.confidence) == pytest.approx((0.95, 0.999))
    assert sure.high - sure.low <= 2 * 0.055
    together = opened(simultaneous=True)
    assert together.ask("smoker", confidence=0.99).confidence == pytest.approx(0.99)
    before = together.spent.units
    with pytest.raises(QueryError, match="all its answers together"):
        together.ask("age >= 60", confidence=0.9)
    assert together.spent.units == before


def test_a_confidence_above_the_sessions_widens_what_is_known() -> None:
    session = opened(simultaneous=True)
    usual = session.ask("smoker")
    assert session.ask("smoker", confidence=0.95) == session.ask("smoker")
    sure = session.ask("smoker", confidence=0.9999, alpha=0.5)
    assert sure.source == "derived"
    assert sure.low < usual.low < usual.high < sure.high  # so the session's promise for all together still holds


def test_an_alpha_below_what_a_guard_protects_is_measured_afresh() -> None:
    from maquette.session.question import Goal, Question

    session = opened()
    goals = Question.of(SCHEMA, "smoker AND age < 30").goals
    note = {"values": 1_800.0, "tolerance": session.tolerance, "beta": session.beta, "simultaneous": False}
    session._record.accept(Goal(goals[0].marginal), {**note, "values": np.array(1_800.0)})
    session.ask("SELECT count(*) FROM t")
    assert session.ask("smoker AND age < 30").source == "hypothesis"
    fresh = session.ask("smoker AND age < 30", alpha=0.01)
    assert fresh.source == "measured"
    assert fresh.cost.units > 0


def test_max_cost_is_tested_before_anything_is_charged() -> None:
    session = opened()
    price = session.explain("smoker AND age < 30").cost
    before = session.spent.units
    for strict in (False, True):
        with pytest.raises(BudgetExceeded, match="max_cost"):
            session.ask("smoker AND age < 30", max_cost=price.epsilon / 2, strict=strict)
    with pytest.raises(BudgetExceeded, match="max_cost"):
        session.ask_many(["smoker AND age < 30", "g = 'a' AND age < 20"], max_cost=0)
    assert session.spent.units == before
    assert session.ask("smoker AND age < 30", max_cost=price.epsilon * 1.01).guarantee
    assert session.ask("smoker AND age < 30", max_cost=0).source == "cache"


def test_a_highest_price_is_for_the_whole_batch_also_at_the_end_of_the_budget() -> None:
    session = opened()
    asked = ["smoker AND age < 30", "g = 'a' AND age < 20", "g = 'b' AND smoker"]
    prices = [session.explain(text).cost.units for text in asked]
    before, analyst = session.spent.units, "one of few means"
    session.limit(analyst, rho=1.5 * prices[0] / UNITS_PER_ONE)  # enough for one of them
    answers = session.ask_many(asked, analyst=analyst, max_cost=1.0)
    assert before < session.spent.units <= before + int(1.5 * prices[0])  # split: what can be paid alone is
    assert sum(answer.guarantee is not None for answer in answers) >= 1
    assert sum(answer.cost.units for answer in answers) == session.spent.units - before


def test_a_price_is_that_of_the_alpha_asked_for() -> None:
    session = opened()
    assert session.explain("smoker", alpha=0.005).cost.units > 10 * max(1, session.explain("smoker").cost.units)
    told = session.explain("/* alpha = 0.005 */ smoker").cost.units
    assert session.ask("smoker", alpha=0.005).cost.units == told


def test_a_batch_of_different_settings_is_asked_one_by_one() -> None:
    session = opened()
    answers = session.ask_many(["smoker", "/* alpha = 0.01 */ smoker"], request="r")
    assert answers[0].high - answers[0].low > 2 * (answers[1].high - answers[1].low)
    with pytest.raises(RequestConflict):
        session.ask_many(["smoker", "/* alpha = 0.02 */ smoker"], request="r")


def test_answer_takes_the_settings_that_mean_something_to_it() -> None:
    session = opened()
    sure = mq.answer(session.curator, "/* confidence = 0.999 */ smoker", epsilon=0.5)
    assert sure.confidence == pytest.approx(0.999)
    with pytest.raises(QueryError, match="settings of a session"):
        mq.answer(session.curator, "/* alpha = 0.1 */ smoker", epsilon=0.5)
