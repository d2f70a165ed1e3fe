"""The end of the budget: cheaper ways, then the best interval that the rest buys; it is never exceeded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.answers.result import WIDER
from maquette.errors import BudgetExceeded

ROWS = 4_000
RHO = {"zcdp": 1, "gdp": 2}  # units of a rho, by currency
SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=10),
        mq.Boolean("smoker"),
        mq.Category("region", list("abcd")),
        mq.Category("job", list("uvwxyz")),
    ]
)
TEXTS = [
    "SELECT count(*) FROM t GROUP BY age",
    "SELECT count(*) FROM t GROUP BY age, region",
    "SELECT count(*) FROM t GROUP BY region, smoker",
    "SELECT count(*) FROM t GROUP BY job, smoker",
    "age >= 50 AND smoker",
    "region = 'a'",
    "age < 30 AND job = 'u'",
    "SELECT avg(age) FROM t",
    "SELECT avg(age) FROM t GROUP BY smoker",
    "SELECT count(*) FROM t WHERE age < 40 OR smoker",
    "SELECT sum(age) FROM t WHERE region = 'b'",
]


@pytest.fixture(scope="module")
def table() -> Any:
    rng = np.random.default_rng(18)
    return mq.open_table(
        {
            "age": rng.integers(0, 100, ROWS),
            "smoker": rng.random(ROWS) < 0.3,
            "region": rng.choice(list("abcd"), ROWS),
            "job": rng.choice(list("uvwxyz"), ROWS),
        },
        SCHEMA,
    )


def budget(units: int, currency: str = "zcdp") -> mq.Budget:
    if currency == "pure":
        return mq.Budget(epsilon=units / 1e15)
    return mq.Budget(rho=units / 1e15, delta=1e-9, accounting=currency)


def opened(table: Any, of: mq.Budget, ledger: Path | None = None, **settings: Any) -> mq.Session:
    given: dict[str, Any] = {"alpha": 0.05, "rows": ROWS, "guard": "never", "warm_start": "none"} | settings
    return mq.online(mq.Curator(table, of, ledger=ledger), **given)


def leave(session: mq.Session, units: int) -> None:
    """Spend all but so many units on something else."""
    session.curator.measure(mq.marginals(SCHEMA, k=1)[0], rho=(session.remaining.units - units) / 1e15)
    assert units - 10 <= session.remaining.units <= units + 10


def price(table: Any, text: str, **settings: Any) -> int:
    """What a question costs in a new session."""
    return opened(table, budget(10**14), **settings).explain(text).cost.units


@pytest.mark.parametrize("currency", ["zcdp", "gdp", "pure"])
@pytest.mark.parametrize("simultaneous", [True, False])
def test_the_number_of_rows_as_public_knowledge_costs_nothing(table: Any, currency: str, simultaneous: bool) -> None:
    units = 10**15 if currency == "pure" else 10**13
    session = opened(table, budget(units, currency), simultaneous=simultaneous)
    assert session.spent.units == 0
    assert list(session.curator.ledger.charges()) == []


@pytest.mark.parametrize("simultaneous", [True, False])
def test_the_rest_of_the_budget_buys_a_wider_interval_and_says_so(
    table: Any, simultaneous: bool, tmp_path: Path
) -> None:
    text = "SELECT count(*) FROM t WHERE age < 80 AND NOT smoker"
    settings: dict[str, Any] = {"simultaneous": simultaneous, "alpha": 0.05}
    left, limit = price(table, text, **settings) // 4, budget(10**13)
    with opened(table, limit, tmp_path / "ledger", **settings).curator as curator:
        session = mq.online(curator, rows=ROWS, guard="never", warm_start="none", **settings)
        leave(session, left)
        answer = session.ask(text)
        (one,) = answer.numbers
        assert (one.standing, one.source, one.guarantee) == ("wider", "measured", None)
        half = (one.high - one.low) / 2
        assert session.tolerance < half <= 4 * session.tolerance
        assert session.spent.units <= limit.limit
        assert 0.99 * left < answer.cost.units <= left
        assert "wider than asked for" in str(answer)
        assert "at 95%" in repr(answer)
        assert answer.as_dict()["remark"] == WIDER
        assert answer.as_dict()["confidence"] == one.confidence
        assert json.loads(json.dumps(answer.as_dict()))["standing"] == "wider"
        assert list(answer.to_pandas().filter(like="standing").iloc[0]) == ["wider"]
        assert WIDER in answer._repr_html_()
        again = session.ask(text)
        assert (again.value, again.low, again.high, again.cost.units) == (answer.value, answer.low, answer.high, 0)
        assert session.history[-1].promised is False
        with pytest.raises(BudgetExceeded):
            session.ask(text, strict=True)
        kept = again
    with opened(table, limit, tmp_path / "ledger", **settings).curator as curator:
        session = mq.online(curator, rows=ROWS, guard="never", warm_start="none", **settings)
        after = session.ask(text)
        assert (after.value, after.low, after.high, after.cost.units) == (kept.value, kept.low, kept.high, 0)
        assert after.numbers[0].standing == "wider"


def test_the_question_alone_is_tried_before_less_is_promised(table: Any) -> None:
    texts = [f"SELECT count(*) FROM t WHERE age >= {age}" for age in range(10, 100, 10)]
    usual = opened(table, budget(10**14), simultaneous=False)
    spent = []
    for text in texts:
        usual.ask(text)
        spent.append(usual.spent.units)
    bought = next(i for i in range(1, len(texts)) if spent[i] - spent[i - 1] > 1.5 * spent[0])
    alone = price(table, texts[bought], simultaneous=False)
    tight = opened(table, budget(spent[bought - 1] + int(1.1 * alone)), simultaneous=False)
    for text in texts[:bought]:
        tight.ask(text)
    assert tight.explain(texts[bought]).cost.units > tight.remaining.units
    answer = tight.ask(texts[bought], strict=True)
    assert answer.guarantee is not None
    assert answer.cost.units <= 1.1 * alone


def test_nothing_is_spent_where_the_rest_would_tell_too_little(table: Any) -> None:
    wide = "SELECT count(*) FROM t WHERE age < 40 AND smoker AND region = 'a'"
    session = opened(table, budget(10**13))
    leave(session, price(table, wide) // 40)
    left = session.remaining.units
    guessed = session.ask(wide)
    assert guessed.numbers[0].standing == guessed.as_dict()["standing"] == "guessed"
    assert "(guess)" in str(guessed)
    assert list(guessed.to_pandas().filter(like="standing").iloc[0]) == ["guessed"]
    assert session.remaining.units == left


@pytest.mark.parametrize("limited", [True, False])
def test_a_batch_at_the_end_is_split_and_the_rest_goes_to_what_could_not_be_paid(table: Any, limited: bool) -> None:
    dear = " UNION ALL ".join(
        f"SELECT {f}(age) FROM t WHERE {w}" for f in ("sum", "avg") for w in ("smoker", "job = 'u'")
    )
    texts = [dear, "SELECT count(*) FROM t WHERE smoker", "SELECT count(*) FROM t WHERE region = 'a'"]
    prices = [price(table, text) for text in texts]
    assert prices[0] > 3 * (prices[1] + prices[2])
    units = 2 * prices[1] + 2 * prices[2]
    session = opened(table, budget(units))
    highest = mq.Budget(rho=1e3 * units / 1e15, delta=1e-9).epsilon
    answers = session.ask_many(texts, max_cost=highest if limited else None)
    first, *others = answers
    assert [one.guarantee is not None for one in others] == [True, True]
    assert first.numbers[0].standing in ("wider", "guessed")
    assert session.spent.units <= units
    assert sum(answer.cost.units for answer in answers) == session.spent.units


def test_a_batch_under_a_highest_price_is_split_where_the_budget_is_short(table: Any) -> None:
    texts = ["SELECT count(*) FROM t WHERE smoker", "SELECT count(*) FROM t GROUP BY age, region, job"]
    prices = [price(table, text) for text in texts]
    session = opened(table, budget(int(1.05 * prices[0])))
    loss = session.curator.budget.accountant.loss(sum(prices) * 4, 1e-9)
    answers = session.ask_many(texts, max_cost=loss.epsilon)
    assert answers[0].guarantee is not None
    assert answers[1].guarantee is None
    with pytest.raises(BudgetExceeded, match="max_cost"):
        opened(table, budget(10**14)).ask_many(texts, max_cost=0)


def test_a_limit_of_an_analyst_ends_the_budget_of_that_analyst_only(table: Any) -> None:
    text = "SELECT count(*) FROM t WHERE age < 40 AND smoker"
    session = opened(table, budget(10**14))
    whole = session.explain(text).cost.units
    session.limit("ada", rho=whole / 3 / 1e15)
    answer = session.ask(text, analyst="ada")
    assert answer.numbers[0].standing == "wider"
    assert session.spent_by("ada").units <= whole / 3
    assert session.ask(text, analyst="bob").guarantee is not None


def test_a_named_request_for_the_rest_is_paid_once(table: Any, tmp_path: Path) -> None:
    text = "SELECT count(*) FROM t WHERE age < 40 AND smoker"
    limit, values = budget(10**13), []
    for restarted in (False, True):
        with opened(table, limit, tmp_path / "ledger").curator as curator:
            session = mq.online(curator, alpha=0.05, rows=ROWS, guard="never", warm_start="none")
            if not restarted:
                leave(session, price(table, text) // 2)
            for _ in range(2):
                answer = session.ask(text, request="mine")
                values.append((answer.value, answer.low, answer.high, answer.numbers[0].standing))
    assert len(set(values)) == 1
    assert values[0][3] == "wider"


def within(table: Any, seed: int, ledger: Path) -> None:
    """One random budget, session and stream, with a restart: never more than the budget, and one answer for ever."""
    rng = np.random.default_rng(seed)
    currency = str(rng.choice(["zcdp", "gdp", "pure"]))
    settings: dict[str, Any] = {"simultaneous": bool(rng.random() < 0.5), "alpha": float(rng.choice([0.05, 0.1]))}
    base = price(table, TEXTS[4], **settings)
    if currency == "pure":
        base = opened(table, budget(10**16, "pure"), **settings).explain(TEXTS[4]).cost.units
    limit = budget(int(base * rng.uniform(1.1, 6.0)), currency)
    told: dict[str, Any] = {}
    texts = [str(text) for text in rng.permutation(TEXTS)]
    analysts = [str(rng.choice(["ada", "bob"])) for _ in texts]
    for restarted in (False, True):
        with opened(table, limit, ledger, **settings).curator as curator:
            session = mq.online(curator, rows=ROWS, guard="never", warm_start="none", **settings)
            if restarted:
                for text, before in told.items():
                    after = session.ask(text)
                    assert [one.standing == "guessed" for one in after.numbers] == [before[0]] * len(after.numbers)
                    if not before[0] and before[1]:
                        assert [(one.value, one.low, one.high) for one in after.numbers] == before[2]
                continue
            session.limit(
                "ada",
                **{"epsilon" if currency == "pure" else "rho": limit.limit / (6 if currency == "gdp" else 3) / 1e15},
            )
            while texts:
                count = int(rng.integers(1, 4))
                batch, texts = texts[:count], texts[count:]
                spent = session.spent.units
                answers = session.ask_many(batch, analyst=analysts.pop())
                assert session.spent.units == spent + sum({id(a.cost): a.cost.units for a in answers}.values())
                assert session.spent.units <= limit.limit
                assert session.spent_by("ada").units <= limit.limit // 3
            for text in TEXTS:  # what is known when nothing more is bought
                answer = session.ask(text)
                numbers = [(one.value, one.low, one.high) for one in answer.numbers]
                told[text] = answer.numbers[0].standing == "guessed", answer.guarantee is not None, numbers
            assert session.spent.units <= limit.limit


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("seed", range(3))
def test_no_budget_is_exceeded_and_answers_stay(table: Any, seed: int, tmp_path: Path) -> None:
    within(table, seed, tmp_path / "ledger")


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 115))
def test_no_budget_is_exceeded_and_answers_stay_for_many(table: Any, seed: int, tmp_path: Path) -> None:
    within(table, seed, tmp_path / "ledger")
