"""The account of answers that hold together: its code, its shares of the doubt, its bound, and who attacks it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st
from session_checks import NoNoise, curator_of
from test_description import TINY, products, rows, share, tables

import maquette as mq
from maquette.estimates.residuals import subsets
from maquette.query import Marginal
from maquette.schema import Schema
from maquette.session.precision import shares
from maquette.session.precision.account import Noise, reach, reaches
from maquette.session.precision.description import _functions
from maquette.session.precision.naming import CELL, OTHER, condition_bits, set_bits
from maquette.session.precision.shares import Division
from maquette.session.precision.view_of import view_of
from maquette.session.precision.width import Known

each = pytest.mark.parametrize("schema", TINY.values(), ids=TINY)
noises = st.builds(Noise, st.floats(0.01, 10.0), st.floats(0.1, 1.0), st.floats(0.01, 10.0), st.floats(0.1, 2.0))


@pytest.mark.thorough(fast=3)
@each
def test_the_shorter_code_keeps_krafts_inequality(schema: Schema) -> None:
    total = 0.0
    for columns in subsets(schema.names):
        named = [*products(schema, columns), *tables(schema, columns)]
        assert all(math.isfinite(one.name) for one in named)
        alone = sum(share(one.name) for one in named) + share(named[0].direction)
        ratios = sum(
            share(one.over_rows.name) + len(schema) * share(one.averaged(one, len(schema)).name) for one in named
        )
        directions = share(named[0].over_rows.direction) * 2
        rented = sum(share(one.name + OTHER) for one in named)  # in any of 2^parts ways, of a bit for each part
        total += alone + ratios + directions + rented + ratios * share(OTHER)
    assert 0.1 < total <= 1.0


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("levels", [1, 2, 3, 5, 9])
def test_the_conditions_of_a_column_share_one(levels: int) -> None:
    for column in (mq.Integer("a", 0, levels - 1), mq.Number("a", edges=[float(i - 2) for i in range(levels + 1)])):
        assert sum(share(condition_bits(row, _functions(column))) for row in rows(column)) <= 1.0 + 1e-12


def test_common_questions_have_short_names_and_sets_of_columns_share_one() -> None:
    schema = Schema([mq.Integer(f"x{i}", 0, 31) for i in range(11)])
    assert sum(math.comb(11, k) * share(set_bits(11, k)) for k in range(12)) <= 1.0
    name = view_of(Marginal(schema, (), mq.where(schema, "x3 <= 12"))).description.name
    assert name == pytest.approx(2 + math.log2(11) + 2 + 2 + 6)
    table = view_of(Marginal(schema, ("x1", "x2"))).description.name
    assert table == pytest.approx(2 + math.log2(55) + CELL + 10)


@pytest.mark.parametrize("division", [shares.EARLIER, shares.NOW], ids=["earlier", "now"])
@pytest.mark.parametrize("before", [None, 0, 1, 2, 9, 10, 11, 50, 3_000])
def test_shares_of_the_doubt_add_up_whenever_the_first_part_is_bought(before: int | None, division: Division) -> None:
    fresh = sum(division.fresh(number, before) for number in range(1, 10_000))
    derived = 0.0 if before is None else shares.derived(division, before)
    assert fresh + derived + sum(shares.guard(k) for k in range(1, 1_000)) <= 1.0
    if before is not None:
        spent = sum(division.fresh(number, None) for number in range(1, before + 1))
        assert derived == pytest.approx(division.derived * division.left(before))
        assert division.left(before) == pytest.approx(1 - shares.GUARDED - spent)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(0, 40))
def test_tables_of_any_size_share_the_same_doubt(sizes: list[int], parts: int) -> None:
    """Tables take several places at once; the first part comes between two of them."""
    division, place, spent, before = shares.NOW, 1, 0.0, None
    for turn, places in enumerate(sizes):
        if turn == parts:
            before = place - 1
            spent += shares.derived(division, before)
        share = division.fresh(place, before, places)
        assert share == pytest.approx(sum(division.fresh(place + i, before) for i in range(places)))
        place, spent = place + places, spent + share
    assert spent + shares.GUARDED <= 1.0 + 1e-12


def by_number(shares_of: Sequence[float], beta: float = 0.05) -> np.ndarray:
    """The price of the first n unrelated questions with these shares, relative to equal shares of n."""
    numbers = np.arange(1, len(shares_of) + 1)
    prices = scipy.stats.norm.isf(beta * np.asarray(shares_of) / 2) ** 2
    return np.asarray(np.cumsum(prices) / (numbers * scipy.stats.norm.isf(beta / numbers / 2) ** 2))


def least_shares(factor: float, ends: Sequence[int], beta: float = 0.05) -> float:
    """The doubt that unrelated questions need if the first n cost `factor` times equal shares, for each n of `ends`."""
    total, paid, before = 0.0, 0.0, 0
    for end in ends:
        most = factor * end * float(scipy.stats.norm.isf(beta / end / 2)) ** 2
        total += (end - before) * 2 * float(scipy.stats.norm.sf(math.sqrt((most - paid) / (end - before)))) / beta
        paid, before = most, end
    return total


def test_however_many_unrelated_questions_come_they_cost_little_more_than_if_that_had_been_known() -> None:
    ratios = by_number([shares.NOW.fresh(number, None) for number in range(1, 10_001)])
    assert ratios.max() <= 1.312
    assert by_number([shares.EARLIER.fresh(number, None) for number in range(1, 10_001)]).max() > 1.7


def test_no_division_of_the_doubt_reaches_a_fifth_more_for_all_numbers_of_questions() -> None:
    """Independent misses with shares s_j of 0.05 stay within it only if the s_j add up to at most 1.026."""
    most = -math.log1p(-0.05) / 0.05
    assert least_shares(1.2, (1, 10, 100)) > 1.1 > most
    assert least_shares(1.27, (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000)) > most


@given(st.lists(noises, min_size=1, max_size=8), st.floats(1.0, 60.0), st.floats(0.5, 20.0))
def test_the_bound_is_the_least_over_all_factors_and_never_below_one_direction(
    held: list[Noise], nats: float, scale: float
) -> None:
    found = reach(nats, held, scale)

    def at(factor: float) -> float:
        total = nats
        for variance, weight, expected, spread in held:
            a, n = scale**2 * expected**2 / variance, weight * variance / expected
            total += (factor * n) ** 2 * a / 2 + (factor * n - 1) ** 2 / (2 * spread**2) + math.log1p(spread**2 * a) / 2
        return total / (factor * scale)

    assert found <= min(map(at, np.geomspace(1e-3, 1e3, 200))) * (1 + 1e-9)
    deviation = math.sqrt(sum(one.weight**2 * one.variance for one in held))
    assert found >= deviation * math.sqrt(2 * nats) * (1 - 1e-9)
    larger = [one._replace(variance=one.variance * 1.5, expected=one.expected * 1.5) for one in held]
    assert reach(nats, larger, scale) >= found * (1 - 1e-9)  # a cell with larger weights
    cells = reaches(nats, [(one, np.array([1.0, 1.5, 0.0])) for one in held], scale)
    assert cells == pytest.approx([found, reach(nats, larger, scale), 0.0], rel=1e-9)


def attacked(runs: int, steps: int, keys: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors of `directions`, weights and precisions by key, as someone who sees every error buys piece after piece.

    The attacker looks at the direction that errs most, buys a little more where that keeps it and very much where the
    error is disappointing, key by key; the final weights of early pieces so depend on their noise.
    """
    rng = np.random.default_rng(seed)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=keys)))[: 2 ** (keys - 1)]  # named directions
    sums, precision = np.zeros((runs, keys)), np.full((runs, keys), 0.0)
    history = []
    for step in range(steps):
        key = step % keys
        mean = sums / np.maximum(precision, 1e-9)
        worst = np.abs(mean @ signs.T).argmax(axis=1)
        helps = (signs[worst] * mean)[:, key] * np.sign((signs[worst] * mean).sum(axis=1)) > 0
        bought = np.where(step < keys, 1.0, np.where(helps, 0.05, 6.0) * np.maximum(precision[:, key], 0.1))
        sums[:, key] += rng.normal(size=runs) * np.sqrt(bought)
        precision[:, key] += bought
        if step >= keys - 1:
            history.append((sums / precision @ signs.T, precision.copy()))
    errors, precisions = zip(*history, strict=True)
    return np.stack(errors), np.stack(precisions), signs


def test_no_attacker_who_chooses_directions_and_precisions_beats_the_bound() -> None:
    runs, keys, doubt = 20_000, 3, 0.1
    errors, precisions, signs = attacked(runs, 12, keys, 4)
    nats = math.log(2 * len(signs) / doubt)
    scale, missed, naive = math.sqrt(2 * nats / keys), np.zeros(runs, dtype=bool), np.zeros(runs, dtype=bool)
    for error, precision in zip(errors, precisions, strict=True):
        a, n, tight = scale**2 * precision, 1 / precision, 0.5**-2  # expected: precisions of one
        level = nats + (tight + np.log1p(a / tight)).sum(axis=1) / 2
        square, slope = (n**2 * (a + tight)).sum(axis=1) / 2, (n * tight).sum(axis=1)
        width = (2 * np.sqrt(level * square) - slope) / scale
        one = [Noise(1 / p, 1.0, 1.0, 0.5) for p in precision[0]]
        assert width[0] == pytest.approx(reach(nats, one, scale))
        missed |= np.abs(error).max(axis=1) > width
        deviation = np.sqrt((1 / precision).sum(axis=1))
        naive |= np.abs(error[:, 0]) > scipy.stats.norm.isf(doubt / 2) * deviation
        naive |= np.abs(error).max(axis=1) > scipy.stats.norm.isf(doubt / 2) * deviation
    assert scipy.stats.binom.sf(missed.sum() - 1, runs, doubt) > 1e-6
    assert scipy.stats.binom.sf(naive.sum() - 1, runs, 4 * doubt) < 1e-6


def test_a_session_keeps_the_settings_with_which_it_began() -> None:
    schema = Schema([mq.Integer("age", 0, 15), mq.Boolean("b")])
    table = {"age": [i % 16 for i in range(4_000)], "b": [i % 3 == 0 for i in range(4_000)]}
    curator = curator_of(schema, table, mq.Budget(rho=50.0, delta=1e-9), NoNoise(0))
    first = mq.online(curator, alpha=0.05, rows=4_000, warm_start="none")
    first.ask("SELECT age, count(*) FROM t GROUP BY age")
    assert first._record.begun == {"alpha": 0.05, "beta": 0.05, "scale": 200.0, "division": shares.DIVISION}
    other = mq.online(curator, alpha=0.02, beta=0.01, rows=4_000, warm_start="none")
    account = other._knowledge.widths.account
    assert account is not None
    assert (account.beta, account.scales) == (0.05, (200.0,))
    of = view_of(Marginal(schema, (), mq.where(schema, "age < 7")))
    known = {part: Known(90.0, 1) for part in of.gains}
    assert other._knowledge.widths.of(of, known) > first._knowledge.widths.of(of, known)  # a smaller beta


def test_a_private_number_of_rows_widens_by_all_scales_it_allows() -> None:
    schema = Schema([mq.Integer("age", 0, 15), mq.Boolean("b")])
    table = {"age": [i % 16 for i in range(4_000)], "b": [i % 3 == 0 for i in range(4_000)]}
    session = mq.online(curator_of(schema, table, mq.Budget(rho=50.0, delta=1e-9), NoNoise(0)), alpha=0.1)
    session.ask("SELECT count(*) FROM t WHERE age < 7")
    account = session._knowledge.widths.account
    assert account is not None
    true = 2.0 ** (round(2 * math.log2(0.1 * 4_000)) / 2)
    assert true in account.scales
    assert account.before == 0
