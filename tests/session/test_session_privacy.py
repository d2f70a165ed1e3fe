"""Privacy audits of a whole session, and broken sessions that each must be caught by the gate named beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from session_gates import GATES

from gate_tools import one_contribution, tallied
from maquette.answers.result import AnswerTable
from maquette.curator import Curator, guard as guards, results
from maquette.curator.transaction import Transaction
from maquette.errors import BudgetExceeded
from maquette.estimates.dense import DenseModel
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, Relation
from maquette.privacy.ledger import machine
from maquette.query import Marginal
from maquette.session import Session, answering, opening, record
from maquette.session.guard_policy import guessed
from maquette.session.knowledge import Knowledge
from maquette.session.planner import Planner
from maquette.session.precision.reading import Reading
from maquette.session.pricing import Pricing
from maquette.session.question import Goal, Question

Opening = opening._Opening
Record = record.Record


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("gate", GATES)
def test_sessions_pass(gate: str) -> None:
    GATES[gate]()


def _patched(target: Any, name: str, value: Any) -> Any:
    return mock.patch.object(target, name, value)


def _wrapped(target: Any, name: str, change: Callable[..., Any]) -> Any:
    """Replace a method by one that is given the original first."""
    original = getattr(target, name)
    return _patched(target, name, lambda self, *args, **named: change(original, self, *args, **named))


def _true(curator: Curator, goal: Goal) -> np.ndarray:
    """What only the doors may see: the exact numbers of a goal."""
    return tallied(curator._engine, goal.marginal) / goal.marginal.grid


def _never_charged() -> Any:
    return _patched(Transaction, "through", lambda self, door, **named: (named["evaluate"](), self.loss(0)))


def _charge_after_the_draw() -> Any:
    def through(original: Any, self: Transaction, door: str, **named: Any) -> Any:
        arrays = named["evaluate"]()
        return original(self, door, **{**named, "evaluate": lambda: arrays})

    return _wrapped(Transaction, "through", through)


def _answer_before_the_record() -> Any:
    def through(original: Any, self: Transaction, door: str, **named: Any) -> Any:
        with mock.patch.object(self.ledger, "commit", return_value=None):
            return original(self, door, **named)

    return _wrapped(Transaction, "through", through)


def _cache_keyed_on_private_values() -> Any:
    def ask_many(original: Any, self: Session, asked: Any, *args: Any, **named: Any) -> Any:
        memory = self.__dict__.setdefault("_private", {})
        goals = [goal for one in asked for goal in Question.of(self.curator.schema, one).goals]
        key = str([_true(self.curator, goal).tolist() for goal in goals])
        if key not in memory:
            memory[key] = original(self, asked, *args, **named)
        return memory[key]

    return _wrapped(Session, "_ask_many", ask_many)


def _hypothesis_from_the_truth() -> Any:
    def model(original: Any, self: Knowledge, **named: Any) -> Any:
        curator = self.record.curator
        counts = _true(curator, Goal(Marginal(curator.schema, curator.schema.names)))
        return DenseModel(curator.schema, counts / counts.sum())

    return _wrapped(Knowledge, "model", model)


def _purchase_by_true_counts() -> Any:
    def direct(original: Any, self: Pricing, goal: Goal, *args: Any) -> Any:
        return original(self, goal, *args) * (1 + int(_true(self._curator, goal).sum()))

    def price(original: Any, self: Pricing, part: Any, precision: float) -> Any:
        return original(self, part, precision * self._curator._engine.rows)

    return _both(_wrapped(Pricing, "direct", direct), _wrapped(Pricing, "price", price))


@contextmanager
def _both(*changes: Any) -> Iterator[None]:
    with changes[0], changes[1]:
        yield


def _tolerance_from_the_true_rows() -> Any:
    def tolerance(original: Any, self: Any, rows: int | None) -> float:
        original(self, rows)
        return float(self._alpha * self._curator._engine.rows)

    return _wrapped(Opening, "tolerance", tolerance)


def _warm_start_by_the_true_rows() -> Any:
    return _patched(Opening, "histogram_is_cheapest", lambda self, tolerance: self._curator._engine.rows > 4)


def _stop_when_the_true_error_is_small() -> Any:
    def plan(original: Any, self: Planner, goals: Any) -> Any:
        curator, model, rows = self._knowledge.record.curator, self._knowledge.model(), self._knowledge.rows
        far = [goal for goal in goals if np.abs(_true(curator, goal) - guessed(goal, model, rows)).max() > 1]
        return original(self, far)

    return _wrapped(Planner, "plan", plan)


def _empty_cells_shown_as_empty() -> Any:
    """A zero-count shortcut: what holds for nobody is answered exactly."""

    def reading(original: Any, self: Any, goal: Goal) -> Any:
        seen = original(self, goal)
        true = _true(_CURATOR[-1], goal)
        return seen if goal.signed else Reading(np.where(true == 0, 0.0, seen.values), seen.variances, seen.widths)

    return _both(_noted(), _wrapped(answering.Numbers, "reading", reading))


_CURATOR: list[Curator] = []


def _noted() -> Any:
    """Remember the curator that is being asked."""

    def init(original: Any, self: Session, kept: Any, *args: Any, **named: Any) -> None:
        _CURATOR.append(kept.record.curator)
        original(self, kept, *args, **named)

    return _wrapped(Session, "__init__", init)


def _groups_without_rows_left_out() -> Any:
    def ask_many(original: Any, self: Session, asked: Any, *args: Any, **named: Any) -> Any:
        answers = original(self, asked, *args, **named)
        for i, (one, answer) in enumerate(zip(asked, answers, strict=True)):
            if isinstance(answer, AnswerTable):
                counts = _true(self.curator, Question.of(self.curator.schema, one).goals[0]).reshape(-1)
                kept = tuple(row for row, count in zip(answer.rows, counts, strict=False) if count)
                answers[i] = replace(answer, rows=kept)
        return answers

    return _wrapped(Session, "_ask_many", ask_many)


def _truth_when_the_budget_is_gone() -> Any:
    def answer(original: Any, self: Session, asked: Question, *args: Any) -> Any:
        told = original(self, asked, *args)
        if isinstance(told, AnswerTable) or told.guarantee is not None:
            return told
        return replace(told, value=float(_true(self.curator, asked.goals[0]).sum()))

    return _wrapped(Session, "_answer", answer)


def _private_count_in_a_note() -> Any:
    def measure(original: Any, self: Any, request: str, note: Any, *args: Any) -> Any:
        return original(self, request, {**note, "rows": self.curator._engine.rows}, *args)

    return _wrapped(Record, "_measure", measure)


def _private_count_in_a_refusal() -> Any:
    def ask_many(original: Any, self: Session, asked: Any, *args: Any, **named: Any) -> Any:
        try:
            return original(self, asked, *args, **named)
        except BudgetExceeded as short:
            rows = self.curator._engine.rows
            raise BudgetExceeded(f"{short} for {rows} rows", requested=1.0, remaining=0.0) from None

    return _wrapped(Session, "_ask_many", ask_many)


def _private_count_in_an_explanation() -> Any:
    def describe(original: Any, self: Session, *args: Any) -> str:
        return f"{original(self, *args)}, {self.curator._engine.rows} rows"

    return _wrapped(Session, "_describe", describe)


def _exact_row_count() -> Any:
    return _patched(Relation, "rows_are_public", property(lambda self: True))


def _replace_counted_as_add_remove() -> Any:
    return _patched(Relation, "_ends", property(lambda self: 1))


def _contributions_ignored() -> Any:
    return one_contribution()


def _shrunk(event: Any, factor: int) -> Any:
    if isinstance(event, DiscreteLaplace):
        return DiscreteLaplace(event.scale / factor, event.sensitivity / factor)
    return DiscreteGaussian(event.variance / factor**2, event.sensitivity_squared / factor**2)


def _less_noise(factor: int) -> Any:
    return _wrapped(Curator, "_calibrated", lambda original, self, *args: _shrunk(original(self, *args), factor))


def _noise_by_the_true_rows() -> Any:
    return _wrapped(
        Curator, "_calibrated", lambda original, self, *args: _shrunk(original(self, *args), self._engine.rows)
    )


def _one_part_of_a_batch_charged() -> Any:
    def through(original: Any, self: Transaction, door: str, **named: Any) -> Any:
        return original(self, door, **{**named, "events": named["events"][:1]})

    return _wrapped(Transaction, "through", through)


def _noise_used_twice() -> Any:
    kept: dict[Any, Any] = {}

    def draw(original: Any, self: Curator, event: Any, size: int) -> Any:
        if (id(self), event, size) not in kept:
            kept[id(self), event, size] = original(self, event, size)
        return kept[id(self), event, size]

    return _wrapped(Curator, "_draw", draw)


def _answers_drift() -> Any:
    def earliest(original: Any, self: Knowledge, goal: Goal) -> Any:
        self._settled.clear()
        found = original(self, goal)
        return found and replace(found, moment=self.transcript.moment)

    def ask_many(original: Any, self: Session, *args: Any, **named: Any) -> Any:
        self._answers.clear()
        return original(self, *args, **named)

    return _both(_wrapped(Knowledge, "_earliest", earliest), _wrapped(Session, "_ask_many", ask_many))


def _asked_again_is_measured_again() -> Any:
    def ask_many(original: Any, self: Session, *args: Any, **named: Any) -> Any:
        self._answers.clear()
        self._knowledge._settled.clear()
        with _patched(Knowledge, "_earliest", lambda self, goal: None):
            original(self, *args, **named)
        return original(self, *args, **named)

    return _wrapped(Session, "_ask_many", ask_many)


def _fresh_noise_on_restart() -> Any:
    def replay(original: Any, self: Any, charge: Any, note: Any) -> None:
        self._take(self._measure(f"again:{charge.id}", note, charge.analyst), note)

    return _wrapped(Record, "_replay", replay)


def _restart_forgets() -> Any:
    return _wrapped(
        Record, "__init__", lambda original, self, curator, name: original(self, curator, f"{name}{id(self)}")
    )


def _analyst_limit_ignored() -> Any:
    def charge(original: Any, self: Any, order: Any, **named: Any) -> Any:
        return original(self, order, **{**named, "analyst": "custodian"})

    return _wrapped(Record, "charge", charge)


def _limit_ignored() -> Any:
    return _patched(machine, "_spend", lambda books, scope, units: None)


def _guard_without_noise() -> Any:
    def test(original: Any, self: Any, question: Any, answer: Any, **named: Any) -> Any:
        original(self, question, answer, **named)
        true = tallied(self._engine, question) / question.grid
        return results.Tested(bool(np.abs(true - np.asarray(answer)).max() > 0.5), None)

    return _wrapped(guards.Guard, "test", test)


def _guard_not_charged() -> Any:
    def through(original: Any, self: Transaction, door: str, **named: Any) -> Any:
        return original(self, door, **{**named, "events": [] if door == "guard" else named["events"]})

    return _wrapped(Transaction, "through", through)


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "never charged": (_never_charged, "order"),
    "charged after the draw": (_charge_after_the_draw, "order"),
    "answered before the record": (_answer_before_the_record, "order"),
    "cache keyed on private values": (_cache_keyed_on_private_values, "public only: pure"),
    "hypothesis from the truth": (_hypothesis_from_the_truth, "public only: exhausted"),
    "purchase by true counts": (_purchase_by_true_counts, "public only: pure, replace"),
    "tolerance from the true row count": (_tolerance_from_the_true_rows, "public only: pure"),
    "warm start by the true row count": (_warm_start_by_the_true_rows, "public only: auto"),
    "nothing bought where the true error is small": (_stop_when_the_true_error_is_small, "public only: pure"),
    "empty cells shown as empty": (_empty_cells_shown_as_empty, "public only: pure"),
    "groups without rows left out": (_groups_without_rows_left_out, "public only: pure, replace"),
    "truth when the budget is gone": (_truth_when_the_budget_is_gone, "public only: exhausted"),
    "private count in a note": (_private_count_in_a_note, "public only: pure"),
    "private count in a refusal": (_private_count_in_a_refusal, "public only: exhausted"),
    "private count in an explanation": (_private_count_in_an_explanation, "public only: pure"),
    "exact row count under add-remove": (_exact_row_count, "public only: rows unknown"),
    "noise by the true row count": (_noise_by_the_true_rows, "public only: concentrated"),
    "guard without noise": (_guard_without_noise, "public only: guarded"),
    "guard not charged": (_guard_not_charged, "guard_charged"),
    "replace counted as add-remove": (_replace_counted_as_add_remove, "exact_epsilon"),
    "replace counted as add-remove (Gaussian)": (_replace_counted_as_add_remove, "renyi"),
    "contribution bound ignored": (_contributions_ignored, "exact_epsilon"),
    "half the noise": (lambda: _less_noise(2), "exact_epsilon"),
    "half the noise (Gaussian)": (lambda: _less_noise(2), "renyi"),
    "half the noise (reference)": (lambda: _less_noise(2), "reference"),
    "a tenth of the noise (sampled)": (lambda: _less_noise(10), "statistical"),
    "one part of a charge paid": (_one_part_of_a_batch_charged, "exact_epsilon"),
    "one noise value for two questions": (_noise_used_twice, "reference"),
    "a repeated question measured again": (_asked_again_is_measured_again, "asked_again"),
    "answers drift with later measurements": (_answers_drift, "restart"),
    "fresh noise on a restart": (_fresh_noise_on_restart, "restart"),
    "a restart forgets": (_restart_forgets, "restart"),
    "limit of an analyst ignored": (_analyst_limit_ignored, "analysts"),
    "limit of the table ignored": (_limit_ignored, "limit"),
}


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_killed(mutant: str) -> None:
    breaking, killer = MUTANTS[mutant]
    with breaking(), pytest.raises(AssertionError):
        GATES[killer]()
