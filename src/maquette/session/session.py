"""Session: an unbounded, adaptive stream of questions on one budget.

For every question the session takes the cheapest way that meets its tolerance, decided from public facts alone:

* *cache*: the same canonical question was answered before;
* *derived*: earlier measurements answer it within the tolerance;
* *hypothesis*: an open guard finds the public model's answer close enough (`GuardPolicy`);
* *measured*: the missing precision is bought (`Planner`), or the numbers are measured exactly as asked where that is
  cheaper.

Privacy: rows are accessed only through `Curator.measure_many` and `Curator.guard`; everything else is post-processing
of what they released. The ledger's limit holds for all analysts, questions and orders of questions. Accuracy: see
`Widths`. Durability: the measurements in the ledger are the state (`Transcript`); an answer is taken from the earliest
moment at which it could be given, so it does not depend on who asks, or when.
"""

from __future__ import annotations

import hashlib
import html
import itertools
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from maquette.answers import Answered, Source
from maquette.bounded import Bounded
from maquette.curator import Curator, Deadline
from maquette.errors import BudgetExceeded, LedgerError, QueryError, RequestLost
from maquette.estimates import Columns
from maquette.privacy import Loss, rows_counted
from maquette.privacy.ledger import BookLedger, Charge, Overtaken
from maquette.query import Context, CutRule, Marginal, Settings, settings_of
from maquette.session.ahead import Ahead
from maquette.session.answering import answered
from maquette.session.guard_policy import STALE, GuardPolicy, Values, guessed
from maquette.session.knowledge import Knowledge
from maquette.session.model import Model
from maquette.session.planner import Planner
from maquette.session.precision.bases import is_plain, plain, summed
from maquette.session.question import Goal, Question, lasting
from maquette.session.record import Flight, Order
from maquette.session.streams import QuestionLike, Streams

CUSTODIAN = "custodian"
PROMISE = "counts within {tolerance:,.0f} rows ({alpha:g} of them){how}, over the noise on the binned, clamped table"
KEPT = 100_000  # answers, and texts, that are found again without being computed
MAX_PREPARED = 20_000  # sets of columns
HISTORY = 100_000  # questions
BESIDE = 32  # other precisions whose plans are remembered; their answers follow from the record anyway


@dataclass(frozen=True)
class Explanation:
    """How a question would be answered now, and its price; computing this costs nothing."""

    route: Source
    cost: Loss
    half_width: float
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Asking:
    """One question of a session's history: its route, whether it has a guarantee, and the units spent until then."""

    route: Source
    promised: bool
    spent: int


class Session(Streams):
    """Answers questions within `tolerance` rows (alpha of them), until the budget is used up; see `online`."""

    def __init__(
        self,
        knowledge: Knowledge,
        planner: Planner,
        policy: GuardPolicy,
        *,
        alpha: float,
        deadline: Deadline | None = None,
        context: Context | None = None,
    ) -> None:
        self.alpha = alpha
        self.deadline = deadline
        self.context = Context() if context is None else context
        self._beside: OrderedDict[tuple[float, float], Session] = OrderedDict()  # by alpha and beta, on the same record
        self._knowledge = knowledge
        self._planner = planner
        self._policy = policy
        self._record = knowledge.record
        self._lock = self._record.lock
        self.curator: Curator = self._record.curator
        self._free = self.curator.cost_of([])
        self._answers: Bounded[str, Answered] = Bounded(KEPT)
        self._texts: Bounded[str, str] = Bounded(KEPT)  # the canonical question of a text
        self._heard: deque[Goal] = deque(maxlen=KEPT)  # asked, and not yet counted by the planner
        self._set = ""  # what tells this session's requests from those of another precision
        self.history: deque[Asking] = deque(maxlen=HISTORY)  # since this session object was opened; public, not durable

    @property
    def beta(self) -> float:
        """Failure probability: of each answer, or of all answers together."""
        return self._knowledge.widths.beta

    @property
    def tolerance(self) -> float:
        """Largest error of a count, in rows."""
        return self._knowledge.tolerance

    @property
    def simultaneous(self) -> bool:
        """Whether all intervals hold together, however questions are chosen."""
        return self._knowledge.widths.simultaneous

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        return self._knowledge.rows

    @property
    def spent(self) -> Loss:
        """What was spent on the whole table."""
        return self.curator.spent

    @property
    def remaining(self) -> Loss:
        """What remains of the table's budget."""
        return self._loss(self.curator.budget.limit - self._told())

    def ask(
        self,
        asked: QuestionLike,
        *,
        analyst: str = CUSTODIAN,
        strict: bool = False,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
        cuts: CutRule | None = None,
    ) -> Answered:
        """Answer SQL or a condition.

        A condition is answered by the fraction of rows on which it holds, SQL by the numbers SQL would return. When the
        budget (the table's or the analyst's) cannot pay, the answer comes from what is known and from the public model,
        with `guarantee=None`; `strict` raises BudgetExceeded instead. An invalid question costs nothing. Under a
        deadline a late measurement raises DeadlineMissed: it is charged and never released, so asking again measures
        and pays again. A question with a `request` name pays at most once, whatever happens on the way: asked again
        under that name it is free, or raises RequestLost or DeadlineMissed if its charge was lost.

        For this question alone: `alpha` and `confidence` instead of the session's (where all answers hold together, a
        confidence below the session's would break its promise and is refused); `max_cost`, an epsilon that its public
        worst-case price may not exceed, or BudgetExceeded is raised before anything is charged (no guard is opened
        then); `cuts="between"` answers a comparison that cuts through a bin between the two cuts around it. A text may
        hold them itself: `/* alpha = 0.01, max_cost = 0.1 */ SELECT ...` or `SET alpha = 0.01; SELECT ...`.
        """
        own = Settings(alpha, confidence, max_cost, cuts)
        (answer,) = self._ask_many([asked], own, analyst=analyst, strict=strict, request=request)
        return answer

    def ask_many(
        self,
        asked: Sequence[QuestionLike],
        *,
        analyst: str = CUSTODIAN,
        strict: bool = False,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
        cuts: CutRule | None = None,
    ) -> list[Answered]:
        """Answer several questions in one charge; cheaper than one by one, because they share what they need.

        `max_cost` is for all of them. Texts with different settings of their own are asked one by one.
        """
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            raise QueryError("got one question", expected="a list of questions", advice="ask a single one with `ask`")
        own = Settings(alpha, confidence, max_cost, cuts)
        return self._ask_many(asked, own, analyst=analyst, strict=strict, request=request)

    def _ask_many(
        self, asked: Sequence[QuestionLike], own: Settings, *, analyst: str, strict: bool, request: str | None
    ) -> list[Answered]:
        """Answer questions with the settings of each: its own text's, or those given."""
        _check_analyst(analyst)
        wanted = [settings_of(question).over(own) for question in asked]
        if len(set(wanted)) > 1:
            names = [None if request is None else f"{request}/{i}" for i in range(len(asked))]
            return [
                self._at(one)._asked([question], one, analyst=analyst, strict=strict, request=name)[0]
                for question, one, name in zip(asked, wanted, names, strict=True)
            ]
        settings = wanted[0] if wanted else own
        return self._at(settings)._asked(asked, settings, analyst=analyst, strict=strict, request=request)

    def _at(self, settings: Settings) -> Session:
        """This session, or one beside it on the same record that promises `alpha` and `confidence`.

        Both see the same measurements, and their charges are numbered together. An interval at a higher confidence
        contains the one at the session's, so the session's promise for all answers together still holds.
        """
        alpha = self.alpha if settings.alpha is None else settings.alpha
        beta = self.beta if settings.confidence is None else 1.0 - settings.confidence
        if math.isclose(beta, self.beta, rel_tol=1e-9):
            beta = self.beta
        if (alpha, beta) == (self.alpha, self.beta):
            return self
        if self.simultaneous and beta > self.beta:
            raise QueryError(
                f"confidence is {1 - beta:g}, and this session promises all its answers together at {1 - self.beta:g}",
                expected=f"a confidence of {1 - self.beta:g} or more",
                advice="or open a session with simultaneous=False, in which each answer has its own",
            )
        with self._lock:
            known = self._beside.get((alpha, beta))
            if known is None:
                known = self._beside[alpha, beta] = self._made(alpha, beta)
                if len(self._beside) > BESIDE:
                    self._beside.popitem(last=False)
            self._beside.move_to_end((alpha, beta))
            return known

    def _made(self, alpha: float, doubt: float) -> Session:
        """A session on the same record; it opens no guards, and takes an earlier guard's word only where it is enough.

        What is smaller than a guard's tolerance is measured afresh (`Knowledge`).
        """
        knowledge = self._knowledge.at(self.tolerance * alpha / self.alpha, doubt)
        policy = GuardPolicy(self._record, knowledge.widths, knowledge.tolerance, never=True)
        planner = self._planner.beside(knowledge)
        made = Session(knowledge, planner, policy, alpha=alpha, deadline=self.deadline, context=self.context)
        made.history = self.history
        made._set = f"alpha {alpha!r} beta {doubt!r}\0"
        return made

    def _asked(
        self, asked: Sequence[QuestionLike], settings: Settings, *, analyst: str, strict: bool, request: str | None
    ) -> list[Answered]:
        """Answer questions at this session's precision; of the settings, the limit of the price and the cuts count."""
        self._record.see()
        texts = [_named_text(one, settings) for one in asked]
        if request is None and (told := self._told_again(texts)) is not None:
            return told
        questions = [self._read(question, settings) for question in asked]
        if request is None and self._known(questions):
            answers = self._answered(questions, self._record.transcript.moment, self._free, heard=False)
        else:
            with self._record.alone(self.deadline) if self._timed else nullcontext():
                answers = self._bought(asked, questions, settings, analyst, strict=strict, request=request)
        for text, question in zip(texts, questions, strict=True):
            if text is not None and text not in self._texts and lasting(text):
                self._texts[text] = question.key
        return answers

    @property
    def _timed(self) -> bool:
        """Whether questions to the rows have a deadline; then they come one after the other."""
        return self.deadline is not None or self.curator.deadline is not None

    def _bought(
        self,
        asked: Sequence[QuestionLike],
        questions: Sequence[Question],
        settings: Settings,
        analyst: str,
        *,
        strict: bool,
        request: str | None,
    ) -> list[Answered]:
        """Answers to questions that may have to be paid for."""
        before, paid = self._record.transcript.moment, self._free
        named = None if request is None else (request, _digest(self._set, questions))
        try:
            before, paid = self._pay(questions, analyst, named, self._units(settings.max_cost))
        except BudgetExceeded as refused:
            if strict or isinstance(refused, _TooDear):
                raise
            several = sum(question.key not in self._answers for question in questions) > 1
            if several and settings.max_cost is None:  # some may be affordable alone; a limit is for all of them
                names = [None if request is None else f"{request}/{i}" for i in range(len(asked))]
                return [
                    self._asked([one], settings, analyst=analyst, strict=False, request=name)[0]
                    for one, name in zip(asked, names, strict=True)
                ]
            return self._answered(questions, before, paid, heard=True)
        return self._answered(questions, before, paid, heard=paid.units > 0)

    def _told_again(self, texts: Sequence[str | None]) -> list[Answered] | None:
        """Answers to texts that were all answered before, as they were; takes no lock and parses nothing."""
        answers = []
        for text in texts:
            known = None if text is None else self._answers.get(self._texts.get(text, ""))
            if known is None:
                return None
            answers.append(known.recalled(self._free))
        spent = self.history[-1].spent if self.history else self._told()
        self.history.extend(Asking(*_route(answer), spent) for answer in answers)
        return answers

    def _told(self) -> int:
        """What is spent, as of the last commit; a ledger that cannot say so at once is asked in the usual way."""
        ledger = self.curator.ledger
        return ledger.told() if isinstance(ledger, BookLedger) else ledger.spent()

    def _known(self, questions: Sequence[Question]) -> bool:
        """Whether nothing has to be paid for these questions; takes no lock."""
        new = [question for question in questions if question.key not in self._answers]
        return all(self._knowledge.state(goal) is not None for question in new for goal in question.goals)

    def _answered(self, questions: Sequence[Question], before: int, paid: Loss, *, heard: bool) -> list[Answered]:
        """Answers from what is known; takes no lock. `heard`: the planner has counted these questions."""
        new = [question for question in questions if question.key not in self._answers]
        spent = self._told() if new or not self.history else self.history[-1].spent
        answers = []
        for question in questions:
            known = self._answers.get(question.key)
            answers.append(self._answer(question, before, paid, spent) if known is None else known.recalled(self._free))
        if not heard:
            self._heard.extend({goal.key: goal for question in new for goal in question.goals}.values())
        self.history.extend(Asking(*_route(answer), spent) for answer in answers)
        return answers

    def _pay(
        self, questions: Sequence[Question], analyst: str, named: tuple[str, str] | None, most: int | None = None
    ) -> tuple[int, Loss]:
        """Buy what these questions lack, for `most` units at most; returns the moment before that, and the price.

        The lock is held for the plan alone. What others have in flight is planned on as if it were there; should it
        fail, the rest is bought in a second charge.
        """
        new = [question for question in questions if question.key not in self._answers]
        goals = list({goal.key: goal for question in new for goal in question.goals}.values())
        before, paid, charged, heard = self._record.transcript.moment, self._free, False, False
        while True:
            flight = Flight(veiled=threading.get_ident() if self._timed else None)
            guesses = self._foresee(goals) if most is None else {}  # with a highest price no guard is opened
            try:
                with self._lock:
                    self._record.ready()
                    if named is not None and not charged:
                        charged = self._record.settle_request(named[0], analyst, named[1])
                        self._record.ready()
                        before = self._record.transcript.moment
                    if self._policy.armed:
                        self._record.drain()
                        self._record.ready()
                        self._accept(goals)
                    missing = [goal for goal in goals if self._knowledge.state(goal) is None]
                    ahead = self._record.ahead() if missing else None
                    plan = self._plan(missing, goals, ahead)
                    if not plan:
                        if ahead is None:
                            return before, paid
                        self._record.drain()  # others are buying all of it
                        continue
                    if charged:
                        raise _bought_too_little(named)
                    self._check_price(plan.units + paid.units, most)
                    self._record.begin(flight, plan, analyst=analyst, named=named)
                    self._planner.settle(plan, goals)
                    self._planner.answer([] if paid.units or heard else goals)
                paid = self._plus(paid, self._record.charge(flight, analyst=analyst))
            except _TooDear:
                raise
            except Overtaken:  # by another process; what it buys is there in a moment
                with self._lock:
                    self._planner.settle(plan.undone, [])
                heard = True
                continue
            except BudgetExceeded:
                with self._lock:
                    self._planner.settle(plan.undone, [])
                raise
            finally:
                self._record.give_up(flight)
            with self._lock:
                self._compare(plan, goals, guesses)
                if not flight.ahead or all(self._knowledge.state(goal) is not None for goal in goals):
                    return before, paid

    def _plan(self, missing: Sequence[Goal], goals: Sequence[Goal], ahead: Ahead | None = None) -> Order:
        """What to charge for goals of which some are missing; called with the lock."""
        while self._heard:
            self._planner.answer([self._heard.popleft()])
        if not missing:
            return Order({}, {}, {})
        return (self._planner if ahead is None else self._planner.on(self._knowledge.foreseen(ahead))).plan(goals)

    def _plus(self, one: Loss, other: Loss) -> Loss:
        return other if not one.units else self._loss(one.units + other.units)

    def prepare(self, size: int, *, analyst: str = CUSTODIAN) -> Loss:
        """Buy in one charge what all tables of `size` columns need; BudgetExceeded if it cannot be paid."""
        schema = self.curator.schema
        wide = [column.name for column in schema.columns if column.size > 1]
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= len(wide):
            raise QueryError(f"size is {size!r}", expected=f"a number of columns from 1 to {len(wide)}")
        if (count := math.comb(len(wide), size)) > MAX_PREPARED:
            raise QueryError(
                f"there are {count:,} sets of {size} columns, more than {MAX_PREPARED:,}", advice="prepare fewer"
            )
        goals = [Goal(Marginal(schema, columns)) for columns in itertools.combinations(wide, size)]
        with self._record.alone(self.deadline):
            self._planner.asked(size).update(goal.marginal.columns for goal in goals)
            while True:
                order = self._plan(goals, goals)
                try:
                    paid = self._record.charge(order, analyst=analyst) if order else self._loss(0)
                except Overtaken:  # by another process
                    self._record.drain()
                    continue
                self._planner.settle(order, [])
                self._policy.paid(order.units)
                return paid

    def _read(self, asked: QuestionLike, settings: Settings | None = None) -> Question:
        """Parse a question; an invalid one is refused here."""
        cuts = (settings_of(asked) if settings is None else settings).cuts
        context = self.context if cuts is None else replace(self.context, cuts=cuts)
        question = Question.of(self.curator.schema, asked, context)
        # Sessions that began when sums were of the middles of bins go on with them: one answer for ever.
        values = self.curator.keeps_values and self._record.begun != {}
        return question if values else question.on_levels

    def _units(self, epsilon: float | None) -> int | None:
        """A highest price in ledger units, rounded down."""
        budget = self.curator.budget
        return (
            None if epsilon is None else budget.accountant.share(epsilon=epsilon, delta=budget.delta) if epsilon else 0
        )

    def _check_price(self, units: int, most: int | None) -> None:
        """Refuse a plan above the highest price, before anything is charged."""
        if most is not None and units > most:
            price, limit = self._loss(min(units, self.curator.budget.limit)), self._loss(most)
            raise _TooDear(
                f"this would cost {price}, more than the max_cost of epsilon {limit.epsilon:.4g} given with it",
                advice="nothing was charged. Ask with a higher max_cost, or a larger alpha",
                requested=price.epsilon,
                remaining=limit.epsilon,
            )

    def peek(self, asked: QuestionLike) -> Answered:
        """The answer from what is known now, however wide its interval; nothing is charged or stored.

        `guarantee` is None where the interval exceeds the tolerance; `source` is "hypothesis" where the model answers.
        """
        session = self._at(settings_of(asked))
        if session is not self:
            return session.peek(asked)
        question = self._read(asked)
        self._come_up()
        promised = all(self._knowledge.state(goal) is not None for goal in question.goals)
        numbers = self._knowledge.numbers(question.goals)
        return answered(
            question,
            numbers,
            guarantee=self._promise if promised else None,
            cost=self._free,
            source="hypothesis" if any(numbers.guessed(goal) for goal in question.goals) else "derived",
            remaining=self.remaining,
        )

    @property
    def start(self) -> str | None:
        """What the public model started from, by its hash, and when its own loss adds; None if there was no start."""
        return None if self._knowledge.start is None else self._knowledge.start.told

    @property
    def model(self) -> Model:
        """The public model of all measurements until now."""
        self._come_up()
        return self._knowledge.model()

    def _come_up(self) -> None:
        """After an interrupted charge, look at what the ledger holds; what is not released yet is waited for."""
        self._record.see()
        if self._record.interrupted:
            with self._lock:
                self._record.ready()

    def explain(
        self, asked: QuestionLike, *, alpha: float | None = None, confidence: float | None = None
    ) -> Explanation:
        """How the question would be answered now, at what price and with what precision; free of charge."""
        session = self._at(settings_of(asked).over(Settings(alpha, confidence)))
        if session is not self:
            return session.explain(asked, alpha=session.alpha, confidence=1.0 - session.beta)
        question = self._read(asked)
        with self._lock:
            self._record.ready()
            plan = self._plan(question.goals, question.goals)
            cost = self._loss(plan.units)
            route: Source = "derived"
            if question.key in self._answers:
                route = "cache"
            elif plan:
                route = "hypothesis" if self._policy.armed else "measured"
            width = max(self._knowledge.width_after(goal) for goal in question.goals) / self.rows
        return Explanation(route, cost, width, self._describe(route, plan, cost))

    def limit(self, analyst: str, *, epsilon: float | None = None, rho: float | None = None) -> None:
        """Set a limit for one analyst within the table's budget; what others paid for stays free to this analyst."""
        _check_analyst(analyst)
        budget = self.curator.budget
        self.curator.ledger.limit_analyst(
            analyst, budget.accountant.share(epsilon=epsilon, rho=rho, delta=budget.delta)
        )

    def owns(self, charge: Charge) -> bool:
        """Whether the session of this name made this charge, now or before a restart."""
        return charge.id.startswith(f"{self._record.name}:")

    def spent_by(self, analyst: str) -> Loss:
        """What one analyst's questions have cost."""
        _check_analyst(analyst)
        return self._loss(self.curator.ledger.spent(analyst))

    def outlook(self, size: int | None = None) -> str:
        """What the rest of the budget can buy, in words."""
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise QueryError(f"size is {size!r}", expected="how many columns a question is about, 1 or more")
        schema = self.curator.schema
        wide = [column.name for column in schema.columns if column.size > 1]
        size = min(3 if size is None else size, len(wide))
        left = self.curator.budget.limit - self.curator.ledger.spent()
        with self._lock:
            self._record.ready()
            asked = self._planner.asked(size)
            fresh = next((c for c in itertools.combinations(wide, size) if c not in asked), None)
            goals = [] if fresh is None else [Goal(Marginal(schema, fresh))]
            if fresh is None or (units := self._plan(goals, goals).units) == 0:
                return (
                    f"every combination of levels of {size} columns or fewer is known within {self.alpha:g} of the "
                    "rows; a range or a sum over many of them may still cost"
                )
        return f"about {left // units:,} more new sets of {size} columns at this alpha ({self._loss(left)} remains)"

    def _loss(self, units: int) -> Loss:
        return self.curator.budget.accountant.loss(units, self.curator.budget.delta)

    def _accept(self, goals: Sequence[Goal]) -> None:
        """If a guard is open, let it test the model's answers to goals that are not known."""
        for goal in goals:
            if self._policy.armed and self._knowledge.state(goal) is None:
                self._policy.accept(goal, self._knowledge.model(stale=STALE), self.rows)

    def _foresee(self, goals: Sequence[Goal]) -> dict[str, Values]:
        """The model's answers to goals about to be paid for, if a guard may soon be worth its price."""
        if not self._policy.watching():
            return {}
        model, rows = self._knowledge.model(stale=STALE), self.rows
        return {
            goal.key: guessed(goal, model, rows)
            for goal in goals
            if self._knowledge.state(goal) is None and not goal.signed and goal.counted
        }

    def _compare(self, plan: Order, goals: Sequence[Goal], foreseen: Mapping[str, Values]) -> None:
        """Record a payment for the guard's regret."""
        self._policy.paid(plan.units)
        for goal in goals:
            if goal.key in foreseen:
                found = self._knowledge.numbers([goal]).reading(goal)
                self._policy.compare(plan.units // len(foreseen), foreseen[goal.key], found.values)

    def _describe(self, route: Source, plan: Order, cost: Loss) -> str:
        if route == "cache":
            return "answered before: the same answer, free"
        if route == "derived":
            return "what is known already answers this within the tolerance, free"
        left = self.curator.budget.limit - self.curator.ledger.spent()
        first = "a guard tests the model first, free; if the model is off: " if route == "hypothesis" else ""
        sets = [_named(key) for key in sorted(plan.parts, key=len)]
        single = [goal.marginal.columns for goal, _ in (*plan.directs.values(), *plan.rents.values())]
        bought = [*sets, *(f"this question alone ({' x '.join(columns) or 'all rows'})" for columns in single)]
        shown = ", ".join(bought[:4]) + (f" and {len(bought) - 4} more" if len(bought) > 4 else "")
        ending = "" if plan.units <= left else "; more than remains: it would be answered without a guarantee"
        return f"{first}to be measured: {shown}, for {cost}{ending}"

    def _answer(self, asked: Question, before: int, paid: Loss, spent: int) -> Answered:
        """Answer a question from what is known; the answer is kept for good if it is within the tolerance."""
        states = [self._knowledge.state(goal) for goal in asked.goals]
        promised = all(state is not None for state in states)
        new = any(state is not None and state.moment > before for state in states)
        numbers = self._knowledge.numbers(asked.goals)
        source: Source = "measured" if new else "derived"
        if any(numbers.guessed(goal) for goal in asked.goals):
            source = "hypothesis"
        answer = answered(
            asked,
            numbers,
            guarantee=self._promise if promised else None,
            cost=paid if new or not promised else self._free,
            source=source,
            remaining=self._loss(self.curator.budget.limit - spent),
        )
        counted = rows_counted(self.curator.ledger.terms.unit, self.curator.relation.max_contributions)
        answer = answer.each(lambda one: replace(one, counted=counted))
        if promised:
            self._answers[asked.key] = answer
        return answer

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
            "charges": f"{self._record.transcript.moment:,}",
            "spent": str(self.spent),
            "outlook": self.outlook(),
        }
        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
        return f"<table><caption>Session</caption>{rows}</table>"


def _named(key: Columns) -> str:
    if (column := summed(key)) is not None:
        return f"{' x '.join(plain(key))} (sums of {column})"
    return " x ".join(plain(key)) + ("" if is_plain(key) else " (for ranges)") or "the number of rows"


def _spent(curator: Curator) -> str:
    try:
        return f"spent {curator.spent}"
    except LedgerError:
        return "closed"


def _check_analyst(analyst: object) -> None:
    if not isinstance(analyst, str) or not analyst:
        raise QueryError(f"analyst is {analyst!r}", expected="a name")


class _TooDear(BudgetExceeded):
    """A price above the highest that was given with the question."""


def _named_text(asked: QuestionLike, settings: Settings) -> str | None:
    """The name under which the answer to a text is found again: the text, and the rule for cuts if there is one."""
    if not isinstance(asked, str):
        return None
    return asked if settings.cuts is None else f"{settings.cuts}\0{asked}"


def _bought_too_little(named: tuple[str, str] | None) -> RequestLost:
    name = None if named is None else named[0]
    return RequestLost(
        f"request {name!r} was charged before, and what it bought does not answer the question within the tolerance",
        advice="nothing more is charged under this name. Ask under a fresh one, which is charged anew.",
    )


def _digest(settings: str, questions: Sequence[Question]) -> str:
    return hashlib.sha256((settings + "\0".join(question.key for question in questions)).encode()).hexdigest()


def _route(answer: Answered) -> tuple[Source, bool]:
    return answer.source, answer.guarantee is not None
