"""Session: an unbounded, adaptive stream of questions on one budget.

For every question the session takes the cheapest way that meets its tolerance, decided from public facts alone:

* *cache*: the same canonical question was answered before;
* *derived*: what was measured already answers it within the tolerance;
* *hypothesis*: an armed guard finds the public model's answer close enough (`Guardian`);
* *measured*: the missing precision is bought (`Market.shop`), or the numbers are measured just as asked where that is
  cheaper.

Privacy: rows are consulted through `Curator.measure_many`, `Curator.guard` and nothing else; everything else is
post-processing of what they released. The ledger's limit holds for every analyst, question and order. Accuracy: see
`Widths`. Durability: the measurements in the ledger are the state (`Transcript`); an answer is taken from the earliest
moment at which it could be given, so it is the same whenever and by whomever it is asked.
"""

from __future__ import annotations

import html
import itertools
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from maquette.curator import Curator
from maquette.errors import BudgetExceeded, LedgerError, QueryError
from maquette.privacy import Loss
from maquette.query import Expression, LinearQuery, Marginal
from maquette.release.answer import Answer, AnswerTable, Source
from maquette.release.residuals import Columns
from maquette.session.answering import Numbers, Settled, answered, changed, known_with, measured
from maquette.session.guardian import STALE, Guardian, Values, guessed
from maquette.session.lens import CELLS, NOTHING, CellLens, Component, Lens
from maquette.session.model import Model, model_of
from maquette.session.need import Asked, Need, everyone
from maquette.session.record import Direct, Order, Own, Record, Rented, Vouched
from maquette.session.shopping import FIRST_SETS, Ahead, Market, Offer
from maquette.session.transcript import Transcript
from maquette.session.width import Known, Widths

Question = str | Expression | LinearQuery

CUSTODIAN = "custodian"
PROMISE = "counts within {tolerance:,.0f} rows ({alpha:g} of them){how}, over the noise on the binned, clamped table"
PASSES = 4  # over the needs of one order
MAX_PREPARED = 20_000  # sets of columns
LEVEL = 1.01  # at so nearly the same price, parts are bought: they tell of more questions than the one
ROUNDING = 2e-6  # what splitting a charge may lose of a precision
HISTORY = 100_000  # questions


@dataclass(frozen=True)
class Explanation:
    """How a question would be answered now, and for how much; nothing is spent on saying so."""

    route: Source
    cost: Loss
    half_width: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Asking:
    """One question of a session's history: its route, whether it kept the promise, and the units spent by then."""

    route: Source
    promised: bool
    spent: int


class Session:
    """Answers questions within `tolerance` rows (alpha of them), for as long as the budget lasts; see `online`."""

    def __init__(
        self,
        record: Record,
        market: Market,
        widths: Widths,
        *,
        alpha: float,
        tolerance: float,
        guardian: Guardian,
        expect: int | None = None,
    ) -> None:
        self.curator: Curator = record.curator
        self._free = record.curator.cost_of([])
        self.alpha = alpha
        self.tolerance = tolerance
        self._record = record
        self._market = market
        self._widths = widths
        self._guardian = guardian
        self._expect = expect
        self._lock = record.lock
        self._answers: dict[str, Answer | AnswerTable] = {}
        self._lenses: dict[str, Lens | None] = {}
        self._sets: dict[int, set[Columns]] = {}
        self._settled: dict[str, Settled] = {}
        self._paid_whole: dict[Columns, int] = {}  # for questions about these columns, measured just as asked
        self._rented: dict[Columns, int] = {}  # for what these parts contributed to single questions
        self._fitted: tuple[int, Model | None] = (-1, None)
        self.history: deque[Asking] = deque(maxlen=HISTORY)  # since it was opened here; public, not durable
        self._losses: dict[int, Loss] = {}  # the last one: converting units to epsilon takes longer than an answer

    @property
    def beta(self) -> float:
        """The doubt: for each answer, or for all of them together."""
        return self._widths.beta

    @property
    def simultaneous(self) -> bool:
        """Whether all intervals hold together, however questions are chosen."""
        return self._widths.simultaneous

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        values, _ = self._constant.look(self._transcript.reader())
        return max(1.0, float(values))

    @property
    def spent(self) -> Loss:
        """What the whole table has spent."""
        return self.curator.spent

    @property
    def remaining(self) -> Loss:
        """What remains of the table's budget."""
        return self._loss(self.curator.budget.limit - self.curator.ledger.spent())

    @property
    def _transcript(self) -> Transcript:
        return self._record.transcript

    def _model_now(self, *, stale: int = 1) -> Model:
        """The public model of what is known now, or when there were up to `stale` times fewer charges."""
        moment, model = self._fitted
        if model is None or self._transcript.moment > stale * moment:
            moment, model = self._transcript.moment, model_of(self._transcript)
            self._fitted = moment, model
        return model

    def ask(self, asked: Question, *, analyst: str = CUSTODIAN, strict: bool = False) -> Answer | AnswerTable:
        """Answer SQL or a condition.

        A condition is answered by the fraction of rows on which it holds, SQL by the numbers SQL would return. When the
        budget (the table's or the analyst's) cannot pay, the answer comes from what is known and from the public model,
        with `guarantee=None`; `strict` raises BudgetExceeded instead. Nothing is charged for what cannot be asked.
        """
        (answer,) = self.ask_many([asked], analyst=analyst, strict=strict)
        return answer

    def ask_many(
        self, asked: Sequence[Question], *, analyst: str = CUSTODIAN, strict: bool = False
    ) -> list[Answer | AnswerTable]:
        """Answer several questions for one charge; sharing what they need makes it cheaper than asking one by one."""
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            raise QueryError("expected a list of questions; ask a single one with `ask`")
        _check_analyst(analyst)
        questions = [Asked.of(self.curator.schema, question) for question in asked]
        with self._lock:
            self._record.refresh()
            new = [question for question in questions if question.key not in self._answers]
            paid = free = self._free
            before = self._transcript.moment
            needs = [need for question in new for need in question.needs]
            self._vouch(needs)
            plan = self._plan(needs)
            if plan:
                try:
                    guessed = self._foresee(needs)
                    paid = self._record.charge(plan, analyst=analyst)
                    self._settle(plan, needs, guessed)
                except BudgetExceeded:
                    if strict:
                        raise
                    if len(new) > 1:  # some of them may be affordable alone
                        return [self.ask(question, analyst=analyst) for question in asked]
            answers = []
            for question in questions:
                known = self._answers.get(question.key)
                answers.append(self._answer(question, before, paid, free) if known is None else _again(known, free))
            spent = self.curator.ledger.spent() if new or not self.history else self.history[-1].spent
            self.history.extend(Asking(*_route(answer), spent) for answer in answers)
            return answers

    def prepare(self, size: int, *, analyst: str = CUSTODIAN) -> Loss:
        """Buy ahead, as one charge, what all tables of `size` columns need; BudgetExceeded when that is too much."""
        schema = self.curator.schema
        wide = [column.name for column in schema.columns if column.size > 1]
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= len(wide):
            raise QueryError(f"size is {size!r}; expected a number of columns from 1 to {len(wide)}")
        if (count := math.comb(len(wide), size)) > MAX_PREPARED:
            raise QueryError(f"there are {count:,} sets of {size} columns, more than {MAX_PREPARED:,}; prepare fewer")
        needs = [Need(Marginal(schema, columns)) for columns in itertools.combinations(wide, size)]
        with self._lock:
            self._record.refresh()
            self._sets.setdefault(size, set()).update(need.marginal.columns for need in needs)
            order = self._plan(needs)
            paid = self._record.charge(order, analyst=analyst) if order else self._loss(0)
            self._settle(order, [], {})
            return paid

    def peek(self, asked: Question) -> Answer | AnswerTable:
        """The answer from what is known now, however wide its interval; nothing is charged and nothing is kept.

        `guarantee` is None where the interval exceeds the tolerance, `source` "hypothesis" where the model guesses.
        """
        question = Asked.of(self.curator.schema, asked)
        with self._lock:
            self._record.refresh()
            numbers = self._numbers(question.needs)
            promised = all(self._state(need) is not None for need in question.needs)
            return answered(
                question,
                numbers,
                guarantee=self._promise if promised else None,
                cost=self._free,
                source="hypothesis" if any(numbers.guessed(need) for need in question.needs) else "derived",
                remaining=self.remaining,
            )

    @property
    def model(self) -> Model:
        """The public model of what was measured so far."""
        with self._lock:
            self._record.refresh()
            return self._model_now()

    def explain(self, asked: Question) -> Explanation:
        """How this would be answered now, what it would cost, and how precise it would be; free of charge."""
        question = Asked.of(self.curator.schema, asked)
        with self._lock:
            self._record.refresh()
            plan = self._plan(question.needs)
            cost = self._loss(plan.units)
            route: Source = "derived"
            if question.key in self._answers:
                route = "cache"
            elif plan:
                route = "hypothesis" if self._guardian.armed else "measured"
            widths = [self._width_after(need) for need in question.needs]
        return Explanation(route, cost, max(widths), self._describe(route, plan, cost))

    def limit(self, analyst: str, *, epsilon: float | None = None, rho: float | None = None) -> None:
        """Give one analyst a limit of their own under the table's; what others paid for stays free to them."""
        _check_analyst(analyst)
        budget = self.curator.budget
        self.curator.ledger.limit_analyst(
            analyst, budget.accountant.share(epsilon=epsilon, rho=rho, delta=budget.delta)
        )

    def spent_by(self, analyst: str) -> Loss:
        """What one analyst's questions have cost."""
        _check_analyst(analyst)
        return self._loss(self.curator.ledger.spent(analyst))

    def outlook(self, size: int | None = None) -> str:
        """What the rest of the budget is good for, in words."""
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise QueryError(f"size is {size!r}; expected how many columns a question is about, 1 or more")
        schema = self.curator.schema
        wide = [column.name for column in schema.columns if column.size > 1]
        size = min(3 if size is None else size, len(wide))
        left = self.curator.budget.limit - self.curator.ledger.spent()
        with self._lock:
            self._record.refresh()
            asked = self._sets.get(size, set())
            fresh = next((c for c in itertools.combinations(wide, size) if c not in asked), None)
            if fresh is None or (units := self._plan([Need(Marginal(schema, fresh))]).units) == 0:
                return f"everything about {size} columns or fewer is known within {self.alpha:g} of the rows"
        return f"about {left // units:,} more new sets of {size} columns at this alpha ({self._loss(left)} remains)"

    def _loss(self, units: int) -> Loss:
        if units not in self._losses:
            self._losses = {units: self.curator.budget.accountant.loss(units, self.curator.budget.delta)}
        return self._losses[units]

    def _lens(self, need: Need) -> Lens | None:
        if need.key not in self._lenses:
            self._lenses[need.key] = need.lens(cells=bool(self._record.cells))
        return self._lenses[need.key]

    @property
    def _constant(self) -> Lens:
        lens = self._lens(everyone(self.curator.schema))
        assert lens is not None
        return lens

    def _state(self, need: Need) -> Settled | None:
        """From when, and by what, a need is known within the tolerance; None if it is not."""
        if need.key not in self._settled:
            settled = self._earliest(need)
            if settled is None:
                return None
            self._settled[need.key] = settled
        return self._settled[need.key]

    def _earliest(self, need: Need) -> Settled | None:
        lens, found = self._lens(need), list[Settled]()
        if lens is not None:
            moments = self._transcript.moments(lens) if lens.gains else [0]
            fits = (moment for moment in moments if self._width(lens, moment, NOTHING) <= self.tolerance)
            found += [Settled(moment) for moment in itertools.islice(fits, 1)]
        found += [Settled(own.moment, own) for own in self._record.own.get(need.key, []) if self._fits(lens, own)]
        return min(found, key=lambda settled: settled.moment, default=None)

    def _fits(self, lens: Lens | None, own: Own) -> bool:
        """Whether what a need has of its own is within the tolerance, up to rounding."""
        match own:
            case Vouched():
                sure = own.beta <= self.beta and own.simultaneous >= self.simultaneous
                width = own.tolerance if sure else math.inf
            case Direct():
                width = float(measured(own, self._widths).widths.max(initial=0.0))
            case Rented():
                width = math.inf if lens is None else self._width(lens, own.moment, own.components)
        return width <= self.tolerance * (1 + ROUNDING)

    def _width(self, lens: Lens, moment: int, rented: Mapping[Columns, Component]) -> float:
        known = known_with(lens, self._transcript.known(lens.gains, moment), rented)
        return self._widths.of(lens, known) if len(known) == len(lens.gains) else math.inf

    def _plan(self, needs: Iterable[Need]) -> Order:
        """The cheapest charge after which all these needs are known within the tolerance.

        What one need buys adds pieces to parts that another relies on, which may widen its interval: then the other
        buys more, until all fit.
        """
        order, ahead = Order({}, {}, {}), Ahead(self._transcript)
        missing = [need for need in needs if self._state(need) is None]
        for _ in range(PASSES):
            short = [need for need in missing if not self._will_do(need, order, ahead)]
            for need in short:
                self._add(order, ahead, need)
            if not short:
                break
        for need in missing:
            if not self._will_do(need, order, ahead):
                order.rents.pop(need.key, None)
                order.directs[need.key] = need, self._as_asked(need, order)
        return order

    def _will_do(self, need: Need, order: Order, ahead: Ahead) -> bool:
        lens = self._lens(need)
        if need.key in order.directs or lens is None:
            return need.key in order.directs
        known = ahead.known(lens, need)
        return len(known) == len(lens.gains) and self._widths.of(lens, known) <= self.tolerance

    def _add(self, order: Order, ahead: Ahead, need: Need) -> None:
        """Order what a need lacks, in the cheapest way."""
        lens = self._lens(need)
        ahead.give_up(need)
        order.rents.pop(need.key, None)
        known = {} if lens is None else ahead.known(lens, need)
        offer = None if lens is None else self._offer(lens, known)
        units = self._as_asked(need, order)
        if lens is None or offer is None or offer.burden > units * LEVEL + self._paid_whole.get(lens.columns, 0):
            order.directs[need.key] = need, units
            return
        ahead.take(need, offer)
        for part, price in offer.prices.items():
            order.parts[part] = order.parts.get(part, 0) + price
        if offer.rents:
            order.rents[need.key] = need, offer.rents

    def _as_asked(self, need: Need, order: Order) -> int:
        """Units for measuring a need just as it is asked."""
        number = self._record.directs + len(order.directs) + 1
        return self._market.direct(need, self.tolerance, self._widths.fresh(need.marginal.cells, number))

    def _offer(self, lens: Lens, known: Mapping[Columns, Known]) -> Offer | None:
        """The cheapest way to know a question; the histogram of a small universe is bought once, for all questions."""
        if isinstance(lens, CellLens) and CELLS in lens.gains and CELLS not in known and () in known:
            purchase = self._market.histogram(lens, known, self.tolerance, self._widths, self._expected(lens))
            return None if purchase is None else self._market.split(lens, purchase, {})
        return self._shop(lens, known)

    def _expected(self, lens: Lens) -> int:
        """How many sets of as many columns are likely to be asked about."""
        asked = self._sets.get(len(lens.columns), set()) | {lens.columns}
        expected = self._expect or FIRST_SETS
        while expected < len(asked):  # doubled, so that what is bought for it changes rarely
            expected *= 2
        return expected

    def _shop(self, lens: Lens, known: Mapping[Columns, Known]) -> Offer | None:
        """The cheapest mixture of parts to buy and to rent; what was paid in rents counts towards buying."""
        expected = self._expected(lens)
        rents = self._market.rentable(lens, known, expected)
        while True:
            purchase = self._market.shop(lens, known, self.tolerance, self._widths, expected, rents=rents)
            if purchase is None:
                return None
            offer = self._market.split(lens, purchase, rents)
            worn = [part for part, units in offer.rents.items() if self._worn(part, units, purchase.prices[part])]
            if not worn:
                return offer
            rents = {part: times for part, times in rents.items() if part not in worn}

    def _worn(self, part: Columns, units: int, price: int) -> bool:
        """Whether renting a part once more would cost more in all than buying it."""
        return self._rented.get(part, 0) + units > price

    def _vouch(self, needs: Sequence[Need]) -> None:
        """Where a guard is armed, let it test the model's answers to what is not known."""
        for need in needs:
            if self._guardian.armed and self._state(need) is None:
                self._guardian.vouch(need, self._model_now(stale=STALE), self.rows)

    def _foresee(self, needs: Sequence[Need]) -> dict[str, Values]:
        """What the model says of needs about to be paid for, where a guard may soon be worth its price."""
        if not self._guardian.watching():
            return {}
        model, rows = self._model_now(stale=STALE), self.rows
        return {need.key: guessed(need, model, rows) for need in needs if self._state(need) is None and not need.signed}

    def _settle(self, plan: Order, needs: Sequence[Need], foreseen: Mapping[str, Values]) -> None:
        """Take note of a payment: what was rented counts towards buying, what the model knew towards a guard."""
        for need, units in plan.directs.values():
            lens = self._lens(need)
            if lens is not None:
                self._paid_whole[lens.columns] = self._paid_whole.get(lens.columns, 0) + units
        for _, parts in plan.rents.values():
            for part, units in parts.items():
                self._rented[part] = self._rented.get(part, 0) + units
        self._guardian.paid(plan.units)
        for need in needs:
            lens = self._lens(need)
            if lens is not None:
                self._sets.setdefault(len(lens.columns), set()).add(lens.columns)
            if need.key in foreseen:
                found = self._numbers([need]).reading(need)
                self._guardian.compare(plan.units // len(foreseen), foreseen[need.key], found.values)

    def _width_after(self, need: Need) -> float:
        """How precise a need is, or would be once paid for, as a fraction of rows."""
        known = self._state(need)
        width = self.tolerance if known is None else float(self._numbers([need]).reading(need).widths.max(initial=0.0))
        return width / self.rows

    def _describe(self, route: Source, plan: Order, cost: Loss) -> str:
        if route == "cache":
            return "answered before: the same answer, free"
        if route == "derived":
            return "what is known already answers this within the tolerance, free"
        left = self.curator.budget.limit - self.curator.ledger.spent()
        first = "a guard tests the model first, free; if the model is off: " if route == "hypothesis" else ""
        sets = [" x ".join(part) or "the number of rows" for part in sorted(plan.parts, key=len)]
        bought = [*sets, *(repr(need.marginal) for need, _ in (*plan.directs.values(), *plan.rents.values()))]
        shown = ", ".join(bought[:4]) + (f" and {len(bought) - 4} more" if len(bought) > 4 else "")
        ending = "" if plan.units <= left else "; more than remains: it would be answered without a guarantee"
        return f"{first}to be measured: {shown}, for {cost}{ending}"

    def _answer(self, asked: Asked, before: int, paid: Loss, free: Loss) -> Answer | AnswerTable:
        """Answer a question from what is known; kept for ever if it is within the tolerance."""
        states = [self._state(need) for need in asked.needs]
        promised = all(state is not None for state in states)
        new = any(state is not None and state.moment > before for state in states)
        numbers = self._numbers(asked.needs)
        source: Source = "measured" if new else "derived"
        if any(numbers.guessed(need) for need in asked.needs):
            source = "hypothesis"
        answer = answered(
            asked,
            numbers,
            guarantee=self._promise if promised else None,
            cost=paid if new or not promised else free,
            source=source,
            remaining=self.remaining,
        )
        if promised:
            self._answers[asked.key] = answer
        return answer

    def _numbers(self, needs: Iterable[Need]) -> Numbers:
        settled = {need.key: self._state(need) for need in needs}
        return Numbers(self._record, self._widths, lens=self._lens, settled=settled, model=self._model_now)

    @property
    def _promise(self) -> str:
        how = f" with probability {1 - self.beta:g}"
        how += ", all answers together" if self.simultaneous else " for a question not chosen by earlier noise"
        return PROMISE.format(tolerance=self.tolerance, alpha=self.alpha, how=how)

    def __repr__(self) -> str:
        how = "all answers together" if self.simultaneous else "each answer"
        return (
            f"Session(alpha={self.alpha:g}, {1 - self.beta:g} for {how}, {len(self._answers)} questions answered, "
            f"{_spent(self.curator)})"
        )

    def _repr_html_(self) -> str:
        facts = {
            "promise": self._promise,
            "tolerance": f"{self.tolerance:,.0f} rows of about {self.rows:,.0f}",
            "questions answered": f"{len(self._answers):,}",
            "charges": f"{self._transcript.moment:,}",
            "spent": str(self.spent),
            "outlook": self.outlook(),
        }
        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
        return f"<table><caption>Session</caption>{rows}</table>"


def _spent(curator: Curator) -> str:
    try:
        return f"spent {curator.spent}"
    except LedgerError:
        return "closed"


def _check_analyst(analyst: object) -> None:
    if not isinstance(analyst, str) or not analyst:
        raise QueryError(f"analyst is {analyst!r}; expected a name")


def _route(answer: Answer | AnswerTable) -> tuple[Source, bool]:
    given = [answer] if isinstance(answer, Answer) else [one for row in answer for one in row.answers.values()]
    return (given[0].source if given else "derived"), all(one.guarantee is not None for one in given)


def _again(answer: Answer | AnswerTable, free: Loss) -> Answer | AnswerTable:
    """The same answer, from the cache, free."""
    again = changed(answer, lambda one: replace(one, source="cache", cost=free))
    return replace(again, cost=free) if isinstance(again, AnswerTable) else again
