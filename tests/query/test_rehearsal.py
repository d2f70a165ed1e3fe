"""A program that cannot be computed is refused before rows are read or anything is charged; and broken rehearsals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import pytest

import maquette as mq
from gate_tools import patched, wrapped
from maquette.answers import direct, rehearsal
from maquette.bounded import Bounded
from maquette.curator import transaction
from maquette.errors import QueryError
from maquette.session import question, session

SCHEMA = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker")])
ROWS = {"age": [1, 2, 3, 3, 9], "smoker": [True, False, True, True, False]}
IMPOSSIBLE = [
    "SELECT power(count(*), 1000) FROM t",
    "SELECT cast(count(*) AS date) FROM t",
    "SELECT smoker, date_add(date '2024-01-01', count(*)) FROM t GROUP BY smoker",
]


def asked_directly(curator: mq.Curator, text: str) -> None:
    mq.answer(curator, text, epsilon=1.0)


def asked_in_a_session(curator: mq.Curator, text: str) -> None:
    mq.online(curator, alpha=0.5, rows=1_000).ask(text)


def gate(ask: Callable[[mq.Curator, str], None]) -> None:
    """Every impossible program is refused as a question, with nothing charged and nothing read."""
    for text in IMPOSSIBLE:
        steps: list[str] = []

        def through(original: Any, self: Any, door: str, steps: list[str] = steps, **named: Any) -> Any:
            steps.append(door)
            return original(self, door, **named)

        with mq.Curator(mq.open_table(ROWS, SCHEMA), mq.Budget(epsilon=100.0)) as curator:
            refused = None
            # Texts read before are known to be sound: here each is read anew, and what a mutant reads is not kept.
            with (
                wrapped(transaction.Transaction, "through", through),
                patched(question, "_PARSED", Bounded(len(IMPOSSIBLE))),
            ):
                try:
                    ask(curator, text)
                except Exception as error:
                    refused = error
            assert isinstance(refused, QueryError), f"{text}: {refused!r}"
            assert not steps, f"{text}: doors were used before the refusal: {steps}"
            assert curator.ledger.spent() == 0, f"{text}: charged, and then refused"


@pytest.mark.parametrize("ask", [asked_directly, asked_in_a_session])
def test_what_cannot_be_computed_costs_nothing(ask: Callable[[mq.Curator, str], None]) -> None:
    gate(ask)


@contextmanager
def _all(*changes: AbstractContextManager[Any]) -> Any:
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change)
        yield


def _nothing(program: Any) -> None:
    """No rehearsal."""


def _not_rehearsed() -> Any:
    return _all(patched(direct, "rehearse", _nothing), patched(question, "rehearse", _nothing))


def _after_the_charge() -> Any:
    """The same refusal, when the numbers are there already."""

    def reported(original: Any, program: Any, *args: Any, **named: Any) -> Any:
        rehearsal.rehearse(program)
        return original(program, *args, **named)

    def asked(original: Any, self: Any, *args: Any, **named: Any) -> Any:
        self.curator.count_rows(epsilon=0.1)
        return original(self, *args, **named)

    return _all(
        patched(direct, "rehearse", _nothing),
        wrapped(direct, "report", reported),
        wrapped(session.Session, "_ask_many", asked),
    )


def _on_small_numbers() -> Any:
    """Made-up numbers so small that what is too large in a real answer is not too large in the rehearsal."""
    return patched(rehearsal, "_WIDE", 1.0)


def _some_errors_pass() -> Any:
    """A program whose numbers overflow is let through."""

    def rehearse(program: Any) -> None:
        with suppress(ArithmeticError):
            rehearsal.report(program, rehearsal._made_up, 0.95, rehearsal._FREE, "measured")

    return _all(patched(direct, "rehearse", rehearse), patched(question, "rehearse", rehearse))


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "programs are not rehearsed": _not_rehearsed,
    "programs are rehearsed after the charge": _after_the_charge,
    "programs are rehearsed on small numbers": _on_small_numbers,
    "an overflow in the rehearsal passes": _some_errors_pass,
}


@pytest.mark.parametrize("ask", [asked_directly, asked_in_a_session])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_rehearsal_mutant_is_killed(mutant: str, ask: Callable[[mq.Curator, str], None]) -> None:
    with MUTANTS[mutant](), pytest.raises(AssertionError):
        gate(ask)
