"""The silent failures of Mechanisms §12 that concern the foundation, each kept out by a test of its number."""

from __future__ import annotations

import inspect
import itertools
import logging
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator, noise
from maquette.errors import BudgetError, LedgerLocked, MaquetteError, RequestLost
from maquette.query import LinearQuery

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99),
        mq.Category("city", ["oslo", "rome", "bonn"], other="other", nullable=True),
        mq.Number("pay", edges=[0, 10, 20, 50]),
    ]
)
PEOPLE: dict[str, list[Any]] = {"age": [20, 30, 40], "city": ["oslo", "rome", None], "pay": [5.0, 15.0, 30.0]}
MORE: dict[str, list[Any]] = {
    "age": [20, 30, 40, 41],
    "city": ["oslo", "rome", None, "paris"],
    "pay": [5.0, 15.0, 30.0, 1e9],
}
PURE = mq.Budget(epsilon=10.0)


def test_1_released_values_are_whole_multiples_of_the_grid() -> None:
    with Curator(mq.open_table(PEOPLE, SCHEMA), PURE) as curator:
        whole = curator.measure(["age"], epsilon=0.1).values
        weighed = curator.measure(LinearQuery.product(SCHEMA, {"pay": [0.1, 1 / 3, 1.0]}), epsilon=0.1)
    assert np.array_equal(whole, np.rint(whole))
    assert weighed.marginal.grid == 2**20
    assert (float(weighed.values) * 2**20).is_integer()


def test_2_selection_gives_every_candidate_a_chance() -> None:
    law = noise.ExactNoise()
    drawn = {law.exponential(np.array([0, -40], dtype=np.int64), noise.round_scale_up(20.0)) for _ in range(400)}
    assert drawn == {0, 1}  # the rarer one has probability 0.12: missing it 400 times has probability 1e-22


def test_3_the_relation_decides_the_noise() -> None:
    scales = {}
    for relation in ("add-remove", "replace"):
        source = ScriptedNoise([0] * 999)
        with Curator(mq.open_table(PEOPLE, SCHEMA), PURE, relation=relation, noise=source) as curator:
            curator.measure(["age"], epsilon=0.5)
            curator.measure(mq.where(SCHEMA, "age >= 30"), epsilon=0.5)
        scales[relation] = [float(call.scale) for call in source.calls]
    assert scales == {"add-remove": [2.0, 2.0], "replace": [4.0, 2.0]}


def test_4_the_number_of_rows_is_not_divided_by() -> None:
    source = ScriptedNoise([10, -4])
    with Curator(mq.open_table(PEOPLE, SCHEMA), PURE, noise=source) as curator:
        given = mq.answer(curator, "age >= 30", epsilon=0.5)
    assert isinstance(given, mq.Answer)
    assert given.unbiased == (2 + 10) / (2 + 10 + 1 - 4)  # both cells are noisy; their sum is the row estimate


def test_5_the_domain_comes_from_the_schema() -> None:
    shapes = set()
    for rows in (PEOPLE, MORE):
        with Curator(mq.open_table(rows, SCHEMA), PURE) as curator:
            shapes.add(curator.measure(["city", "pay"], epsilon=0.1).values.shape)
    assert shapes == {(5, 3)}


def test_6_parameters_are_the_same_on_neighbours() -> None:
    seen = []
    for rows in (PEOPLE, MORE):
        source = ScriptedNoise([0] * 999)
        with Curator(mq.open_table(rows, SCHEMA), mq.Budget(rho=9.0, delta=1e-9), noise=source) as curator:
            curator.measure(["age"], rho=0.1)
            curator.measure_error([["age"]], [np.zeros(100)], rho=0.1)
            curator.select_worst([["age"]], [np.zeros(100)], rho=0.1)
            curator.guard(2.0, rho=0.1).test(mq.where(SCHEMA, "age = 3"), 0.0)
            seen.append((source.calls, curator.spent.units))
    assert seen[0] == seen[1]


def test_7_nothing_computed_from_rows_is_shown(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    canary = 7919
    rows = {"age": [33] * canary, "city": ["oslo"] * canary, "pay": [5.0] * canary}
    caplog.set_level(logging.DEBUG)
    table = mq.open_table(rows, SCHEMA)
    source = ScriptedNoise([1] * 9999)
    with Curator(table, PURE, noise=source) as curator:
        measured = curator.measure(["age"], epsilon=0.1)
        guard = curator.guard(2.0, epsilon=0.1, hits=2)
        tested = guard.test(mq.where(SCHEMA, "age = 33"), float(canary))
        shown = [repr(x) for x in (table, curator, guard, tested, measured, curator.ledger, curator.ledger.terms)]
        shown += [repr(charge) for charge in curator.ledger.charges()]
        errors: list[str] = []
        for ask in (
            lambda: curator.measure(["nothing"], epsilon=0.1),
            lambda: curator.measure(["age"], epsilon=1e3),
            lambda: curator.select_worst([["age"]], [np.zeros(3)], epsilon=0.1),
            lambda: curator.measure_error([["age"]], [np.full(100, np.nan)], epsilon=0.1),
        ):
            with pytest.raises(MaquetteError) as error:
                ask()
            errors.append(str(error.value) + repr(error.value.__dict__))
    output = capsys.readouterr()
    for text in [*shown, *errors, caplog.text, output.out, output.err]:
        assert not re.search(r"7[,_]?919|7[,_]?920|7[,_]?918", text)


def test_8_a_retry_never_draws_again(tmp_path: Path) -> None:
    ledger = tmp_path / "people.ledger"
    budget = mq.Budget(epsilon=1.0)

    class Crash(Exception):
        pass

    class Failing(ScriptedNoise):
        def laplace(self, scale: object, size: int) -> np.ndarray:
            raise Crash

    with Curator(mq.open_table(PEOPLE, SCHEMA), budget, ledger=ledger) as curator:
        first = mq.answer(curator, "SELECT count(*) FROM t WHERE age > 25", epsilon=0.25)
    with Curator(mq.open_table(PEOPLE, SCHEMA), budget, ledger=ledger, noise=Failing([])) as curator:
        assert mq.answer(curator, "SELECT count(*) FROM t WHERE NOT (age <= 25)", epsilon=0.25) == first
        with pytest.raises(Crash):
            mq.answer(curator, "SELECT count(*) FROM t WHERE age > 50", epsilon=0.25)
    with Curator(mq.open_table(PEOPLE, SCHEMA), budget, ledger=ledger) as curator:
        assert curator.spent.epsilon == 0.5  # the interrupted question stays charged
        with pytest.raises(RequestLost):
            mq.answer(curator, "SELECT count(*) FROM t WHERE age > 50", epsilon=0.25)
        assert curator.spent.epsilon == 0.5


def test_9_production_noise_takes_no_seed() -> None:
    assert not inspect.signature(noise.ExactNoise).parameters
    for public in (Curator, mq.answer, mq.release, mq.open_table, Curator.measure, Curator.guard):
        assert not {"seed", "rng", "random_state"} & set(inspect.signature(public).parameters)
    behind = Path(inspect.getfile(noise)).parent.glob("*.py")
    sources = "".join(path.read_text() for path in behind if path.name != "postgresql.py")  # it finds a certificate
    assert "environ" not in sources
    first, second = (noise.ExactNoise().laplace(noise.round_scale_up(1000.0), 64).tolist() for _ in range(2))
    assert first != second


def test_17_selection_halves_the_exponent() -> None:
    source = ScriptedNoise([0])
    with Curator(mq.open_table(PEOPLE, SCHEMA), PURE, noise=source) as curator:
        curator.select_worst([["age"]], [np.zeros(100)], epsilon=0.5)
    assert float(source.calls[0].scale) == pytest.approx(2 / 0.5, rel=1e-5)


def test_20_one_ledger_per_table(tmp_path: Path) -> None:
    ledger = tmp_path / "people.ledger"
    with Curator(mq.open_table(PEOPLE, SCHEMA), PURE, ledger=ledger), pytest.raises(LedgerLocked):
        Curator(mq.open_table(PEOPLE, SCHEMA), PURE, ledger=ledger)


def test_21_bounds_come_from_the_schema() -> None:
    """A billionaire moves the sum by the highest declared value."""
    sums = []
    for rows in (PEOPLE, MORE):
        with Curator(mq.open_table(rows, SCHEMA), PURE, noise=ScriptedNoise([0])) as curator:
            given = mq.answer(curator, "SELECT sum(pay) FROM t", epsilon=0.5)
            assert isinstance(given, mq.Answer)
            sums.append(given.value)
    assert sums[1] - sums[0] == pytest.approx(50.0, abs=1e-3)  # where the declared range ends


def test_22_a_person_contributes_what_was_declared() -> None:
    rows = {**{name: values * 50 for name, values in PEOPLE.items()}, "person": ["ann", "bob", "ann"] * 50}
    table = mq.open_table(rows, SCHEMA, privacy_unit="person", max_contributions=2)
    source = ScriptedNoise([0])
    with Curator(table, PURE, noise=source) as curator:
        assert curator.count_rows(epsilon=0.5) == 4.0
    assert float(source.calls[0].scale) == 4.0  # two rows at epsilon 0.5


def test_23_delta_must_be_below_one_over_rows() -> None:
    with pytest.raises(BudgetError, match="delta"):
        Curator(mq.open_table(PEOPLE, SCHEMA), mq.Budget(epsilon=1.0, delta=0.4), relation="replace")
    with pytest.raises(BudgetError, match="delta"):
        Curator(mq.open_table(PEOPLE, SCHEMA), mq.Budget(epsilon=1.0, delta=1e-4))


@pytest.mark.thorough
def test_a_private_number_of_rows_does_not_decide_whether_a_curator_opens() -> None:
    schema = mq.Schema([mq.Boolean("a")])
    heard: dict[Any, Any] = {}
    for delta in (0.0, 1e-9, 1e-6, 2e-6, 1e-5, 2e-5, 0.3, 0.4):
        budget = mq.Budget(epsilon=1.0, delta=delta)
        for rows, relation in itertools.product((1, 2, 3, 4), ("add-remove", "replace of 2")):
            units: dict[str, Any] = (
                {} if relation == "add-remove" else {"privacy_unit": "person", "max_contributions": 2}
            )
            opened = mq.open_table({"a": [True] * rows, "person": list(range(rows))}, schema, **units)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    Curator(opened, budget, relation=relation.partition(" ")[0])  # type: ignore[arg-type]
                    said = "opens"
                except BudgetError as refused:
                    said = str(refused)
            said += " ".join(str(warning.message) for warning in warned)
            assert heard.setdefault((delta, relation), said) == said
        assert ("expected at most 1e-05" in said) == (delta > 1e-5)
        assert ("not checked" in said) == (1e-6 < delta <= 1e-5)


@pytest.mark.parametrize("rows", [PEOPLE, MORE, {"age": [None], "city": [None], "pay": [3.0]}])
def test_24_answers_are_total(rows: dict[str, list[object]]) -> None:
    """No division by zero, NaN or exception for empty groups and impossible predicates."""
    if rows["age"] == [None]:
        rows = {**rows, "age": [0]}
    source = ScriptedNoise([-50] * 9999)
    with Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=10.0), noise=source) as curator:
        for asked in (
            "SELECT city, avg(pay), sum(age), count(*) FROM t WHERE age > 98 GROUP BY city",
            "age < 1",
            "FALSE",
        ):
            given = mq.answer(curator, asked, epsilon=0.1)
            for number in given.numbers:
                assert np.isfinite([number.value, number.low, number.high]).all()
                assert number.low <= number.high


FORKING = """
import os
from maquette.curator import noise

scale, used = noise.round_scale_up(1e6), noise.ExactNoise()
used.laplace(scale, 8)
read, write = os.pipe()
child = os.fork()
drawn = [source.laplace(scale, 8).tobytes() for source in (used, noise.ExactNoise())]
if child == 0:
    os.write(write, b"".join(drawn))
    os._exit(0)
os.waitpid(child, 0)
assert os.read(read, 64) != drawn[0]
assert os.read(read, 64) != drawn[1]
"""


def test_a_forked_child_draws_its_own_noise() -> None:
    """In a small process: the system may refuse to fork one that has mapped more than its memory."""
    subprocess.run([sys.executable, "-c", FORKING], check=True)
