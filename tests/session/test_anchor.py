"""Counts measured from half of the rows: what they cost, what they promise, and that they survive a restart."""

from __future__ import annotations

import math
from functools import reduce
from operator import or_
from pathlib import Path

import numpy as np
import pytest
import scipy

import maquette as mq
from maquette.query import Marginal, where
from maquette.session.anchoring import anchor_of
from maquette.session.order import Flight, Order
from maquette.session.own import Direct
from maquette.session.precision import shares
from maquette.session.precision.anchor import half_width, least, own_variance
from maquette.session.precision.bases import ANCHOR
from maquette.session.precision.width import Widths
from maquette.session.question import MOST_TERMS, Goal, Question, restored, stored

KS = [shares.HALF.k, shares.NOW.k]  # of sessions that began before, and of those that begin now
LEVELS = {"a": 5, "b": 4, "c": 6, "d": 3, "e": 7}
SCHEMA = mq.Schema([mq.Category(name, [f"{name}{i}" for i in range(size)]) for name, size in LEVELS.items()])
ROWS = 4_000


def table() -> mq.PrivateTable:
    rng = np.random.default_rng(3)
    return mq.open_table(
        {name: [f"{name}{i}" for i in rng.integers(0, size, ROWS)] for name, size in LEVELS.items()}, SCHEMA
    )


def unrelated(count: int) -> list[str]:
    """Conditions on three or four columns that have little to do with each other."""
    rng, found = np.random.default_rng(9), dict[str, None]()
    while len(found) < count:
        names = rng.choice(list(LEVELS), size=int(rng.integers(3, 5)), replace=False)
        sets = [rng.choice(LEVELS[name], size=LEVELS[name] // 2, replace=False) for name in names]
        held = (
            f"{n} IN ({', '.join(repr(f'{n}{i}') for i in sorted(some))})" for n, some in zip(names, sets, strict=True)
        )
        found["SELECT count(*) FROM t WHERE " + " AND ".join(held)] = None
    return list(found)


def session_of(curator: mq.Curator, **more: object) -> mq.Session:
    return mq.online(curator, alpha=0.05, rows=ROWS, warm_start="none", guard="never", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("doubt", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.7])
@pytest.mark.parametrize("k", KS)
def test_given_the_noise_of_the_rows_a_count_misses_no_more_often_than_psi_allows(
    doubt: float, ratio: float, k: float
) -> None:
    width = half_width(4 * ratio**2, 1.0, doubt, k)
    x = np.linspace(-12.0, 12.0, 5_001)
    missed = scipy.stats.norm.sf(width - ratio * x) + scipy.stats.norm.cdf(-width - ratio * x)
    allowed = doubt * math.sqrt(1 - k) * np.exp(k * x**2 / 2)
    assert (missed <= np.minimum(allowed, 1.0) * (1 + 1e-6)).all()
    shorter = 0.97 * width
    missed = scipy.stats.norm.sf(shorter - ratio * x) + scipy.stats.norm.cdf(-shorter - ratio * x)
    assert (missed > allowed).any()  # nor is it much wider than it has to be


@pytest.mark.parametrize("k", KS)
def test_psi_has_expectation_one_and_its_least_value_is_for_those_that_do_not_depend_on_it(k: float) -> None:
    mean, _ = scipy.integrate.quad(lambda x: least(k) * math.exp(k * x**2 / 2) * scipy.stats.norm.pdf(x), -40, 40)
    assert mean == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("k", KS)
def test_the_variance_that_is_bought_is_just_enough(k: float) -> None:
    for rows in (0.0, 0.02, 0.05):
        own = own_variance(rows, 1e-3, k)
        assert 0.999 < half_width(rows, own, 1e-3, k) <= 1.0 + 1e-9


@pytest.mark.parametrize("k", KS)
def test_someone_who_sees_the_noise_of_the_rows_and_decides_what_to_ask_for_is_within_the_doubt(k: float) -> None:
    """The attacker asks for many counts from half of the rows only if these are far off, and else for plain ones."""
    rng, runs, doubt, places = np.random.default_rng(5), 40_000, 0.2, 16
    rows, each = 0.05, doubt / places
    own = own_variance(rows, each, k)
    x = rng.normal(size=runs)
    far = np.abs(x) > 1.5
    centred = np.abs(x[:, None] * math.sqrt(rows) / 2 + math.sqrt(own) * rng.normal(size=(runs, places))) > 1.0
    plain = rng.random((runs, places)) < least(k) * each
    missed = np.where(far[:, None], centred, plain).any(axis=1).mean()
    assert missed <= doubt + 5 * math.sqrt(doubt / runs)
    naive = 1 / scipy.stats.norm.isf(each / 2) ** 2 - rows / 4  # as if the noise of the rows were drawn afterwards
    again = np.abs(x[:, None] * math.sqrt(rows) / 2 + math.sqrt(naive) * rng.normal(size=(runs, places))) > 1.0
    assert again[far].mean() > 1.5 * each


@pytest.mark.parametrize("division", [shares.HALF, shares.NOW])
def test_the_shares_add_up_wherever_the_number_of_rows_and_parts_are_bought(division: shares.Division) -> None:
    for before in (None, 0, 1, 7, 40):
        for anchor in (None, 0, 2, 7, 50):
            spent = sum(division.fresh(number, before, anchor=anchor) for number in range(1, 30_000))
            derived = 0.0 if before is None else shares.derived(division, before, anchor)
            early = anchor is not None and before is not None and anchor <= before
            assert spent + derived / (least(division.k) if early else 1.0) + shares.GUARDED <= 1 + 1e-9
    assert shares.anchored_after(5, 5) == 6
    assert shares.anchored_after(5, 4) == shares.anchored_after(5, None) == 5


def test_a_count_from_half_of_the_rows_is_one_number_that_a_row_moves_by_one() -> None:
    goal = Goal(Marginal(SCHEMA, (), where(SCHEMA, "a IN ('a0', 'a1') AND b = 'b1' AND NOT c = 'c2'")))
    half = goal.from_half
    assert half is not None
    assert half.key == goal.key
    assert restored(SCHEMA, stored(half)) == half
    assert half.as_asked.shape == (1,)
    with mq.Curator(table(), mq.Budget(rho=1.0, delta=1e-9)) as curator:
        assert curator.relation.l2_squared(half.as_asked) == 1
    assert Goal(Marginal(SCHEMA)).from_half is None
    assert Goal(Marginal(SCHEMA, ["a"])).from_half is None


def test_many_unrelated_counts_cost_half_of_what_they_would_by_themselves() -> None:
    with mq.Curator(table(), mq.Budget(rho=5_000.0, delta=1e-9)) as curator:
        session = session_of(curator)
        costs = [float(session.ask(text).cost.units) for text in unrelated(60)]
        assert ANCHOR in session._record.wholes
        bought = next(i for i, cost in enumerate(costs) if cost > 2 * costs[i - 1] > 0)
        assert bought >= 8  # not before several times as much was paid for counts
        assert np.mean(costs[bought + 1 :]) < 0.5 * costs[bought - 1]
        kept = [own for each in session._record.own.values() for own in each if isinstance(own, Direct)]
        assert sum(own.centre is not None for own in kept) >= 40


def test_a_session_that_counts_from_half_of_the_rows_answers_the_same_after_a_restart(tmp_path: Path) -> None:
    texts, made = unrelated(30), table()
    with mq.Curator(made, mq.Budget(rho=5_000.0, delta=1e-9), ledger=tmp_path / "book") as curator:
        session = session_of(curator)
        first = [session.ask(text).numbers[0] for text in texts]
        assert ANCHOR in session._record.wholes
    with mq.Curator(made, mq.Budget(rho=5_000.0, delta=1e-9), ledger=tmp_path / "book") as curator:
        again = session_of(curator)
        for text, before in zip(texts, first, strict=True):
            answer = again.ask(text)
            assert answer.cost.units == 0
            assert (answer.numbers[0].value, answer.numbers[0].low, answer.numbers[0].high) == (
                before.value,
                before.low,
                before.high,
            )


def test_each_by_itself_nothing_is_counted_from_half_of_the_rows() -> None:
    with mq.Curator(table(), mq.Budget(rho=5_000.0, delta=1e-9)) as curator:
        session = session_of(curator, simultaneous=False, beta=1e-3)
        for text in unrelated(30):
            session.ask(text)
        assert ANCHOR not in session._record.wholes


def test_a_count_whose_number_of_rows_never_came_is_not_kept() -> None:
    """Planned while the number of rows was on its way, which is then refused: what was measured is not a count."""
    first, second = unrelated(2)
    with mq.Curator(table(), mq.Budget(rho=50.0, delta=1e-9)) as curator:
        session = session_of(curator)
        record, planner = session._record, session._planner
        one, two = (Question.of(SCHEMA, text).goals[0] for text in (first, second))
        anchor = anchor_of(session._knowledge, planner._pricing)
        assert anchor is not None
        buying = planner.on(session._knowledge)
        buying._anchor = anchor
        order = Order({ANCHOR: anchor.units}, buying._alone_at([one], session.tolerance).directs, {})
        session.limit("poor", rho=1e-6)
        refused, charged = Flight(), Flight()
        with record.lock:
            record.begin(refused, order, analyst="poor")
            ahead = record.ahead()
            assert ahead is not None
            plan = planner.on(session._knowledge.foreseen(ahead))._alone_at([two], session.tolerance)
            assert [goal.centred for goal, _ in plan.directs.values()] == [True]
            record.begin(charged, plan, analyst="custodian")
        with pytest.raises(mq.BudgetExceeded):
            record.charge(refused, analyst="poor")
        record.charge(charged, analyst="custodian")
        assert record.directs == 1  # its place is used up
        assert not record.own.get(two.key)
        exact = session.ask(second, alpha=0.15)
        assert exact.cost.units > 0
        assert exact.guarantee is not None


def test_what_is_derived_has_its_share_from_the_first_whole_table_on() -> None:
    schema = mq.Schema([mq.Integer("x", 0, 31), mq.Boolean("y")])
    rng = np.random.default_rng(1)
    made = mq.open_table({"x": rng.integers(0, 32, ROWS), "y": rng.random(ROWS) < 0.5}, schema)
    with mq.Curator(made, mq.Budget(rho=500.0, delta=1e-9)) as curator:
        session = session_of(curator)
        for x in range(3, 31):
            session.ask(f"SELECT count(*) FROM t WHERE x < {x}")
        record = session._record
        assert any(key != ANCHOR for key in record.wholes)
        assert record.before is not None


def test_the_expectations_of_an_account_do_not_change_when_the_number_of_rows_is_bought() -> None:
    with mq.Curator(table(), mq.Budget(rho=500.0, delta=1e-9)) as curator:
        widths = session_of(curator)._knowledge.widths
        assert widths.account is not None
        plain = tuple(widths.account._expectations(("a", "b")))
        for place in (0, 1, 9):
            account = widths.spent(0).anchored(place).account
            assert account is not None
            assert tuple(account._expectations(("a", "b"))) == plain


def test_a_long_count_is_measured_as_asked() -> None:
    """The complement of a condition at the limit of its products could not be written."""
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(20)])
    pairs = [where(schema, f"c{i} AND c{i + 1}") for i in range(0, 20, 2)]
    short, long = (Goal(Marginal(schema, (), reduce(or_, pairs[:count]))) for count in (8, 10))
    assert len(short.marginal.weight.terms) <= MOST_TERMS < len(long.marginal.weight.terms)
    assert short.from_half is not None
    assert long.from_half is None


def test_what_does_not_depend_on_the_number_of_rows_has_the_least_of_psi_after_it() -> None:
    """A count that depends on it has its whole share; so has everything that came before."""
    with mq.Curator(table(), mq.Budget(rho=50.0, delta=1e-9)) as curator:
        widths = session_of(curator)._knowledge.widths.anchored(3)
        assert widths.account is not None
        assert widths.account.division is shares.NOW
        for number in range(1, 9):
            share = widths.beta * shares.NOW.fresh(number, None, anchor=3)
            assert widths.fresh(1, number, centred=True) == share
            assert widths.fresh(1, number) == pytest.approx(share * (least(widths.k) if number > 3 else 1.0))
            assert widths.fresh(4, number) == pytest.approx(widths.fresh(1, number) / 4)


def test_each_by_itself_a_count_from_half_of_the_rows_has_the_noise_of_both() -> None:
    widths = Widths(beta=0.05, simultaneous=False, gaussian=True)
    assert widths.centred(40.0, 2.0, 1) == pytest.approx(scipy.stats.norm.isf(0.025) * math.sqrt(40.0 / 4 + 2.0))
