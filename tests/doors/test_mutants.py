"""Broken doors: each must be caught by the gate named beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from door_checks import GATES

from gate_tools import one_contribution, patched, shrunk
from maquette.curator import Curator, compile as compile_module, guard as guards, intake, scores
from maquette.curator.sparse_vector import Outcome
from maquette.curator.transaction import Transaction
from maquette.privacy import DiscreteLaplace, Relation

_calibrated, _draw, _through = Curator._calibrated, Curator._draw, Transaction.through
_one_cell = Relation.one_cell


def _half_noise() -> Any:
    return patched(Curator, "_calibrated", lambda self, *args: shrunk(_calibrated(self, *args), 2))


def _relation_ignored() -> Any:
    return patched(Relation, "l1", _one_cell)


def _relation_ignored_in_l2() -> Any:
    return patched(Relation, "l2_squared", lambda self, m: _one_cell(self, m) ** 2)


def _contributions_ignored() -> Any:
    return one_contribution()


def _contributions_ignored_where_rows_are_replaced() -> Any:
    return one_contribution(lambda relation: relation.kind == "replace")


def _rows_exchanged_for_as_many() -> Any:
    """A person of two rows may be replaced by one of a single row: the least weight is no common floor."""
    original = Relation.l1

    def l1(self: Relation, m: Any) -> int:
        if self.kind == "add-remove" or m.moves.gains is not None or m.moves.cells > 1:
            return original(self, m)
        return self.max_contributions * max(1, m.moves.high - m.moves.low)

    return patched(Relation, "l1", l1)


def _norms_ignored() -> Any:
    return patched(compile_module, "together", lambda gains: (1, 1, 1))


def _root_of_contributions() -> Any:
    def l2(self: Relation, m: Any) -> int:
        return self._ends * self.max_contributions * _one_cell(replace(self, max_contributions=1), m) ** 2

    return patched(Relation, "l2_squared", l2)


def _l2_for_laplace() -> Any:
    def calibrated(self: Any, law: Any, units: int, l1: int, l2_squared: int) -> Any:
        return _calibrated(self, law, units, max(1, int(l2_squared**0.5)), l2_squared)

    return patched(Curator, "_calibrated", calibrated)


def _shared_noise() -> Any:
    return patched(Curator, "_draw", lambda self, event, size: np.repeat(_draw(self, event, 1), size))


def _float_noise() -> Any:
    return patched(Curator, "_draw", lambda self, event, size: _draw(self, event, size) + 0.25)


def _scale_from_the_rows() -> Any:
    def calibrated(self: Any, law: Any, units: int, l1: int, l2_squared: int) -> Any:
        return shrunk(_calibrated(self, law, units, l1, l2_squared), self._engine.rows)

    return patched(Curator, "_calibrated", calibrated)


def _errors_not_summed() -> Any:
    def calibrated(self: Any, law: Any, units: int, l1: int, l2_squared: int) -> Any:
        return _calibrated(self, law, units, max(1, l1 // 3), max(1, l2_squared // 9))

    return patched(Curator, "_calibrated", calibrated)


def _selection_without_the_factor_two() -> Any:
    return patched(intake, "round_scale_up", lambda scale: scale / 2)


def _weights_not_in_the_sensitivity() -> Any:
    original = scores.Scorer.__init__

    def init(self: Any, *args: Any, **named: Any) -> None:
        original(self, *args, **named)
        self.sensitivity //= max(self.weights)

    return patched(scores.Scorer, "__init__", init)


def _public_answers_not_rounded() -> Any:
    return patched(intake, "rounded_to", lambda values, grid: values * grid)


def _error_shortcut() -> Any:
    original = guards.SparseVector.test

    def test(self: Any, private: int, *, answer_of: int | None = None) -> Any:
        return original(self, private, answer_of=answer_of) if private else Outcome(False, None)

    return patched(guards.SparseVector, "test", test)


def _exact_numeric_answer() -> Any:
    return patched(guards.SparseVector, "_answer", lambda self, exact: exact if self.settings.answer else None)


def _guard_contributions_ignored() -> Any:
    original = guards._calibrated

    def calibrated(transaction: Any, units: int, hits: int, sensitivity: int, *rest: Any, **named: Any) -> Any:
        return original(transaction, units, hits, guards.GRID, *rest, **named)

    return patched(guards, "_calibrated", calibrated)


def _guard_pays_for_one_hit() -> Any:
    original = guards._calibrated

    def calibrated(transaction: Any, units: int, hits: int, *rest: Any, **named: Any) -> Any:
        return replace(original(transaction, units, 1, *rest, **named), hits=hits)

    return patched(guards, "_calibrated", calibrated)


def _hits_never_counted() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        if door == "guard.test":
            named["hit"] = lambda _: False
        return _through(self, door, **named)

    original = guards.SparseVector.test

    def test(self: Any, private: int, *, answer_of: int | None = None) -> Any:
        self.hits = 0
        return original(self, private, answer_of=answer_of)

    @contextmanager
    def both() -> Iterator[None]:
        with patched(Transaction, "through", through), patched(guards.SparseVector, "test", test):
            yield

    return both()


def _draw_before_the_charge() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        arrays = named["evaluate"]()
        return _through(self, door, **{**named, "evaluate": lambda: arrays})

    return patched(Transaction, "through", through)


def _never_charged() -> Any:
    return patched(Transaction, "through", lambda self, door, **named: (named["evaluate"](), self.loss(0)))


def _answer_before_the_record() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        commit, self.ledger.commit = self.ledger.commit, lambda *_, **__: None  # type: ignore[method-assign, assignment]
        try:
            return _through(self, door, **named)
        finally:
            self.ledger.commit = commit  # type: ignore[method-assign]

    return patched(Transaction, "through", through)


def _fresh_noise_on_retry() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        arrays, cost = _through(self, door, **named)
        return (named["evaluate"]() if self.ledger.lookup(named["request"] or "") else arrays), cost

    return patched(Transaction, "through", through)


def _charged_at_half_price() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        wider = [
            DiscreteLaplace(e.scale * 2, e.sensitivity) if isinstance(e, DiscreteLaplace) else e
            for e in named["events"]
        ]
        return _through(self, door, **{**named, "events": wider})

    return patched(Transaction, "through", through)


def _exact_row_count() -> Any:
    return patched(Relation, "rows_are_public", property(lambda self: True))


def _one_sided_scores() -> Any:
    original = scores.Scorer.scores

    def one_sided(self: Any, i: int, error: Any, signed: bool) -> Any:
        return original(self, i, np.maximum(error, 0), signed)

    return patched(scores.Scorer, "scores", one_sided)


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "half the noise": (_half_noise, "measure"),
    "replace counted as add-remove (L1)": (_relation_ignored, "measure"),
    "replace counted as add-remove (L2)": (_relation_ignored_in_l2, "measure"),
    "contribution bound ignored": (_contributions_ignored, "measure"),
    "sums ignore contributions under replace": (_contributions_ignored_where_rows_are_replaced, "sums"),
    "sums as if rows were exchanged for as many": (_rows_exchanged_for_as_many, "sums"),
    "lottery ignores contributions under replace": (_contributions_ignored_where_rows_are_replaced, "lottery"),
    "norms of contrasts ignored": (_norms_ignored, "measure"),
    "square root of the contribution bound": (_root_of_contributions, "measure"),
    "L2 sensitivity for Laplace noise": (_l2_for_laplace, "measure"),
    "one noise value for all cells": (_shared_noise, "exhaustive_noise"),
    "float noise": (_float_noise, "exhaustive_noise"),
    "scale computed from the rows": (_scale_from_the_rows, "measure"),
    "charged at half price": (_charged_at_half_price, "measure"),
    "distances as if each had the budget alone": (_errors_not_summed, "measure_error"),
    "distances under the wrong relation": (_relation_ignored, "measure_error"),
    "selection without the factor two": (_selection_without_the_factor_two, "select_worst"),
    "selection weights not in the sensitivity": (_weights_not_in_the_sensitivity, "select_worst"),
    "selection ignores contributions": (_contributions_ignored, "select_best"),
    "public answers not rounded": (_public_answers_not_rounded, "select_worst"),
    "only one direction scored": (_one_sided_scores, "selection_scores"),
    "zero-error shortcut": (_error_shortcut, "guard"),
    "exact numeric answer on a hit": (_exact_numeric_answer, "guard"),
    "guard never stops": (_hits_never_counted, "guard"),
    "guard pays for one hit": (_guard_pays_for_one_hit, "guard"),
    "guard ignores contributions": (_guard_contributions_ignored, "guard_cost"),
    "draw before the charge": (_draw_before_the_charge, "order"),
    "never charged": (_never_charged, "order"),
    "answer before the record": (_answer_before_the_record, "order"),
    "fresh noise on a retry": (_fresh_noise_on_retry, "replay"),
    "exact row count under add-remove": (_exact_row_count, "rows"),
}


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_killed(mutant: str) -> None:
    breaking, killer = MUTANTS[mutant]
    with breaking(), pytest.raises((AssertionError, TypeError, ValueError)):
        GATES[killer]()
