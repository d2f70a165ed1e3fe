"""Broken sessions: each must be caught by the gate named beside it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from textbook_checks import GATES

from maquette.hypothesis import MultiplicativeWeights
from maquette.query import LinearQuery
from maquette.session.baselines.known_rows import KnownRows
from maquette.session.textbook.online_ic import OnlineIC

textbook: Any = importlib.import_module("maquette.session.textbook.online_ic")
plans: Any = importlib.import_module("maquette.session.textbook.plan")
guards: Any = importlib.import_module("maquette.curator.guard")
ledgers: Any = importlib.import_module("maquette.privacy.ledger.book")
passages: Any = importlib.import_module("maquette.curator.transaction")

_init, _fresh, _calibrated = OnlineIC.__init__, OnlineIC._fresh, guards._calibrated
_test, _draw_threshold = guards.SparseVector.test, guards.SparseVector._draw_threshold
_through, _open_guard = passages.Transaction.through, ledgers.BookLedger.open_guard


def exact(session: OnlineIC, query: LinearQuery) -> float:
    """What a mutant has no right to: the fraction on the rows."""
    engine = session.curator._engine
    counts = np.asarray(engine.counts(query.columns))
    return float((counts * query.weights()).sum() / engine.rows)


def patched(target: Any, name: str, value: Any) -> Any:
    return mock.patch.object(target, name, value)


def _started_from_the_truth() -> Any:
    def init(self: Any, *args: Any, **settings: Any) -> None:
        _init(self, *args, **settings)
        counts = np.asarray(self.curator._engine.counts(self.curator.schema.names)) + 1e-9
        self.hypothesis = MultiplicativeWeights(self.curator.schema, alpha=0.2, prior=counts)

    return patched(OnlineIC, "__init__", init)


def _silent_update_on_easy_rounds() -> Any:
    def fresh(self: Any, query: LinearQuery) -> Any:
        answer = _fresh(self, query)
        if answer.source == "hypothesis":
            self.hypothesis.update(query, exact(self, query))
        return answer

    return patched(OnlineIC, "_fresh", fresh)


@contextmanager
def _updating(change: Callable[[OnlineIC, LinearQuery, float], float | None]) -> Iterator[None]:
    """Sessions that update with another value than the released one; None is no update."""

    def init(self: Any, *args: Any, **settings: Any) -> None:
        _init(self, *args, **settings)
        step = self.hypothesis.update

        def update(query: LinearQuery, value: float) -> None:
            other = change(self, query, value)
            if other is not None:
                step(query, other)

        self.hypothesis.update = update

    with patched(OnlineIC, "__init__", init):
        yield


def _update_with_the_exact_value() -> Any:
    return _updating(lambda session, query, value: exact(session, query))


def _update_the_wrong_way() -> Any:
    return _updating(lambda session, query, value: 2 * session.hypothesis.answer(query) - value)


def _update_forgotten() -> Any:
    return _updating(lambda session, query, value: None)


def _easy_rounds_answered_exactly() -> Any:
    def fresh(self: Any, query: LinearQuery) -> Any:
        answer = _fresh(self, query)
        return replace(answer, value=exact(self, query)) if answer.source == "hypothesis" else answer

    return patched(OnlineIC, "_fresh", fresh)


def _no_error_no_test() -> Any:
    def fresh(self: Any, query: LinearQuery) -> Any:
        public = self.hypothesis.answer(query)
        if abs(public - exact(self, query)) < 1e-3:
            return self._modelled(public, promised=True)
        return _fresh(self, query)

    return patched(OnlineIC, "_fresh", fresh)


def _repeats_tested_again() -> Any:
    def ask(self: Any, asked: LinearQuery) -> Any:
        return self._fresh(asked)

    return patched(OnlineIC, "ask", ask)


def _repeats_answered_by_the_new_model() -> Any:
    ask = OnlineIC.ask

    def again(self: Any, asked: LinearQuery) -> Any:
        known = asked.key in self._answers
        answer = ask(self, asked)
        return self._modelled(self.hypothesis.answer(asked), promised=True) if known else answer

    return patched(OnlineIC, "ask", again)


@contextmanager
def _more_hits(extra: int) -> Iterator[None]:
    """A guard that is sealed too late, with the noise of one that is not."""

    def open_guard(self: Any, name: str, *, hits: int) -> Any:
        return _open_guard(self, name, hits=hits + extra)

    late = property(lambda self: self.hits >= self.settings.hits + extra)
    with patched(ledgers.BookLedger, "open_guard", open_guard), patched(guards.SparseVector, "sealed", late):
        yield


def _one_hit_too_many() -> Any:
    return _more_hits(1)


def _never_sealed() -> Any:
    return _more_hits(1000)


def _promises_after_the_seal() -> Any:
    modelled = OnlineIC._modelled
    return patched(OnlineIC, "_modelled", lambda self, value, promised: modelled(self, value, promised=True))


def _threshold_not_refreshed() -> Any:
    def once(self: Any) -> int:
        if not hasattr(self, "kept"):
            self.kept = _draw_threshold(self)
        return int(self.kept)

    return patched(guards.SparseVector, "_draw_threshold", once)


def _no_threshold_noise() -> Any:
    return patched(guards.SparseVector, "_draw_threshold", lambda self: self.threshold)


def _calibration(change: Callable[[Any], Any]) -> Any:
    return patched(guards, "_calibrated", lambda *facts, **settings: change(_calibrated(*facts, **settings)))


def _half_query_noise() -> Any:
    return _calibration(lambda made: replace(made, query_scale=made.query_scale / 2))


def _half_threshold_noise() -> Any:
    return _calibration(lambda made: replace(made, threshold_scale=made.threshold_scale / 2))


def _noise_for_one_hit() -> Any:
    def calibrated(transaction: Any, units: int, hits: int, *facts: Any, **settings: Any) -> Any:
        return replace(_calibrated(transaction, units, 1, *facts, **settings), hits=hits)

    return patched(guards, "_calibrated", calibrated)


def _exact_numeric_answer() -> Any:
    return patched(guards.SparseVector, "_answer", lambda self, exact: exact)


def _compared_noise_released() -> Any:
    def test(self: Any, private: int, *, answer_of: int | None = None) -> Any:
        drawn: list[int] = []
        laplace = self._laplace

        def kept(scale: Any) -> int:
            drawn.append(laplace(scale))
            return drawn[-1]

        self._laplace, self._answer = kept, lambda exact: exact + drawn[0]
        outcome = _test(self, private, answer_of=answer_of)
        del self._laplace, self._answer
        return outcome

    return patched(guards.SparseVector, "test", test)


def _free_guard() -> Any:
    def through(self: Any, door: str, *, events: Any, **settings: Any) -> Any:
        return _through(self, door, events=[] if door == "guard" else events, **settings)

    return patched(passages.Transaction, "through", through)


def _rows_not_estimated() -> Any:
    return patched(plans, "known_rows", lambda curator, *_, **__: KnownRows(float(curator._engine.rows)))


def _noise_for_the_number_of_queries() -> Any:
    plan = textbook.plan

    def scaled(rule: Any, setting: Any, calibration: Any) -> Any:
        found = plan(rule, setting, calibration)
        return replace(found, units=found.units / (1 + setting.queries / 1e5))

    return patched(textbook, "plan", scaled)


def _constants_tested() -> Any:
    columns = LinearQuery.columns

    def fresh(self: Any, query: LinearQuery) -> Any:
        with patched(LinearQuery, "columns", property(lambda q: columns.fget(q) or q.schema.names)):  # type: ignore[attr-defined]
            return _fresh(self, query)

    return patched(OnlineIC, "_fresh", fresh)


MUTANTS: list[tuple[Callable[[], Any], str]] = [
    (_started_from_the_truth, "reference"),
    (_started_from_the_truth, "exact_loss"),
    (_silent_update_on_easy_rounds, "reference"),
    (_silent_update_on_easy_rounds, "exact_loss"),
    (_update_with_the_exact_value, "reference"),
    (_update_with_the_exact_value, "exact_loss"),
    (_update_the_wrong_way, "reference"),
    (_update_forgotten, "reference"),
    (_easy_rounds_answered_exactly, "reference"),
    (_easy_rounds_answered_exactly, "exact_loss"),
    (_no_error_no_test, "reference"),
    (_no_error_no_test, "exact_loss"),
    (_repeats_tested_again, "reference"),
    (_repeats_answered_by_the_new_model, "reference"),
    (_one_hit_too_many, "reference"),
    (_never_sealed, "reference"),
    (_promises_after_the_seal, "reference"),
    (_threshold_not_refreshed, "reference"),
    (_no_threshold_noise, "reference"),
    (_half_query_noise, "reference"),
    (_half_threshold_noise, "reference"),
    (_noise_for_one_hit, "reference"),
    (_exact_numeric_answer, "reference"),
    (_exact_numeric_answer, "exact_loss"),
    (_compared_noise_released, "reference"),
    (_free_guard, "exact_loss"),
    (_rows_not_estimated, "exact_loss"),
    (_noise_for_the_number_of_queries, "noise_ignores_the_number_of_queries"),
    (_constants_tested, "constants_change_nothing"),
]


@pytest.mark.thorough(fast=10)
@pytest.mark.parametrize(("mutant", "gate"), MUTANTS, ids=lambda part: getattr(part, "__name__", part).strip("_"))
def test_mutants_are_killed(mutant: Callable[[], Any], gate: str) -> None:
    with mutant(), pytest.raises(AssertionError):
        GATES[gate]()
