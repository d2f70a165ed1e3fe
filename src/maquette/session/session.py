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

import html
import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maquette.answers import Answered, Source
from maquette.curator import Curator, Deadline
from maquette.errors import BudgetExceeded, LedgerError, QueryError
from maquette.privacy import Loss
from maquette.privacy.ledger import Charge
from maquette.query import Expression, LinearQuery, Marginal
from maquette.session.answering import answered
from maquette.session.guard_policy import STALE, GuardPolicy, Values, guessed
from maquette.session.knowledge import Knowledge
from maquette.session.model import Model
from maquette.session.planner import Planner
from maquette.session.question import Goal, Question
from maquette.session.record import Order

QuestionLike = str | Expression | LinearQuery

CUSTODIAN = "custodian"
PROMISE = "counts within {tolerance:,.0f} rows ({alpha:g} of them){how}, over the noise on the binned, clamped table"
MAX_PREPARED = 20_000  # sets of columns
HISTORY = 100_000  # questions


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


class Session:
    """Answers questions within `tolerance` rows (alpha of them), until the budget is used up; see `online`."""

    def __init__(
        self,
        knowledge: Knowledge,
        planner: Planner,
        policy: GuardPolicy,
        *,
        alpha: float,
        deadline: Deadline | None = None,
    ) -> None:
        self.alpha = alpha
        self.deadline = deadline
        self._knowledge = knowledge
        self._planner = planner
        self._policy = policy
        self._record = knowledge.record
        self._lock = self._record.lock
        self.curator: Curator = self._record.curator
        self._free = self.curator.cost_of([])
        self._answers: dict[str, Answered] = {}
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
        return self._loss(self.curator.budget.limit - self.curator.ledger.spent())

    def ask(self, asked: QuestionLike, *, analyst: str = CUSTODIAN, strict: bool = False) -> Answered:
        """Answer SQL or a condition.

        A condition is answered by the fraction of rows on which it holds, SQL by the numbers SQL would return. When the
        budget (the table's or the analyst's) cannot pay, the answer comes from what is known and from the public model,
        with `guarantee=None`; `strict` raises BudgetExceeded instead. An invalid question costs nothing. Under a
        deadline a late measurement raises DeadlineMissed: it is charged and never released, so asking again measures
        and pays again.
        """
        (answer,) = self.ask_many([asked], analyst=analyst, strict=strict)
        return answer

    def ask_many(
        self, asked: Sequence[QuestionLike], *, analyst: str = CUSTODIAN, strict: bool = False
    ) -> list[Answered]:
        """Answer several questions in one charge; cheaper than one by one, because they share what they need."""
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            raise QueryError("got one question", expected="a list of questions", advice="ask a single one with `ask`")
        _check_analyst(analyst)
        questions = [Question.of(self.curator.schema, question) for question in asked]
        with self._lock, self.curator.within(self.deadline):
            self._record.refresh()
            new = [question for question in questions if question.key not in self._answers]
            paid = free = self._free
            before = self._record.transcript.moment
            goals = list({goal.key: goal for question in new for goal in question.goals}.values())
            self._accept(goals)
            plan = self._planner.plan(goals)
            if plan:
                try:
                    guessed = self._foresee(goals)
                    paid = self._record.charge(plan, analyst=analyst)
                    self._settle(plan, goals, guessed)
                except BudgetExceeded:
                    if strict:
                        raise
                    if len(new) > 1:  # some of them may be affordable alone
                        return [self.ask(question, analyst=analyst) for question in asked]
            spent = self.curator.ledger.spent() if new or not self.history else self.history[-1].spent
            answers = []
            for question in questions:
                known = self._answers.get(question.key)
                answers.append(self._answer(question, before, paid, spent) if known is None else known.recalled(free))
            self.history.extend(Asking(*_route(answer), spent) for answer in answers)
            return answers

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
        with self._lock, self.curator.within(self.deadline):
            self._record.refresh()
            self._planner.asked(size).update(goal.marginal.columns for goal in goals)
            order = self._planner.plan(goals)
            paid = self._record.charge(order, analyst=analyst) if order else self._loss(0)
            self._settle(order, [], {})
            return paid

    def peek(self, asked: QuestionLike) -> Answered:
        """The answer from what is known now, however wide its interval; nothing is charged or stored.

        `guarantee` is None where the interval exceeds the tolerance; `source` is "hypothesis" where the model answers.
        """
        question = Question.of(self.curator.schema, asked)
        with self._lock:
            self._record.refresh()
            numbers = self._knowledge.numbers(question.goals)
            promised = all(self._knowledge.state(goal) is not None for goal in question.goals)
            return answered(
                question,
                numbers,
                guarantee=self._promise if promised else None,
                cost=self._free,
                source="hypothesis" if any(numbers.guessed(goal) for goal in question.goals) else "derived",
                remaining=self.remaining,
            )

    @property
    def model(self) -> Model:
        """The public model of all measurements until now."""
        with self._lock:
            self._record.refresh()
            return self._knowledge.model()

    def explain(self, asked: QuestionLike) -> Explanation:
        """How the question would be answered now, at what price and with what precision; free of charge."""
        question = Question.of(self.curator.schema, asked)
        with self._lock:
            self._record.refresh()
            plan = self._planner.plan(question.goals)
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
            self._record.refresh()
            asked = self._planner.asked(size)
            fresh = next((c for c in itertools.combinations(wide, size) if c not in asked), None)
            if fresh is None or (units := self._planner.plan([Goal(Marginal(schema, fresh))]).units) == 0:
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
            if self._knowledge.state(goal) is None and not goal.signed
        }

    def _settle(self, plan: Order, goals: Sequence[Goal], foreseen: Mapping[str, Values]) -> None:
        """Record a payment for the rent-or-buy rule, and for the guard's regret."""
        self._planner.settle(plan, goals)
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
        sets = [" x ".join(part) or "the number of rows" for part in sorted(plan.parts, key=len)]
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


def _spent(curator: Curator) -> str:
    try:
        return f"spent {curator.spent}"
    except LedgerError:
        return "closed"


def _check_analyst(analyst: object) -> None:
    if not isinstance(analyst, str) or not analyst:
        raise QueryError(f"analyst is {analyst!r}", expected="a name")


def _route(answer: Answered) -> tuple[Source, bool]:
    return answer.source, answer.guarantee is not None
