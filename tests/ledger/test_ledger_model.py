"""The ledger against a model of it in plain Python: random histories with restarts must agree at every step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ledger_checks import TERMS, request

from maquette.errors import MaquetteError
from maquette.privacy.ledger import Ledger, MemoryLedger, Recorded, SqliteLedger, Terms, Ticket
from maquette.privacy.ledger.machine import Entry
from page_examples import example

LIMIT = 100
ids = st.sampled_from("abcdefgh")
analysts = st.sampled_from(["ann", "bob"])
guards = st.sampled_from(["g", "h"])
REFUSALS = {
    "reserved": "ledger.request-busy",
    "lost": "ledger.request-lost",
    "withheld": "ledger.deadline-missed",
}


@dataclass
class Model:
    """Who may spend what, who did, and what became of each request."""

    limits: dict[str, int] = field(default_factory=dict)
    requests: dict[str, list[object]] = field(default_factory=dict)
    charged: list[tuple[str, int]] = field(default_factory=list)
    guards: dict[str, list[int]] = field(default_factory=dict)

    def spent(self, analyst: str | None = None) -> int:
        return sum(units for name, units in self.charged if analyst in (None, name))

    def reserve(self, key: str, analyst: str, digest: str, units: int, guard: str | None) -> object:
        if known := self.requests.get(key):
            if known[:2] != [analyst, digest]:
                return "ledger.request-conflict"
            return REFUSALS.get(str(known[2]), known[2])
        own = self.limits.get(analyst, LIMIT)
        if self.spent(analyst) + units > own or self.spent() + units > LIMIT:
            return "budget.exceeded"
        if guard is not None:
            if self.guards.get(guard, [0])[0] < 1:
                return "guard.sealed"
            self.guards[guard][0] -= 1
        self.charged.append((analyst, units))
        self.requests[key] = [analyst, digest, "reserved"]
        return "reserved"


def code(call: Callable[[], object]) -> str | None:
    """The code of what the call raised, or None."""
    try:
        call()
    except MaquetteError as refusal:
        return refusal.code
    return None


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.model = Model()
        self.tickets: dict[str, Ticket] = {}
        self.committed: dict[str, tuple[Ticket, bool]] = {}

    @initialize()
    def open(self) -> None:
        self.ledger = self.made(Path(self.directory.name) / "ledger", replace(TERMS, limit=LIMIT))

    def made(self, place: Path, terms: Terms) -> Ledger:
        return SqliteLedger(place, terms)

    def booted(self) -> None:
        self.ledger.close()
        self.open()

    @rule(key=ids, analyst=analysts, digest=st.sampled_from("de"), units=st.integers(0, 40), guard=guards | st.none())
    def reserve(self, key: str, analyst: str, digest: str, units: int, guard: str | None) -> None:
        expected = self.model.reserve(key, analyst, digest, units, guard)
        asked = request(key, analyst=analyst, digest=digest, units=units, guard=guard)
        actual: object
        try:
            outcome = self.ledger.reserve(asked)
        except MaquetteError as refusal:
            actual = refusal.code
        else:
            actual = outcome.answer if isinstance(outcome, Recorded) else "reserved"
            if isinstance(outcome, Ticket):
                self.tickets[key] = outcome
        assert actual == expected

    @precondition(lambda self: self.tickets)
    @rule(data=st.data(), answer=st.binary(max_size=8), hit=st.booleans())
    def commit(self, data: st.DataObject, answer: bytes, hit: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.tickets)))
        ticket = self.tickets.pop(key)
        self.ledger.commit(ticket, answer, hit=hit)
        self.committed[key] = ticket, hit
        self.model.requests[key][2] = answer
        if ticket.request.guard is not None and not hit:
            self.model.guards[ticket.request.guard][0] += 1

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def withhold(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.tickets)))
        ticket = self.tickets.pop(key)
        self.ledger.withhold(ticket)
        self.model.requests[key][2] = "withheld"
        assert self.ledger.lookup(key) is None
        assert code(lambda: self.ledger.commit(ticket, b"late")) == "ledger"

    @precondition(lambda self: self.committed)
    @rule(data=st.data())
    def withhold_what_was_answered(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.committed)))
        ticket, hit = self.committed.pop(key)
        self.ledger.withhold(ticket)
        self.model.requests[key][2] = "withheld"
        if ticket.request.guard is not None and not hit:
            left = self.model.guards[ticket.request.guard]
            left[0] = max(0, left[0] - 1)
        assert self.ledger.lookup(key) is None
        assert code(lambda: self.ledger.withhold(ticket)) == "ledger"

    @rule(analyst=analysts, units=st.integers(0, 120))
    def limit_analyst(self, analyst: str, units: int) -> None:
        refused = units < self.model.spent(analyst)
        assert code(lambda: self.ledger.limit_analyst(analyst, units)) == ("budget" if refused else None)
        if not refused:
            self.model.limits[analyst] = units

    @rule(guard=guards, hits=st.integers(0, 3))
    def open_guard(self, guard: str, hits: int) -> None:
        refused = guard in self.model.guards
        expected = "ledger.request-conflict" if refused else None
        assert code(lambda: self.ledger.open_guard(guard, hits=hits)) == expected
        if not refused:
            self.model.guards[guard] = [hits]

    @rule()
    def restart(self) -> None:
        self.booted()
        self.tickets.clear()
        self.committed.clear()
        for entry in self.model.requests.values():
            entry[2] = "lost" if entry[2] == "reserved" else entry[2]
        for left in self.model.guards.values():
            left[0] = 0

    @invariant()
    def agrees(self) -> None:
        assert self.ledger.spent() == self.model.spent() <= LIMIT
        for analyst in ("ann", "bob"):
            assert self.ledger.spent(analyst) == self.model.spent(analyst)
        for guard, (left,) in self.model.guards.items():
            assert self.ledger.hits_left(guard) == left
        states = {charge.id: charge.state for charge in self.ledger.charges()}
        assert states == {
            key: "answered" if isinstance(entry[2], bytes) else {"withheld": "lost"}.get(str(entry[2]), entry[2])
            for key, entry in self.model.requests.items()
        }

    def teardown(self) -> None:
        self.ledger.verify()
        self.ledger.close()
        self.directory.cleanup()


class MemoryMachine(LedgerMachine):
    """In memory nothing is reopened: the boot is an event."""

    def made(self, place: Path, terms: Terms) -> Ledger:
        return MemoryLedger(terms)

    def booted(self) -> None:
        assert isinstance(self.ledger, MemoryLedger)
        self.ledger._run(lambda book: book.add(Entry("boot", [])))


class JournalMachine(LedgerMachine):
    """The example of CONTRIBUTING."""

    def made(self, place: Path, terms: Terms) -> Ledger:
        return example("JournalLedger")(place, terms, bytes(32))


TestLedgerAgainstModel = LedgerMachine.TestCase
TestMemoryAgainstModel = MemoryMachine.TestCase
TestJournalAgainstModel = JournalMachine.TestCase
TestLedgerAgainstModel.settings = TestMemoryAgainstModel.settings = TestJournalAgainstModel.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
