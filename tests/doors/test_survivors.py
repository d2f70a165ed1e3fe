"""What mutation testing once left alive (docs/theory/survivors.md): a quick test for each."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import Rows, compiled
from maquette.audit.reference import ScriptedNoise
from maquette.curator import cap as cap_module
from maquette.curator.cap import clipped
from maquette.curator.compile import _Facts, _summed
from maquette.curator.compiled import AtPoints, tally
from maquette.curator.deadline import Moments, Span, Work, seconds
from maquette.curator.engines.api import MAX_ROWS
from maquette.curator.exact import sum_reaches
from maquette.curator.noise import _LARGEST
from maquette.curator.scores import Scorer, absolute_total, check_reach, reach, rounded_to
from maquette.curator.sparse_vector import concentrated, resampled, unresampled
from maquette.errors import BudgetError, GuardSealed, QueryError
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, Pure, Relation, Selection
from maquette.privacy.cost import LazyRounds, from_dict
from maquette.privacy.gdp import GdpAccountant
from maquette.privacy.pure import PureAccountant
from maquette.privacy.units import MAX_UNITS, UNITS_PER_ONE
from maquette.privacy.zcdp import ZcdpAccountant
from maquette.query import Buckets, Contrasts, Keys, LinearQuery, Marginal, lookup
from maquette.query.moves import LARGEST, Moves
from maquette.schema import Integer, Schema

NUMBERS = (-2, -1, 0, 1, 3)
CONTRASTS = np.array([[1, -1], [2, 1], [0, 3]])  # three combinations of two cells
GAINS = (3, 5, 11)  # the largest entry, and the largest L1 and squared L2 norm of a column


class Asked:
    """A question of which nothing but its moves is known."""

    def __init__(self, moves: Moves) -> None:
        self.moves = moves


def _tables(moves: Moves, rows: int) -> Iterator[np.ndarray]:
    """What exactly this many rows can add: for every choice of numbers and cells."""
    numbers = [n for n in NUMBERS if moves.low <= n <= moves.high]
    row = [number * np.eye(moves.cells, dtype=int)[cell] for number in numbers for cell in range(moves.cells)]
    if not moves.everywhere:
        row.append(np.zeros(moves.cells, dtype=int))
    for chosen in itertools.combinations_with_replacement(row, rows):
        yield np.sum([np.zeros(moves.cells, dtype=int), *chosen], axis=0)


def _differences(relation: Relation, moves: Moves) -> Iterator[np.ndarray]:
    """How neighbours differ, by the definition of the relation: a unit has up to m rows, or one row for one row."""
    most = relation.max_contributions
    counts = [most] if relation.rows_are_public else range(most + 1)
    tables = [table for count in counts for table in _tables(moves, count)]
    if relation.kind == "add-remove":
        yield from tables
    else:
        yield from (one - other for one, other in itertools.product(tables, repeat=2))


@pytest.mark.parametrize("kind", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("everywhere", [True, False])
def test_sensitivities_cover_every_neighbour_of_a_small_question(
    kind: str, rows: int, cells: int, everywhere: bool
) -> None:
    relation = Relation(kind, rows)  # type: ignore[arg-type]
    for low, high in itertools.combinations_with_replacement(NUMBERS, 2):
        moves = Moves(low, high, cells, everywhere)
        moved = np.array(list(_differences(relation, moves)))
        asked = Asked(moves)
        assert relation.one_cell(asked) >= np.abs(moved).max()
        assert relation.l1(asked) >= np.abs(moved).sum(axis=1).max()
        assert relation.l2_squared(asked) >= (moved**2).sum(axis=1).max()
        if cells == 2:
            seen, through = moved @ CONTRASTS.T, Asked(Moves(low, high, 3, everywhere, GAINS))
            assert relation.one_cell(through) >= np.abs(seen).max()
            assert relation.l1(through) >= np.abs(seen).sum(axis=1).max()
            assert relation.l2_squared(through) >= (seen**2).sum(axis=1).max()


# By hand: (kind, rows, moves) and what the three sensitivities are; no more than that is charged either.
EXACT = [
    ("add-remove", 1, Moves(1, 1, 5), (1, 1, 1)),
    ("add-remove", 3, Moves(1, 1, 5), (3, 3, 9)),
    ("replace", 1, Moves(1, 1, 5), (1, 2, 2)),
    ("replace", 3, Moves(1, 1, 5), (3, 6, 18)),
    ("add-remove", 2, Moves(-4, 3, 1), (8, 8, 64)),
    ("replace", 2, Moves(-4, 3, 1), (14, 14, 196)),
    ("replace", 1, Moves(2, 7, 1), (7, 5, 25)),
    ("replace", 1, Moves(2, 7, 1, everywhere=False), (7, 7, 49)),
    ("replace", 2, Moves(2, 7, 1), (14, 14, 196)),
    ("replace", 1, Moves(-7, -2, 1), (7, 5, 25)),
    ("replace", 2, Moves(-4, 3, 2), (14, 16, 196)),
    ("replace", 1, Moves(4, 4, 1), (4, 1, 1)),
    ("add-remove", 1, Moves(0, 0, 1), (1, 1, 1)),
    ("replace", 1, Moves(0, 0, 2), (1, 2, 2)),
    ("add-remove", 2, Moves(0, 3, 2, gains=(2, 5, 9)), (12, 30, 324)),
    ("replace", 2, Moves(0, 3, 2, gains=(2, 5, 9)), (24, 60, 1296)),
    ("replace", 2, Moves(0, 3, 1, gains=(2, 5, 9)), (24, 60, 1296)),
]


@pytest.mark.parametrize(("kind", "rows", "moves", "told"), EXACT)
def test_moves_and_relation_by_hand(kind: str, rows: int, moves: Moves, told: tuple[int, int, int]) -> None:
    relation, asked = Relation(kind, rows), Asked(moves)  # type: ignore[arg-type]
    assert (relation.one_cell(asked), relation.l1(asked), relation.l2_squared(asked)) == told


def test_what_a_row_may_add_fits_into_64_bits_for_every_table_and_contrast() -> None:
    assert LARGEST == 268_435_456  # times 3 * 2^32 rows, it stays below the 2^62 that `curator.scores` allows
    assert MAX_ROWS == 12_884_901_888
    assert LARGEST * MAX_ROWS < 2**62
    assert LARGEST * MAX_ROWS + _LARGEST < 2**63  # with the largest noise
    assert Moves(0, 1, 1).everywhere


def test_the_relation_says_whether_the_number_of_rows_is_public() -> None:
    told = {(kind, m): Relation(kind, m).rows_are_public for kind in ("add-remove", "replace") for m in (1, 2)}
    assert [key for key, public in told.items() if public] == [("replace", 1)]
    assert (Relation().kind, Relation().max_contributions) == ("add-remove", 1)
    for kind, rows in (("add-remove", 0), ("replace", -1), ("removed", 1), ("swap", 1)):
        with pytest.raises(BudgetError):
            Relation(kind, rows)  # type: ignore[arg-type]


def test_a_price_cannot_be_written_over() -> None:
    moves = Moves(0, 1, 1)
    for thing, name in ((moves, "high"), (Relation(), "max_contributions")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 0)


WIDE = Schema([Integer(f"c{i}", 0, 40) for i in range(6)])  # too many cells to count
POINTS = [dict.fromkeys(WIDE.names, level) for level in (3, 17, 40)]
AT_POINTS = np.array([[3] * 6] * 2 + [[17] * 6] * 3 + [[40] * 6] * 5 + [[0] * 6, [3, 3, 3, 3, 3, 4]])


def test_rows_at_listed_points_are_found_one_by_one() -> None:
    every, some = compiled(Keys(WIDE, POINTS)), compiled(Marginal(WIDE, (), lookup(WIDE, POINTS[:2])))
    assert isinstance(every, AtPoints)
    assert not every.few
    assert tally(Rows(WIDE, AT_POINTS), every).tolist() == [2, 3, 5]
    assert tally(Rows(WIDE, AT_POINTS), some) == 5 * some.grid


@pytest.mark.parametrize("shape", [(), (2,), (4,), (3, 1)])
def test_values_of_another_shape_than_was_priced_are_not_released(shape: tuple[int, ...]) -> None:
    priced = dataclasses.replace(compiled(Keys(WIDE, POINTS)), shape=shape)
    with pytest.raises(AssertionError, match="another shape"):
        tally(Rows(WIDE, AT_POINTS), priced)


def test_buckets_go_where_they_say_beside_any_axes() -> None:
    schema = Schema([Integer("age", 0, 9), Integer("x", 0, 2)])
    levels = np.arange(10)
    parts = [LinearQuery.product(schema, {"age": (levels >= low) & (levels < low + 2)}) for low in (0, 3, 6)]
    buckets = Buckets("k", ("one", "two", "three"), tuple(parts))
    records = np.random.default_rng(3).integers(0, [10, 3], (200, 2))
    table = np.zeros((3, 3), dtype=int)
    for age, x in records:
        for place, low in enumerate((0, 3, 6)):
            table[place, x] += low <= age < low + 2
    expected: list[Any] = [([buckets], table.sum(axis=1)), ([buckets, "x"], table), (["x", buckets], table.T)]
    for axes, wanted in expected:
        assert np.array_equal(tally(Rows(schema, records), compiled(Marginal(schema, axes))), wanted)


SCHEMA = Schema([Integer("age", 0, 9), Integer("x", 0, 2)])
HALVES = LinearQuery.product(SCHEMA, {"x": [0, 0.5, 1]})


def test_scores_by_hand_on_two_grids() -> None:
    asked = [compiled(Marginal(SCHEMA, ["x"])), compiled(Marginal(SCHEMA, ["age"], HALVES))]
    fine = asked[1].grid
    assert (asked[0].grid, fine) == (1, 2**20)
    public = [np.zeros(3, dtype=np.int64), np.zeros(10, dtype=np.int64)]
    relation = Relation("replace", 2)
    scorer = Scorer(relation, asked, public, weights=[0.5, 2.0], penalties=[1.5, -0.25], over="cells")
    assert scorer.weights == [64, 256]
    assert scorer.penalties == [3 * fine // 2, -fine // 4]
    assert scorer.sensitivity == max(64 * 2 * fine, 256 * 2 * fine)
    assert scorer.scores(0, np.array([2, -3, 0]), False).tolist() == [
        64 * (e * fine - 3 * fine // 2) for e in (2, 3, 0)
    ]
    signed = scorer.scores(1, np.array([7, -9]), True)
    assert signed.tolist() == [256 * (e + fine // 4) for e in (7, -9, -7, 9)]
    whole = Scorer(relation, asked[:1], public[:1], weights=[3.0], penalties=[2.0], over="marginals")
    assert (whole.weights, whole.penalties, whole.sensitivity) == ([4096], [2], 4096 * 4)
    assert whole.scores(0, np.array([2, -3, 0]), False).tolist() == [4096 * (5 - 2)]
    plain = Scorer(relation, asked, public, weights=None, penalties=None, over="marginals")
    assert (plain.weights, plain.penalties, plain.sensitivity) == ([1, 1], [0, 0], 4 * fine)


@pytest.mark.parametrize(
    ("weights", "penalties"),
    [([1.0], None), ([1.0, 0.0], None), ([1.0, -1.0], None), ([1.0, np.inf], None), (None, [0.0]), (None, [0, np.nan])],
)
def test_weights_and_penalties_that_make_no_score_are_refused(weights: object, penalties: object) -> None:
    asked = [compiled(Marginal(SCHEMA, ["x"]))] * 2
    public = [np.zeros(3, dtype=np.int64)] * 2
    with pytest.raises(QueryError):
        Scorer(Relation(), asked, public, weights=weights, penalties=penalties, over="cells")  # type: ignore[arg-type]


def test_what_might_not_fit_in_64_bits_is_refused_at_2_to_the_62() -> None:
    check_reach(2**62 - 1, 1)
    check_reach((2**62 - 1) // 3, 3)
    for largest, factor in ((2**62, 1), (2**31, 2**31), (2**61, 2)):
        with pytest.raises(QueryError):
            check_reach(largest, factor)
    asked = compiled(Marginal(SCHEMA, ["age"], HALVES))
    assert reach(asked) == MAX_ROWS * 2**20
    assert reach(compiled(Contrasts(Marginal(SCHEMA, ["x"]), [np.array([[1, -2, 0], [3, 4, 0]])]))) == MAX_ROWS * 6
    assert absolute_total(np.array([3, -5, 1])) == 15  # the largest, as often as there are numbers: enough for a bound
    assert absolute_total(np.array([2**61, -(2**61), 1])) == 2**62 + 1
    assert absolute_total(np.zeros(0, dtype=np.int64)) == 0
    far = [np.zeros(3, dtype=np.int64), np.full(10, 2**59)]
    with pytest.raises(QueryError):
        Scorer(Relation(), [compiled(Marginal(SCHEMA, ["x"])), asked], far, weights=None, penalties=None, over="cells")
    for penalty in (2.0**42, -(2.0**42)):
        with pytest.raises(QueryError):
            Scorer(Relation(), [asked], far[1:], weights=None, penalties=[penalty], over="cells")


def test_public_answers_are_rounded_to_the_grid_or_refused() -> None:
    assert rounded_to(np.array([1.25, -0.5, 0.3]), 4).tolist() == [5, -2, 1]
    assert rounded_to(np.array([2.0**58, -(2.0**58)]), 4).tolist() == [2**60, -(2**60)]
    for bad in (2.0**58 * 1.01, -(2.0**58) * 1.01, np.inf, np.nan):
        with pytest.raises(QueryError):
            rounded_to(np.array([0.0, bad]), 4)


def test_scores_are_clipped_at_the_largest_level_that_the_cap_allows() -> None:
    """Against the definition, level by level, in 60 digits."""
    rng = np.random.default_rng(11)

    def reaches(scores: np.ndarray, level: int, scale: Fraction, cap: int) -> bool:
        terms = [(Decimal(min(int(s) - level, 0)) * scale.denominator / scale.numerator).exp() for s in scores]
        return sum(terms) >= cap

    with localcontext() as context:
        context.prec = 60
        for _ in range(150):
            scores = rng.integers(-20, 20, rng.integers(1, 9))
            scale, cap = Fraction(int(rng.integers(1, 40)), 4), int(rng.integers(1, len(scores) + 1))
            level = max(x for x in range(-21, 21) if reaches(scores, x, scale, cap) and x <= scores.max())
            assert clipped(scores, scale, cap).tolist() == np.minimum(scores, level).tolist()
    tied = np.array([5, 5, 5, -900])  # three terms of 1 make exactly 3
    assert clipped(tied, Fraction(1), 3).tolist() == tied.tolist()
    assert clipped(np.array([7, 5, 5, 5]), Fraction(1, 100), 3).tolist() == [5, 5, 5, 5]
    assert clipped(np.array([4]), Fraction(1), 1).tolist() == [4]


def test_a_level_that_floats_cannot_decide_is_decided_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 + exp(-40) is above 2 by less than a float can tell."""
    asked: list[int] = []
    monkeypatch.setattr(cap_module, "sum_reaches", lambda *given: asked.append(1) or sum_reaches(*given))
    assert clipped(np.array([9, 9, -31]), Fraction(1), 2).tolist() == [9, 9, -31]
    assert asked == [1]
    assert clipped(np.array([9, 9, 9]), Fraction(1), 2).tolist() == [9, 9, 9]
    assert asked == [1]
    assert sum_reaches([Fraction(0), Fraction(90)], [2, 1], 2)
    assert not sum_reaches([Fraction(0), Fraction(90)], [1, 1], 2)
    assert sum_reaches([Fraction(0)], [2], 2)
    assert sum_reaches([Fraction(0), Fraction(1, 10**60)], [1, 1], 1)
    assert not sum_reaches([Fraction(1, 10**60)], [2], 2)


@pytest.mark.parametrize(("hits", "sensitivity", "numeric"), list(itertools.product((1, 2, 5), (1, 3), (False, True))))
def test_noise_of_guards_by_the_formulas_of_the_theory(hits: int, sensitivity: int, numeric: bool) -> None:
    """Scales of NumericSparse, of its zCDP form and of one threshold for all hits; costs computed back from them."""
    asked: dict[str, Any] = {"hits": hits, "sensitivity": sensitivity, "numeric": numeric}
    near: dict[str, Any] = {"rel": 3e-6}
    tests = 8 / 9 if numeric else 1.0
    made = resampled(epsilon=1.5, **asked)
    assert float(made.threshold_scale) == pytest.approx(2 * hits * sensitivity / (1.5 * tests), **near)
    assert float(made.query_scale) == pytest.approx(4 * hits * sensitivity / (1.5 * tests), **near)
    if numeric:
        assert float(made.scales()["answer"]) == pytest.approx(hits * sensitivity * 9 / 1.5, **near)
    assert 1.5 * (1 - 1e-5) <= made.epsilon <= 1.5  # type: ignore[operator]
    laplace = made.rho
    run, answer = 1.5 * tests / hits, 1.5 / 9 / hits
    assert float(laplace) == pytest.approx(hits * (run**2 + numeric * answer**2) / 2, rel=1e-5)

    part = 0.9 if numeric else 1.0
    made = concentrated(rho=0.7, **asked)
    unit = sensitivity / (2 * part * 0.7 / hits) ** 0.5
    assert float(made.threshold_scale) == pytest.approx(2 * unit, **near)
    assert float(made.query_scale) == pytest.approx(4 * unit, **near)
    assert 0.7 * (1 - 1e-5) <= made.rho <= 0.7
    assert (made.epsilon is None) == numeric
    if numeric:
        assert float(made.scales()["answer"]) == pytest.approx(hits * sensitivity**2 / (2 * 0.07), **near)

    made = unresampled(epsilon=1.5, **asked)
    threshold = 1.5 * tests / (1 + (2 * hits) ** (2 / 3))
    assert float(made.threshold_scale) == pytest.approx(sensitivity / threshold, **near)
    assert float(made.query_scale) == pytest.approx(2 * hits * sensitivity / (1.5 * tests - threshold), **near)
    assert 1.5 * (1 - 1e-5) <= made.epsilon <= 1.5  # type: ignore[operator]
    assert [times for _, times in made.kinds] == [1, hits][: 1 + numeric]
    assert len(made.event.events) == 1 + numeric * hits
    for bad in ({"hits": 0}, {"sensitivity": 0}, {"epsilon": 0.0}, {"epsilon": float("inf")}, {"epsilon": -1.0}):
        with pytest.raises(BudgetError):
            resampled(**{"epsilon": 1.5, **asked, **bad})


@pytest.mark.parametrize("lazy", [False, True])
def test_a_guard_says_how_many_hits_are_left_and_when_it_is_sealed(lazy: bool) -> None:
    table = mq.open_table({"age": [1, 2, 3], "x": [0, 1, 2]}, SCHEMA)
    budget = mq.Budget(epsilon=2.0, delta=1e-6 if lazy else 0.0, accounting="basic" if lazy else "pure")
    with mq.Curator(table, budget, noise=ScriptedNoise([0] * 20)) as curator:
        named: dict[str, Any] = {"threshold": 5.0, "hits": 2, "epsilon": 1.0}
        guard = curator.lazy_guard(**named) if lazy else curator.guard(**named)
        query = LinearQuery.constant(SCHEMA, 1.0)
        seen = [(guard.hits_left, guard.sealed)]
        for answer in (3.0, 90.0, 90.0):
            guard.test(query, answer)
            seen.append((guard.hits_left, guard.sealed))
        assert seen == [(2, False), (2, False), (1, False), (0, True)]
        with pytest.raises(GuardSealed):
            guard.test(query, 90.0)


def test_a_lottery_reads_cells_and_directions_back_from_its_draws() -> None:
    table = mq.open_table({"age": [1, 2, 3], "x": [0, 1, 2]}, SCHEMA)
    with mq.Curator(table, mq.Budget(epsilon=2.0), noise=ScriptedNoise([0, 2, 3, 4, 5])) as curator:
        drawn = curator.lottery([Marginal(SCHEMA, ["x"])]).draw([1.0, 1.0, 1.0], draws=5, epsilon=1.0)
    assert drawn.cells.tolist() == [0, 2, 0, 1, 2]
    assert drawn.signs is not None
    assert drawn.signs.tolist() == [1, 1, -1, -1, -1]


def test_units_and_what_they_mean_in_each_currency() -> None:
    assert (UNITS_PER_ONE, MAX_UNITS) == (10**15, 2**63 - 1)
    pure, rho, mu = PureAccountant(), ZcdpAccountant(), GdpAccountant()
    for units, epsilon in ((0, 0.0), (1, 1e-15), (250 * 10**12, 0.25), (3 * 10**15, 3.0)):
        assert pure.loss(units, 0.0).epsilon == pytest.approx(epsilon, rel=1e-15)
        assert pure.share(epsilon=epsilon or 1e-15, delta=0.0) == max(1, units)
    assert pure.loss(10**15, 1e-9).rho is None
    assert pure.loss(10**15, 1e-9).delta == 0.0
    assert (rho.loss(10**15, 1e-9).rho, mu.loss(10**15, 1e-9).rho) == (1.0, 0.5)
    assert (rho.share(rho=0.25, delta=1e-9), mu.share(rho=0.25, delta=1e-9)) == (25 * 10**13, 50 * 10**13)
    assert [each.selection_gain for each in (pure, rho, mu)] == [1, 2, 2]
    for each in (rho, mu):
        assert (each.epsilon_of(0, 0.0), each.epsilon_of(1, 0.0)) == (0.0, np.inf)
    half = Selection(0.5)
    assert (pure.units(half), rho.units(half)) == (5 * 10**14, 10**15 // 32)
    assert (pure.units(Pure(0.5)), rho.units(Pure(0.5))) == (5 * 10**14, 10**15 // 8)
    assert rho.units(DiscreteGaussian(Fraction(8), Fraction(4))) == 10**15 // 4
    assert pure.units(DiscreteLaplace(Fraction(8), Fraction(4))) == 10**15 // 2


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 3.0])
def test_the_epsilon_of_a_gaussian_total_is_that_of_its_profile(mu: float) -> None:
    """delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), written out here."""
    epsilon = GdpAccountant().epsilon_of(round(mu**2 * UNITS_PER_ONE), 1e-6)

    def phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    delta = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-6, rel=1e-4)
    assert GdpAccountant().amount_of(epsilon, 1e-6) == pytest.approx(mu**2, rel=1e-9)


def test_events_without_noise_or_with_parts_of_another_are_refused() -> None:
    sound: dict[str, Any] = {"hits": 1, "scale": Fraction(4), "sensitivity": Fraction(1), "delta": 1e-9}
    assert LazyRounds(**sound).scale == 4
    for broken in ({"scale": 0}, {"sensitivity": 0}, {"hits": 0}, {"hits": True}, {"delta": 0.0}, {"delta": 1.0}):
        with pytest.raises(BudgetError):
            LazyRounds(**{**sound, **broken})
    for description in ({"kind": "pure", "events": 5}, {"kind": "selection", "epsilon": 1.0, "events": 5}):
        with pytest.raises(BudgetError):
            from_dict(description)


def test_a_request_counts_from_the_start_of_its_span_unless_preparing_took_long() -> None:
    span = Span(8.0, 10.0)
    assert [span.begin(now, 8.0) for now in (10.0, 10.5, 11.0, 11.01, 20.5)] == [10.0, 10.0, 10.0, 11.01, 20.5]
    span.released = 18.0
    assert [span.begin(now, 8.0) for now in (10.5, 18.0, 19.0)] == [18.0, 18.0, 19.0]
    assert Moments.of(10.0, 8.0) == Moments(16.0, 18.0)
    for thing, name in ((Work(), "cells"), (Moments(1.0, 2.0), "released")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 0)


def test_auto_is_computed_from_declared_numbers() -> None:
    asked = [compiled(Marginal(SCHEMA, ["x"])), compiled(Marginal(SCHEMA, ["age", "x"]))]
    work = Work.of(SCHEMA, asked)
    assert (work.columns, work.cells) == (2 + 3, 3 + 30)
    assert seconds("auto", 10**6, work) == pytest.approx(0.5 + 1e-7 * 10**6 * 5 + 2e-6 * 33)
    assert seconds(2.5, None, work) == 2.5


@pytest.mark.parametrize(("constant", "part"), [(-1, [0, 2]), (0, [0, 5]), (3, [0, 2]), (1, [-1, 2]), (4, [0, 1])])
def test_sums_over_columns_beyond_the_range_of_a_weight_are_refused_by_the_wall_itself(
    constant: int, part: list[int]
) -> None:
    """Linear queries refuse them first; the wall does not rely on it."""

    def weight(constant: int, part: list[int]) -> Any:
        whole = (constant, {"age": np.array(part), "x": np.array([0, 1])})
        return SimpleNamespace(sum=SimpleNamespace(whole=lambda grid: whole), grid=4)

    facts = _Facts("key", ("age", "x"), (), 4)
    sound = _summed(facts, weight(1, [0, 2]))
    assert sound is not None
    assert (sound.moves, sound.tops) == (Moves(1, 4, 1), {"age": 2, "x": 1})
    with pytest.raises(QueryError):
        _summed(facts, weight(constant, part))
