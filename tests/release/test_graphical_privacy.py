"""Privacy audits of a whole graphical release, and broken ones that each must be caught by the gate named beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graphical_gates import BASE, GATES, WORKLOAD, ZCDP, loop
from release_checks import Seeded
from release_gates import CURATOR, MOMENTS, SCHEMA, interrupted, opened

import maquette as mq
from gate_tools import patched, tallied, wrapped
from maquette.curator import Curator
from maquette.curator.transaction import Transaction
from maquette.errors import MaquetteError
from maquette.estimates.graphical_fit import Estimated
from maquette.estimates.merged import Merging
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, Relation
from maquette.query import Marginal

Run = loop._Run


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("gate", GATES)
def test_graphical_releases_pass(gate: str) -> None:
    GATES[gate]()


def _true(columns: Any) -> np.ndarray:
    """What only the doors may see: the exact table of these columns."""
    return np.asarray(tallied(CURATOR[-1]._engine, Marginal(SCHEMA, columns)), dtype=np.float64)


def _groups_from_true_counts() -> Any:
    def groups(original: Any, schema: Any, name: str, counts: Any, deviation: float) -> Any:
        return original(schema, name, _true([name]), deviation)

    return wrapped(loop, "groups", groups)


def _choice_by_true_errors() -> Any:
    def chosen(original: Any, tree: Any, candidates: Any, **named: Any) -> Any:
        return original(tree, [replace(c, error=_dependence(c.columns)) for c in candidates], **named)

    return wrapped(loop, "chosen", chosen)


def _dependence(columns: Any) -> float:
    """Half the L1 distance of the exact table from that of independent columns."""
    table = _true(columns)
    alone = np.ones(()) * table.sum()
    for name in columns:
        alone = np.multiply.outer(alone, _true([name]) / table.sum())
    return float(np.abs(table - alone).sum() / 2)


def _candidates_by_true_errors() -> Any:
    def candidates_of(original: Any, tables: Any, size: int) -> Any:
        return {s: weight for s, weight in original(tables, size).items() if _dependence(s) > 1.0}

    return wrapped(loop, "candidates_of", candidates_of)


def _weights_by_true_counts() -> Any:
    def candidates_of(original: Any, tables: Any, size: int) -> Any:
        return {s: float((_true(s) == 0).sum()) for s in original(tables, size)}

    return wrapped(loop, "candidates_of", candidates_of)


def _shares_by_true_counts() -> Any:
    def allocation(original: Any, *args: Any, **named: Any) -> Any:
        made = original(*args, **named)
        made.shares = made.shares * np.array([1.0 + (_true(part) > 0).sum() for part in made.sets])
        return made

    return wrapped(loop, "Allocation", allocation)


def _prices_by_true_counts() -> Any:
    def measure(original: Any, run: Any, tables: Any, units: float) -> Any:
        return original(run, tables, units * 100 / (100 + run.curator._engine.rows))

    return wrapped(loop._Run, "_measure", measure)


def _rounds_from_the_truth() -> Any:
    def plan(original: Any, self: Any) -> Any:
        self.rounds = 1 if _dependence(("age", "smoker")) > 1.0 else 2
        return original(self)

    return wrapped(Run, "plan", plan)


def _stop_when_the_true_error_is_small() -> Any:
    def round_(original: Any, self: Any, share: float, shown: Any) -> Any:
        far = np.abs(self.model.marginal(["age", "smoker"]) - _true(["age", "smoker"]) / len(BASE)).sum()
        if far > 0.4:
            original(self, share, shown)

    return wrapped(Run, "round", round_)


def _exact_row_count() -> Any:
    def total(original: Any, self: Any, residuals: Any) -> None:
        residuals.combine((), np.array(float(self.curator._engine.rows)), np.array(loop.EXACT))

    return wrapped(Run, "_total", total)


def _rows_taken_for_public() -> Any:
    return patched(Relation, "rows_are_public", property(lambda self: True))


def _fit_started_from_the_truth() -> Any:
    def estimates(original: Any, model: Any, residuals: Any, **named: Any) -> Any:
        smoker = np.log(_true(["smoker"]) + 1.0)
        known = {("smoker",): np.array([(smoker[0] - smoker[1]) / np.sqrt(2)])}
        start = named["start"] or Estimated(model, {}, 0.0, 0.1)
        return original(model, residuals, **{**named, "start": replace(start, parameters=start.parameters | known)})

    return wrapped(loop, "estimates", estimates)


def _fit_until_the_truth_is_met() -> Any:
    def estimates(original: Any, *args: Any, **named: Any) -> Any:
        for fitted in original(*args, **named):
            yield fitted
            if abs(fitted.model.marginal(["smoker"])[1] - _true(["smoker"])[1] / len(BASE)) < 0.5:
                return

    return wrapped(loop, "estimates", estimates)


def _levels_split_by_the_truth() -> Any:
    def within(original: Any, self: Merging, fine: Any) -> Any:
        shares = original(self, fine)
        for name in shares:
            masses = _true([name]) + 1.0
            shares[name] = masses / np.bincount(self.groups[name], weights=masses)[self.groups[name]]
        return shares

    return wrapped(Merging, "within", within)


def _evidence_from_the_truth() -> Any:
    def take(original: Any, self: Merging, measurement: Any, columns: Any, into: Any) -> None:
        if columns == ("smoker",):
            exact = tallied(CURATOR[-1]._engine, measurement.question) / measurement.question.grid
            measurement = replace(measurement, values=exact)
        original(self, measurement, columns, into)

    return wrapped(Merging, "take", take)


def _room_by_true_rows() -> Any:
    def plan(original: Any, self: Any) -> Any:
        shares = original(self)
        self.max_cells = 10 * self.curator._engine.rows
        return shares

    return wrapped(Run, "plan", plan)


def _truth_in_the_certificate() -> Any:
    def certified(original: Any, curator: Curator, method: str, units: int) -> Any:
        return original(curator, f"{method}, {curator._engine.rows} rows", units)

    return wrapped(loop, "certified", certified)


def _truth_in_a_refusal() -> Any:
    def columns(original: Any, self: Any) -> None:
        try:
            original(self)
        except MaquetteError as refused:
            raise type(refused)(f"{refused} for {self.curator._engine.rows} rows") from None

    return wrapped(Run, "columns", columns)


def _charge_after_the_draw() -> Any:
    def through(original: Any, self: Transaction, door: str, **named: Any) -> Any:
        arrays = named["evaluate"]()
        return original(self, door, **{**named, "evaluate": lambda: arrays})

    return wrapped(Transaction, "through", through)


def _never_charged() -> Any:
    def through(original: Any, self: Transaction, door: str, **named: Any) -> Any:
        return named["evaluate"](), self.loss(0)

    return wrapped(Transaction, "through", through)


def _errors_not_charged() -> Any:
    def through(original: Any, self: Transaction, door: str, **named: Any) -> Any:
        return original(self, door, **{**named, "events": [] if door == "measure_error" else named["events"]})

    return wrapped(Transaction, "through", through)


def _errors_not_counted() -> Any:
    """The loop forgets that the errors of a round were paid for."""

    def errors(original: Any, self: Any, units: float) -> Any:
        before = self.spent
        found = original(self, units)
        self.spent = before
        return found

    return wrapped(Run, "_errors", errors)


def _one_table_moves() -> Any:
    """The errors of all tables taken to move as those of one do."""

    def calibrated(original: Any, self: Curator, law: Any, units: int, *_: int) -> Any:
        return original(self, law, units, 1, 1)

    return wrapped(Curator, "_calibrated", calibrated)


def _contrasts_priced_by_half() -> Any:
    def calibrated(original: Any, self: Curator, law: Any, units: int, *moves: int) -> Any:
        return original(self, law, units, moves[0], moves[1] if moves[1] < 100 else moves[1] // 2)

    return wrapped(Curator, "_calibrated", calibrated)


def _less_noise(factor: int) -> Any:
    def calibrated(original: Any, *args: Any) -> Any:
        event = original(*args)
        if isinstance(event, DiscreteLaplace):
            return DiscreteLaplace(event.scale / factor, event.sensitivity / factor)
        return DiscreteGaussian(event.variance / factor**2, event.sensitivity_squared / factor**2)

    return wrapped(Curator, "_calibrated", calibrated)


def _replace_counted_as_add_remove() -> Any:
    return patched(Relation, "_ends", property(lambda self: 1))


@contextmanager
def _noise_by_the_true_rows() -> Iterator[None]:
    def calibrated(original: Any, self: Curator, law: Any, units: int, *moves: int) -> Any:
        return original(self, law, units - self._engine.rows, *moves)

    with wrapped(Curator, "_calibrated", calibrated):
        yield


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "groups from true counts": (_groups_from_true_counts, "public only: concentrated"),
    "choice by true errors": (_choice_by_true_errors, "public only: concentrated"),
    "choice by true errors (rows public)": (_choice_by_true_errors, "public only: rows are public"),
    "candidates by true errors": (_candidates_by_true_errors, "public only: pure"),
    "weights by true counts": (_weights_by_true_counts, "public only: concentrated"),
    "shares by true counts": (_shares_by_true_counts, "public only: concentrated"),
    "prices by true counts": (_prices_by_true_counts, "public only: pure"),
    "rounds from the truth": (_rounds_from_the_truth, "public only: rows are public"),
    "stopped when the true error is small": (_stop_when_the_true_error_is_small, "public only: Gaussian"),
    "exact row count under add-remove": (_exact_row_count, "public only: concentrated"),
    "rows taken for public": (_rows_taken_for_public, "public only: pure"),
    "fit started from the truth": (_fit_started_from_the_truth, "public only: concentrated"),
    "fit until the truth is met": (_fit_until_the_truth_is_met, "public only: concentrated"),
    "levels split by the truth": (_levels_split_by_the_truth, "public only: concentrated"),
    "evidence from the truth": (_evidence_from_the_truth, "public only: concentrated"),
    "room by true rows": (_room_by_true_rows, "public only: concentrated"),
    "truth in the certificate": (_truth_in_the_certificate, "public only: pure"),
    "truth in a refusal": (_truth_in_a_refusal, "public only: too little"),
    "noise by the true rows": (_noise_by_the_true_rows, "public only: concentrated"),
    "charged after the draw": (_charge_after_the_draw, "order"),
    "never charged": (_never_charged, "order"),
    "errors not charged": (_errors_not_charged, "exact loss: concentrated"),
    "errors not counted": (_errors_not_counted, "charges: concentrated"),
    "errors of many tables priced as of one": (_one_table_moves, "exact loss: pure"),
    "errors of many tables priced as of one (Gaussian)": (_one_table_moves, "exact loss: Gaussian"),
    "contrasts priced by half": (_contrasts_priced_by_half, "exact loss: concentrated"),
    "half the noise": (lambda: _less_noise(2), "exact loss: pure"),
    "half the noise (Gaussian)": (lambda: _less_noise(2), "exact loss: Gaussian"),
    "half the noise (reference)": (lambda: _less_noise(2), "charges: concentrated"),
    "replace counted as add-remove": (_replace_counted_as_add_remove, "exact loss: pure, two rounds"),
    "replace counted as add-remove (reference)": (_replace_counted_as_add_remove, "charges: rows are public"),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutant_is_killed(mutant: str) -> None:
    breaking, killer = MUTANTS[mutant]
    with breaking(), pytest.raises(AssertionError):
        GATES[killer]()


def _parts(evidence: Any) -> set[tuple[str, ...]]:
    """The sets of columns that a release knows something of."""
    return {columns for each in (evidence.fine, evidence.coarse) for columns, _, _ in each}


@functools.cache
def _undisturbed() -> tuple[mq.Release, list[int]]:
    """The release that nothing interrupts, and what its accesses are charged."""
    with Curator(opened(BASE), ZCDP, noise=Seeded(0)) as curator:
        made = mq.release(curator, WORKLOAD, method="graphical", rounds=2, check=False)
        return made, [charge.units for charge in curator.ledger.charges()]


@pytest.mark.thorough(fast=4)
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("access", range(5))
def test_an_interrupted_access_leaves_a_ledger_that_adds_up(access: int, moment: str) -> None:
    """Five accesses: columns, and errors and tables twice. What was recorded before is released, and all is certified.

    An access that was charged is paid, whether or not its answer arrived.
    """
    whole, prices = _undisturbed()
    with Curator(opened(BASE), ZCDP, noise=Seeded(0)) as curator:
        charged = prices[: access + (moment != "before the charge")]
        with interrupted(curator.ledger, access, moment):
            if access == 0:
                with pytest.raises(KeyboardInterrupt):
                    mq.release(curator, WORKLOAD, method="graphical", rounds=2, check=False)
            else:
                made = mq.release(curator, WORKLOAD, method="graphical", rounds=2, check=False)
        assert [charge.units for charge in curator.ledger.charges()] == charged
        assert curator.ledger.spent() == sum(charged)
        assert curator.remaining.units == curator.budget.limit - sum(charged)
        if access == 0:
            return
        assert made.certificate.units == sum(charged)
        assert len(made.certificate.charges) == len(charged)
        assert made.marginal("age", "region", "smoker").sum() == pytest.approx(1)
        assert made.sample(20).num_rows == 20
        known = {("age",), ("region",), ("smoker",)}
        assert _parts(made.evidence) >= (
            known if access < 3 else known | {p for p in _parts(whole.evidence) if len(p) < 2}
        )
        assert any(len(part) == 2 for part in _parts(made.evidence)) == (access >= 3)
        again = (
            mq.release(curator, WORKLOAD, method="graphical", check=False) if curator.remaining.units > 10**9 else None
        )
        assert curator.ledger.spent() <= curator.budget.limit
        assert again is None or again.certificate.units + made.certificate.units == curator.ledger.spent()


@pytest.mark.parametrize("fit", range(3))
def test_an_interrupted_fit_releases_all_that_was_measured(fit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first model of a fit is there: the earlier model stands, the evidence is all there is."""
    original, count = loop.estimates, iter(range(9))

    def stopped(*args: Any, **named: Any) -> Iterator[Estimated]:
        if next(count) == fit:
            raise KeyboardInterrupt
        yield from original(*args, **named)

    monkeypatch.setattr(loop, "estimates", stopped)
    with Curator(opened(BASE), ZCDP, noise=Seeded(0)) as curator:
        if fit == 0:
            with pytest.raises(KeyboardInterrupt):
                mq.release(curator, WORKLOAD, method="graphical", rounds=2, check=False)
            assert len(list(curator.ledger.charges())) == 1
            return
        made = mq.release(curator, WORKLOAD, method="graphical", rounds=2, check=False)
        assert made.certificate.units == curator.ledger.spent()
        assert len(made.certificate.charges) == 1 + 2 * fit
    assert any(len(part) == 2 for part in _parts(made.evidence))
    answer = made.answer("age >= 10 AND smoker")
    assert isinstance(answer, mq.Answer)
    assert answer.guarantee is not None


@pytest.mark.parametrize("moment", MOMENTS[1:])
def test_an_interrupt_that_releases_nothing_says_what_was_charged(moment: str) -> None:
    with (
        Curator(opened(BASE), ZCDP, noise=Seeded(0)) as curator,
        interrupted(curator.ledger, 0, moment),
        pytest.raises(KeyboardInterrupt) as stopped,
    ):
        mq.release(curator, WORKLOAD, method="graphical", check=False)
    assert "charged" in " ".join([str(stopped.value), *getattr(stopped.value, "__notes__", [])])
