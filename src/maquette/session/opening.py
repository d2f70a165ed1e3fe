"""`online`: opens a session: finds the number of rows and the tolerance, and decides what to measure first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Literal, cast

from maquette.answers import context_of
from maquette.curator import Curator, Deadline
from maquette.errors import BudgetError, QueryError
from maquette.estimates import Columns
from maquette.privacy.ledger import Overtaken
from maquette.query import LEAST_ALPHA, CutRule, LinearQuery, Marginal, PublicTable, Settings
from maquette.releases import start_of
from maquette.schema import Schema, shown
from maquette.session.guard_policy import GuardPolicy
from maquette.session.knowledge import Doubts, Knowledge
from maquette.session.order import Order
from maquette.session.planner import Planner
from maquette.session.precision.view import CELLS, View
from maquette.session.precision.view_of import MAX_LEVELS, view_of
from maquette.session.precision.width import Widths
from maquette.session.pricing import Pricing
from maquette.session.question import Goal
from maquette.session.record import Record
from maquette.session.session import CUSTODIAN, Session

WarmStart = Literal["auto", "none", "histogram"] | int

MAX_HISTOGRAM = MAX_LEVELS  # cells
LOAD = 3  # columns per question that a warm start assumes
FIRST = 2.0**24  # rows: the first look at the row count assumes a table of this size, and costs almost nothing
COARSE = 20.0  # rows: a half-width at which prices grow smoothly
FINER = 16.0  # largest factor by which each further look narrows the half-width
COARSER = 4.0  # under a pure budget, smallest ratio between the half-width of a look and that of the final look
AMPLE = 1.25  # factor by which the final look is more precise than necessary
WORTH = 2  # budget left must be at least this multiple of a look's price: the row count alone is no answer
SAFE = 1 / 8  # share of the half-width by which the priced row count lies below the estimate


def online(
    curator: Curator,
    *,
    alpha: float,
    beta: float = 0.05,
    simultaneous: bool = True,
    rows: int | None = None,
    warm_start: WarmStart = "auto",
    expect: int | None = None,
    guard: Literal["auto", "never"] = "auto",
    name: str = "online",
    deadline: Deadline | None = None,
    start: object = None,
    table: str | None = None,
    public: Mapping[str, PublicTable] | None = None,
    cuts: CutRule = "refuse",
) -> Session:
    """Open a session that answers any number of questions, each within `alpha` of the rows.

    With probability 1 - `beta` all its intervals hold together, however the questions are chosen. With
    `simultaneous=False` each interval holds with that probability, for a question that does not depend on earlier
    noise; this costs several times less. `rows` is the approximate number of rows, public and set by the custodian,
    which costs nothing; by default it is estimated first, for about the price of one count. `warm_start="histogram"`
    measures every cell of a small universe at once; a number k buys what all tables of k columns need; "auto" takes the
    histogram where it is cheapest and otherwise buys as questions come. `expect` is the expected number of column sets
    that will be asked about, if known. `guard="never"` means that the session never pays for a guard over its public
    model; nor does one on a ledger that several processes share. A session with the same name on the same ledger is
    continued: nothing is paid twice. With a `deadline` (seconds, or "auto"; default: the curator's) every access to the
    rows takes exactly that long, whatever the data, or is refused and its charge kept: see `Curator`. What is already
    known is answered at once. `start` is a public first hypothesis, as in `release`: the session's model begins with
    it, corrects it by what is measured, and a guard may vouch for it early. It changes no promise and no price of a
    measurement, and is given again when the session is continued. If it was made from the same people's rows, its own
    loss adds (`session.start` says which it is). `table` is the table's name in statements (default: that of its file;
    any name if it has none), `public` are lookup tables that they may JOIN, and `cuts="between"` answers
    comparisons that cut through a bin (see `Session.ask`).

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [30, 70] * 5_000, "smoker": [True, False] * 5_000}, schema)
    >>> session = mq.online(mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9)), alpha=0.05)
    >>> first, again = session.ask("age >= 60 AND smoker"), session.ask("smoker AND NOT age < 60")
    >>> again.value == first.value, again.source, again.cost.epsilon
    (True, 'cache', 0.0)
    """
    _check(
        curator,
        alpha=alpha,
        beta=beta,
        simultaneous=simultaneous,
        rows=rows,
        expect=expect,
        warm_start=warm_start,
        guard=guard,
        name=name,
    )
    Settings(cuts=cuts)
    begun = None if start is None else start_of(start, curator.schema)
    record, pricing = Record.of(curator, name), Pricing(curator)
    known = rows is not None or curator.relation.rows_are_public
    plain = Widths(beta, simultaneous, gaussian=not pricing.pure)
    with record.alone(deadline):  # results are held back until the deadline
        doubts = Doubts(record, pricing, plain, alpha=alpha, public=known)
        opening = _Opening(curator, record, pricing, doubts.widths, alpha)
        tolerance = opening.tolerance(rows)
        doubts.tolerate(tolerance)
        if record.cells is None:
            record.cells = warm_start == "histogram" or (
                warm_start == "auto" and opening.histogram_is_cheapest(tolerance)
            )
    widths = doubts.widths()
    policy = GuardPolicy(record, widths, tolerance, never=guard == "never" or record.shared, started=begun is not None)
    knowledge = Knowledge(record, doubts.widths, tolerance, start=begun, given=rows)
    planner = Planner(knowledge, pricing, expect=expect)
    context = context_of(curator, table, public, cuts)
    session = Session(knowledge, planner, policy, alpha=alpha, deadline=deadline, context=context)
    if isinstance(warm_start, int):
        session.prepare(warm_start)
    return session


def _check(
    curator: object,
    *,
    alpha: object,
    beta: object,
    simultaneous: object,
    rows: object,
    expect: object,
    warm_start: object,
    guard: object,
    name: object,
) -> None:
    """Refuse invalid arguments before anything is charged."""
    if not isinstance(curator, Curator):
        raise QueryError(f"the curator is of type {type(curator).__name__}", expected="a Curator")
    for word, value, least in (("alpha", alpha, LEAST_ALPHA), ("beta", beta, 5e-324)):
        if isinstance(value, bool) or not isinstance(value, Real) or not least <= cast(float, value) < 1:
            raise QueryError(f"{word} is {value!r}", expected="a number between 0 and 1, such as 0.02")
    for word, count in (("rows", rows), ("expect", expect)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or not 1 <= count < 2**63):
            raise QueryError(f"{word} is {shown(count)}", expected="a whole number of at least 1, or None")
    if not isinstance(simultaneous, bool):
        raise QueryError(f"simultaneous is {simultaneous!r}", expected="True or False")
    counted = isinstance(warm_start, int) and not isinstance(warm_start, bool) and warm_start >= 1
    if not counted and warm_start not in ("auto", "none", "histogram"):
        raise QueryError(f"warm_start is {warm_start!r}", expected='"auto", "none", "histogram" or a number of columns')
    if guard not in ("auto", "never"):
        raise QueryError(f"guard is {guard!r}", expected='"auto" or "never"')
    if not isinstance(name, str) or not name or ":" in name:
        raise QueryError(f"the name of a session is {name!r}", expected="some letters, without a colon")
    if curator.budget.accounting == "basic":
        raise BudgetError(
            'a session cannot be paid from a budget with accounting="basic", which is for lazy rounds',
            advice='open the curator with accounting="zcdp"',
        )


class _Opening:
    """Finds the tolerance of a session; pays for the number of rows where it is private and unknown."""

    def __init__(
        self, curator: Curator, record: Record, pricing: Pricing, widths: Callable[[], Widths], alpha: float
    ) -> None:
        self._curator = curator
        self._record = record
        self._pricing = pricing
        self._now = widths
        self._alpha = alpha
        self._rows = view_of(Marginal(curator.schema))

    @property
    def _widths(self) -> Widths:
        return self._now()

    def tolerance(self, rows: int | None) -> float:
        """`alpha` in rows: a share of the lower bound on the number of rows."""
        if self._curator.relation.rows_are_public:
            exact = self._curator.count_rows()
            return self._reachable(self._alpha * (exact if rows is None else min(rows, exact)))
        if rows is not None:
            return self._reachable(self._alpha * rows)
        complete = self._record.transcript.complete(self._rows)
        for moment in [] if complete is None else [complete, *self._record.transcript.changes(self._rows, complete)]:
            if (found := self._enough(moment)) is not None:
                return self._reachable(found)
        wanted = FIRST * self._alpha
        while True:
            self._look(wanted)
            if (found := self._enough(None)) is not None:
                return self._reachable(found)
            wanted = self._next_width(*self._count(None))

    def _next_width(self, count: float, width: float) -> float:
        """Half-width of the next look: the final one, as soon as the approximate number of rows is known.

        The precisions of Gaussian looks add up at their price. For Laplace looks the squares of the prices add up, so a
        look almost as precise as the final one is wasted: the final one comes early, more precise than necessary.
        """
        if not self._pricing.pure:
            last = self._alpha * (count - width) / (1 + self._alpha)
            return last if 2 * last >= width / FINER else width / FINER
        if width <= count:
            return self._alpha * (count - SAFE * width) / (1 + self._alpha) / AMPLE
        return min(width / 2, max(width / FINER, COARSER * self._alpha * (max(count, 0.0) + width)))

    def _count(self, moment: int | None) -> tuple[float, float]:
        transcript = self._record.transcript
        values, _ = self._rows.look(transcript.reader(moment))
        return float(values), self._widths.of(self._rows, transcript.known(self._rows.gains, moment))

    def _enough(self, moment: int | None) -> float | None:
        """The tolerance, once the number of rows is known to within about alpha of itself; None before."""
        count, width = self._count(moment)
        fewest = count - width
        return self._alpha * fewest if width <= self._alpha * count * (1 + 1e-9) and fewest >= 1 else None

    def _look(self, width: float) -> None:
        """Make the number of rows known to within `width` rows."""
        known = self._record.transcript.known(self._rows.gains)
        purchase = self._pricing.shop(self._rows, known, width, self._widths, 1)
        left = self._curator.budget.limit - self._curator.ledger.spent()
        if purchase is None or WORTH * purchase.units > left:
            raise BudgetError(
                f"alpha {self._alpha:g} is out of reach: counting the rows to within that share would leave too "
                "little of the budget for even one answer",
                advice="Only estimates of the number of rows were charged; with the approximate number (rows=...) a "
                "session finds this out without a charge. Ask for a larger alpha, or give the curator a larger budget",
            )
        if purchase.units:
            try:
                self._record.charge(Order(purchase.parts, {}, {}), analyst=CUSTODIAN)
            except Overtaken:  # another process looks too: its result serves both
                self._record.drain()

    def _of_a_count(self, tolerance: float) -> int:
        """The price of one count: in parts that serve later questions too, or as asked."""
        # A session that only counted its rows may have no more; a public number of rows says nothing about prices.
        bought = not self._curator.relation.rows_are_public
        known = self._record.transcript.known(self._rows.gains) if bought else {}
        shared = self._pricing.shop(self._rows, known, tolerance, self._widths, 1)
        alone = self._pricing.direct(Goal(Marginal(self._curator.schema)), tolerance, self._widths.fresh(1, 1))
        return alone if shared is None else min(alone, shared.units)

    def _reachable(self, tolerance: float, counts: int = 1) -> float:
        """Refuse, before any charge, a tolerance at which the budget cannot pay for `counts` counts."""
        left = (self._curator.budget.limit - self._curator.ledger.spent()) // counts
        if self._record.empty and self._of_a_count(tolerance) > left:
            best = self._least(tolerance, left)
            advice = "It is too small for any alpha below 1"
            if best < 0.9:
                advice = f"Ask for alpha of about {1.1 * best:.2g} or more"
            raise BudgetError(
                f"alpha {self._alpha:g} is {tolerance:,.0f} rows",
                advice=f"one answer that precise costs more than remains of the budget. {advice}",
            )
        return tolerance

    def _least(self, tolerance: float, left: int) -> float:
        """About the smallest alpha at which one count can be paid, from how prices grow with precision."""
        rows = max(tolerance, COARSE)
        price = self._pricing.shop(self._rows, {}, rows, self._widths, 1)
        if price is None or not left:
            return math.inf
        finer: float = (price.units / left) ** (1.0 if self._pricing.pure else 0.5)
        return self._alpha * max(rows / tolerance * finer, 1.0 / tolerance)

    def histogram_is_cheapest(self, tolerance: float) -> bool:
        """Whether one histogram for all questions costs less than all sets of a few columns."""
        schema = self._curator.schema
        if schema.size > MAX_HISTOGRAM:
            return False
        variance = (tolerance / 4) ** 2
        whole = self._pricing.price(CELLS, schema.size / 4 / variance)
        return whole < self._all_sets(variance)

    def _all_sets(self, variance: float) -> float:
        """The lowest price at which questions about half the levels of any few columns have this variance."""
        schema, pricing = self._curator.schema, self._pricing
        wide = [column.name for column in schema.columns if column.size > 1]
        sets = list(itertools.combinations(wide, min(LOAD, len(wide))))
        gains: dict[Columns, float] = {}
        for columns in sets:
            half: View = view_of(Marginal(schema, (), _half(schema, columns)))
            for part, gain in half.gains.items():
                gains[part] = gains.get(part, 0.0) + gain / len(sets)
        if pricing.pure:
            total = sum(pricing.rate(part) ** (2 / 3) * gain ** (1 / 3) for part, gain in gains.items())
            return float(total**1.5 / math.sqrt(variance))
        return float(sum(math.sqrt(pricing.rate(part) * gain) for part, gain in gains.items()) ** 2 / variance)


def _half(schema: Schema, columns: Columns) -> LinearQuery:
    """A question about half the levels of each column."""
    return LinearQuery.product(
        schema,
        {name: [1.0 if 2 * i < schema[name].size else 0.0 for i in range(schema[name].size)] for name in columns},
    )
