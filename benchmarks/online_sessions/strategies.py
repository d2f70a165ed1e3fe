"""One run: a strategy on a stream, what it had cost after each ask, and how far its answers were off.

Costs are counted where the charge is made: for the library's sessions in the ledger, for the peer by itself. Some
strategies cost the same for every new question, or all at once; they answer the first questions for real, and the rest
of their cost is that price times the number of questions ("priced").
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.hypothesis import Calibration, rule_of
from maquette.privacy import ACCOUNTANTS, UNITS_PER_ONE
from maquette.query import LinearQuery
from maquette.session import ExactCache, OneHistogram, WholeMarginals
from maquette.session.textbook.plan import Setting, plan
from online_sessions.peer import PUBLISHED, Bypass
from online_sessions.workloads import Stream, Workload

BETA = 1e-3
TOGETHER = 0.05  # the doubt of all answers together, where a strategy promises that
DELTA = 1e-9
POINTS = tuple(round(10 ** (i / 6)) for i in range(31))  # asks at which a curve is noted
LARGEST = 2**24  # cells of a universe that the peer and a histogram can hold
SAMPLE = 300  # questions that a priced strategy answers for real

Values = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Case:
    """What to run; all of it can be sent to another process."""

    workload: str
    strategy: str
    alpha: float
    zipf: float
    seed: int
    asks: int
    data: str = ""


def _no_seconds() -> dict[str, float]:
    return defaultdict(float)


@dataclass(kw_only=True)
class Outcome:
    """What a run showed. Curves are at the POINTS that it reached; unreachable runs have none."""

    case: Case
    currency: str  # what the units below are of: "rho" or "epsilon"
    units: Values = field(default_factory=lambda: np.empty(0))
    epsilon: Values = field(default_factory=lambda: np.empty(0))  # at delta DELTA, or pure
    distinct: int = 0
    answered: int = 0
    missed: int = 0  # answers further off than alpha of the rows
    outside: int = 0  # exact values outside the interval
    intervals: int = 0
    routes: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=_no_seconds)
    cpu: float = 0.0
    note: str = ""

    @property
    def unit(self) -> str:
        return "u" if self.currency == "rho" else "v"


class Session(Protocol):
    curator: mq.Curator

    def ask(self, asked: LinearQuery) -> Any: ...


def unit_price(workload: Workload, alpha: float, currency: str) -> float:
    """The price of one count within alpha at failure 1e-3: u of rho, v of epsilon."""
    within = alpha * workload.rows
    return 5.41 / within**2 if currency == "rho" else 6.91 / within


def strategies(workload: Workload) -> list[str]:
    """Everything that is compared on a workload, ours last."""
    peers = [f"peer {name}" for name in PUBLISHED]
    noise = ["laplace cache"] if workload.pure else ["laplace cache", "gaussian cache"]
    books = ["textbook tight", "textbook book"]
    if workload.schema.size > LARGEST:
        return [*noise, "whole marginals", *books, "ours unguarded", "ours"]
    return [
        *noise,
        "whole marginals",
        "one histogram",
        "histogram, rows bought",
        *books,
        *peers,
        "ours",
        "ours together",
    ]


def run(case: Case, workload: Workload) -> Outcome:
    start = time.process_time()
    outcome = _run(case, workload)
    outcome.cpu = time.process_time() - start
    return outcome


def _run(case: Case, workload: Workload) -> Outcome:
    stream = workload.stream(case.asks, case.zipf, case.seed)
    name, _, setting = case.strategy.partition(" ")
    match case.strategy:
        case "laplace cache" | "gaussian cache":
            return _priced(case, workload, stream, _exact_cache(workload, case.alpha, name))
        case "whole marginals":
            # In a baseline's favour: the number of rows is given to it.
            session = WholeMarginals(workload.curator(), alpha=case.alpha, beta=BETA, rows=workload.rows)
            return _asked(case, workload, stream, lambda: session)
        case "one histogram":
            return _asked(
                case,
                workload,
                stream,
                lambda: OneHistogram(workload.curator(), alpha=case.alpha, beta=BETA, rows=workload.rows),
            )
        case "histogram, rows bought":
            return _asked(case, workload, stream, lambda: OneHistogram(workload.curator(), alpha=case.alpha, beta=BETA))
        case "textbook tight" | "textbook book":
            return _textbook(case, workload, stream, "tight" if setting == "tight" else "book")
        case "ours unguarded":
            return _asked(
                case,
                workload,
                stream,
                lambda: mq.online(workload.curator(), alpha=case.alpha, beta=BETA, simultaneous=False, guard="never"),
            )
        case "ours":
            return _asked(
                case,
                workload,
                stream,
                lambda: mq.online(workload.curator(), alpha=case.alpha, beta=BETA, simultaneous=False),
            )
        case "ours together":
            return _asked(
                case,
                workload,
                stream,
                lambda: mq.online(workload.curator(), alpha=case.alpha, beta=TOGETHER, simultaneous=True),
            )
    return _peer(case, workload, stream, setting)


def _exact_cache(workload: Workload, alpha: float, law: str) -> ExactCache:
    curator = workload.curator()
    if law == "laplace":
        return ExactCache(curator, alpha=alpha, beta=BETA, noise="laplace", rows=workload.rows)
    return ExactCache(curator, alpha=alpha, beta=BETA, noise="gaussian", rows=workload.rows)


def _asked(case: Case, workload: Workload, stream: Stream, opened: Callable[[], Session]) -> Outcome:
    """A session of the library, asked every distinct question."""
    outcome = Outcome(case=case, currency="epsilon" if workload.pure else "rho", distinct=len(stream.numbers))
    start = time.perf_counter()
    session = opened()
    outcome.seconds["opening"] += time.perf_counter() - start
    spent = np.empty(len(stream.numbers))
    for i, number in enumerate(stream.numbers):
        _ask(session, workload, int(number), case.alpha, outcome)
        spent[i] = session.curator.ledger.spent() / UNITS_PER_ONE
    _curves(outcome, workload, stream, spent)
    session.curator.close()
    return outcome


def _ask(session: Session, workload: Workload, number: int, alpha: float, outcome: Outcome) -> None:
    question, exact = workload.question(number), int(workload.counts[number])
    start = time.perf_counter()
    answer = session.ask(question)
    taken = time.perf_counter() - start
    route = answer.source if answer.guarantee is not None else f"{answer.source}, no promise"
    outcome.answered += 1
    outcome.routes[route] += 1
    outcome.seconds[route] += taken
    outcome.missed += abs(answer.value * workload.rows - exact) > alpha * workload.rows
    outcome.intervals += 1
    outcome.outside += not answer.low <= exact / workload.rows <= answer.high


def _priced(case: Case, workload: Workload, stream: Stream, session: ExactCache) -> Outcome:
    """A cache of single counts: each new question costs what the first did."""
    currency = "epsilon" if workload.pure else "rho"
    outcome = Outcome(case=case, currency=currency, distinct=len(stream.numbers), note="priced")
    for number in stream.numbers[:SAMPLE]:
        _ask(session, workload, int(number), case.alpha, outcome)
    each = session.curator.ledger.spent() / UNITS_PER_ONE / outcome.answered
    _curves(outcome, workload, stream, np.arange(1.0, len(stream.numbers) + 1) * each)
    session.curator.close()
    return outcome


def _peer(case: Case, workload: Workload, stream: Stream, setting: str) -> Outcome:
    """The peer, in the currency of the workload: pure epsilon adds up, or half its square does."""
    outcome = Outcome(case=case, currency="epsilon" if workload.pure else "rho", distinct=len(stream.numbers))
    peer = Bypass(workload, case.alpha, BETA, PUBLISHED[setting], case.seed)
    epsilon, rho = np.empty(len(stream.numbers)), np.empty(len(stream.numbers))
    for i, number in enumerate(stream.numbers):
        start = time.perf_counter()
        reply = peer.ask(int(number), workload.pool[number])
        outcome.seconds[reply.route] += time.perf_counter() - start
        outcome.routes[reply.route] += 1
        outcome.answered += 1
        outcome.missed += abs(reply.found - workload.counts[number]) > case.alpha * workload.rows
        epsilon[i], rho[i] = peer.epsilon, peer.rho
    _curves(outcome, workload, stream, epsilon if workload.pure else rho)
    if not workload.pure:  # whichever way of adding up says less
        outcome.epsilon = np.minimum(outcome.epsilon, _at(stream, epsilon))
    return outcome


def _textbook(case: Case, workload: Workload, stream: Stream, calibration: Calibration) -> Outcome:
    """The online iterative construction at the least budget for which its theorem promises alpha for so many asks.

    It is charged in full when it opens, so that the price is known before it runs. Its promise is for all answers
    together, but for a chance of TOGETHER; the number of rows is given.
    """
    currency = "epsilon" if workload.pure else "rho"
    outcome = Outcome(case=case, currency=currency, distinct=len(stream.numbers), note="priced")
    rule = rule_of(workload.schema, "multiplicative-weights", calibration)
    accountant = ACCOUNTANTS["pure" if workload.pure else "zcdp"]

    def promises(units: float) -> bool:
        setting = Setting(
            accountant=accountant,
            delta=0.0 if workload.pure else DELTA,
            units=units,
            rows=float(workload.rows),
            slack=0.0,
            moves=1,
            queries=case.asks,
            beta=TOGETHER,
        )
        return plan(rule, setting, calibration).alpha <= case.alpha

    low, high = 1.0, float(accountant.share(epsilon=1e3, delta=0.0 if workload.pure else DELTA))
    if not promises(high):
        outcome.note = "unreachable below epsilon 1,000"
        return outcome
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if promises(middle) else (middle, high)
    _curves(outcome, workload, stream, np.full(len(stream.numbers), high / UNITS_PER_ONE))
    return outcome


def _curves(outcome: Outcome, workload: Workload, stream: Stream, spent: Values) -> None:
    """Note the cost at the POINTS: in units of one count, and as epsilon."""
    noted = _at(stream, spent)
    outcome.units = noted / unit_price(workload, outcome.case.alpha, outcome.currency)
    outcome.epsilon = noted if workload.pure else np.array([_epsilon(rho) for rho in noted])


def _at(stream: Stream, spent: Values) -> Values:
    reached = [point for point in POINTS if point <= stream.asks]
    return np.array([spent[np.searchsorted(stream.first, point) - 1] for point in reached])


def _epsilon(rho: float) -> float:
    return ACCOUNTANTS["zcdp"].loss(math.ceil(rho * UNITS_PER_ONE), DELTA).epsilon
