"""A number in place of a missing one counts: sums and averages of `coalesce` are not those of the column."""

from __future__ import annotations

import numpy as np
import pytest

import maquette as mq

SCHEMA = mq.Schema([mq.Integer("age", 0, 99, width=10, nullable=True), mq.Boolean("a")])
AGES = [None if i % 4 == 0 else i % 100 for i in range(4_000)]
KNOWN = [age for age in AGES if age is not None]
MISSING = len(AGES) - len(KNOWN)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("avg(age)", np.mean(KNOWN)),
        ("avg(coalesce(age, 0))", sum(KNOWN) / len(AGES)),
        ("avg(ifnull(age, 99))", (sum(KNOWN) + 99 * MISSING) / len(AGES)),
        ("avg(CASE WHEN age IS NULL THEN 0 ELSE age END)", sum(KNOWN) / len(AGES)),
        ("sum(coalesce(age, 50))", sum(KNOWN) + 50 * MISSING),
    ],
)
def test_a_number_in_place_of_a_missing_one_counts(text: str, truth: float) -> None:
    """Expressions are evaluated on the middles of bins; here these are within 1% of the ages."""
    table = mq.open_table({"age": AGES, "a": [True, False] * 2_000}, SCHEMA)
    answer = mq.answer(mq.Curator(table, mq.Budget(epsilon=2_000.0)), f"SELECT {text} FROM t", epsilon=1_000.0)
    assert isinstance(answer, mq.Answer)
    assert answer.value == pytest.approx(truth, rel=0.01)
