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

from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace

from maquette.answers import Answered, Source
from maquette.bounded import Bounded
from maquette.curator import Curator, Deadline
from maquette.errors import BudgetExceeded, QueryError
from maquette.privacy import Loss, rows_counted
from maquette.privacy.ledger import BookLedger, Charge
from maquette.query import Context, CutRule, Settings, settings_of
from maquette.session.answering import answered, room_of
from maquette.session.asking import Asking, check_analyst, digest, named_text, promised, route
from maquette.session.buying import Buyer, TooDear, Way
from maquette.session.explanation import Explanation, in_words, page, promise, spent_on
from maquette.session.guard_policy import GuardPolicy
from maquette.session.knowledge import Knowledge
from maquette.session.model import Model
from maquette.session.order import Named, Order
from maquette.session.outlook import new_table, tables_of
from maquette.session.planner import Planner
from maquette.session.question import Goal, Question, lasting
from maquette.session.streams import QuestionLike, Streams

CUSTODIAN = "custodian"
KEPT = 100_000  # answers, and texts, that are found again without being computed
HISTORY = 100_000  # questions
BESIDE = 32  # other precisions whose plans are remembered; their answers follow from the record anyway


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
        self._buyer = Buyer(knowledge, planner, policy, deadline)
        self._free = self._buyer.free
        self._answers: Bounded[str, Answered] = Bounded(KEPT, room_of)
        self._texts: Bounded[str, str] = Bounded(KEPT)  # the canonical question of a text
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

        `max_cost` is for all of them. Texts with different settings of their own are asked one by one, each within it.
        """
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            raise QueryError("got one question", expected="a list of questions", advice="ask a single one with `ask`")
        own = Settings(alpha, confidence, max_cost, cuts)
        return self._ask_many(asked, own, analyst=analyst, strict=strict, request=request)

    def _ask_many(
        self, asked: Sequence[QuestionLike], own: Settings, *, analyst: str, strict: bool, request: str | None
    ) -> list[Answered]:
        """Answer questions with the settings of each: its own text's, or those given."""
        check_analyst(analyst)
        wanted = [settings_of(question).over(own) for question in asked]
        if len(set(wanted)) > 1:
            for question, one in zip(asked, wanted, strict=True):  # an invalid one is found before any is charged
                promised(one, self.alpha, self.beta, together=self.simultaneous)
                self._read(question, one)
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
        alpha, beta = promised(settings, self.alpha, self.beta, together=self.simultaneous)
        if (alpha, beta) == (self.alpha, self.beta):
            return self
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
        texts = [named_text(one, settings) for one in asked]
        if request is None and (told := self._told_again(texts)) is not None:
            return told
        questions = [self._read(question, settings) for question in asked]
        if request is None and self._known(questions):
            answers = self._answered(questions, self._record.transcript.moment, self._free, heard=False)
        else:
            with self._record.alone(self.deadline) if self._buyer.timed else nullcontext():
                answers = self._bought(questions, settings, analyst, strict=strict, request=request)
        for text, question in zip(texts, questions, strict=True):
            if text is not None and text not in self._texts and lasting(text):
                self._texts[text] = question.key
        return answers

    def _bought(
        self, questions: Sequence[Question], settings: Settings, analyst: str, *, strict: bool, request: str | None
    ) -> list[Answered]:
        """Answers to questions that may have to be paid for.

        What cannot be paid as planned is tried in cheaper ways: several questions one by one, each alone at its
        tolerance, and then as precisely as the rest of the budget allows; a batch before its last way is split.
        """
        most = self._buyer.units(settings.max_cost)
        try:
            before, paid = self._paid(questions, analyst, request, most, ("usual",))
            return self._answered(questions, before, paid, heard=paid.units > 0)
        except BudgetExceeded as refused:
            if isinstance(refused, TooDear) or (strict and len(questions) > 1):
                raise
        if len(questions) == 1:
            return [self._saved(questions[0], analyst, request, most, strict=strict)]
        names = [None if request is None else f"{request}/{i}" for i in range(len(questions))]
        return self._one_by_one(questions, analyst, names, most)

    def _paid(
        self, questions: Sequence[Question], analyst: str, request: str | None, most: int | None, ways: Sequence[Way]
    ) -> tuple[int, Loss]:
        """Pay for questions in the first of some ways that the budget allows."""
        named = None if request is None else Named(request, digest(self._set, questions))
        for way in ways[:-1]:
            with suppress(BudgetExceeded):
                return self._buyer.pay(self._lacking(questions), analyst, named, most, way)
        return self._buyer.pay(self._lacking(questions), analyst, named, most, ways[-1])

    def _saved(
        self, question: Question, analyst: str, request: str | None, most: int | None, *, strict: bool
    ) -> Answered:
        """The answer to a question whose usual plan cannot be paid."""
        before, paid = self._record.transcript.moment, self._free
        try:
            before, paid = self._paid([question], analyst, request, most, ("frugal",) if strict else ("frugal", "rest"))
        except BudgetExceeded:
            if strict:
                raise
        (answer,) = self._answered([question], before, paid, heard=True)
        return answer

    def _one_by_one(
        self, questions: Sequence[Question], analyst: str, names: Sequence[str | None], most: int | None
    ) -> list[Answered]:
        """Answers to a batch that cannot be paid together: first those that can be paid alone, in order.

        Then the rest of the budget, or of the highest price, is for the others. What was bought for one question may
        answer another.
        """
        found, left = dict[int, Answered](), most
        rounds: tuple[tuple[Way, ...], ...] = (("usual", "frugal"), ("rest",))
        for ways in rounds:
            for i, question in enumerate(questions):
                if i in found:
                    continue
                before = self._record.transcript.moment
                try:
                    before, paid = self._paid([question], analyst, names[i], left, ways)
                except BudgetExceeded:
                    continue
                left = None if left is None else max(0, left - paid.units)
                if ways == ("rest",) or self._known([question]):
                    found[i] = self._answered([question], before, paid, heard=True)[0]
        moment = self._record.transcript.moment
        return [
            found[i] if i in found else self._answered([question], moment, self._free, heard=True)[0]
            for i, question in enumerate(questions)
        ]

    def _lacking(self, questions: Sequence[Question]) -> list[Goal]:
        """The goals of questions that have no answer yet."""
        new = [question for question in questions if question.key not in self._answers]
        return list({goal.key: goal for question in new for goal in question.goals}.values())

    def _told_again(self, texts: Sequence[str | None]) -> list[Answered] | None:
        """Answers to texts that were all answered before, as they were; takes no lock and parses nothing."""
        answers = []
        for text in texts:
            known = None if text is None else self._answers.get(self._texts.get(text, ""))
            if known is None:
                return None
            answers.append(known.recalled(self._free))
        spent = self.history[-1].spent if self.history else self._told()
        self.history.extend(Asking(*route(answer), spent) for answer in answers)
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
            self._buyer.heard.extend({goal.key: goal for question in new for goal in question.goals}.values())
        self.history.extend(Asking(*route(answer), spent) for answer in answers)
        return answers

    def prepare(self, size: int, *, analyst: str = CUSTODIAN) -> Loss:
        """Buy in one charge what all tables of `size` columns need; BudgetExceeded if it cannot be paid."""
        goals = tables_of(self.curator.schema, size)
        with self._record.alone(self.deadline):
            self._planner.asked(size).update(goal.marginal.columns for goal in goals)
            return self._buyer.prepare(goals, analyst)

    def _read(self, asked: QuestionLike, settings: Settings | None = None) -> Question:
        """Parse a question; an invalid one is refused here."""
        cuts = (settings_of(asked) if settings is None else settings).cuts
        context = self.context if cuts is None else replace(self.context, cuts=cuts)
        # Sessions that began when sums were of the middles of bins go on with them: one answer for ever.
        values = self.curator.keeps_values and self._record.begun != {}
        if values:
            return Question.of(self.curator.schema, asked, context)
        return Question.of(self.curator.schema, asked, replace(context, values=False)).on_levels

    def peek(self, asked: QuestionLike) -> Answered:
        """The answer from what is known now, however wide its interval; nothing is charged or stored.

        `guarantee` is None where the interval exceeds the tolerance; `source` is "hypothesis" where the model answers.
        """
        session = self._at(settings_of(asked))
        if session is not self:
            return session.peek(asked)
        question = self._read(asked)
        self._come_up()
        within = all(self._knowledge.state(goal) is not None for goal in question.goals)
        numbers = self._knowledge.numbers(question.goals)
        return answered(
            question,
            numbers,
            guarantee=self._promise if within else None,
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
            plan = self._buyer.plan(question.goals, question.goals)
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
        check_analyst(analyst)
        budget = self.curator.budget
        self.curator.ledger.limit_analyst(
            analyst, budget.accountant.share(epsilon=epsilon, rho=rho, delta=budget.delta)
        )

    def owns(self, charge: Charge) -> bool:
        """Whether the session of this name made this charge, now or before a restart."""
        return charge.id.startswith(f"{self._record.name}:")

    def spent_by(self, analyst: str) -> Loss:
        """What one analyst's questions have cost."""
        check_analyst(analyst)
        return self._loss(self.curator.ledger.spent(analyst))

    def outlook(self, size: int | None = None) -> str:
        """What the rest of the budget can buy, in words."""
        left = self.curator.budget.limit - self.curator.ledger.spent()
        with self._lock:
            self._record.ready()
            size, fresh = new_table(self.curator.schema, size, self._planner.asked)
            if not fresh or (units := self._buyer.plan(fresh, fresh).units) == 0:
                return (
                    f"every combination of levels of {size} columns or fewer is known within {self.alpha:g} of the "
                    "rows; a range or a sum over many of them may still cost"
                )
        more = int(float(f"{left // units:.2g}"))  # a forecast: two digits
        return f"about {more:,} more new sets of {size} columns at this alpha ({self._loss(left)} remains)"

    def _loss(self, units: int) -> Loss:
        return self._buyer.loss(units)

    def _describe(self, route: Source, plan: Order, cost: Loss) -> str:
        return in_words(route, plan, cost, lambda: self.curator.budget.limit - self.curator.ledger.spent())

    def _answer(self, asked: Question, before: int, paid: Loss, spent: int) -> Answered:
        """Answer a question from what is known; the answer is kept for good if it is within the tolerance."""
        states = [self._knowledge.state(goal) for goal in asked.goals]
        within = all(state is not None for state in states)
        new = any(state is not None and state.moment > before for state in states) or (not within and paid.units > 0)
        numbers = self._knowledge.numbers(asked.goals)
        source: Source = "measured" if new else "derived"
        if any(numbers.guessed(goal) for goal in asked.goals):
            source = "hypothesis"
        answer = answered(
            asked,
            numbers,
            guarantee=self._promise if within else None,
            cost=paid if new or not within else self._free,
            source=source,
            remaining=self._loss(self.curator.budget.limit - spent),
            counted=rows_counted(self.curator.ledger.terms.unit, self.curator.relation.max_contributions),
            wider=not within and source != "hypothesis",
        )
        if within:
            self._answers[asked.key] = answer
        return answer

    @property
    def _promise(self) -> str:
        return promise(self.alpha, self.beta, self.tolerance, together=self.simultaneous)

    def __repr__(self) -> str:
        how = "all answers together" if self.simultaneous else "each answer"
        return (
            f"Session(alpha={self.alpha:g}, {1 - self.beta:g} for {how}, {len(self._answers)} questions answered, "
            f"{spent_on(self.curator)})"
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
        return page(facts)
