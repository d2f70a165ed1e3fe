"""Programs as typed callers write them: no isinstance, no cast, no ignore. A test checks and runs them."""

from __future__ import annotations

import maquette as mq


def custodian() -> mq.Curator:
    schema = mq.Schema([mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker"), mq.Category("sex", ["f", "m"])])
    rows = {"age": [30, 70] * 500, "smoker": [True, False] * 500, "sex": ["f", "m"] * 500}
    table: mq.PrivateTable = mq.open_table(rows, schema)
    return mq.Curator(table, mq.Budget(epsilon=4.0, delta=1e-9))


def analyst(curator: mq.Curator) -> dict[str, float]:
    share: mq.Answered = mq.answer(curator, "age >= 60 AND smoker", epsilon=0.5)
    inside: bool = share.low <= share.value <= share.high
    assert inside
    assert share.guarantee is not None
    by_sex: mq.Answered = mq.answer(curator, "SELECT sex, count(*) AS n FROM people GROUP BY sex", epsilon=0.5)
    women: mq.Answer = by_sex.row("f")["n"]
    assert women.count is not None
    counts = {" ".join(row.groups): row["n"].value for row in by_sex.rows}
    spent: mq.Loss = curator.spent
    assert spent.epsilon > 0.0
    return counts | {"all": sum(number.value for number in by_sex.numbers), "women": women.count}


def questions(curator: mq.Curator) -> list[str]:
    session: mq.Session = mq.online(curator, alpha=0.2, beta=0.05)
    answers: list[mq.Answered] = session.ask_many(["smoker", "SELECT count(*) FROM people GROUP BY sex"])
    again: mq.Answered = session.ask("smoker")
    return [*(answer.source for answer in answers), again.source]


def publisher(curator: mq.Curator) -> int:
    release: mq.Release = mq.release(curator, mq.marginals(curator.schema, k=1), epsilon=0.5)
    answer: mq.Answered = release.answer("smoker", confidence=0.9)
    assert answer.confidence == 0.9
    return len(release.answer("SELECT count(*) FROM people GROUP BY sex, smoker").to_pandas())


def data_scientist(values: list[float]) -> float:
    import numpy as np

    holdout = mq.Holdout(np.asarray(values)[:, None], confidence=0.95)
    certified: mq.Certified = holdout.ask(lambda rows: rows[:, 0], guess=0.5)
    return certified.value + certified.half_width


def engineer(curator: mq.Curator) -> tuple[str, str | None, float]:
    try:
        mq.answer(curator, "smoker", epsilon=100.0)
    except mq.BudgetExceeded as error:
        return error.code, error.advice, error.difference
    raise AssertionError("a charge above the budget was accepted")
