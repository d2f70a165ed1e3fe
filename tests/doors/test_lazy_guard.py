"""The lazy guard: gates it must pass, broken guards that each must be caught by one of them, and refusals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from door_checks import ZCDP, table, where
from lazy_checks import BASIC, DELTA, LAZY_GATES, PEOPLE, Class, adaptive_delta, constant_delta, opened, worst_delta

import maquette as mq
from gate_tools import patched
from maquette.audit.reference import ScriptedNoise, discrete_laplace
from maquette.curator import Curator, LazyGuard, lazy_guard as lazy_module
from maquette.curator.transaction import Transaction
from maquette.errors import BudgetError, QueryError
from maquette.privacy import UNITS_PER_ONE, Budget, LazyRounds, basic, from_dict
from maquette.privacy.lazy import lazy_epsilon, lazy_rate
from maquette.privacy.ledger.book import BookLedger

_through, _init, _calibrated = Transaction.through, LazyGuard.__init__, lazy_module.calibrated
_open_guard = BookLedger.open_guard


@pytest.fixture(autouse=True)
def _large_delta() -> Iterator[None]:
    """A delta that samples can see, far too large for people's rows."""
    with patched(Budget, "check_private_rows", lambda self: None):
        yield


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("gate", LAZY_GATES)
def test_lazy_guard_passes(gate: str) -> None:
    LAZY_GATES[gate]()


def _changing(changes: Callable[[str, dict[str, Any]], dict[str, Any]]) -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        return _through(self, door, **{**named, **changes(door, named)})

    return patched(Transaction, "through", through)


def _never_sealed() -> Any:
    return _changing(lambda door, _: {"hit": lambda _: False} if door == "lazy_guard.test" else {})


def _one_hit_more() -> Any:
    return patched(BookLedger, "open_guard", lambda self, id, hits: _open_guard(self, id, hits=hits + 1))  # noqa: A006


def _half_noise() -> Any:
    def init(self: Any, *args: Any, event: LazyRounds, **named: Any) -> None:
        _init(self, *args, event=replace(event, scale=event.scale / 2), **named)

    return patched(LazyGuard, "__init__", init)


class _Repeating:
    """Gives the same draw to every test."""

    def __init__(self, noise: Any) -> None:
        self._noise, self._drawn = noise, None

    def laplace(self, scale: Any, size: int) -> Any:
        if self._drawn is None:
            self._drawn = self._noise.laplace(scale, size)
        return self._drawn


def _noise_drawn_once() -> Any:
    def init(self: Any, transaction: Any, engine: Any, questions: Any, noise: Any, **named: Any) -> None:
        _init(self, transaction, engine, questions, _Repeating(noise), **named)  # type: ignore[arg-type]

    return patched(LazyGuard, "__init__", init)


def _evaluating(change: Callable[[Callable[[], Any], Any], Callable[[], Any]]) -> Any:
    """Break what a test computes; `change` gets the evaluation and the exact count behind it."""

    def changes(door: str, named: dict[str, Any]) -> dict[str, Any]:
        return {"evaluate": change(named["evaluate"], named["public"])} if door == "lazy_guard.test" else {}

    return _changing(changes)


def _silence_keeps_the_number() -> Any:
    kept: list[int] = []
    original = lazy_module.tally

    def spied(engine: Any, m: Any) -> Any:
        counted = original(engine, m)
        kept.append(int(counted.reshape(-1)[0]))
        return counted

    def change(evaluate: Callable[[], Any], _: Any) -> Callable[[], Any]:
        def broken() -> Any:
            off, noisy = evaluate()[0].tolist()
            return [np.array([off, noisy or kept[-1]], dtype=np.int64)]

        return broken

    @contextmanager
    def both() -> Iterator[None]:
        with patched(lazy_module, "tally", spied), _evaluating(change):
            yield

    return both()


def _value_without_noise() -> Any:
    original, kept = lazy_module.tally, [0]

    def spied(engine: Any, m: Any) -> Any:
        counted = original(engine, m)
        kept[0] = int(counted.reshape(-1)[0])
        return counted

    def change(evaluate: Callable[[], Any], _: Any) -> Callable[[], Any]:
        def broken() -> Any:
            off = evaluate()[0].tolist()[0]
            return [np.array([off, kept[0] if off else 0], dtype=np.int64)]

        return broken

    @contextmanager
    def both() -> Iterator[None]:
        with patched(lazy_module, "tally", spied), _evaluating(change):
            yield

    return both()


def _pays_for_one_hit() -> Any:
    def calibrated(transaction: Any, units: int, hits: int, sensitivity: int) -> LazyRounds:
        return _calibrated(transaction, units, 1, sensitivity)

    return patched(lazy_module, "calibrated", calibrated)


def _contributions_ignored() -> Any:
    def calibrated(transaction: Any, units: int, hits: int, sensitivity: int) -> LazyRounds:
        return _calibrated(transaction, units, hits, lazy_module.GRID)

    return patched(lazy_module, "calibrated", calibrated)


def _charged_at_two_thirds() -> Any:
    return patched(basic, "lazy_epsilon", lambda **named: lazy_epsilon(**named) * 2 / 3)


def _draw_before_the_charge() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        arrays = named["evaluate"]()
        return _through(self, door, **{**named, "evaluate": lambda: arrays})

    return patched(Transaction, "through", through)


def _opened_before_it_is_charged() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        if door == "lazy_guard":
            self.ledger.open_guard("lazy-guard", hits=2)
        done = _through(self, door, **named)
        self.ledger.open_guard = lambda *_, **__: None  # type: ignore[method-assign]
        return done

    return patched(Transaction, "through", through)


def _a_fresh_name_each_time() -> Any:
    names = iter(range(10**6))

    @contextmanager
    def both() -> Iterator[None]:
        original = LazyGuard.open.__func__  # type: ignore[attr-defined]

        def fresh(cls: Any, *args: Any, **named: Any) -> Any:
            lazy_module.NAME = f"lazy-guard:{next(names)}"
            return original(cls, *args, **named)

        with ExitStack() as stack:
            stack.enter_context(patched(lazy_module, "NAME", "lazy-guard"))
            stack.enter_context(patched(LazyGuard, "open", classmethod(fresh)))
            yield

    return both()


def _same_request_opens_again() -> Any:
    opened_guards: set[tuple[Any, str]] = set()

    def open_guard(self: Any, id: str, *, hits: int) -> None:  # noqa: A002
        if (self, id) not in opened_guards:
            opened_guards.add((self, id))
            _open_guard(self, id, hits=hits)

    return patched(BookLedger, "open_guard", open_guard)


def _fresh_noise_on_retry() -> Any:
    def through(self: Transaction, door: str, **named: Any) -> Any:
        known = self.ledger.lookup(named["request"] or "")
        arrays, cost = _through(self, door, **named)
        return (named["evaluate"]() if known else arrays), cost

    return patched(Transaction, "through", through)


MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[Any]], str]] = {
    "never sealed": (_never_sealed, "grid"),
    "one hit more": (_one_hit_more, "grid"),
    "half the noise": (_half_noise, "grid"),
    "half the noise, by its cost": (_half_noise, "cost"),
    "one draw for all tests": (_noise_drawn_once, "grid"),
    "silence keeps the number": (_silence_keeps_the_number, "grid"),
    "the exact count on a hit": (_value_without_noise, "grid"),
    "the exact count on a hit, by samples": (_value_without_noise, "samples"),
    "pays for one hit": (_pays_for_one_hit, "cost"),
    "contributions ignored": (_contributions_ignored, "cost"),
    "charged at two thirds": (_charged_at_two_thirds, "cost"),
    "draw before the charge": (_draw_before_the_charge, "order"),
    "opened before it is charged": (_opened_before_it_is_charged, "order"),
    "a second guard under a fresh name": (_a_fresh_name_each_time, "once"),
    "a second guard on the same request": (_same_request_opens_again, "once"),
    "fresh noise on a retry": (_fresh_noise_on_retry, "replay"),
}


@pytest.mark.thorough(fast=7)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_broken_lazy_guard_is_caught(mutant: str) -> None:
    breaking, killer = MUTANTS[mutant]
    with breaking(), pytest.raises((AssertionError, pytest.fail.Exception)):
        LAZY_GATES[killer]()


def test_no_adversary_of_many_rounds_passes_the_charge() -> None:
    """Every adaptive adversary of up to 500 rounds, and those of constant chance; the bound is not far off."""
    for hits, delta in ((1, 1e-6), (5, 1e-6), (30, 1e-6), (5, 1e-3)):
        rate = lazy_rate(hits=hits, epsilon=1.0, delta=delta)
        assert delta / 30 < worst_delta(hits, rate, 500, 1.0) <= delta
        for chance, sign in itertools.product((0.01, 0.1, 0.3, 0.45, 1 / (1 + math.exp(rate))), (1, -1)):
            run = {"hits": hits, "rate": rate, "chance": chance, "sign": sign}
            for length in (80, 20_000):
                assert constant_delta(**run, length=length, epsilon=1.0) <= delta  # type: ignore[arg-type]


def test_no_round_is_worse_than_the_three_vertices() -> None:
    """Adaptive adversaries over random rounds, any set H on the exact noise, stay below the dynamic programme."""
    rng = np.random.default_rng(11)
    scale = 4.0
    values = np.arange(-180, 181)
    laws = [discrete_laplace(values - shift, scale) for shift in (0, 1)]
    sides = values > 0
    for _ in range(30):
        rounds = []
        for _ in range(3):
            off = rng.random(len(values)) < rng.random() if rng.random() < 0.5 else values > rng.integers(-6, 6)
            parts = [(True, off & sides), (True, off & ~sides), (False, ~off)]
            rounds.append(tuple(Class(hit, *(float(law[part].sum()) for law in laws)) for hit, part in parts))
        hits, epsilon = int(rng.integers(1, 4)), float(rng.uniform(0.0, 0.8))
        assert adaptive_delta(rounds, 4, hits, epsilon) <= worst_delta(hits, 1 / scale, 4, epsilon) + 1e-12


def test_the_renyi_divergence_of_the_theorem_is_reached() -> None:
    """The adversary at the worst vertex, asked until the guard is sealed, has exactly this moment."""
    hits, rate, s = 3, 0.05, 6.0
    chance = 1 / (1 + math.exp(rate))
    silent = np.arange(20_000)
    ways = np.array([math.lgamma(n + hits) - math.lgamma(n + 1) - math.lgamma(hits) for n in silent])
    law = ways + hits * math.log(chance) + silent * math.log1p(-chance)
    moment = math.log(np.exp(law + s * rate * (silent - hits)).sum())
    assert moment == pytest.approx(-hits * math.log(1 - math.expm1(s * rate) * math.expm1((1 + s) * rate)), rel=1e-9)


def test_refusals() -> None:
    with Curator(table(PEOPLE, 1), BASIC, noise=ScriptedNoise([])) as curator:
        with pytest.raises(QueryError, match="positive number of rows"):
            opened(curator, 1, threshold=math.nan)
        with pytest.raises(QueryError, match="hits is 0"):
            opened(curator, 0)
        with pytest.raises(BudgetError, match="this asks for epsilon 10"):
            curator.lazy_guard(1.5, hits=1000, epsilon=10.0)
        assert curator.ledger.spent() == 0
        guard = opened(curator, 1)
        with pytest.raises(QueryError, match="one number at a time"):
            guard.test(mq.query.Marginal(curator.schema, ["a"]), 1.0)
        with pytest.raises(QueryError, match="finite number of rows"):
            guard.test(where("a"), math.inf)
        assert repr(guard).startswith("LazyGuard(1 hits left, cost epsilon ")
    for budget in (ZCDP, mq.Budget(epsilon=1.0), mq.Budget(epsilon=1.0, delta=1e-6, accounting="gdp")):
        with Curator(table(PEOPLE, 1), budget) as curator, pytest.raises(BudgetError, match='accounting="basic"'):
            opened(curator, 1)
    with pytest.raises(BudgetError, match="well below 1 / rows"):
        mq.Budget(epsilon=1.0, accounting="basic")


def test_basic_accounting() -> None:
    accountant, event = BASIC.accountant, LazyRounds(5, 400, 2, DELTA)  # type: ignore[arg-type]
    assert from_dict(event.as_dict()) == event
    assert accountant.units(event) >= lazy_epsilon(hits=5, rate=2 / 400, delta=DELTA) * UNITS_PER_ONE
    with pytest.raises(BudgetError, match="one lazy guard"):
        accountant.units(mq.privacy.Composed((event, event)))
    for name in ("pure", "zcdp", "gdp"):
        assert not mq.privacy.ACCOUNTANTS[name].supports(event)
    assert repr(accountant.loss(10**15, 1e-9)) == "epsilon 1 at delta 1e-09"


def test_a_ledger_keeps_its_delta(tmp_path: Any) -> None:
    """Two openings of one ledger must mean the same delta, or the second would report another promise."""
    other = mq.Budget(epsilon=9.0, delta=DELTA / 10, accounting="basic")
    Curator(table(PEOPLE, 1), BASIC, ledger=tmp_path / "ledger").close()
    with pytest.raises(mq.errors.LedgerError, match=r"basic at delta 0\.01.*basic at delta 0\.001"):
        Curator(table(PEOPLE, 1), other, ledger=tmp_path / "ledger")
