"""Whole tables with ordered columns: their noise, their price, what they answer, and what is promised of it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy
from session_checks import NoNoise, Truth, counts_of, curator_of, numbers

import maquette as mq
from maquette.privacy import UNITS_PER_ONE
from maquette.query import RANGE_BASES, Marginal, family_of, hardest_of, whole_inverse, whole_scale, whole_table
from maquette.schema import Schema
from maquette.session.own import Direct
from maquette.session.precision.bases import is_plain, is_whole, plain, summed, whole_key, whole_kind
from maquette.session.precision.family import OWN, places_of, within
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.view_of import view_of
from maquette.session.precision.whole_view import WholeView
from maquette.session.precision.width import Known, Widths

SCHEMA = Schema([mq.Integer("age", 0, 15), mq.Integer("hours", 0, 11), mq.Category("town", ["a", "b", "c"])])
ROWS = 6_000
_rng = np.random.default_rng(3)
_age = np.minimum(_rng.geometric(0.15, ROWS) - 1, 15)
TABLE = {
    "age": _age.tolist(),
    "hours": ((_age + _rng.integers(0, 9, ROWS)) % 12).tolist(),
    "town": _rng.choice(["a", "b", "c"], ROWS).tolist(),
}
COUNTS = counts_of(SCHEMA, TABLE)
TRUTH = Truth(SCHEMA, COUNTS)
ALPHA = 0.05
CORNERS = [
    f"SELECT count(*) FROM t WHERE age <= {i} AND hours <= {j}" for i in range(1, 14, 3) for j in range(1, 10, 2)
]
CDF = [f"SELECT count(*) FROM t WHERE age <= {i}" for i in range(15)]


def view(text: str) -> ProductView:
    found = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, text)))
    assert isinstance(found, ProductView)
    return found


def opened(ledger: Any = None, *, simultaneous: bool, noise: Any = None) -> tuple[mq.Curator, mq.Session]:
    curator = curator_of(SCHEMA, TABLE, mq.Budget(rho=50.0, delta=1e-9), noise, ledger=ledger)
    settings: dict[str, Any] = {"beta": 1e-3} if not simultaneous else {}
    session = mq.online(curator, alpha=ALPHA, rows=ROWS, warm_start="none", simultaneous=simultaneous, **settings)
    return curator, session


def bought(session: mq.Session) -> set[tuple[str, ...]]:
    return {key for key, _ in session._record.transcript.every_state() if is_whole(key)}


@pytest.mark.parametrize("size", [8, 9, 16, 31, 32, 100])
def test_every_range_at_an_end_has_little_noise_in_steps(size: int) -> None:
    """The theorem: at most ((1 + G) / 2)^2 of a count for G the mean of 1 / sin(pi f / c), f = 1/2, 3/2, ..."""
    schema = Schema([mq.Integer("x", 0, size - 1)])
    question, back = whole_table(schema, "steps", ("x",)), whole_inverse(schema, "steps", ("x",), "x")
    moved = question.gains[2] / whole_scale(schema, ("x",)) ** 2
    mean = sum(1 / math.sin(math.pi * (2 * j + 1) / (2 * size)) for j in range(size)) / size
    prefixes = np.tri(size) @ back
    suffixes = (1 - np.tri(size)[:-1]) @ back
    noise = (np.vstack([prefixes, suffixes]) ** 2).sum(axis=1) * moved
    assert noise.max() <= ((1 + mean) / 2) ** 2 * 1.002
    assert noise.max() == pytest.approx(hardest_of(schema, "steps", ("x",)) * moved)
    assert noise.max() >= 0.9 * ((1 + mean) / 2) ** 2


@pytest.mark.parametrize("kind", RANGE_BASES)
def test_the_hardest_question_is_that_of_all_in_the_family(kind: Any) -> None:
    back = {name: whole_inverse(SCHEMA, kind, ("age", "hours"), name) for name in ("age", "hours")}
    hardest, counted = 1.0, 1
    for name in ("age", "hours"):
        size = SCHEMA[name].size
        rows = [
            (np.arange(size) >= i) & (np.arange(size) < j)
            for i, j in itertools.combinations(range(size + 1), 2)
            if kind == "waves" or i == 0 or j == size
        ]
        hardest *= max(float(((row @ back[name]) ** 2).sum()) for row in rows)
        counted *= len(rows) + (kind == "steps")  # all levels both begin and end there
    assert hardest_of(SCHEMA, kind, ("age", "hours")) == pytest.approx(hardest)
    assert family_of(SCHEMA, kind, ("age", "hours")) == counted
    assert family_of(SCHEMA, kind, ("age", "town")) == family_of(SCHEMA, kind, ("age",)) * 3


def test_keys_of_whole_tables_are_their_own() -> None:
    key = whole_key("steps", ("age", "hours"))
    assert is_whole(key)
    assert whole_kind(key) == "steps"
    assert plain(key) == ("age", "hours")
    assert not is_plain(key)
    assert summed(key) is None
    assert not is_whole(("", "", "age", "age"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("age <= 4 AND hours >= 3", "steps"),
        ("age BETWEEN 2 AND 9", "waves"),
        ("age = 3 AND hours < 5", "waves"),
        ("age < 9 AND town = 'b'", "steps"),
        ("age < 9 AND town IN ('a', 'b')", None),
        ("age IN (1, 3)", None),
    ],
)
def test_a_question_belongs_to_the_family_of_its_ranges(text: str, kind: str | None) -> None:
    of = view(text)
    found = [each for each in RANGE_BASES if WholeView(of, whole_key(each, of.columns)).family is not None]
    assert (found[0] if found else None) == kind


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("simultaneous", [False, True])
def test_without_noise_whole_tables_answer_exactly(simultaneous: bool) -> None:
    _, session = opened(simultaneous=simultaneous, noise=NoNoise(0))
    texts = [*CORNERS, *CDF, "age <= 7 AND hours >= 3", "SELECT hours, count(*) FROM t WHERE age <= 6 GROUP BY hours"]
    for text in texts:
        found = [one.value for one in numbers(session.ask(text))]
        np.testing.assert_allclose(found, TRUTH.of(text), rtol=1e-6, atol=1e-3)
    assert whole_key("starts" if simultaneous else "steps", ("age", "hours")) in bought(session)
    fitted = session._knowledge.model()
    assert fitted is not None


def test_joint_distribution_functions_cost_less_than_the_product_of_square_roots() -> None:
    curator, session = opened(simultaneous=False)
    for text in CORNERS:
        assert session.ask(text).guarantee is not None
    unit = 5.41 / (ALPHA * ROWS) ** 2 * UNITS_PER_ONE
    moved = whole_table(SCHEMA, "steps", ("age", "hours")).gains[2] / whole_scale(SCHEMA, ("age", "hours")) ** 4
    table = hardest_of(SCHEMA, "steps", ("age", "hours")) * moved
    assert curator.ledger.spent() / unit <= 1.2 * table + 1.1
    assert len(bought(session)) == 1


def test_together_one_column_is_read_from_the_table_of_two() -> None:
    curator, session = opened(simultaneous=True)
    for text in CORNERS:
        session.ask(text)
    before = curator.ledger.spent()
    for text in CDF:
        (one,) = numbers(session.ask(text))
        assert one.source == "derived"
        assert one.guarantee is not None
    assert curator.ledger.spent() == before


@pytest.mark.parametrize("simultaneous", [False, True])
def test_a_restart_gives_the_same_digits_and_charges_nothing(tmp_path: Any, simultaneous: bool) -> None:
    texts, told = [*CORNERS[:12], *CDF[:8]], []
    for _ in range(2):
        curator, session = opened(tmp_path / "ledger", simultaneous=simultaneous)
        with curator:
            found = [[(one.value, one.low, one.high) for one in numbers(session.ask(text))] for text in texts]
            told.append((found, curator.ledger.spent(), session._record.wholes, session._record.before))
    assert told[0] == told[1]
    assert told[0][2]


def test_a_table_answers_all_together_only_as_it_was_first_drawn() -> None:
    of = view("age <= 4 AND hours <= 3")
    whole = WholeView(of, whole_key("steps", ("age", "hours")))
    together, each = Widths(0.05, True, True), Widths(0.05, False, True)
    assert math.isfinite(together.whole(whole, Known(1.0, 1), 2).deviations)
    assert together.whole(whole, Known(1.0, 2), 2) == (math.inf, math.inf)
    assert list(each.whole(whole, Known(1.0, 2), 2)) == pytest.approx([1.95996, math.inf], abs=1e-4)
    other = WholeView(view("age IN (1, 3) AND hours <= 3"), whole.key)
    assert together.whole(other, Known(1.0, 1), 2) == (math.inf, math.inf)
    assert whole.family is not None
    doubt = together.fresh(whole.family, 2) * whole.family
    assert doubt == pytest.approx(together.fresh(1, 2))


def test_the_promise_covers_the_worst_question_of_a_family() -> None:
    """Chosen after the noise is seen, the worst question of the family misses no more often than stated."""
    key, rng, runs, missed = whole_key("steps", ("age", "hours")), np.random.default_rng(4), 2_000, 0
    widths, doubt = Widths(0.2, True, True), 0.2
    backs = [whole_inverse(SCHEMA, "steps", plain(key), name) for name in plain(key)]
    ends = [np.vstack([np.tri(len(back)), (1 - np.tri(len(back)))[:-1]]) @ back for back in backs]
    scale = [np.sqrt((rows**2).sum(axis=1)) for rows in ends]
    family = family_of(SCHEMA, "steps", plain(key))
    reach = scipy.stats.norm.isf(doubt / family / 2)
    for _ in range(runs):
        noise = rng.normal(size=(len(backs[0][0]), len(backs[1][0])))
        errors = np.abs(ends[0] @ noise @ ends[1].T) / np.outer(*scale)
        missed += bool(errors.max() > reach)
    assert scipy.stats.binom.sf(missed - 1, runs, doubt) > 1e-6
    assert missed > 0.1 * doubt * runs  # the bound is not idle
    whole = WholeView(view("age <= 4 AND hours <= 3"), key)
    told = widths.whole(whole, Known(1.0, 1), 1).deviations
    assert told == pytest.approx(scipy.stats.norm.isf(widths.fresh(family, 1) / 2), rel=1e-6)


def errors_of(key: tuple[str, ...], rng: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors of all questions of a family in some runs with noise of variance one, and their variances."""
    kind, columns = whole_kind(key), plain(key)
    assert kind is not None
    every = []
    for name in columns:
        back = whole_inverse(SCHEMA, kind, columns, name)
        size = SCHEMA[name].size
        levels = np.arange(size)
        held = [(i, j) for i, j in itertools.combinations(range(size + 1), 2) if kind == "waves" or i == 0 or j == size]
        every.append(np.array([(levels >= i) & (levels < j) for i, j in held], dtype=float) @ back)
    variances = (every[0] ** 2).sum(axis=1)
    noise = rng.normal(size=(runs, *(rows.shape[1] for rows in every)))
    errors = np.tensordot(noise, every[0].T, axes=(1, 0))
    if len(every) > 1:
        variances = np.multiply.outer((every[1] ** 2).sum(axis=1), variances)
        errors = np.tensordot(errors, every[1].T, axes=(1, 0)).swapaxes(1, 2)
    return errors.reshape(runs, -1), variances.reshape(-1)


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(
    ("kind", "columns"), [("steps", ("age",)), ("waves", ("age",)), ("steps", ("age", "hours")), ("waves", ("hours",))]
)
def test_one_half_width_for_a_family_misses_no_more_often_than_its_doubt(kind: Any, columns: tuple[str, ...]) -> None:
    """Whoever sees all errors of a family picks the worst: 4,000 runs at a doubt of 0.3.

    A rate of one and a half times the doubt would be found with probability 0.999. A bound for the hardest question
    alone misses far more often.
    """
    key, doubt, runs = whole_key(kind, columns), 0.3, 4_000
    errors, variances = errors_of(key, np.random.default_rng(8), runs)
    family = family_of(SCHEMA, kind, columns)
    told = within(SCHEMA, key, family, doubt, 1.0)
    assert len(variances) <= family
    assert hardest_of(SCHEMA, kind, columns) == pytest.approx(variances.max())
    exact = 2 * scipy.stats.norm.sf(told.most / np.sqrt(variances)).sum()
    assert 0.85 * (1 - OWN) * doubt < exact <= (1 - OWN) * doubt  # variances are rounded up
    missed = int((np.abs(errors) > told.of(variances)).any(axis=1).sum())
    assert scipy.stats.binom.sf(missed - 1, runs, doubt) > 1e-6
    assert scipy.stats.binom.sf(scipy.stats.binom.isf(1e-6, runs, doubt), runs, 1.5 * doubt) > 0.999
    alone = scipy.stats.norm.isf(doubt / 2) * math.sqrt(variances.max())
    wrong = int((np.abs(errors) > alone).any(axis=1).sum())
    assert scipy.stats.binom.sf(wrong - 1, runs, doubt) < 1e-6
    assert told.most < scipy.stats.norm.isf(doubt / family / 2) * math.sqrt(variances.max())  # cheaper than equal tails


def test_tables_take_places_by_their_price_in_sessions_that_begin_now() -> None:
    _, session = opened(simultaneous=True)
    for text in CORNERS:
        session.ask(text)
    record, key = session._record, whole_key("steps", ("age", "hours"))
    directs = sum(isinstance(own, Direct) for kept in record.own.values() for own in kept)
    assert places_of(SCHEMA, key) == round(hardest_of(SCHEMA, "steps", ("age", "hours"))) > 5
    assert record.directs == directs + sum(places_of(SCHEMA, one) for one in record.wholes)
    widths = [(one.high - one.low) / 2 for text in CORNERS for one in numbers(session.ask(text))]
    assert max(widths) <= ALPHA * ROWS * (1 + 1e-5)


def test_with_a_public_number_of_rows_the_share_of_derived_answers_is_taken_after_a_table() -> None:
    curator = curator_of(SCHEMA, TABLE, mq.Budget(rho=50.0, delta=1e-9), relation="replace")
    session = mq.online(curator, alpha=ALPHA, warm_start="none")
    for text in CDF[:6]:
        session.ask(text)
    record = session._record
    assert record.wholes
    assert record.before is not None
    assert record.before >= max(record.wholes.values())
