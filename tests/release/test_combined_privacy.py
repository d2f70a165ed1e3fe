"""Privacy audits of a whole combined release, and broken ones that each must be caught by the gate named beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from combined_gates import BASE, GATES, RICH, SETTINGS, WORKLOAD, everywhere, run
from release_checks import Seeded
from release_gates import CURATOR, MOMENTS, SCHEMA, interrupted, opened
from test_graphical_privacy import (
    _charge_after_the_draw,
    _contrasts_priced_by_half,
    _errors_not_charged,
    _less_noise,
    _never_charged,
    _noise_by_the_true_rows,
    _one_table_moves,
    _replace_counted_as_add_remove,
    _rows_taken_for_public,
    _true,
)

import maquette as mq
from gate_tools import tallied, wrapped
from maquette.curator import Curator
from maquette.errors import BudgetExceeded, MaquetteError
from maquette.estimates.merged import Merging
from maquette.releases.methods.gathering import Gathering
from maquette.releases.methods.grouping import PairLook
from maquette.releases.methods.registry import METHODS


@pytest.mark.thorough
@pytest.mark.parametrize("gate", GATES)
def test_combined_releases_pass(gate: str) -> None:
    GATES[gate]()


def _rows() -> int:
    """What only the doors may see: the exact number of rows."""
    return int(CURATOR[-1]._engine.rows)


def _split_by_true_rows() -> Any:
    def split(original: Any, schema: Any, weights: Any, rows: float, *rest: Any) -> Any:
        return original(schema, weights, float(_rows()), *rest)

    return everywhere("split", split)


def _groups_from_true_counts() -> Any:
    def groups(original: Any, schema: Any, name: str, counts: Any, *rest: Any, **named: Any) -> Any:
        return original(schema, name, _true([name]), *rest, **named)

    return everywhere("groups", groups)


def _columns_from_true_counts() -> Any:
    def smoothed(original: Any, counts: Any, deviation: float, *, ordered: bool) -> Any:
        exact = {SCHEMA[name].size: _true([name]) for name in SCHEMA.names}
        return original(exact[len(counts)], deviation, ordered=ordered)

    return everywhere("smoothed", smoothed)


def _belief_from_the_truth() -> Any:
    def believed(original: Any, errors: Any, doubt: float, rows: float, size: int) -> Any:
        return original(errors, doubt, float(_rows()), size)

    return everywhere("believed", believed)


def _worth_by_true_counts() -> Any:
    def wanted(original: Any, errors: Any, *rest: Any) -> Any:
        return original([*errors[:-1], float(_true(["smoker"])[1])], *rest)

    return everywhere("wanted", wanted)


def _candidates_by_true_counts() -> Any:
    def weights_of(original: Any, tables: Any, size: int) -> Any:
        found = original(tables, size)
        return {each: weight * (1 + (_true(each) == 0).sum()) for each, weight in found.items()}

    return everywhere("weights_of", weights_of)


def _errors_beside_the_door(number: int) -> Any:
    """The door is paid, and what it says is replaced by the exact errors: of a look, or of the comparison of models."""
    count = iter(range(99))

    def measure_error(original: Any, self: Curator, questions: Any, answers: Any, **named: Any) -> Any:
        found = original(self, questions, answers, **named)
        if next(count) != number:
            return found
        pairs = zip(questions, answers, strict=True)
        exact = [np.abs(tallied(self._engine, q) - np.rint(np.asarray(a))).sum() for q, a in pairs]
        return replace(found, values=np.array(exact, dtype=np.float64))

    return wrapped(Curator, "measure_error", measure_error)


def _finer_groups_by_the_truth() -> Any:
    """Whether a column keeps finer groups is read off the rows."""

    def refined(original: Any, self: PairLook, names: Any, errors: Any) -> Any:
        groups = np.arange(SCHEMA["age"].size) // (1 + int(_true(["smoker"])[0]) % 2)
        merging, found = original(self, names, errors)
        return Merging(SCHEMA, {**merging.groups, "age": groups}), found

    return wrapped(PairLook, "refined", refined)


def _independence_expected_by_the_truth() -> Any:
    """How far a pair is expected to be from independent columns is read off the rows."""

    def components(original: Any, *args: Any, **named: Any) -> Any:
        return original(*args, **{**named, "apart": {("age", "region"): 1.0 + float(_true(["smoker"])[1])}})

    return everywhere("components", components)


def _tree_fitted_until_the_truth_is_met() -> Any:
    def estimates(original: Any, *args: Any, **named: Any) -> Any:
        for fitted in original(*args, **named):
            yield fitted
            if abs(fitted.model.marginal(["smoker"])[1] - _true(["smoker"])[1] / _rows()) < 0.5:
                return

    return everywhere("estimates", estimates)


def _mixture_fitted_to_the_truth() -> Any:
    def components(original: Any, residuals: Any, columns: Any, **named: Any) -> Any:
        told = {**columns, "smoker": replace(columns["smoker"], counts=_true(["smoker"]))}
        return original(residuals, told, **named)

    return everywhere("components", components)


def _mixture_grown_by_true_rows() -> Any:
    def components(original: Any, *args: Any, **named: Any) -> Any:
        return original(*args, **{**named, "count": 20 + _rows() % 37})

    return everywhere("components", components)


def _evidence_from_the_truth() -> Any:
    def take(original: Any, self: Merging, measurement: Any, columns: Any, into: Any) -> None:
        if columns == ("region", "smoker"):
            exact = tallied(CURATOR[-1]._engine, measurement.question) / measurement.question.grid
            measurement = replace(measurement, values=exact)
        original(self, measurement, columns, into)

    return wrapped(Merging, "take", take)


def _method(change: Callable[..., Any]) -> Any:
    """The method itself, broken; its keywords stay."""
    original = METHODS["combined"]

    @functools.wraps(original)
    def broken(*args: Any, **named: Any) -> Any:
        return change(original, *args, **named)

    return mock.patch.dict(METHODS, {"combined": broken})


def _truth_in_the_explanation() -> Any:
    def told(original: Any, curator: Curator, *args: Any, **named: Any) -> Any:
        made = original(curator, *args, **named)
        return replace(made, explanation=(*made.explanation, f"exactly {_rows()} rows"))

    return _method(told)


def _truth_in_a_refusal() -> Any:
    def refused(original: Any, *args: Any, **named: Any) -> Any:
        try:
            return original(*args, **named)
        except MaquetteError as error:
            raise type(error)(f"{error} for {_rows()} rows") from None

    return _method(refused)


def _room_by_true_rows() -> Any:
    def roomy(original: Any, *args: Any, **named: Any) -> Any:
        return original(*args, **{**named, "max_cells": 30 + _rows() // 10})

    return _method(roomy)


def _price_by_true_rows() -> Any:
    def priced(original: Any, *args: Any, **named: Any) -> Any:
        return original(*args, **{**named, "units": named["units"] - _rows()})

    return _method(priced)


def _another_look_at_the_end() -> Any:
    """One more measurement than was asked for, with what others have left."""

    def greedy(original: Any, curator: Curator, *args: Any, **named: Any) -> Any:
        made = original(curator, *args, **named)
        curator.measure(["age", "smoker"], units=curator.remaining.units // 2)
        return made

    return _method(greedy)


def _unpaid(result: Any) -> Any:
    return replace(result, cost=replace(result.cost, units=0))


def _measurements_not_counted() -> Any:
    """The method forgets what its measurements cost, and buys again."""

    def measure_many(original: Any, self: Curator, *args: Any, **named: Any) -> Any:
        return tuple(_unpaid(each) for each in original(self, *args, **named))

    return wrapped(Curator, "measure_many", measure_many)


def _errors_not_counted() -> Any:
    def measure_error(original: Any, self: Curator, *args: Any, **named: Any) -> Any:
        return _unpaid(original(self, *args, **named))

    return wrapped(Curator, "measure_error", measure_error)


def _start_from_the_rows() -> Any:
    """The start is replaced by the exact columns, which nobody paid for."""

    def expect(original: Any, self: Gathering, start: Any) -> None:
        original(self, start)
        self.found.expected = {name: _true([name]) / _true([name]).sum() for name in self.names}

    return wrapped(Gathering, "_expect", expect)


def _start_judged_beside_the_door() -> Any:
    """Whether the start is right is read off the rows."""

    def look(original: Any, self: Gathering, start: Any) -> None:
        original(self, start)
        self.trusted = bool(_true(["smoker"])[0] % 2)

    return wrapped(Gathering, "_look_at_start", look)


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "a start made from the rows": (_start_from_the_rows, "public only: start"),
    "a start judged beside the door": (_start_judged_beside_the_door, "public only: start"),
    "the look at a start not counted": (_errors_not_counted, "charges: start"),
    "split by the true rows": (_split_by_true_rows, "public only: triples"),
    "groups from true counts": (_groups_from_true_counts, "public only: pairs"),
    "columns from true counts": (_columns_from_true_counts, "public only: pairs"),
    "belief from the true rows": (_belief_from_the_truth, "public only: pairs"),
    "worth by true counts": (_worth_by_true_counts, "public only: pairs"),
    "worth by true counts (rows public)": (_worth_by_true_counts, "public only: rows are public"),
    "weights by true counts": (_candidates_by_true_counts, "public only: target"),
    "pairs looked at beside the door": (lambda: _errors_beside_the_door(0), "public only: pairs"),
    "triples looked at beside the door": (lambda: _errors_beside_the_door(1), "public only: triples"),
    "models compared with the exact rows": (lambda: _errors_beside_the_door(2), "public only: triples"),
    "models compared with the exact rows (Gaussian)": (lambda: _errors_beside_the_door(2), "public only: Gaussian"),
    "finer groups by the truth": (_finer_groups_by_the_truth, "public only: triples"),
    "independence expected by the truth": (_independence_expected_by_the_truth, "public only: triples"),
    "tree fitted until the truth is met": (_tree_fitted_until_the_truth_is_met, "public only: pairs"),
    "mixture fitted to the truth": (_mixture_fitted_to_the_truth, "public only: triples"),
    "mixture grown by the true rows": (_mixture_grown_by_true_rows, "public only: triples"),
    "evidence from the truth": (_evidence_from_the_truth, "public only: pairs"),
    "rows taken for public": (_rows_taken_for_public, "public only: columns"),
    "truth in the explanation": (_truth_in_the_explanation, "public only: columns"),
    "truth in a refusal": (_truth_in_a_refusal, "public only: too little"),
    "room by the true rows": (_room_by_true_rows, "public only: triples"),
    "price by the true rows": (_price_by_true_rows, "public only: columns"),
    "noise by the true rows": (_noise_by_the_true_rows, "public only: columns"),
    "measurements not counted": (_measurements_not_counted, "charges: a part of the budget"),
    "measurements not counted (all of the budget)": (_measurements_not_counted, "charges: triples"),
    "errors not counted": (_errors_not_counted, "charges: a part of the budget"),
    "one measurement more than asked for": (_another_look_at_the_end, "charges: a part of the budget"),
    "charged after the draw": (_charge_after_the_draw, "order"),
    "never charged": (_never_charged, "order"),
    "errors not charged": (_errors_not_charged, "exact loss: triples"),
    "errors of many tables priced as of one": (_one_table_moves, "exact loss: pairs"),
    "contrasts priced by half": (_contrasts_priced_by_half, "exact loss: triples"),
    "half the noise": (lambda: _less_noise(2), "exact loss: columns"),
    "half the noise (Gaussian)": (lambda: _less_noise(2), "exact loss: Gaussian"),
    "half the noise (reference)": (lambda: _less_noise(2), "charges: triples"),
    "replace counted as add-remove": (_replace_counted_as_add_remove, "exact loss: rows are public"),
    "replace counted as add-remove (reference)": (_replace_counted_as_add_remove, "charges: Gaussian"),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_combined_mutant_is_killed(mutant: str) -> None:
    breaking, killer = MUTANTS[mutant]
    with breaking(), pytest.raises(AssertionError):
        GATES[killer]()


def test_a_method_that_forgets_what_it_paid_is_stopped_by_the_ledger() -> None:
    """The budget holds although the method does not: the second measurement is refused, the first stays charged."""
    with _measurements_not_counted(), Curator(opened(BASE), RICH, noise=Seeded(0)) as curator:
        with pytest.raises(BudgetExceeded):
            mq.release(curator, WORKLOAD, method="combined", check=False)
        assert 0 < curator.ledger.spent() <= curator.budget.limit


def test_what_is_asked_of_the_table_follows_from_what_was_released() -> None:
    """Other noise on the same rows leads to other questions: what the gates hold fixed is not fixed anyway."""
    setting = SETTINGS["triples"]
    one = run(setting, BASE)
    other = run(setting, BASE, [[part + 40 for part in answer] for answer in one.released[:1]] + one.released[1:])
    assert [units for _, units in one.charges[:1]] == [units for _, units in other.charges[:1]]
    assert one.calls != other.calls


@functools.cache
def _prices() -> list[int]:
    """What the six accesses of a release that nothing interrupts are charged."""
    with Curator(opened(BASE), RICH, noise=Seeded(0)) as curator:
        mq.release(curator, WORKLOAD, method="combined", check=False)
        return [charge.units for charge in curator.ledger.charges()]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("access", range(6))
def test_an_interrupted_access_leaves_a_ledger_that_adds_up(access: int, moment: str) -> None:
    """Before a model is there, an interrupt is an interrupt; at the comparison, a model is released. All is charged."""
    assert len(_prices()) == 6
    charged = _prices()[: access + (moment != "before the charge")]
    with Curator(opened(BASE), RICH, noise=Seeded(0)) as curator:
        made = None
        with interrupted(curator.ledger, access, moment):
            if access < 5:
                with pytest.raises(KeyboardInterrupt):
                    mq.release(curator, WORKLOAD, method="combined", check=False)
            else:
                made = mq.release(curator, WORKLOAD, method="combined", check=False)
        assert [charge.units for charge in curator.ledger.charges()] == charged
        assert curator.ledger.spent() == sum(charged)
        assert curator.remaining.units == curator.budget.limit - sum(charged)
        if made is not None:
            assert made.certificate.units == sum(charged)
            assert "the comparison was interrupted" in made.explain()
            assert made.marginal(*SCHEMA.names).sum() == pytest.approx(1)
