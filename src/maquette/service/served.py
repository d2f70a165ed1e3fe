"""ServedTable: one table of the service: its curator, its session, and everything a door may ask of it.

Every method takes the principal first and checks what the role and the token allow; a door cannot forget it. Errors are
the library's own, or those of `maquette.service.errors`. Nothing here reads rows: only the curator's doors do.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from maquette.answers import Answered
from maquette.curator import Curator
from maquette.errors import MaquetteError, QueryError, RequestConflict
from maquette.privacy import Loss
from maquette.privacy.ledger import BookLedger
from maquette.schema import Schema
from maquette.service import state as kept
from maquette.service.config import Limits, TableConfig
from maquette.service.errors import TooLarge, Unavailable
from maquette.service.known import KnownAnswers
from maquette.service.lane import Lane
from maquette.service.principals import Principal
from maquette.service.rates import Rates
from maquette.service.state import State, as_text, now
from maquette.service.wire import answer_data, answer_of, loss_data
from maquette.session import Explanation, Session, lasting

if TYPE_CHECKING:
    from maquette.releases import Release

LANE = 8  # threads of one table: enough for shared commits, and each plan looks at what all others have in flight
_BRACKETS = re.compile("[()]")

OVER = "; more than is left of your limit, or your group's: the answer would be wider, or a guess of the model"


@dataclass(frozen=True, kw_only=True)
class BudgetView:
    """What was spent and what remains, of the table and of the caller. All of it is public: sums of prices."""

    epsilon: float
    delta: float
    accounting: str
    spent: Loss
    remaining: Loss
    own_spent: Loss
    own_limit: Loss | None
    group_spent: Loss | None  # None where the caller's group has no limit
    group_limit: Loss | None

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "accounting": self.accounting,
            "spent": loss_data(self.spent),
            "remaining": loss_data(self.remaining),
            "own_spent": loss_data(self.own_spent),
            "own_limit": None if self.own_limit is None else loss_data(self.own_limit),
            "group_spent": None if self.group_spent is None else loss_data(self.group_spent),
            "group_limit": None if self.group_limit is None else loss_data(self.group_limit),
        }


class ServedTable:
    """A table under its name. Made by `Service`; all methods may be called from many threads."""

    def __init__(
        self, config: TableConfig, curator: Curator, session: Session, *, state: State, limits: Limits, rates: Rates
    ) -> None:
        self.config = config
        self.name = config.name
        self.schema: Schema = curator.schema
        self.releases: dict[str, Release] = {}
        self.curator = curator
        self.session = session
        self._state = state
        self._limits = limits
        self._rates = rates
        self._known = KnownAnswers()
        self.lane = Lane(LANE, f"maquette-{config.name}")
        self._line = threading.BoundedSemaphore(limits.waiting_asks)
        self.waiting = 0
        self._free = curator.cost_of([])

    # Asking

    def ask(
        self,
        principal: Principal,
        asked: str,
        *,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
    ) -> Answered:
        """Answer SQL or a condition, for this principal's account.

        With a `request` name the question pays at most once: the same name returns the same answer, also after a
        restart and from another process; for another question it raises RequestConflict. `alpha`, `confidence` and
        `max_cost` (epsilon) are those of `Session.ask`. An invalid question, or one above `max_cost`, charges nothing.
        """
        (answer,) = self.ask_many(
            principal, [asked], request=request, alpha=alpha, confidence=confidence, max_cost=max_cost
        )
        return answer

    def ask_many(
        self,
        principal: Principal,
        asked: Sequence[str],
        *,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
        placed: bool = False,
    ) -> list[Answered]:
        """Answer several questions in one charge; see `ask`. `placed`: the caller holds a `place` in line for them."""
        self._admit(principal, asked)
        self._rates.take(principal, len(asked))
        settings = _given(alpha=alpha, confidence=confidence, max_cost=max_cost)
        key, digest = self._key(principal, request), _digest(asked, settings)
        if key is not None and (before := self._reply(key, digest)) is not None:
            return before
        if not settings and key is None and (known := self._all_known(asked)) is not None:
            answers = known
        else:
            with nullcontext() if placed else self.place():
                answers = self._fresh(principal, asked, key, settings)
        if key is not None:
            self._keep_reply(key, digest, answers)
        if not settings:
            self._remember(asked, answers)
        self._write_down(principal, asked, answers)
        return answers

    def known(self, principal: Principal, asked: Sequence[str]) -> list[Answered] | None:
        """The answers, if all of these texts were answered before with a promise; takes no lock and never waits."""
        self._admit(principal, asked)
        answers = self._all_known(asked)
        if answers is not None:
            self._rates.take(principal, len(asked))
            self._write_down(principal, asked, answers)
        return answers

    async def room(self) -> None:
        """Wait while too many questions wait to be written down."""
        if self._state.pressed:
            await self._state.room()

    def replies(self, asked: Sequence[str], known: Sequence[Answered]) -> list[bytes]:
        """Answers that are known as JSON, which is kept."""
        return [self._known.reply(text, answer) for text, answer in zip(asked, known, strict=True)]

    def explain(
        self, principal: Principal, asked: str, *, alpha: float | None = None, confidence: float | None = None
    ) -> Explanation:
        """The route and the price of a question now; never charges."""
        self._admit(principal, [asked])
        self._rates.take(principal, 1)
        found = self.session.explain(asked, alpha=alpha, confidence=confidence)
        price, ledger = found.cost.units, self.curator.ledger
        if not price or price > self.session.remaining.units or not isinstance(ledger, BookLedger):
            return found  # of a price above what remains of the table the session itself says so
        return found if price <= ledger.left(principal.account) else replace(found, text=found.text + OVER)

    def peek(self, principal: Principal, asked: str) -> Answered:
        """The answer from what is publicly known now, however wide its interval; never charges."""
        self.admit_look(principal)
        check_text(asked, self._limits)
        return self.session.peek(asked)

    def admit_look(self, principal: Principal) -> None:
        """Refuse who may not look, and count one look against the caller's rate."""
        self._look(principal)
        self._rates.take(principal, 1)

    def outlook(self, principal: Principal, size: int | None = None) -> str:
        """What the rest of the budget can buy, in words."""
        self._look(principal)
        return self.session.outlook(size)

    def _fresh(
        self, principal: Principal, asked: Sequence[str], key: str | None, settings: Mapping[str, float]
    ) -> list[Answered]:
        if self.stopped:
            raise Unavailable(
                "the ledger of this table has stopped, and is opened again as soon as that is possible",
                advice="nothing was charged. Ask again in a moment, under the same key if you gave one.",
            )
        own: dict[str, Any] = dict(settings)
        return self.session.ask_many(list(asked), analyst=principal.account, request=key, **own)

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the line of questions that are not known; Unavailable where too many stand in it."""
        if not self._line.acquire(blocking=False):
            raise Unavailable(
                f"{self._limits.waiting_asks:,} questions wait for this table already",
                advice="nothing was charged. Ask again in a moment.",
            )
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self._line.release()

    def _admit(self, principal: Principal, asked: Sequence[str]) -> None:
        """Refuse, before anything is parsed, who may not ask and what is too long, too deep or too much."""
        principal.require_table(self.name)
        principal.require("ask")
        if not asked:
            raise QueryError("there is no question", expected="at least one")
        if self._state.behind:
            raise Unavailable(
                "the service's log cannot be written, and too much waits for it already",
                advice="nothing was charged. Ask again in a moment.",
            )
        if len(asked) > self._limits.questions:
            raise TooLarge(f"there are {len(asked):,} questions", expected=f"at most {self._limits.questions:,}")
        for text in asked:
            check_text(text, self._limits)

    def _all_known(self, asked: Sequence[str]) -> list[Answered] | None:
        known = [one for text in asked if (one := self._known.get(text)) is not None]
        return known if len(known) == len(asked) else None

    def _remember(self, asked: Sequence[str], answers: Sequence[Answered]) -> None:
        """Keep promised answers as they will be given again; not those of a text that means another day tomorrow."""
        for text, answer in zip(asked, answers, strict=True):
            if answer.guarantee is not None and text not in self._known and lasting(text):
                self._known.keep(text, answer.recalled(self._free))

    # Requests by name

    def _key(self, principal: Principal, request: str | None) -> str | None:
        if request is None:
            return None
        if not 1 <= len(request) <= 200 or not request.isprintable():
            raise QueryError("the request's name is empty, too long or not printable", expected="1 to 200 characters")
        return f"{principal.account}:{request}"

    def _reply(self, key: str, digest: str) -> list[Answered] | None:
        table = kept.replies
        found = self._state.rows(sa.select(table).where(table.c.key == f"{self.name}:{key}"))
        if not found:
            return None
        if found[0]["digest"] != digest:
            raise RequestConflict(
                "this request's name was used before for another question",
                advice="nothing was charged. Use a fresh name for each question.",
            )
        return [answer_of(one) for one in json.loads(found[0]["reply"])]

    def _keep_reply(self, key: str, digest: str, answers: Sequence[Answered]) -> None:
        reply = json.dumps([answer_data(answer) for answer in answers])
        try:
            with self._state.begin() as connection:
                connection.execute(
                    kept.replies.insert().values(key=f"{self.name}:{key}", digest=digest, at=now(), reply=reply)
                )
        except sa.exc.IntegrityError:  # the same request, at the same time
            pass

    # Looking

    def budget(self, principal: Principal) -> BudgetView:
        """What was spent and what remains, of the table and of the caller."""
        self._look(principal)
        budget, group = self.curator.budget, f"{principal.group}/"
        limits = self._limits_of([principal.account, group])
        return BudgetView(
            epsilon=budget.epsilon,
            delta=budget.delta,
            accounting=budget.accounting,
            spent=self.session.spent,
            remaining=self.session.remaining,
            own_spent=self.session.spent_by(principal.account),
            own_limit=limits.get(principal.account),
            group_spent=self.session.spent_by(group) if group in limits else None,
            group_limit=limits.get(group),
        )

    def limit(self, account: str, epsilon: float) -> None:
        """Set what one account may spend on this table; called by the service for its custodian.

        The ledger enforces it. What was set is also noted in the state, where it can be shown after a restart.
        """
        self.session.limit(account, epsilon=epsilon)
        table = kept.limits
        with self._state.begin() as connection:
            connection.execute(table.delete().where(table.c.table == self.name, table.c.account == account))
            connection.execute(table.insert().values(table=self.name, account=account, epsilon=epsilon))

    def accounts(self, principal: Principal) -> list[dict[str, Any]]:
        """Who has spent on this table or has a limit, for a custodian or an auditor; a group's name ends in a slash."""
        principal.require_table(self.name)
        principal.require("inspect")
        limited = self._limits_of(None)
        spent = {charge.analyst for charge in self.curator.ledger.charges()}
        return [
            {
                "account": account,
                "spent": loss_data(self.session.spent_by(account)),
                "limit": loss_data(limited[account]) if account in limited else None,
            }
            for account in sorted(spent | limited.keys())
        ]

    def _limits_of(self, accounts: Sequence[str] | None) -> dict[str, Loss]:
        table, budget = kept.limits, self.curator.budget
        chosen = sa.select(table).where(table.c.table == self.name)
        if accounts is not None:
            chosen = chosen.where(table.c.account.in_(accounts))
        found = {row["account"]: row["epsilon"] for row in self._state.rows(chosen)}
        return {
            account: budget.accountant.loss(budget.accountant.share(epsilon=epsilon, delta=budget.delta), budget.delta)
            for account, epsilon in found.items()
        }

    def transcript(self, principal: Principal, *, after: int = 0, count: int = 100) -> list[dict[str, Any]]:
        """The questions of the caller and those that were shared; all of them for a custodian or an auditor."""
        self._look(principal)
        self._state.flush()
        table = kept.questions
        chosen = sa.select(table).where(table.c.table == self.name, table.c.id > after).order_by(table.c.id)
        if not principal.may("inspect"):
            chosen = chosen.where(sa.or_(table.c.account == principal.account, table.c.shared))
        rows = self._state.rows(chosen.limit(max(1, min(count, 10_000))))
        return [
            {
                "id": row["id"],
                "at": row["at"],
                "analyst": row["account"],
                "question": row["question"],
                "shared": row["shared"],
                **json.loads(row["facts"]),
            }
            for row in rows
        ]

    def share(self, principal: Principal, question: int) -> None:
        """Show one of the caller's questions to every analyst of this table."""
        self._look(principal)
        table = kept.questions
        own = sa.true() if principal.may("govern") else table.c.account == principal.account
        with self._state.begin() as connection:
            connection.execute(
                table.update().where(table.c.id == question, table.c.table == self.name, own).values(shared=True)
            )

    def charges(self, principal: Principal) -> list[dict[str, Any]]:
        """The charges of the caller; all of them for a custodian or an auditor."""
        self._look(principal)
        every = principal.may("inspect")
        return [
            {
                "seq": charge.seq,
                "id": charge.id,
                "analyst": charge.analyst,
                "state": charge.state,
                "cost": loss_data(self._loss(charge.units)),
                "door": charge.described.door,
                "columns": [list(columns) for columns in charge.described.columns],
            }
            for charge in self.curator.ledger.charges()
            if every or charge.analyst == principal.account
        ]

    def verify(self, principal: Principal) -> dict[str, Any]:
        """Verify the whole ledger: its head, for a custodian or an auditor."""
        principal.require_table(self.name)
        principal.require("inspect")
        receipt = self.curator.ledger.verify()
        return {"verified": True, "seq": receipt.seq, "head": receipt.head}

    @property
    def ready(self) -> bool:
        """Whether the ledger answers."""
        try:
            self.curator.ledger.spent()
        except MaquetteError:
            return False
        return True

    @property
    def stopped(self) -> bool:
        """Whether its ledger refuses everything until the table is opened again."""
        return isinstance(self.curator.ledger, BookLedger) and self.curator.ledger.stopped

    def close(self) -> None:
        """Close the ledger; waiting questions are finished first."""
        self.curator.close()

    def _look(self, principal: Principal) -> None:
        principal.require_table(self.name)
        principal.require("look")

    def _loss(self, units: int) -> Loss:
        return self.curator.budget.accountant.loss(units, self.curator.budget.delta)

    def _write_down(self, principal: Principal, asked: Sequence[str], answers: Sequence[Answered]) -> None:
        at = now()
        for question, answer in zip(asked, answers, strict=True):
            self._state.later(
                kept.questions,
                {
                    "at": at,
                    "table": self.name,
                    "account": principal.account,
                    "question": question,
                    "facts": _facts(answer.source, answer.guarantee is not None, answer.cost.units),
                    "shared": False,
                },
            )

    def __repr__(self) -> str:
        return f"ServedTable({self.name!r}, {len(self.schema)} columns)"


def check_text(text: object, limits: Limits) -> None:
    """Refuse a question that is no text, too long, or nested too deeply to parse."""
    if not isinstance(text, str) or not text.strip():
        raise QueryError("the question is empty or no text", expected="SQL, or a condition")
    if len(text.encode(errors="replace")) > limits.question_bytes:
        raise TooLarge(
            f"the question has {len(text):,} characters", expected=f"at most {limits.question_bytes:,} bytes"
        )
    depth = deepest = 0
    for bracket in _BRACKETS.findall(text) if text.count("(") > limits.question_depth else ():
        depth += 1 if bracket == "(" else -1
        deepest = max(deepest, depth)
    if deepest > limits.question_depth:
        raise QueryError(f"brackets nest {deepest} deep", expected=f"at most {limits.question_depth}")


@lru_cache(1_000)
def _facts(source: str, promised: bool, units: int) -> str:
    """What the transcript keeps of an answer; most answers have the same."""
    return as_text({"source": source, "promised": promised, "units": units})


def _given(**settings: float | None) -> dict[str, float]:
    return {name: value for name, value in settings.items() if value is not None}


def _digest(asked: Sequence[str], settings: Mapping[str, float]) -> str:
    return hashlib.sha256(json.dumps([list(asked), sorted(settings.items())]).encode()).hexdigest()
