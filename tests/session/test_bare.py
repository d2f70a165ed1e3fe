"""Bare tables, read together with the number of rows: what they say, cost and promise, and when they are bought."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from session_checks import NoNoise, Truth, counts_of, curator_of, numbers

import maquette as mq
from maquette.query import (
    Marginal,
    bare_questions_of,
    bare_reading_of,
    hardest_of,
    whole_inverse,
    whole_scale,
    whole_table,
)
from maquette.schema import Schema
from maquette.session.anchoring import DEARER, anchor_of
from maquette.session.order import Flight, Order
from maquette.session.precision.anchor import least
from maquette.session.precision.bare_family import BareWithin, Doubt, _grouped, bare_variance, bare_within
from maquette.session.precision.bare_view import BareView
from maquette.session.precision.bases import ANCHOR, BARE, bare_kind, corner_key, ends_of, is_whole, plain, whole_key
from maquette.session.precision.family import OWN, within
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.shares import NOW
from maquette.session.precision.view_of import view_of
from maquette.session.precision.whole_view import WholeView

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
ALPHA, K = 0.05, NOW.k
CUTS = [f"SELECT count(*) FROM t WHERE {name} <= {i}" for i in range(3, 10) for name in ("age", "hours")]
RANGES = [
    f"SELECT count(*) FROM t WHERE {name} BETWEEN {i} AND {i + 3}" for i in range(1, 7) for name in ("age", "hours")
]
KINDS = tuple(BARE.values())


def opened(ledger: Any = None, *, noise: Any = None, **more: Any) -> tuple[mq.Curator, mq.Session]:
    curator = curator_of(SCHEMA, TABLE, mq.Budget(rho=50.0, delta=1e-9), noise, ledger=ledger)
    return curator, mq.online(curator, alpha=ALPHA, rows=ROWS, warm_start="none", guard="never", **more)


def tables(session: mq.Session) -> set[tuple[str, ...]]:
    return {key for key in session._record.wholes if key != ANCHOR}


def seen(condition: str) -> ProductView:
    view = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, condition)))
    assert isinstance(view, ProductView)
    return view


def column(size: int) -> Schema:
    return Schema([mq.Integer("x", 0, size - 1)])


def family(kind: Any, size: int) -> np.ndarray[Any, Any]:
    """The questions that a bare table of one column is bought for, one row each."""
    levels = np.arange(size)
    pairs = [(i, j) for i, j in itertools.combinations(range(size + 1), 2)]
    held = [pair for pair in pairs if kind == "bare waves" or pair[0] == 0 or pair[1] == size]
    return np.array([(levels >= i) & (levels < j) for i, j in held], dtype=float)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [8, 9, 16, 32, 100])
def test_the_number_of_rows_and_a_bare_table_say_every_question_exactly(kind: Any, size: int) -> None:
    schema, rng = column(size), np.random.default_rng(1)
    (matrix,) = whole_table(schema, kind, ("x",)).matrices
    scale, read, counts = whole_scale(schema, ("x",)), bare_reading_of(schema, kind, "x"), rng.integers(0, 50, size)
    asked = family(kind, size)
    found = (asked @ read.rows) * counts.sum() + asked @ read.table @ (matrix @ counts) / scale
    np.testing.assert_allclose(found, asked @ counts, atol=1e-7)
    told = bare_questions_of(schema, kind, "x")
    every = sorted(zip((asked @ read.rows).round(9), ((asked @ read.table) ** 2).sum(axis=1).round(9), strict=True))
    same = sorted(zip(told.rows.round(9), told.own.round(9), strict=True))
    np.testing.assert_allclose(same, every, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [8, 16, 32, 100])
def test_a_bare_table_costs_what_one_row_moves_it_by(kind: Any, size: int) -> None:
    """Every neighbour: one row more at each level moves the numbers by a column of the matrix, nothing else."""
    schema = column(size)
    question = whole_table(schema, kind, ("x",))
    (matrix,) = question.matrices
    moved = max(int(sum(int(entry) ** 2 for entry in matrix[:, level])) for level in range(size))
    with curator_of(schema, {"x": [0]}, mq.Budget(rho=1.0, delta=1e-9), None) as curator:
        assert curator.relation.l2_squared(question) == moved
    assert moved == pytest.approx(whole_scale(schema, ("x",)) ** 2, rel=0.01)


@pytest.mark.parametrize("size", [8, 16, 32, 100])
def test_bare_tables_have_the_noise_of_steps_and_ranges_without_that_of_counting_everything(size: int) -> None:
    """The theorem: G^2 / 4 for ranges at an end, and sum_k as in waves for all; least squares adds a little."""
    schema = column(size)
    unit = {kind: whole_table(schema, kind, ("x",)).gains[2] / whole_scale(schema, ("x",)) ** 2 for kind in KINDS}
    mean = sum(1 / math.sin(math.pi * (2 * j + 1) / (2 * size)) for j in range(size)) / size
    steps = hardest_of(schema, "bare steps", ("x",)) * unit["bare steps"]
    assert mean**2 / 4 * 0.98 <= steps <= mean**2 / 4 * 1.15
    sines = [math.sin(math.pi * k / size) for k in range(1, size)]
    total = sum(1 / one for one in sines) / size
    noise = [
        total * sum(math.sin(math.pi * k * n / size) ** 2 / (size * one) for k, one in enumerate(sines, 1))
        for n in range(1, size)
    ]
    assert hardest_of(schema, "bare waves", ("x",)) * unit["bare waves"] == pytest.approx(max(noise), rel=0.01)


def misses(kind: Any, variances: tuple[float, float], width: float, x: Any) -> Any:
    """The sum of the probabilities that questions of the family are off, given the noise of the rows in deviations.

    `variances` are those of the number of rows, and of each number of the table.
    """
    asked, (rows, own) = bare_questions_of(column(16), kind, "x"), variances
    shift, deviation = np.outer(asked.rows * math.sqrt(rows), x), np.sqrt(asked.own * own)[:, None] + 1e-300
    return (scipy.stats.norm.sf((width - shift) / deviation) + scipy.stats.norm.cdf((-width - shift) / deviation)).sum(
        0
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("doubt", "rows"), [(1e-2, 1 / 60), (1e-4, 1 / 90), (1e-6, 1 / 150)])
def test_given_the_noise_of_the_rows_a_family_misses_no_more_often_than_psi_allows(
    kind: Any, doubt: float, rows: float
) -> None:
    key, told = whole_key(kind, ("x",)), Doubt(doubt, K, True)
    own = bare_variance(column(16), key, told, rows)
    found = bare_within(column(16), key, told, rows, own)
    assert 0.999 < found.most <= 1 + 1e-9
    x = np.linspace(-12.0, 12.0, 2_001)
    allowed = doubt * least(K) * np.exp(K * x**2 / 2)
    missed = misses(kind, (rows, own), found.most, x)
    assert (missed <= (1 - OWN) * allowed * (1 + 1e-6))[allowed < 1].all()
    assert (misses(kind, (rows, own), 0.9 * found.most, x) > allowed).any()  # nor is it much wider
    asked = bare_questions_of(column(16), kind, "x")
    each = found.of(asked.own * own, asked.rows)
    assert (each <= found.most).all()
    assert each.min() < 0.9 * found.most
    shift, deviation = np.outer(asked.rows * math.sqrt(rows), x), np.sqrt(asked.own * own)[:, None] + 1e-300
    narrow = each < found.most
    alone = scipy.stats.norm.sf((each[:, None] - shift) / deviation) + scipy.stats.norm.cdf(
        (-each[:, None] - shift) / deviation
    )
    assert (alone[narrow].sum(axis=0) <= OWN * allowed * (1 + 1e-6))[allowed < 1].all()


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_same_charge_as_the_rows_the_variances_add_up(kind: Any) -> None:
    key, told, rows = whole_key(kind, ("x",)), Doubt(1e-3, K, False), 1 / 40
    own = bare_variance(column(16), key, told, rows)
    assert own > bare_variance(column(16), key, Doubt(1e-3, K, True), rows)
    asked = bare_questions_of(column(16), kind, "x")
    deviations = np.sqrt(asked.own * own + asked.rows**2 * rows)
    missed = 2 * scipy.stats.norm.sf(bare_within(column(16), key, told, rows, own).most / deviations).sum()
    assert 0.75 * (1 - OWN) * 1e-3 < missed <= (1 - OWN) * 1e-3


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("kind", KINDS)
def test_whoever_sees_the_rows_and_then_picks_the_worst_question_of_a_table_is_within_the_doubt(kind: Any) -> None:
    """The attacker buys bare tables only if the number of rows is far off, and else counts that do not depend on it.

    Of each table the worst question counts. As if the noise of the rows were drawn afterwards, it would miss too often.
    """
    rng, runs, doubt, places, rows, size = np.random.default_rng(5), 20_000, 0.2, 8, 1 / 40, 16
    key, told = whole_key(kind, ("x",)), Doubt(doubt / places, K, True)
    asked, read = family(kind, size), bare_reading_of(column(size), kind, "x")
    weights, table = asked @ read.rows, asked @ read.table
    x = rng.normal(size=runs)
    far = np.abs(x) > 2.0

    def worst(told: BareWithin, own: float) -> Any:
        half = told.of((table**2).sum(axis=1) * own, weights)
        missed = np.zeros(int(far.sum()), dtype=bool)
        for _ in range(places):
            noise = rng.normal(size=(int(far.sum()), table.shape[1])) * math.sqrt(own)
            missed |= (np.abs(np.outer(x[far] * math.sqrt(rows), weights) + noise @ table.T) > half).any(axis=1)
        return missed

    own = bare_variance(column(size), key, told, rows)
    plainly = (rng.random((int((~far).sum()), places)) < least(K) * doubt / places).any(axis=1)
    missed = int(worst(bare_within(column(size), key, told, rows, own), own).sum() + plainly.sum())
    assert missed / runs <= doubt + 5 * math.sqrt(doubt / runs)
    once = Doubt(doubt / places, K, False)
    naive = bare_variance(column(size), key, once, rows)
    wrong = worst(bare_within(column(size), key, once, rows, naive), naive)
    assert wrong.mean() > 1.3 * doubt


def test_the_rows_and_a_first_table_are_hardly_dearer_and_later_tables_much_cheaper() -> None:
    """What a session loses that stops after one column, beside one that may not buy the number of rows early."""
    paid = {}
    for others in (True, False):
        schema = SCHEMA if others else Schema([SCHEMA["age"], SCHEMA["town"]])
        made = {name: TABLE[name] for name in schema.names}
        curator = curator_of(schema, made, mq.Budget(rho=50.0, delta=1e-9), None)
        session = mq.online(curator, alpha=ALPHA, rows=ROWS, warm_start="none", guard="never")
        for text in CUTS[::2]:
            session.ask(text)
        assert tables(session) == {whole_key("bare steps" if others else "steps", ("age",))}
        paid[others] = curator.ledger.spent()
        for text in CUTS[1::2] if others else ():
            session.ask(text)
        if others:
            assert whole_key("bare steps", ("hours",)) in tables(session)
            assert curator.ledger.spent() - paid[others] < 0.75 * paid[others]
    assert paid[True] <= DEARER * paid[False]


@pytest.mark.parametrize("texts", [CUTS, RANGES])
def test_without_noise_bare_tables_answer_exactly(texts: list[str]) -> None:
    _, session = opened(noise=NoNoise(0))
    for text in [*texts, *texts]:
        found = [one.value for one in numbers(session.ask(text))]
        np.testing.assert_allclose(found, TRUTH.of(text), rtol=1e-6, atol=1e-3)
    assert {bare_kind(key) for key in tables(session)} <= set(KINDS)
    assert any(map(bare_kind, tables(session)))


@pytest.mark.parametrize("texts", [CUTS, RANGES])
def test_answers_are_within_alpha_and_the_same_after_a_restart(tmp_path: Path, texts: list[str]) -> None:
    told = []
    for _ in range(2):
        curator, session = opened(tmp_path / "ledger")
        with curator:
            found = [[(one.value, one.low, one.high) for one in numbers(session.ask(text))] for text in texts]
            told.append((found, curator.ledger.spent(), session._record.wholes, session._record.before))
    assert told[0] == told[1]
    assert any(map(bare_kind, told[0][2]))
    assert max((high - low) / 2 for each in told[0][0] for _, low, high in each) <= ALPHA * ROWS * (1 + 1e-5)


def test_a_table_of_groups_is_read_from_a_bare_table() -> None:
    _, session = opened(noise=NoNoise(0))
    for text in RANGES:
        session.ask(text)
    before = session.spent.epsilon
    text = "SELECT age, count(*) FROM t WHERE age BETWEEN 2 AND 9 GROUP BY age"
    np.testing.assert_allclose([one.value for one in numbers(session.ask(text))], TRUTH.of(text), atol=1e-3)
    assert session.spent.epsilon == before


def test_nothing_else_is_read_from_a_bare_table() -> None:
    """So it leaves the share of derived answers to whoever buys parts first."""
    _, session = opened()
    for text in CUTS:
        session.ask(text)
    assert any(map(bare_kind, tables(session)))
    assert session._record.before is None
    view = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, "age IN (1, 3, 8)")))
    assert isinstance(view, ProductView)
    assert not any(bare_kind(key) for keys in view.others.values() for key in keys)
    bare = BareView(view, whole_key("bare steps", ("age",)))
    assert bare.family is None


def test_asked_at_once_the_tables_share_the_rows_too() -> None:
    _, session = opened()
    session.ask_many(CUTS)
    for text in CUTS:
        (one,) = numbers(session.ask(text))
        assert one.guarantee is not None
        assert (one.high - one.low) / 2 <= ALPHA * ROWS * (1 + 1e-5)


def test_each_by_itself_there_is_no_bare_table() -> None:
    _, session = opened(simultaneous=False, beta=1e-3)
    for text in CUTS:
        session.ask(text)
    assert ANCHOR not in session._record.wholes
    assert not any(map(bare_kind, tables(session)))


def test_a_finer_question_buys_more_and_is_within_its_alpha() -> None:
    _, session = opened()
    for text in CUTS:
        session.ask(text)
    answer = session.ask(CUTS[0], alpha=0.02)
    (one,) = numbers(answer)
    assert one.guarantee is not None
    assert (one.high - one.low) / 2 <= 0.02 * ROWS * (1 + 1e-5)


def test_a_bare_table_whose_number_of_rows_never_came_answers_nothing() -> None:
    """Planned while the number of rows was on its way, which is then refused; bought later, that is no help either."""
    curator, session = opened()
    record, planner = session._record, session._planner
    anchor = anchor_of(session._knowledge, planner._pricing, 3.0)
    assert anchor is not None
    key = whole_key("bare steps", ("age",))
    session.limit("poor", rho=1e-6)
    refused, charged = Flight(), Flight()
    with record.lock:
        record.begin(refused, Order({ANCHOR: anchor.units}, {}, {}), analyst="poor")
        record.begin(charged, Order({key: anchor.units}, {}, {}), analyst="custodian")
    with pytest.raises(mq.BudgetExceeded):
        record.charge(refused, analyst="poor")
    record.charge(charged, analyst="custodian")
    assert key in record.wholes
    view = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, "age <= 4")))
    assert isinstance(view, ProductView)
    assert math.isinf(session._knowledge.width(BareView(view, key), record.transcript.moment))
    record.charge(Order({ANCHOR: anchor.units}, {}, {}), analyst="custodian")
    assert math.isinf(session._knowledge.width(BareView(view, key), record.transcript.moment))
    for text in CUTS[:6]:
        (one,) = numbers(session.ask(text))
        assert one.guarantee is not None
        assert (one.high - one.low) / 2 <= ALPHA * ROWS * (1 + 1e-5)
    assert curator.ledger.spent()


def test_every_bare_table_has_the_bound_of_its_own_moment() -> None:
    """The one that comes in the charge of the number of rows has variances added up; one that comes later has psi."""
    _, session = opened()
    for text in CUTS:
        session.ask(text)
    record, widths, moments = session._record, session._knowledge.widths, []
    shared = record.transcript.first(ANCHOR)
    assert shared is not None
    for name in ("age", "hours"):
        key = whole_key("bare steps", (name,))
        view = BareView(seen(f"{name} <= 5"), key)
        table, moment = record.transcript.first(key), record.transcript.moment
        assert table is not None
        moments.append(table - shared)
        known = record.transcript.known_of(view, moment)
        own, rows = known[key].variance, known[ANCHOR].variance
        share = widths.beta * NOW.fresh(record.wholes[key], None, widths.places(SCHEMA, key), record.wholes[ANCHOR])
        width, other = (
            float(bare_within(SCHEMA, key, Doubt(share, K, after), rows, own).of(view.own(own), view.of_rows)) + 0.5
            for after in (table > shared, table == shared)
        )
        assert session._knowledge.width(view, moment) == pytest.approx(width)
        assert other != pytest.approx(width, rel=1e-4)
        (said,) = numbers(session.ask(f"SELECT count(*) FROM t WHERE {name} <= 5"))
        assert (said.high - said.low) / 2 == pytest.approx(width)
    assert moments[0] == 0 < moments[1]


def test_cells_read_from_a_bare_table_are_those_of_single_questions() -> None:
    """Values, variances and half-widths, the shared noise of the number of rows among them."""
    _, session = opened()
    for text in CUTS:
        session.ask(text)
    record, key = session._record, whole_key("bare steps", ("age",))
    made = view_of(Marginal(SCHEMA, ["age"], mq.where(SCHEMA, "age < 4")))
    assert isinstance(made, ProductView)
    table, read = BareView(made, key), record.transcript.reader()
    values, variances = table.look(read)
    own = record.transcript.known_of(table)[key].variance
    for age in range(4):
        cell = BareView(seen(f"age = {age}"), key)
        one, variance = cell.look(read)
        assert values[age] == pytest.approx(float(one))
        assert variances[age] == pytest.approx(float(variance))
        assert table.own(own)[age] == pytest.approx(float(cell.own(own)))
        assert table.of_rows[age] == pytest.approx(float(cell.of_rows))


def test_what_was_not_promised_is_not_read_from_a_bare_table() -> None:
    """Neither a question outside of its family, nor any question once more of it was measured."""
    _, session = opened()
    for text in CUTS:
        session.ask(text)
    record, key = session._record, whole_key("bare steps", ("age",))

    def width(condition: str, moment: int) -> float:
        return session._knowledge.width(BareView(seen(condition), key), moment)

    before = record.transcript.moment
    assert math.isfinite(width("age <= 4", before))
    assert math.isinf(width("age IN (1, 3, 8)", before))
    assert math.isinf(width("age BETWEEN 2 AND 8", before))
    record.charge(Order({key: 10**15}, {}, {}), analyst="custodian")
    assert math.isfinite(width("age <= 4", before))
    assert math.isinf(width("age <= 4", record.transcript.moment))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [8, 16, 33])
def test_weights_and_variances_of_a_family_are_only_rounded_up(kind: Any, size: int) -> None:
    weights, variances, counts = _grouped(column(size), whole_key(kind, ("x",)))
    told = bare_questions_of(column(size), kind, "x")
    for found, exact in ((weights, np.abs(told.rows)), (variances, told.own)):
        rounded = np.sort(np.repeat(found, counts.astype(int)))
        assert (rounded >= np.sort(exact) * (1 - 1e-12)).all()
        assert counts.sum() == len(exact)


def test_keys_of_bare_tables_are_their_own() -> None:
    for kind in KINDS:
        key = whole_key(kind, ("age",))
        assert is_whole(key)
        assert bare_kind(key) == kind
        assert plain(key) == ("age",)
    assert bare_kind(whole_key("steps", ("age",))) is None
    assert bare_kind(ANCHOR) is None
    view = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, "age <= 4 AND hours <= 3")))
    assert isinstance(view, ProductView)
    assert BareView.instead(WholeView(view, whole_key("steps", ("age", "hours")))) is None


CORNERS = {
    ("<=", "<="): "<<",
    ("<=", ">="): "<>",
    (">=", "<="): "><",
    (">=", ">="): ">>",
}


@pytest.mark.parametrize(("signs", "corner"), CORNERS.items())
def test_joint_tails_at_one_corner_have_a_table_for_that_corner_alone(signs: tuple[str, str], corner: str) -> None:
    """Half as many ranges of each column; a range that lies elsewhere needs a table of its own."""
    _, session = opened(noise=NoNoise(0))
    for i, j in itertools.product(range(3, 12, 3), range(2, 10, 3)):
        text = f"SELECT count(*) FROM t WHERE age {signs[0]} {i} AND hours {signs[1]} {j}"
        np.testing.assert_allclose([one.value for one in numbers(session.ask(text))], TRUTH.of(text), atol=1e-3)
    key = corner_key(("age", "hours"), corner)
    assert tables(session) == {key}
    inside = {"<": "{} <= 4", ">": "{} >= 4"}
    for one, two in itertools.product("<>", repeat=2):
        view = view_of(
            Marginal(SCHEMA, (), mq.where(SCHEMA, f"{inside[one].format('age')} AND {inside[two].format('hours')}"))
        )
        assert isinstance(view, ProductView)
        assert (WholeView(view, key).family is not None) == (one + two == corner)
        assert WholeView(view, key).family in (None, 16 * 12)
    assert (session._record.before is None) == (corner != "<<")  # other questions are read from one of starts alone
    text = "SELECT count(*) FROM t WHERE age BETWEEN 3 AND 8 AND hours BETWEEN 2 AND 7"
    np.testing.assert_allclose([one.value for one in numbers(session.ask(text))], TRUTH.of(text), atol=1e-3)


@pytest.mark.parametrize("corner", ["<<", "<>", "><", ">>"])
def test_the_family_of_a_corner_misses_no_more_often_than_its_doubt(corner: str) -> None:
    """The exact sum of the tails of all ranges at the corner, each with its own variance."""
    key, doubt = corner_key(("age", "hours"), corner), 1e-3
    rows = []
    for name, end in zip(("age", "hours"), corner, strict=True):
        size = SCHEMA[name].size
        held = np.tri(size) if end == "<" else np.tri(size)[:, ::-1]
        assert (held[:, 0 if end == "<" else -1] == 1).all()
        rows.append(held @ whole_inverse(SCHEMA, "steps", ("age", "hours"), name))
    variances = np.multiply.outer(*[(each**2).sum(axis=1) for each in rows]).reshape(-1)
    told = within(SCHEMA, key, 16 * 12, doubt, 1.0)
    missed = 2 * scipy.stats.norm.sf(told.most / np.sqrt(variances)).sum()
    assert 0.7 * (1 - OWN) * doubt < missed <= (1 - OWN) * doubt
    assert told.most < within(SCHEMA, whole_key("steps", ("age", "hours")), 32 * 24, doubt, 1.0).most
    assert ends_of(SCHEMA, key) == dict(zip(("age", "hours"), corner, strict=True))
    assert is_whole(key)
    assert plain(key) == ("age", "hours")


@pytest.mark.parametrize("beta", [1e-13, 0.99])
def test_any_failure_probability_has_an_answer(beta: float) -> None:
    _, session = opened(beta=beta)
    for text in CUTS[:8]:
        (one,) = numbers(session.ask(text))
        assert one.guarantee is not None
        assert (one.high - one.low) / 2 <= ALPHA * ROWS * (1 + 1e-5)


def test_a_session_with_other_promises_reads_the_bare_tables_of_the_same_record() -> None:
    """Each answer by itself: the variances of the table and of the number of rows add up, also in a fraction."""
    curator, together = opened(noise=NoNoise(0))
    for text in CUTS:
        together.ask(text)
    spent = curator.ledger.spent()
    each = mq.online(curator, alpha=ALPHA, rows=ROWS, warm_start="none", guard="never", simultaneous=False, beta=0.05)
    for text in CUTS:
        (one,), (other,) = numbers(each.ask(text)), numbers(together.ask(text))
        assert one.value == pytest.approx(TRUTH.of(text)[0], abs=1e-3)
        assert one.high - one.low < other.high - other.low
    assert curator.ledger.spent() == spent
    fraction = each.ask("age <= 5")
    assert fraction.value == pytest.approx(TRUTH.of("SELECT count(*) FROM t WHERE age <= 5")[0] / ROWS, abs=1e-5)
    text = "SELECT age, count(*) FROM t WHERE age BETWEEN 0 AND 3 GROUP BY age"
    np.testing.assert_allclose([one.value for one in numbers(each.ask(text))], TRUTH.of(text), atol=1e-3)
    (average,) = numbers(each.ask("SELECT avg(age) FROM t WHERE age <= 7"))
    assert average.low <= average.value <= average.high
