"""What a fresh question does not do twice: plans, expectations, flights and counts, without another number anywhere."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import pytest
from flights import opened

import maquette as mq
from maquette.bounded import Bounded
from maquette.curator.compile import Compiler
from maquette.curator.engines.kernels import Layout, _plain_counts
from maquette.query import Contrasts, Marginal, residual, where
from maquette.session import outcome, record as records
from maquette.session.order import Flight
from maquette.session.precision import account
from maquette.session.precision.account import Account
from maquette.session.pricing import Pricing
from maquette.session.question import Goal, tables_of

NAMES = ("a", "b", "c", "d")
SCHEMA = mq.Schema(
    [
        *map(mq.Boolean, NAMES),
        mq.Integer("x", 0, 7),
        mq.Integer("y", 0, 7),
        mq.Integer("z", 5, 12),
        mq.Category("r", ("n", "s")),
    ]
)


def session(**settings: Any) -> mq.Session:
    rng = np.random.default_rng(3)
    columns: dict[str, Any] = {name: rng.random(2_000) < 0.5 for name in NAMES}
    columns |= {name: rng.integers(5, 8, 2_000) for name in "xyz"} | {"r": rng.choice(["n", "s"], 2_000)}
    table = mq.open_table(columns, SCHEMA)
    return mq.online(mq.Curator(table, mq.Budget(epsilon=50.0, delta=1e-9)), alpha=0.05, **settings)


def test_only_the_planes_of_the_columns_asked_about_are_widened() -> None:
    class Watched(np.ndarray):
        seen: ClassVar[list[Any]] = []

        def __getitem__(self, key: Any) -> Any:
            self.seen.append(key)
            return super().__getitem__(key)

    planes = np.random.default_rng(0).integers(0, 3, (40, 1_000), dtype=np.uint8)
    watched: Any = planes.view(Watched)
    layouts = [Layout((7, 2), (3, 1), 9), Layout((2,), (1,), 3)]
    found = _plain_counts([watched], layouts)
    assert {plane for plane, _ in Watched.seen} == {2, 7}
    assert np.array_equal(found[0], np.bincount(planes[7] * 3 + planes[2], minlength=9))
    assert np.array_equal(found[1], np.bincount(planes[2], minlength=3))


def test_a_full_cache_forgets_its_oldest_entry_each_time() -> None:
    kept: Bounded[int, int] = Bounded(100)
    for i in range(250):
        kept[i] = i
        kept[max(0, i - 3)] = -1  # written again: it keeps its age
    assert list(kept) == list(range(150, 250))
    assert len(kept._line) == len(kept._places) == 100


def test_columns_declared_alike_have_what_to_expect_by_name() -> None:
    """The same numbers as if each had been computed by itself; computed once for each kind of column set."""
    widths = session()._knowledge.widths
    assert widths.account is not None
    sets: list[tuple[str, ...]] = [("x",), ("y",), ("z",), ("a", "x"), ("b", "y"), *combinations((*"abc", "r"), 2)]
    with mock.patch.object(Account, "_expectations", autospec=True, side_effect=Account._expectations) as computed:
        menus = {columns: widths.account.menu(columns) for columns in sets}
        again = {columns: widths.account.menu(columns) for columns in sets}
    kinds = {tuple("x" if name in "xy" else name if name in "zr" else "a" for name in columns) for columns in sets}
    assert computed.call_count <= len(kinds) < len(sets)
    assert menus == again == {columns: tuple(widths.account._expectations(columns)) for columns in sets}


def test_what_to_expect_is_kept_for_so_many_column_sets() -> None:
    with mock.patch.object(account, "MENUS", 5):
        made = session()
    widths = made._knowledge.widths
    assert widths.account is not None
    for columns in combinations(SCHEMA.names, 2):
        widths.account.menu(columns)
    assert len(widths.account._menus) <= 5 >= len(widths.account._alike)


@pytest.mark.parametrize("simultaneous", [False, True])
def test_a_plan_prices_a_goal_as_asked_once(simultaneous: bool) -> None:
    made = session(simultaneous=simultaneous)
    made.ask("a")
    with (
        mock.patch.object(Pricing, "direct", autospec=True, side_effect=Pricing.direct) as priced,
        mock.patch.object(outcome, "known_of", side_effect=outcome.known_of) as looked,
    ):
        made.ask("b AND c AND x = 7")
    asked = [(call.args[1].key, call.args[1].centred, *call.args[2:]) for call in priced.mock_calls]
    assert len(asked) == len(set(asked)) > 0
    assert 0 < looked.call_count <= 3  # what is there; and what will be, once parts are added


def test_what_a_charge_will_bring_is_told_without_compiling_it() -> None:
    curator = session().curator
    asked: list[Marginal | Contrasts] = [
        Marginal(SCHEMA, ("a", "x")),
        residual(SCHEMA, ("a", "b")),
        Marginal(SCHEMA, (), where(SCHEMA, "a OR x < 4")),
    ]
    with mock.patch.object(Compiler, "__call__", side_effect=AssertionError("compiled")):
        expected = curator.expected(asked, rho=0.5, shares=[1, 3, 2])
    for one, other in zip(expected, curator.measure_many(asked, rho=0.5, shares=[1, 3, 2]), strict=True):
        assert (one.event, one.cost, one.grid) == (other.event, other.cost, other.grid)
        assert one.values.shape == other.values.shape


def test_shares_that_are_whole_numbers_split_units_as_fractions_do() -> None:
    curator, rng = session().curator, np.random.default_rng(5)
    for _ in range(200):
        shares = [int(share) for share in rng.integers(1, 10**12, rng.integers(2, 7))]
        units = int(rng.integers(10**9, 10**15))
        exact = [int(units * Fraction(share) / sum(shares)) for share in shares]
        if min(exact) > 0:
            assert curator._split(units, len(shares), shares) == exact
            assert curator._split(units, len(shares), [float(share) for share in shares]) == exact


def test_tables_of_a_goal_have_the_keys_of_their_marginals() -> None:
    goal = Goal(Marginal(SCHEMA, ("r",), where(SCHEMA, "a AND x = 3")))
    tables = {order: Marginal(SCHEMA, order).key for order in permutations(("a", "x", "r"))}
    assert {order: key for key, order in tables_of(goal)} == tables
    assert goal.tables == tuple(tables_of(goal))


def test_a_flight_that_lands_wakes_the_next_alone() -> None:
    """Many finish with one commit: if each woke all others, there would be as many awakenings as their square."""
    with opened(None) as made:
        record = made._record
        flights = [Flight(number=i, turn=mock.Mock()) for i in range(4)]
        with record.lock, mock.patch.object(record, "_line", deque(flights)):
            record._advance()
            assert [flight.number for flight in record._line] == [1, 2, 3]
        turns: list[Any] = [flight.turn for flight in flights]
        assert [turn.notify_all.call_count for turn in turns] == [0, 1, 0, 0]
    assert records.PATIENCE < 1  # who is not woken looks again soon
