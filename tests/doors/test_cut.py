"""What a contribution bound left out: the two numbers, and what they lose."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import patched, wrapped
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator, cut as cut_module
from maquette.curator.cut import CutDoor
from maquette.curator.intake import Intake
from maquette.errors import QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.reports import report

SCHEMA = mq.Schema([mq.Boolean("a")])
CAP = 2
SIZES = (1, 2, 3, 7)  # rows of one person
BUDGETS = {"laplace": mq.Budget(epsilon=9e3), "gaussian": mq.Budget(rho=1e3, delta=1e-9)}


@functools.cache
def table(sizes: tuple[int, ...], m: int) -> mq.PrivateTable:
    people = [name for name, size in enumerate(sizes) for _ in range(size)]
    return mq.open_table({"who": people, "a": [True] * len(people)}, SCHEMA, privacy_unit="who", max_contributions=m)


def seen(sizes: tuple[int, ...], m: int, relation: Any, budget: mq.Budget) -> Any:
    noise = ScriptedNoise([0] * 9)
    with Curator(table(sizes, m), budget, relation=relation, noise=noise) as curator:
        price: dict[str, Any] = {"epsilon": 0.7} if budget.accounting == "pure" else {"rho": 0.7}
        found = curator.count_cut(cap=CAP, **price)
        assert curator.count_cut(cap=5, epsilon=0.1) == found, "asked twice, drawn twice"
        charges = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
    assert len(charges) == 1, "a second answer was charged"
    assert len(noise.calls) == 2, "a number without noise"
    return np.array([found.units, found.rows]), [float(call.scale) for call in noise.calls], charges[0]


def gate() -> None:
    """On every pair of neighbours the numbers differ by no more than the noise that was paid for hides."""
    base = (1, 3)
    for m, relation, (law, budget) in itertools.product((1, 2), ("add-remove", "replace"), BUDGETS.items()):
        ends = [((*base, one), (*base, other)) for one, other in itertools.permutations(SIZES, 2)]
        pairs = ends if relation == "replace" else [((*base,), (*base, size)) for size in SIZES]
        for one, other in pairs:
            (first, scales, charged), (second, others, _) = (seen(sizes, m, relation, budget) for sizes in (one, other))
            assert scales == others, "the noise depends on the rows"
            shift = np.abs(first - second)
            lost = (shift / scales).sum() if law == "laplace" else (shift**2 / (2 * np.array(scales))).sum()
            assert lost <= charged * (1 + 1e-9), f"{relation}, m={m}, {law}: lost {lost}, charged {charged}"


def test_what_was_left_out_loses_no_more_than_it_is_charged() -> None:
    gate()


def _uncapped() -> Any:
    return wrapped(cut_module, "statistics", lambda original, left_out, cap: original(left_out, 1_000))


def _cheap_rows() -> Any:
    """Both numbers have the noise of one that a person moves by 1."""
    return wrapped(Intake, "_calibrated", lambda original, self, law, units, l1, l2: original(self, law, units, 1, 1))


def _people_by_rows() -> Any:
    def statistics(original: Any, left_out: Any, cap: int) -> tuple[int, int]:
        _, rows = original(left_out, cap)
        return rows, rows

    return wrapped(cut_module, "statistics", statistics)


def _asked_again() -> Any:
    stack: list[str] = []

    def through(original: Any, self: Any, door: str, **named: Any) -> Any:
        stack.append(door)
        return original(self, door, **{**named, "request": f"again {len(stack)}"})

    from maquette.curator.transaction import Transaction

    return wrapped(Transaction, "through", through)


def _exact() -> Any:
    return patched(CutDoor, "_draws", lambda self, events, sizes: iter([np.zeros(1, dtype=np.int64)] * 2))


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "rows of one person without a cap": _uncapped,
    "rows at the price of people": _cheap_rows,
    "people counted by their rows": _people_by_rows,
    "asked twice": _asked_again,
    "exact numbers": _exact,
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_cut_mutant_is_killed(mutant: str) -> None:
    with MUTANTS[mutant](), pytest.raises(AssertionError):
        gate()


@pytest.mark.parametrize("limit", [None, 0], ids=["memory", "duckdb"])
def test_the_numbers_are_those_of_a_plain_loop(limit: int | None) -> None:
    rng = np.random.default_rng(4)
    who = rng.zipf(1.7, 800) % 60
    opened = mq.open_table(
        {"who": who, "a": rng.random(800) < 0.5}, SCHEMA, privacy_unit="who", max_contributions=3, memory_limit=limit
    )
    with Curator(opened, BUDGETS["laplace"], noise=ScriptedNoise([0] * 9)) as curator:
        found = curator.count_cut(cap=6, epsilon=1.0)
    over = [size - 3 for size in Counter(who.tolist()).values() if size > 3]
    assert (found.units, found.rows) == (len(over), sum(min(each, 6) for each in over))


def test_a_draw_that_was_lost_is_drawn_anew_and_paid_anew(tmp_path: Path) -> None:
    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    opened, kept = table((1, 3), 1), tmp_path / "people.ledger"
    interrupted = Curator(opened, mq.Budget(epsilon=1.0), ledger=kept)
    with interrupted as curator, patched(cut_module, "statistics", stopped), pytest.raises(KeyboardInterrupt):
        curator.count_cut(epsilon=0.1)
    with Curator(opened, mq.Budget(epsilon=1.0), ledger=kept) as curator:
        assert curator.known_cut is None
        found = curator.count_cut(epsilon=0.1)
        assert [charge.state for charge in curator.ledger.charges()] == ["lost", "answered"]
    with Curator(opened, mq.Budget(epsilon=1.0), ledger=kept) as curator:
        assert curator.known_cut == curator.count_cut(epsilon=0.5) == found
        assert curator.spent.epsilon == pytest.approx(0.2)


def test_a_table_of_rows_leaves_nothing_out() -> None:
    opened = mq.open_table({"a": [True, False]}, SCHEMA)
    with Curator(opened, mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(QueryError, match="every row is counted"):
            curator.count_cut(epsilon=0.1)
        assert curator.spent.units == 0
    with Curator(table((1, 3), 1), mq.Budget(epsilon=1.0)) as curator, pytest.raises(QueryError, match="cap"):
        curator.count_cut(cap=0, epsilon=0.1)


@pytest.mark.thorough
def test_certificate_and_report_say_what_was_left_out(tmp_path: Path) -> None:
    with Curator(table((1, 2, 5) * 40, 2), mq.Budget(epsilon=2.0), ledger=tmp_path / "t.ledger") as curator:
        curator.count_cut(epsilon=0.5)
        made = mq.release(curator, mq.marginals(SCHEMA, k=1), epsilon=1.0)
        assert made.certificate.epsilon == pytest.approx(curator.spent.epsilon)
    told = made.certificate.cut
    assert told is not None
    assert "values of who had more than" in told
    assert "had more than 2 rows" in told
    made.save(tmp_path / "t.maq")
    assert mq.Release.load(tmp_path / "t.maq").certificate.cut == told
    assert "Left out:" in report(made)
