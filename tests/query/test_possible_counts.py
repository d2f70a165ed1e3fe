"""Intervals of counts, sums and fractions hold nothing that a public number of rows rules out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import maquette as mq

ROWS = 50
CONDITIONS = ["smoker", "NOT smoker", "city = 'a'", "smoker AND city = 'a'"]


@pytest.fixture
def curator() -> Iterator[mq.Curator]:
    schema = mq.Schema([mq.Category("city", ["a", "b"]), mq.Boolean("smoker"), mq.Integer("age", 0, 99, width=10)])
    rows = {"city": ["a", "b"] * 25, "smoker": [True] * 40 + [False] * 10, "age": [5, 95] * 25}
    with mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=40.0), relation="replace") as opened:
        yield opened


def asked_of(ask: object, condition: str) -> tuple[mq.Answer, mq.Answer]:
    assert callable(ask)
    return ask(condition), ask(f"SELECT count(*) FROM t WHERE {condition}")


def check(fraction: mq.Answer, count: mq.Answer) -> None:
    assert 0 <= count.low <= count.value <= count.high <= ROWS + 0.5
    assert 0 <= fraction.low <= fraction.value <= fraction.high <= 1
    assert fraction.count is None or 0 <= fraction.count <= ROWS * (1 + 1e-12)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_direct_answer_counts_more_rows_than_there_are(curator: mq.Curator, condition: str) -> None:
    for epsilon in (0.01, 0.02, 0.03):
        check(*asked_of(lambda asked, spent=epsilon: mq.answer(curator, asked, epsilon=spent), condition))


def test_no_sum_is_beyond_what_all_rows_can_hold(curator: mq.Curator) -> None:
    answer = mq.answer(curator, "SELECT sum(age) FROM t", epsilon=0.01)
    assert 0 <= answer.low <= answer.high <= 99 * ROWS


@pytest.mark.parametrize("simultaneous", [True, False])
def test_no_session_counts_more_rows_than_there_are(curator: mq.Curator, simultaneous: bool) -> None:
    session = mq.online(curator, alpha=0.9, simultaneous=simultaneous)
    for condition in CONDITIONS:
        check(*asked_of(session.ask, condition))


def test_a_guess_counts_no_more_rows_than_there_are() -> None:
    schema = mq.Schema([mq.Boolean("smoker"), mq.Category("city", ["a", "b", "c"])])
    table = mq.open_table({"smoker": [True] * ROWS, "city": ["a"] * ROWS}, schema)
    with mq.Curator(table, mq.Budget(epsilon=1.0), relation="replace") as curator:
        session = mq.online(curator, alpha=0.3, guard="never")
        mq.answer(curator, "smoker", epsilon=0.999)
        fraction, count = asked_of(session.ask, "city = 'a'")
        assert count.guarantee is None
        check(fraction, count)


@pytest.mark.parametrize("method", ["adaptive", "everything"])
def test_a_release_knows_the_public_number_of_rows(curator: mq.Curator, method: str) -> None:
    workload = mq.marginals(curator.schema, k=2)
    made = mq.release(curator, workload, method=method, epsilon=0.3, check=False)
    assert made.answer("SELECT count(*) FROM t").value == pytest.approx(ROWS)
    for condition in CONDITIONS:
        check(*asked_of(made.answer, condition))


@pytest.mark.parametrize("alpha", [5e-324, 1e-300, 10**400])
def test_precisions_beyond_floats_are_refused_before_any_charge(curator: mq.Curator, alpha: float) -> None:
    with pytest.raises(mq.QueryError, match="alpha is"):
        mq.online(curator, alpha=alpha)
    session = mq.online(curator, alpha=0.5)
    before = curator.spent
    for text in (f"/* alpha = {min(alpha, 1)!r} */ smoker", "smoker"):
        with pytest.raises(mq.QueryError, match="alpha is"):
            session.ask(text, alpha=None if text.startswith("/*") else alpha)
    with pytest.raises(mq.QueryError, match="rows is"):
        mq.online(curator, alpha=0.5, rows=10**400)
    with pytest.raises(mq.QueryError, match="confidence is"):
        mq.answer(curator, "smoker", epsilon=0.1, confidence="0.9")  # type: ignore[arg-type]
    assert curator.spent == before
