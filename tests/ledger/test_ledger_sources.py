"""What a curator takes as its ledger: a file, nothing, a ledger, or a function that opens one for its terms."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import maquette as mq
from maquette.errors import LedgerError, LedgerMismatch
from maquette.privacy.ledger import Ledger, MemoryLedger, SqliteLedger, Terms
from page_examples import example

SCHEMA = mq.Schema([mq.Boolean("smoker")])


@functools.cache
def opened_table() -> mq.PrivateTable:
    return mq.open_table({"smoker": [True, False] * 50}, SCHEMA)


BUDGET = mq.Budget(epsilon=1.0)
KEY = bytes(range(32))


def keeping(terms: list[Terms]) -> Callable[[Terms], Ledger]:
    """Opens a ledger in memory and notes what for."""

    def source(given: Terms) -> Ledger:
        terms.append(given)
        return MemoryLedger(given)

    return source


@pytest.mark.parametrize("kind", ["file", "nothing", "class", "function", "example"])
def test_every_source_is_charged(kind: str, tmp_path: Path) -> None:
    sources: dict[str, object] = {
        "file": tmp_path / "ledger",
        "nothing": None,
        "class": MemoryLedger,
        "function": lambda terms: SqliteLedger(tmp_path / "ledger", terms, key=KEY, shared=True),
        "example": lambda terms: example("JournalLedger")(tmp_path / "journal", terms, KEY),
    }
    for kept in (False, kind in ("file", "function", "example")):
        with mq.Curator(opened_table(), BUDGET, ledger=sources[kind]) as curator:  # type: ignore[arg-type]
            assert curator.spent.epsilon == (0.25 if kept else 0)
            first = mq.answer(curator, "SELECT count(*) FROM t WHERE smoker", epsilon=0.25)
            assert mq.answer(curator, "SELECT count(*) FROM t WHERE smoker", epsilon=0.25).count == first.count
            assert curator.spent.epsilon == 0.25
            curator.ledger.verify()


def test_the_terms_are_those_of_the_table_and_the_budget() -> None:
    terms: list[Terms] = []
    mq.Curator(opened_table(), BUDGET, ledger=keeping(terms)).close()
    (given,) = terms
    assert (given.schema, given.currency, given.limit) == (SCHEMA.digest, BUDGET.currency, BUDGET.limit)


def test_an_open_ledger_is_taken_for_its_own_terms_only() -> None:
    terms: list[Terms] = []
    mq.Curator(opened_table(), BUDGET, ledger=keeping(terms)).close()
    ledger = MemoryLedger(terms[0])
    curator = mq.Curator(opened_table(), BUDGET, ledger=ledger)
    assert curator.ledger is ledger
    other_rows = mq.open_table({"smoker": [True] * 100}, SCHEMA)
    for table, budget, named in ((other_rows, BUDGET, "the data"), (opened_table(), mq.Budget(epsilon=2.0), "limit 2")):
        with pytest.raises(LedgerMismatch, match=named):
            mq.Curator(table, budget, ledger=ledger)
        with pytest.raises(LedgerMismatch, match=named):
            mq.Curator(table, budget, ledger=lambda _: ledger)


def test_a_ledger_that_shows_other_terms_is_refused() -> None:
    class Careless(MemoryLedger):
        def check(self, terms: Terms) -> None:
            pass

    with pytest.raises(LedgerMismatch, match="shows the terms"):
        mq.Curator(opened_table(), BUDGET, ledger=lambda terms: Careless(replace(terms, limit=2 * terms.limit)))


@pytest.mark.parametrize("wrong", [5, object(), lambda terms: None, lambda terms: MemoryLedger])
def test_anything_else_is_no_ledger(wrong: object) -> None:
    with pytest.raises(LedgerError, match="Ledger protocol"):
        mq.Curator(opened_table(), BUDGET, ledger=wrong)  # type: ignore[arg-type]


def test_an_anchor_is_for_a_file(tmp_path: Path) -> None:
    for source in (None, MemoryLedger):
        with pytest.raises(LedgerError, match="anchor"):
            mq.Curator(opened_table(), BUDGET, ledger=source, anchor=tmp_path / "anchor")
