"""The waterfall: every charge priced again from its public description, and nothing left over."""

from __future__ import annotations

import itertools

import pytest
from report_checks import asked, curator, page, released, session_page, specs

import maquette as mq
from maquette.privacy import UNITS_PER_ONE
from maquette.reports.account import Line, grouped, marked, numbered, priced
from maquette.reports.subject import subject_of


@pytest.mark.parametrize("budget", [mq.Budget(epsilon=2.0), mq.Budget(epsilon=2.0, delta=1e-9, accounting="gdp")])
def test_prices_are_those_of_the_ledger(budget: mq.Budget) -> None:
    kept = curator(budget)
    kept.measure_many([["age"], ["kids"], ["region"]], epsilon=0.5)
    kept.select_worst([["age"], ["kids"]], [[0.0] * 20, [0.0] * 4], epsilon=0.1)
    kept.measure_error([["kids"]], [[0.0] * 4], epsilon=0.1)
    kept.guard(threshold=100, hits=3, epsilon=0.2)
    charges = list(kept.ledger.charges())
    lines = priced([charge.described for charge in charges], budget.accountant.currency)
    assert [line.units for line in lines] == [charge.units for charge in charges]
    assert [line.what.split(" ")[0] for line in lines] == ["measure", "choose", "measure", "open"]


def test_a_release_owns_the_last_charges_that_add_up_to_its_price() -> None:
    subject = subject_of(released())
    assert not subject.lines[0].own
    assert all(line.own for line in subject.lines[1:])
    assert sum(line.units for line in subject.lines if line.own) == released().certificate.units
    assert subject.total.epsilon > subject.loss.epsilon


def test_where_no_tail_adds_up_all_lines_stay() -> None:
    lines = [Line("a", 5), Line("b", 7)]
    assert marked(lines, 6) == lines
    assert [line.own for line in marked(lines, 7)] == [False, True]


@pytest.mark.parametrize("number", [1, 40, 41, 1_000])
def test_grouping_loses_nothing(number: int) -> None:
    lines = [Line(f"measure {i}", i + 1, own=i >= number // 3) for i in range(number)] + [Line("test", 0)]
    kept = grouped(lines)
    assert len(kept) <= 42
    assert sum(line.units for line in kept) == sum(line.units for line in lines)
    assert sum(line.charges for line in kept) == number
    assert sum(line.units for line in kept if line.own) == sum(line.units for line in lines if line.own)


def test_lines_are_numbered_by_their_charges() -> None:
    kept = grouped([Line(f"measure {i}", 1) for i in range(41)])
    assert numbered(kept)[:2] == ["1 to 3. 3 charges: measure", "4 to 6. 3 charges: measure"]
    assert numbered(kept)[-1] == "40 to 41. 2 charges: measure"
    assert numbered([Line("measure age", 1), Line("choose among 3 tables", 2)])[1] == "2. choose among 3 tables"


@pytest.mark.thorough
def test_the_drawn_waterfall_ends_at_what_was_spent() -> None:
    for text, units in (
        (page(), subject_of(released()).total.units),
        (session_page(), asked().curator.ledger.spent()),
    ):
        bars = _bars(text)
        assert bars[0]["start"] == 0
        assert all(one["end"] == other["start"] for one, other in itertools.pairwise(bars))
        assert bars[-1]["end"] == pytest.approx(units / UNITS_PER_ONE, rel=1e-12)
        assert sum(bar["price"] for bar in bars) == pytest.approx(units / UNITS_PER_ONE, rel=1e-9)
        assert f'data-units="{units}"' in text


def _bars(text: str) -> list[dict[str, float]]:
    found = [spec["data"]["values"] for spec in specs(text).values() if "data" in spec and "values" in spec["data"]]
    return next(values for values in found if values and "start" in values[0])
