"""`release`: what it spends, what it says it spent, what neighbours see, and what it refuses before any charge."""

from __future__ import annotations

import importlib
import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from release_checks import BINARY, BUDGETS, SCHEMA, Integers, Seeded, open_records, records, released, table_of

import maquette as mq
from maquette.audit.reference import Call, ScriptedNoise
from maquette.errors import BudgetExceeded, MaquetteError
from maquette.estimates.shares import Allocation
from maquette.query import Marginal
from maquette.releases import adaptive
from maquette.releases.methods.registry import METHODS
from maquette.schema import Schema

# What makes a textbook method promise something on a small table.
SETTINGS: dict[str, dict[str, Any]] = {"averaged-construction": {"rounds": 12}}
WHOLE = ["auto", "everything", "adaptive", "laplace", "gaussian", "averaged-construction"]


def generous(currency: str) -> mq.Budget:
    return mq.Budget(epsilon=20.0) if currency == "pure" else mq.Budget(rho=9.0, delta=1e-9, accounting=currency)


def run(
    method: str, budget: mq.Budget, noise: Any, relation: Any = "add-remove", rows: int = 300, **price: Any
) -> tuple[mq.Release, list[Any]]:
    """A release of two-way marginals, without a check of its model, and the charges of its ledger."""
    with mq.Curator(table_of(SCHEMA, rows), budget, relation=relation, noise=noise) as curator:
        settings = {"check": False, **SETTINGS.get(method, {})}
        made = mq.release(curator, mq.marginals(SCHEMA, k=2), method=method, **settings, **price)
        curator.ledger.verify()
        return made, list(curator.ledger.charges())


@pytest.mark.thorough(fast=18)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("method", "currency"), [pair for pair in itertools.product(WHOLE, BUDGETS) if pair != ("gaussian", "pure")]
)
def test_the_whole_price_is_spent_never_more_and_certified(method: str, currency: str, relation: Any) -> None:
    budget = BUDGETS[currency]
    made, charges = run(method, budget, Seeded(1), relation)
    spent = sum(charge.units for charge in charges)
    assert 0.97 * budget.limit <= spent <= budget.limit
    certificate = made.certificate
    assert certificate.units == spent
    assert certificate.charges == tuple(charge.description for charge in charges)
    assert certificate.epsilon <= budget.epsilon
    assert (certificate.delta, certificate.currency) == (budget.delta, currency)
    assert (certificate.relation, certificate.schema) == (f"{relation} of one row", SCHEMA.digest)
    assert all(charge.state == "answered" for charge in charges)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("method", ["iterative-construction", "small-db"])
@pytest.mark.parametrize("currency", BUDGETS)
def test_methods_that_may_stop_early_certify_what_they_spent(method: str, currency: str) -> None:
    made, charges = run(method, generous(currency), Seeded(2))
    assert made.certificate.units == sum(charge.units for charge in charges) <= generous(currency).limit
    assert made.certificate.charges == tuple(charge.description for charge in charges)


@pytest.mark.parametrize("method", WHOLE[:4])
def test_a_part_of_the_budget_stays_a_part(method: str) -> None:
    """Two releases from one budget: each certifies its own price, and together they are the ledger's."""
    with mq.Curator(table_of(SCHEMA, 300), mq.Budget(epsilon=1.0), noise=Seeded(3)) as curator:
        workload = mq.marginals(SCHEMA, k=2)
        first = mq.release(curator, workload, method=method, epsilon=0.25, check=False)
        second = mq.release(curator, workload, method=method, check=False)
        assert 0.97 * 0.25 <= first.certificate.epsilon <= 0.25
        assert first.certificate.units + second.certificate.units == curator.ledger.spent()
        assert curator.spent.epsilon == pytest.approx(1.0, rel=1e-9)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("method", ["everything", "adaptive", "laplace", "gaussian"])
def test_more_rows_of_one_person_mean_more_noise_for_the_same_price(method: str) -> None:
    """max_contributions = 3: Laplace scales times 3, Gaussian variances times 9, the price unchanged."""
    factor = 3 if method == "laplace" else 9
    rows, budget = records(SCHEMA, 300), BUDGETS["zcdp"]
    people = {
        **{name: column.to_pylist() for name, column in _columns(rows).items()},
        "id": [i // 3 for i in range(300)],
    }
    tables = [
        open_records(SCHEMA, rows),
        mq.open_table(people, SCHEMA, privacy_unit="id", max_contributions=3),
    ]
    calls, spent = [], []
    for table in tables:
        noise = Seeded(4)
        made = released(method, table, budget, noise)
        calls.append(float(noise.calls[0].scale))
        spent.append(made.certificate.units)
    assert calls[1] == pytest.approx(factor * calls[0], rel=1e-9)
    assert spent[0] == pytest.approx(spent[1], rel=1e-9)
    assert "3 rows" in made.certificate.relation


def _columns(rows: np.ndarray) -> dict[str, Any]:
    decoded = SCHEMA.decode(rows)
    return {name: decoded[name] for name in decoded.column_names}


class Blind(Seeded):
    """Seeded noise whose selections do not look at the scores."""

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        self.calls.append(Call("exponential", scale, len(scores)))
        return int(self.rng.integers(len(scores)))

    permute_and_flip = exponential


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("currency", BUDGETS)
@pytest.mark.parametrize(
    "method", ["auto", "everything", "adaptive", "iterative-construction", "averaged-construction"]
)
def test_given_the_same_released_values_neighbours_ask_and_pay_the_same(
    method: str, currency: str, relation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay audit. The doors add scripted noise to nothing, so that what comes out is the same on every table: then
    every further request, its scale and its charge must be the same, or the loop has looked at rows by itself.
    """
    from maquette.curator import curator as wall

    monkeypatch.setattr(wall, "tally", lambda engine, m: np.zeros(m.shape, dtype=np.int64) + 5)
    schema = Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"])])
    base = records(schema, 40)
    other = base.copy()
    other[0] = (base[0] + 1) % 2
    neighbours = [base, other if relation == "replace" else base[1:]]
    seen = []
    for rows in neighbours:
        noise = Blind(7)
        with mq.Curator(open_records(schema, rows), generous(currency), relation=relation, noise=noise) as curator:
            settings = SETTINGS.get(method, {}) | ({"rows": 40} if method.endswith("construction") else {})
            made = mq.release(curator, mq.marginals(schema, k=2), method=method, **settings)
            charges = [(charge.units, charge.description) for charge in curator.ledger.charges()]
        seen.append((noise.calls, charges, made.marginal("a", "b").tobytes(), made.certificate))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) >= 2


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("method", ["everything", "adaptive", "gaussian"])
def test_at_a_tiny_price_two_tables_cannot_be_told_apart(method: str) -> None:
    """Noise of a million rows on tables of opposite content: same requests, and answers that differ by less than 2%."""
    budget, answers, calls = mq.Budget(rho=1e-12, delta=1e-9), [], []
    for fill in (0, 1):
        noise = Seeded(11)
        table = open_records(BINARY, np.full((50, 5), fill))
        made = released(method, table, budget, noise)
        calls.append([call for call in noise.calls if call.kind != "exponential"][:1])
        answers.append(made.marginal("b0", "b1"))
    assert calls[0] == calls[1]
    if method != "adaptive":  # a selection may fall the other way on a difference of fifty rows in a million
        assert np.abs(answers[0] - answers[1]).max() < 0.02


class Interrupting(Seeded):
    """Presses Ctrl-C at the n-th request for noise."""

    def __init__(self, seed: int, at: int) -> None:
        super().__init__(seed)
        self._at = at

    def _press(self) -> None:
        if len(self.calls) == self._at:
            raise KeyboardInterrupt

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        values = super().gaussian(variance, size)
        self._press()
        return values

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        chosen = super().exponential(scores, scale)
        self._press()
        return chosen


@pytest.mark.parametrize("at", [3 + 2 * 2 + 1, 3 + 2 * 2 + 2], ids=["selecting", "measuring"])
def test_an_interrupt_in_the_third_round_releases_what_was_paid(at: int) -> None:
    """Three one-way marginals, then rounds of a selection and a measurement."""
    with mq.Curator(table_of(SCHEMA, 300), BUDGETS["zcdp"], noise=Interrupting(5, at)) as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=2), method="adaptive", rounds=40, check=False)
        curator.ledger.verify()
        charges = list(curator.ledger.charges())
        assert [charge.state for charge in charges] == ["answered"] * (len(charges) - 1) + ["reserved"]
        assert made.certificate.units == curator.ledger.spent() == sum(charge.units for charge in charges)
        assert 0 < curator.ledger.spent() < curator.budget.limit
        assert curator.measure(["smoker"], rho=1e-4).values.shape == (2,), "the curator still answers"
    assert made.marginal("smoker").sum() == pytest.approx(1)
    assert isinstance(made.answer("smoker"), mq.Answer)


def test_an_interrupt_while_fitting_releases_a_coarser_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    room: Any = importlib.import_module("maquette.releases.methods.everything")
    original = room.fit

    def interrupted(residuals: Any, **settings: Any) -> Any:
        if settings["steps"] > 100:
            raise KeyboardInterrupt
        return original(residuals, **settings)

    monkeypatch.setattr(room, "fit", interrupted)
    made, charges = run("everything", BUDGETS["zcdp"], Seeded(6))
    assert made.certificate.units == sum(charge.units for charge in charges)
    assert made.marginal("smoker").sum() == pytest.approx(1)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("currency", ["zcdp", "gdp"])
def test_auto_under_budgets_with_delta_measures_everything_or_combines_and_says_why(currency: str) -> None:
    """Everything in a small universe with little noise; else what is worth its noise."""
    wide = mq.Schema([mq.Boolean(f"b{i}") for i in range(25)])
    pairs, few = mq.marginals(BINARY, k=2), mq.marginals(wide, columns=[("b0", "b1")])
    for schema, workload, rows, name, reason in (
        (BINARY, pairs, 50_000, "everything", "is expected to err by"),
        (BINARY, pairs, 50, "combined", "is expected to err by"),
        (wide, few, 50_000, "combined", "too large to enumerate"),
    ):
        made = released("auto", table_of(schema, rows), BUDGETS[currency], Seeded(0), workload=workload)
        assert made.certificate.method.startswith(name)
        assert made.explain().startswith(f"{name}: ")
        assert reason in made.explain().splitlines()[0]


def test_auto_measures_everything_where_noise_is_small() -> None:
    made = released("auto", table_of(BINARY, 5000), mq.Budget(epsilon=1.0), Seeded(0))
    assert made.certificate.method.startswith("everything")


def test_auto_chooses_what_to_measure_where_noise_is_large() -> None:
    made = released("auto", table_of(BINARY, 300), mq.Budget(epsilon=0.01), Seeded(0))
    assert made.certificate.method.startswith("adaptive")


def test_auto_takes_a_graphical_model_where_no_dense_one_fits() -> None:
    wide = mq.Schema([mq.Boolean(f"b{i}") for i in range(25)])
    workload = mq.marginals(wide, columns=[("b0", "b1"), ("b7",)])
    made = released("auto", table_of(wide, 50), BUDGETS["pure"], Seeded(0), workload=workload)
    assert made.certificate.method.startswith("graphical")


@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_auto_weighs_the_relation_and_the_contributions(currency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replacing a row moves contrasts twice as far as adding one: the expected error doubles."""
    errors = []
    original = Allocation.expected_error

    def spy(self: Any, *facts: Any) -> float:
        errors.append(original(self, *facts))
        return errors[-1]

    monkeypatch.setattr(Allocation, "expected_error", spy)
    budget = BUDGETS[currency]
    for relation in ("add-remove", "replace"):
        released("auto", table_of(BINARY, 5000), budget, ScriptedNoise([0] * 999), relation=relation)
    assert errors[1] == pytest.approx(2 * errors[0], rel=0.02)


OTHER = mq.Schema([mq.Boolean("a")])
HUGE = mq.Schema([mq.Boolean(f"b{i}") for i in range(26)])
BAD: dict[str, tuple[Schema, dict[str, Any], str]] = {
    "other schema": (SCHEMA, {"workload": mq.marginals(OTHER, k=1)}, "another schema"),
    "unknown method": (SCHEMA, {"method": "magic"}, "everything"),
    "unknown setting": (SCHEMA, {"method": "everything", "rounds": 3}, "steps"),
    "setting of no method": (SCHEMA, {"method": "auto", "steps": 3}, "progress"),
    "too large for everything": (HUGE, {"method": "everything"}, "6.71e\\+07 cells.*graphical"),
    "too large for adaptive": (HUGE, {"method": "adaptive"}, "cells"),
    "too large for the theorem": (HUGE, {"method": "iterative-construction"}, "cells"),
    "too large for the average": (HUGE, {"method": "averaged-construction"}, "cells"),
    "more than there is": (SCHEMA, {"method": "adaptive", "epsilon": 1.5}, "1.5.*remains"),
    "two prices": (SCHEMA, {"method": "adaptive", "epsilon": 0.5, "rho": 0.1}, "exactly one"),
    "unknown rule": (SCHEMA, {"method": "iterative-construction", "hypothesis": "magic"}, "perceptron"),
    "a rule without records": (
        SCHEMA,
        {"method": "iterative-construction", "hypothesis": "weighted-records"},
        "median",
    ),
    "unknown constants": (SCHEMA, {"method": "iterative-construction", "constants": "loose"}, "book"),
    "beta": (SCHEMA, {"method": "iterative-construction", "beta": 1.0}, "beta"),
    "rows": (SCHEMA, {"method": "averaged-construction", "rows": 0}, "row"),
    "Gaussian, pure": (SCHEMA, {"method": "gaussian"}, "delta"),
    "alpha out of reach": (SCHEMA, {"method": "iterative-construction"}, "promises an error"),
    "average out of reach": (SCHEMA, {"method": "averaged-construction", "epsilon": 1e-3}, "promises an error"),
    "book out of reach": (SCHEMA, {"method": "iterative-construction", "constants": "book"}, "promises an error"),
}


@pytest.mark.thorough(fast=8)
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_any_charge(name: str) -> None:
    schema, settings, words = BAD[name]
    workload = settings.get("workload") or mq.marginals(schema, k=2)
    rest = {key: value for key, value in settings.items() if key != "workload"}
    with mq.Curator(table_of(schema, 60), mq.Budget(epsilon=1.0), relation="replace") as curator:
        with pytest.raises(MaquetteError, match=words) as caught:
            mq.release(curator, workload, **rest)
        assert curator.ledger.spent() == 0
    if name == "more than there is":
        assert isinstance(caught.value, BudgetExceeded)
        assert caught.value.difference == pytest.approx(0.5)


def test_a_spent_budget_is_refused_whatever_the_method() -> None:
    with mq.Curator(table_of(SCHEMA, 60), mq.Budget(epsilon=1.0), noise=Seeded(0)) as curator:
        curator.measure(["smoker"], epsilon=1.0)
        for method in ("auto", *METHODS):
            with pytest.raises(MaquetteError):
                mq.release(curator, mq.marginals(SCHEMA, k=2), method=method)
        assert len(list(curator.ledger.charges())) == 1


@pytest.mark.thorough(fast=5)
@pytest.mark.parametrize("method", ["everything", "adaptive", "laplace", "averaged-construction"])
@pytest.mark.parametrize("sizes", [(1,), (1, 2), (1, 1)])
def test_universes_of_one_level_or_one_cell(method: str, sizes: tuple[int, ...]) -> None:
    schema = mq.Schema([mq.Integer(f"c{i}", 0, size - 1) for i, size in enumerate(sizes)])
    table = open_records(schema, np.zeros((20, len(sizes)), int))
    settings = SETTINGS.get(method, {})
    made = released(method, table, mq.Budget(epsilon=50.0), Seeded(0), workload=mq.marginals(schema, k=1), **settings)
    assert made.marginal("c0") == pytest.approx([1.0])
    assert made.rows == pytest.approx(20, abs=5)


def test_adaptive_measures_where_the_model_is_wrong() -> None:
    """Columns are independent but for one pair, which no one-way marginal shows: it is the first to be chosen."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (5000, 5))
    rows[:, 3] = rows[:, 1]
    with mq.Curator(open_records(BINARY, rows), mq.Budget(rho=0.5, delta=1e-9), noise=Seeded(2)) as curator:
        made = adaptive(curator, mq.marginals(BINARY, k=2), rounds=3)
        measured = [json.loads(charge.description) for charge in curator.ledger.charges()]
    pairs = [entry["columns"] for entry in measured if entry["door"] == "measure" and len(entry["columns"]) == 1]
    assert pairs[0] == [["b1", "b3"]]
    assert made.marginal("b1", "b3") == pytest.approx(np.array([[0.5, 0.0], [0.0, 0.5]]), abs=0.02)


def test_releases_are_close_to_the_table() -> None:
    """Largest error of any two-way cell at epsilon 4 on 5,000 rows; noise alone would be about 40 rows a cell."""
    rows = records(SCHEMA, 5000)
    for method, bound in (("everything", 0.01), ("adaptive", 0.015), ("laplace", 0.01)):
        made = released(method, table_of(SCHEMA, 5000), mq.Budget(epsilon=4.0), Seeded(9))
        for i, j in ((0, 1), (0, 2), (1, 2)):
            names = SCHEMA.names[i], SCHEMA.names[j]
            truth = np.zeros(SCHEMA.shape(names))
            np.add.at(truth, (rows[:, i], rows[:, j]), 1 / 5000)
            assert np.abs(made.marginal(*names) - truth).max() < bound, method


def test_a_release_of_a_spent_budget_says_that_nothing_remains() -> None:
    schema = mq.Schema([mq.Boolean("smoker")])
    curator = mq.Curator(mq.open_table({"smoker": [True, False]}, schema), mq.Budget(epsilon=1.0, delta=1e-9))
    mq.release(curator, mq.marginals(schema, k=1))
    if (left := curator.remaining.units) > 0:
        curator.measure(Marginal(schema, ("smoker",)), units=left)
    spent = curator.spent.units
    with pytest.raises(mq.BudgetExceeded, match=r"nothing remains of the budget\. Nothing was charged") as refused:
        mq.release(curator, mq.marginals(schema, k=1))
    assert refused.value.remaining == 0.0
    assert curator.spent.units == spent
