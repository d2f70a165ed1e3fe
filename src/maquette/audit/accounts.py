"""Accounts: a block's account holds every charge that the block relied on, and no charge of others."""

from __future__ import annotations

from contextlib import suppress
from threading import Thread
from unittest import mock

from maquette.audit.reference.quiet import QuietNoise
from maquette.audit.tiny import BASE, PURE, SCHEMA, tiny_table
from maquette.curator import Curator
from maquette.errors import BudgetExceeded
from maquette.query import Marginal


def check_accounts() -> None:
    """Own charges, replays and interrupted charges count, once each; charges of other threads and refusals do not."""
    with Curator(tiny_table(BASE, 1), PURE, noise=QuietNoise()) as curator:
        _check_other_threads(curator)
        _check_replays(curator)
        _check_interrupted(curator)
        _check_refused(curator)


def _check_other_threads(curator: Curator) -> None:
    with curator.account("own") as account:
        curator.measure(["a"], epsilon=1.0)
        other = Thread(target=lambda: curator.measure(["b"], epsilon=2.0))
        other.start()
        other.join()
    assert account.loss.epsilon == 1.0, "another thread's charge entered an account"
    curator.measure(["a"], epsilon=1.0)
    assert account.loss.epsilon == 1.0, "a charge after its block entered an account"


def _check_replays(curator: Curator) -> None:
    curator.measure(["a"], epsilon=2.0, request="asked before")
    guard = curator.guard(1.0, epsilon=4.0, numeric=False)
    with curator.account("replays") as account:
        for _ in range(2):
            curator.measure(["a"], epsilon=2.0, request="asked before")
    assert account.loss.epsilon == 2.0, "an account does not count a recorded answer once"
    assert account.charged_units == 0, "a recorded answer was called a new charge"
    with curator.account("guards") as account:
        guard.test(Marginal(SCHEMA, ["a"]), [1.0, 1.0])
    assert account.units == guard.cost.units, "an account does not count the guard that it relied on"


def _check_interrupted(curator: Curator) -> None:
    reserve = curator.ledger.reserve

    def interrupted(request: object) -> None:
        reserve(request)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    before = curator.ledger.spent()
    broken = mock.patch.object(curator.ledger, "reserve", interrupted)
    with curator.account("interrupted") as account, broken, suppress(KeyboardInterrupt):
        curator.measure(["a"], epsilon=1.0)
    assert account.charged_units == curator.ledger.spent() - before, "an interrupted charge is in no account"


def _check_refused(curator: Curator) -> None:
    with curator.account("refused") as account, suppress(BudgetExceeded):
        curator.measure(["a"], epsilon=PURE.epsilon)
    assert not account.entries, "a refusal, which charged nothing, entered an account"
