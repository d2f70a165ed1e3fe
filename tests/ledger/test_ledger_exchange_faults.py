"""What goes wrong where a transaction in PostgreSQL is read at once, decided in memory and written with its COMMIT."""

from __future__ import annotations

import random
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from postgres_ledgers import KEY, TERMS, asked
from test_ledger_exchanges import KINDS, Held, opened, queued

from cable import Cable
from maquette.errors import (
    BudgetExceeded,
    LedgerError,
    LedgerLocked,
    MaquetteError,
    RequestBusy,
    RequestConflict,
    RequestLost,
)
from maquette.privacy.ledger import MemoryLedger, PostgresLedger, Receipt, Recorded, SharedPostgresLedger, Ticket
from maquette.privacy.ledger.book import Book
from maquette.privacy.ledger.chain import ChainEvent
from maquette.privacy.ledger.files import Anchor
from maquette.privacy.ledger.machine import TABLE_SCOPE, Entry
from maquette.privacy.ledger.postgres_storage import PostgresBroken, PostgresStorage
from postgres_server import Server

psycopg = pytest.importorskip("psycopg")

ODD = {
    "NULL": "NULL",
    "quotes": "\"a\" 'b' {c,d} \\ \\\\ %s %(x)s $1",
    "no text": "",
    "blank": " ",
    "line": "a\nb\t\x01\x7f",
    "far": "\U0001f600 \u0645\u0631\u062d\u0628\u0627 e\u0301 \u00e9 \ufeff\u200b",
    "long": "x" * 2_500,
    "slashes": "/a//b/",
}
KEPT_BY_NONE = {"NUL": "a\x00b", "surrogate": "a\ud800b", "long": secrets.token_hex(3_000)}


def ticket(ledger: PostgresLedger, *given: Any, **named: Any) -> Ticket:
    found = ledger.reserve(asked(*given, **named))
    assert isinstance(found, Ticket)
    return found


def commits(ledger: Any, request: str, answer: bytes, **given: Any) -> None:
    ledger.commit(ticket(ledger, request, **given), answer)


@KINDS
@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_names_are_kept_as_they_are(postgres: Server, name: str, kind: Any, text: str) -> None:
    with opened(kind, postgres, name) as ledger:
        commits(ledger, text, b"first", analyst=text)
        again = ledger.reserve(asked(text, analyst=text))
        assert isinstance(again, Recorded)
        assert again.answer == b"first"
        ledger.open_guard(text, hits=1)
        commits(ledger, f"guarded {text}", b"second", analyst=text, guard=text)
        ledger.limit_analyst(text, 25)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(asked("more", 6, text))
        assert [(one.id, one.analyst) for one in ledger.charges()] == [(text, text), (f"guarded {text}", text)]
        assert ledger.spent(text) == 20
        ledger.verify()


@KINDS
@pytest.mark.parametrize("text", KEPT_BY_NONE.values(), ids=KEPT_BY_NONE.keys())
def test_a_name_that_postgresql_cannot_keep_is_refused_alone(postgres: Server, name: str, kind: Any, text: str) -> None:
    """It stopped the ledger for everybody, also where it was only looked for."""
    with opened(kind, postgres, name) as ledger, ThreadPoolExecutor(9) as pool:
        with Held(ledger):
            asks: list[Callable[[], Any]] = [
                lambda: ledger.reserve(asked("before")),
                lambda: ledger.reserve(asked(text)),
                lambda: ledger.reserve(asked("of odd analyst", analyst=text)),
                lambda: ledger.reserve(asked("of odd team", analyst=f"{text}/ada")),
                lambda: ledger.reserve(asked("with odd guard", guard=text)),
                lambda: ledger.open_guard(text, hits=1),
                lambda: ledger.limit_analyst(text, 5),
                lambda: ledger.lookup(text),
                lambda: ledger.reserve(asked("after")),
            ]
            waiting = [pool.submit(one) for one in asks]
            queued(ledger, len(asks))
        first, *odd, last = waiting
        for one in odd:
            assert one.exception() is None or not isinstance(one.exception(), PostgresBroken), one.exception()
        assert isinstance(first.result(), Ticket)
        assert isinstance(last.result(), Ticket)
        with suppress(MaquetteError, UnicodeEncodeError):
            ledger.spent(text)
        assert not ledger.stopped
        assert [one.id for one in ledger.charges()] == ["before", "after"]
        ledger.verify()


Cut = tuple[Cable, str, str]  # with an address through it, and one beside it


@pytest.fixture
def cut(postgres: Server) -> Iterator[Cut]:
    made = Cable(postgres.port)
    yield made, postgres.address.replace(str(postgres.port), str(made.port)), postgres.address
    made.close()


def opened_again(kind: Any, address: str, **given: Any) -> closing[Any]:
    """Opened when the server has noticed that the connection before is gone."""
    for _ in range(100):
        try:
            return closing(kind(address, TERMS, key=KEY, **given))
        except LedgerLocked:
            time.sleep(0.05)
    return closing(kind(address, TERMS, key=KEY, **given))


@KINDS
@pytest.mark.parametrize("told", ["charge", "answer"])
def test_a_cut_between_a_commit_and_its_reply(cut: Cut, name: str, kind: Any, told: str, tmp_path: Path) -> None:
    """The caller is told that nobody knows; whoever opens the ledger finds all of the group."""
    anchor = tmp_path / "anchor"
    cable, near, address = cut
    ledger = kind(near, TERMS, name=name, key=KEY, anchor=anchor)
    tickets = [ticket(ledger, f"r{i}") for i in range(4)] if told == "answer" else []
    before = Anchor(anchor).read()
    with ThreadPoolExecutor(6) as pool, suppress(LedgerError):
        cutting = pool.submit(cable.cut)
        while not cable._armed.is_set():
            pass
        waiting: list[Future[Any]]
        if tickets:
            waiting = [pool.submit(ledger.commit, one, b"kept") for one in tickets]
        else:
            waiting = [pool.submit(ledger.reserve, asked(f"r{i}")) for i in range(4)]
        cutting.result()
        for one in waiting:
            assert isinstance(one.exception(), LedgerError)
    assert Anchor(anchor).read() == before, "of what nobody knows, nothing is witnessed"
    assert ledger.stopped
    with suppress(LedgerError):
        ledger.close()
    with opened_again(kind, address, name=name, anchor=anchor) as ledger:
        states = {one.id: one.state for one in ledger.charges()}
        assert states, "the commit was made"
        assert ledger.spent() == 10 * len(states)
        if tickets:
            assert "answered" in states.values()
            for id_, state in states.items():
                if state == "answered":
                    again = ledger.reserve(asked(id_))
                    assert isinstance(again, Recorded)
                    assert again.answer == b"kept"
        for id_, state in states.items():
            if state == "lost":
                with pytest.raises(RequestLost):
                    ledger.reserve(asked(id_))
        assert "reserved" not in states.values()
        ledger.verify()


@KINDS
def test_what_a_check_refuses_with_the_commit_leaves_nothing_and_is_told_to_all(
    postgres: Server, name: str, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables' own CHECKs are the second line of defence: a mistake in the rules must not be half written."""

    def overspends(book: Book) -> None:
        storage = book._storage
        assert isinstance(storage, PostgresStorage)
        book.add(Entry("guard", ["half", 3]))
        storage.budgets[TABLE_SCOPE] = (TERMS.limit, TERMS.limit + 1)

    anchor = tmp_path / "anchor"
    ledger = kind(postgres.address, TERMS, name=name, key=KEY, anchor=anchor)
    before = ledger.head()
    with ThreadPoolExecutor(3) as pool:
        with Held(ledger):
            good = pool.submit(ledger.reserve, asked("good"))
            queued(ledger, 1)
            bad = pool.submit(ledger._run, overspends)
            queued(ledger, 2)
        for one in (good, bad):
            assert isinstance(one.exception(), PostgresBroken)
    assert ledger.stopped
    witnessed = Anchor(anchor).read()
    assert witnessed is not None
    assert witnessed.seq == before[0]
    with suppress(LedgerError):
        ledger.close()
    with opened_again(kind, postgres.address, name=name, anchor=anchor) as again:
        assert list(again.charges()) == []
        assert again.spent() == 0
        again.verify()


@KINDS
def test_a_commit_that_says_rollback_is_none(postgres: Server, name: str, kind: Any) -> None:
    def fails_unheard(book: Book) -> str:
        with suppress(LedgerError):
            book._storage.execute("SELECT 1 / 0")  # type: ignore[attr-defined]
        return "fine"

    with opened(kind, postgres, name) as ledger:
        with pytest.raises(PostgresBroken):
            ledger._run(fails_unheard)
        assert ledger.stopped


@KINDS
def test_what_was_sent_in_part_cannot_be_undone(postgres: Server, name: str, kind: Any) -> None:
    """However often it is sent meanwhile."""

    def sends_and_refuses(book: Book) -> None:
        storage: Any = book._storage
        last, previous = storage.head()
        mac = book._chain.link(previous, last + 1, "guard", '["half",3]', b"")
        storage.append(ChainEvent(last + 1, "guard", '["half",3]', b"", mac))
        for _ in range(3):
            storage.execute("SELECT 1")
        raise BudgetExceeded("refused", requested=1.0, remaining=0.0)

    ledger = kind(postgres.address, TERMS, name=name, key=KEY)
    with pytest.raises(PostgresBroken):
        ledger._run(sends_and_refuses)
    with suppress(LedgerError):
        ledger.close()
    with opened(kind, postgres, name) as again:
        again.open_guard("half", hits=1)
        again.verify()


def test_facts_of_an_undone_event_are_forgotten(postgres: Server, name: str) -> None:
    """Its number may become that of another process's event."""

    def writes_and_refuses(book: Book) -> None:
        book.reserve(asked("undone", 7, "eve"))
        raise BudgetExceeded("refused", requested=1.0, remaining=0.0)

    with opened(SharedPostgresLedger, postgres, name) as one, opened(SharedPostgresLedger, postgres, name) as other:
        with pytest.raises(BudgetExceeded):
            one._run(writes_and_refuses)
        commits(other, "other", b"of the other")
        again = one.reserve(asked("other"))
        assert isinstance(again, Recorded)
        assert again.answer == b"of the other"
        with pytest.raises(RequestConflict):
            one.reserve(asked("other", analyst="eve"))


@KINDS
def test_more_wait_than_are_expected(postgres: Server, name: str, kind: Any) -> None:
    with opened(kind, postgres, name) as ledger, ThreadPoolExecutor(30) as pool:
        ledger._expected = deque(maxlen=4)
        with Held(ledger):
            waiting = [pool.submit(ledger.reserve, asked(f"r{i}", 1, f"team/{i % 3}")) for i in range(30)]
            queued(ledger, 30)
        tickets = [one.result() for one in waiting]
        assert [one.exception() for one in [pool.submit(ledger.commit, one, b"a") for one in tickets]] == [None] * 30
        assert ledger.spent() == 30
        ledger.verify()


@KINDS
def test_one_request_many_times_in_one_group_pays_once(postgres: Server, name: str, kind: Any) -> None:
    with opened(kind, postgres, name) as ledger, ThreadPoolExecutor(12) as pool:
        with Held(ledger):
            waiting = [pool.submit(ledger.reserve, asked("same", digest="pq"[i % 2])) for i in range(12)]
            queued(ledger, 12)
        every = [one.exception() or one.result() for one in waiting]
        assert sum(isinstance(one, Ticket) for one in every) == 1
        assert sum(isinstance(one, RequestConflict) for one in every) == 6
        assert sum(isinstance(one, RequestBusy) for one in every) == 5
        assert ledger.spent() == 10
        ledger.verify()


class Undone(Exception):
    """Refused after writing."""


def play(step: tuple[Any, ...], tickets: dict[str, Ticket]) -> Callable[[Book], Any]:
    """One operation on a book, and perhaps a refusal after it wrote."""
    what, *given = step

    def operation(book: Book) -> Any:
        if what == "reserve":
            request, units, analyst, guard = given
            found = book.reserve(asked(request, units, analyst, guard=guard))
            if isinstance(found, Ticket):
                tickets[given[0]] = found
            return found
        if what == "undone":
            kept = dict(tickets)
            try:
                for one in given:
                    with suppress(MaquetteError, KeyError):
                        play(one, tickets)(book)
            finally:
                tickets.clear()
                tickets.update(kept)
            raise Undone
        if what == "commit":
            return book.commit(tickets[given[0]], given[1].encode(), hit=given[2])
        if what == "withhold":
            return book.withhold(tickets[given[0]])
        if what == "guard":
            return book.open_guard(given[0], given[1])
        if what == "limit":
            return book.limit_analyst(*given)
        if what == "page":
            return [(one.id, one.state) for one in book.all_charges(0)]
        if what == "left":
            return book.left(given[0])
        return book.lookup(given[0])

    return operation


def steps(rng: random.Random, count: int, *, inside: bool = False) -> list[tuple[Any, ...]]:
    made = list[tuple[Any, ...]]()
    for _ in range(count):
        kind = rng.choice(["reserve"] * 5 + ["commit"] * 4 + ["withhold", "guard", "limit", "page", "left", "lookup"])
        analyst = rng.choice(["ada", "bob", "team/ada", "team/bob"])
        request = f"u{rng.randrange(6)}" if inside else f"r{rng.randrange(12)}"  # an answer would be read, and all sent
        guard = rng.choice([None, None, "g0", "g1"])
        made.append(
            {
                "reserve": ("reserve", request, rng.randrange(60), analyst, guard),
                "commit": ("commit", request, f"answer {rng.random()}", rng.random() < 0.5),
                "withhold": ("withhold", request),
                "guard": ("guard", rng.choice(["g0", "g1"]), rng.randrange(4)),
                "limit": ("limit", rng.choice(["ada", "team/", "team/bob"]), rng.randrange(400)),
                "page": ("page",),
                "left": ("left", analyst),
                "lookup": ("lookup", request),
            }[kind]
        )
        if not inside and rng.random() < 0.25:
            sub = [one for one in steps(rng, 4, inside=True) if one[0] not in ("page", "left", "lookup")]
            made.append(("undone", *sub))
    return made


def outcome(work: Callable[[], Any]) -> Any:
    """What an operation returned or refused; MACs are left out, for each ledger has terms of its own in its chain."""
    try:
        found = work()
    except (MaquetteError, Undone, KeyError) as error:
        return type(error).__name__, str(error)
    if isinstance(found, Recorded):
        return found.answer, found.receipt.seq
    return found.seq if isinstance(found, Receipt) else found


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("seed", range(12))
def test_groups_of_any_operations_end_as_one_after_the_other_in_memory(postgres: Server, name: str, seed: int) -> None:
    """Also where some are undone after they wrote: the same outcomes, the same events, the same books."""
    rng = random.Random(seed)
    memory, here, there = MemoryLedger(TERMS, key=KEY), dict[str, Ticket](), dict[str, Ticket]()
    with opened(PostgresLedger, postgres, name) as ledger, ThreadPoolExecutor(40) as pool:
        for _ in range(8):
            group, waiting = steps(rng, rng.randrange(4, 16)), list[Future[Any]]()
            with Held(ledger):
                for step in group:
                    if rng.random() < 0.7 and step[0] in ("reserve", "commit"):
                        ledger._expected.append((step[1], rng.choice(["ada", "team/ada"])))
                    waiting.append(pool.submit(ledger._run, play(step, there)))
                    queued(ledger, len(waiting))
            for step, one in zip(group, waiting, strict=True):
                if step[0] == "undone":
                    assert isinstance(one.exception(), Undone)
                else:
                    assert outcome(one.result) == outcome(partial(memory._run, play(step, here))), step
            assert ledger.head()[0] == memory.head()[0]
            assert list(ledger.charges()) == list(memory.charges())
            ledger.verify()
    assert memory.head()[0] > 10


@KINDS
def test_a_server_that_goes_away_before_the_commit_has_kept_nothing_of_the_group(
    postgres: Server, name: str, kind: Any, tmp_path: Path
) -> None:
    ledger = kind(postgres.address, TERMS, name=name, key=KEY, anchor=tmp_path / "anchor")
    process, before = ledger._connection._connection.info.backend_pid, ledger.head()

    def ends(_: Book) -> None:
        with psycopg.connect(postgres.address, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", (process,))

    with ThreadPoolExecutor(3) as pool:
        with Held(ledger):
            waiting = [pool.submit(ledger.reserve, asked("one")), pool.submit(ledger._run, ends)]
            queued(ledger, 2)
            waiting.append(pool.submit(ledger.reserve, asked("two")))
        for one in waiting:
            assert isinstance(one.exception(), LedgerError)
    witnessed = Anchor(tmp_path / "anchor").read()
    assert witnessed is not None
    assert witnessed.seq == before[0]
    with suppress(LedgerError):
        ledger.close()
    with opened_again(kind, postgres.address, name=name, anchor=tmp_path / "anchor") as again:
        assert list(again.charges()) == []
        again.verify()


def test_members_do_not_depend_on_how_the_database_isolates_transactions(postgres: Server, name: str) -> None:
    """Where transactions see the database as of their beginning, who had waited for the row stopped."""
    address = f"{postgres.address}?options=-c%20default_transaction_isolation%3Dserializable"
    with ThreadPoolExecutor(3) as pool, ExitStack() as stack:
        ledgers = [stack.enter_context(opened_again(SharedPostgresLedger, address, name=name)) for _ in range(3)]

        def spends(place: int) -> None:
            for number in range(15):
                commits(ledgers[place], f"r{place}-{number}", b"answer")

        for one in [pool.submit(spends, place) for place in range(3)]:
            one.result()
        assert ledgers[0].spent() == 450
        ledgers[0].verify()


@KINDS
def test_without_pipelines_the_same_is_written(
    postgres: Server, name: str, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an old libpq every statement is an exchange of its own."""

    def overspends(book: Book) -> None:
        book._storage.budgets[TABLE_SCOPE] = (TERMS.limit, TERMS.limit + 1)

    monkeypatch.setattr(psycopg.Pipeline, "is_supported", lambda: False)
    with opened(kind, postgres, name) as ledger:
        commits(ledger, "one", b"first")
        with ThreadPoolExecutor(4) as pool:
            with Held(ledger):
                waiting = [pool.submit(ledger.reserve, asked(f"r{i}", 400)) for i in range(3)]
                queued(ledger, 3)
            assert sorted(one.exception() is None for one in waiting) == [False, True, True]
        ledger.verify()
        with pytest.raises(PostgresBroken):
            ledger._run(overspends)
        assert ledger.stopped
    with opened_again(kind, postgres.address, name=name) as again:
        assert again.spent() == 810
        assert again.lookup("one").answer == b"first"
        again.verify()
