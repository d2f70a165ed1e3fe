"""Capped play: synthetic records that hide rows from everybody, and every single query from all other analysts.

DualQuery with two changes. No signed query is drawn with probability above 1/cap, and the data player answers by an
exponential mechanism over the universe. So a single query changes little of what is published. The price is accuracy:
fewer than `cap` queries may be answered badly; `Repair` mends those one by one, privately. This is theory: for most
purposes, publish a release for a fixed public workload and let analysts ask it in private. Mechanisms §7.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Guard
from maquette.errors import QueryError
from maquette.estimates import NoEvidence, units_for
from maquette.hypothesis import WeightedRecords
from maquette.query import Expression, LinearQuery, Marginal, Workload, where
from maquette.releases.artifact import Certificate, Release, certified
from maquette.releases.game.budget import QueryPlayer, affordable, fund
from maquette.releases.game.cells import CellIndex
from maquette.schema import impossible_cells
from maquette.theory import game as theory

MAX_UNIVERSE = 10**6
GRID = 2**20  # the data player's scores are multiples of 1/GRID query
LEVEL = 2**20  # the lottery's scores are multiples of 1/LEVEL row

Asked = Workload | Sequence[LinearQuery | Expression | str]


@dataclass(frozen=True, kw_only=True)
class Discretion:
    """What a release reveals about its queries, and how accurate it is.

    Changing one query changes the log-probability of anything published by at most `analyst_epsilon`. All but fewer
    than `cap` signed queries are within `alpha` (if that is below 1) with probability 1 - beta.
    """

    analyst_epsilon: float
    cap: int
    alpha: float


def analyst_private(
    curator: Curator,
    asked: Asked,
    *,
    analyst_epsilon: float,
    strength: float | None = None,
    rounds: int = 50,
    draws: int = 20,
    beta: float = 0.05,
    rows: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> tuple[Release, Discretion]:
    """Synthetic records for the queries of many analysts; the queries themselves stay private.

    `strength` is the epsilon of the data player's mechanism (default 8 ln N). A larger one answers the draws better but
    needs a larger cap; the cap is the smallest that keeps `analyst_epsilon`.

    Privacy of rows: rounds of capped draws from a lottery; the cap does not change their price: as `dual_query`.
    Privacy of queries (replace one query by another, all else equal): every round reveals
    `theory.game.analyst_round_epsilon`, and 2 s / scale more because the cap's level is a whole number; rounds add up.
    It requires secret draws, so all of them, even in the first round, come from the curator's own randomness: there is
    no generator to pass. Replacing q queries costs q times as much. Only the records are public; the certificate omits
    what its charges say about the questions. Accuracy: `theory.game.capped_error`, on all but fewer than `cap` signed
    queries.
    """
    family = list(asked) if isinstance(asked, Workload) else [where(curator.schema, question) for question in asked]
    size = curator.schema.size
    if not family or size > MAX_UNIVERSE:
        raise QueryError(
            f"got {len(family)} queries over {size:.3g} records",
            expected=f"at least one, over at most {MAX_UNIVERSE:,}",
        )
    for word, value in (("rounds", rounds), ("draws", draws)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise QueryError(f"{word} is {value!r}", expected="a whole number of at least 1")
    strength = 8 * math.log(max(size, 2)) if strength is None else strength
    if not 0 < strength < math.inf or not 0 < analyst_epsilon < math.inf:
        raise QueryError(f"got strength={strength} and analyst_epsilon={analyst_epsilon}", expected="numbers above 0")
    cap = _cap(analyst_epsilon / rounds * (1 - 1e-3), draws, strength)
    if cap > 2 * len(family):
        raise QueryError(
            f"hiding one query at analyst_epsilon {analyst_epsilon:g} needs a cap of {cap:,}, but there are only "
            f"{2 * len(family):,} signed queries",
            advice="ask more of them, or fewer rounds, or less strength",
        )
    index = CellIndex(curator.schema, [Marginal(curator.schema, (), query) for query in family])
    lottery = curator.lottery(index.tables)
    with curator.account("analyst-private") as account:
        units = units_for(curator, epsilon, rho)
        funds = fund(curator, index, units, rows, beta)
        eta = min(affordable(funds, rounds, draws), math.sqrt(2 * math.log(2 * len(family)) / rounds))
        player = QueryPlayer(curator, lottery, funds, eta=eta, draws=draws)
        universe = _Universe(curator, family)
        totals, records = np.zeros(len(family)), []
        for done in range(rounds):
            moves = player.play(totals / done if done else None, None, cap=cap)
            record = universe.respond(moves, strength)
            totals += universe.answers(record)
            records.append(record)
    # 2 s / scale in every round, where scale = 2 LEVEL m / epsilon_t and epsilon_t = 2 eta (t - 1) m / n.
    level = draws * eta * rounds * (rounds - 1) / (LEVEL * funds.rows)
    spent = rounds * theory.analyst_round_epsilon(cap=cap, draws=draws, strength=strength) + level
    alpha = 2 * funds.slack / funds.rows + theory.capped_error(
        log_universe=math.log(max(size, 2)),
        queries=len(family),
        cap=cap,
        eta=eta,
        draws=draws,
        rounds=rounds,
        strength=strength,
        beta=funds.beta,
        stretch=funds.stretch,
    )
    said = Discretion(analyst_epsilon=spent, cap=cap, alpha=alpha)
    certificate = certified(curator, "analyst-private", account, accuracy=_statement(said, beta))
    model = WeightedRecords(curator.schema, np.stack(records), step="exact")
    return Release(curator.schema, model, NoEvidence(funds.rows), _discreet(certificate)), said


class Repair:
    """Mends the queries that capped play answers badly, for `epsilon` or `rho` (default: what remains) in total.

    Privacy of rows: one sparse-vector guard of `hits` hits, charged when it opens. Privacy of queries: an answer goes
    to its analyst only. Others notice when the hits are used up, which has probability at most beta if `hits` is the
    cap and the release keeps its promise. Under zCDP each hit also draws a fresh threshold, so that another analyst's
    hit changes whether two of one's own tests share the threshold's noise. Mechanisms §7.4.
    """

    def __init__(
        self,
        curator: Curator,
        release: Release,
        *,
        threshold: float,
        hits: int,
        epsilon: float | None = None,
        rho: float | None = None,
    ) -> None:
        if not 0 < threshold < 1:
            raise QueryError(f"threshold is {threshold}", expected="a fraction of rows between 0 and 1")
        self._release = release
        self._guard: Guard = curator.guard(threshold * release.rows, hits=hits, units=units_for(curator, epsilon, rho))

    def ask(self, question: LinearQuery | Expression | str) -> float:
        """The answer as a fraction of rows: the release's own, or a fresh noisy one where that is off."""
        query = where(self._release.schema, question)
        answer = self._release.model.answer(query)
        tested = self._guard.test(query, answer * self._release.rows)
        return answer if tested.count is None else min(1.0, max(0.0, tested.count / self._release.rows))


class _Universe:
    """Every possible record, and the data player's private choice among them."""

    def __init__(self, curator: Curator, family: Sequence[LinearQuery]) -> None:
        self._curator = curator
        self._family = family
        self._shape = curator.schema.shape(curator.schema.names)
        closed = impossible_cells(curator.schema)
        self._points = np.arange(curator.schema.size) if closed is None else np.flatnonzero(~closed.reshape(-1))
        self._known: dict[int, NDArray[np.int64]] = {}

    def respond(self, moves: Sequence[tuple[int, int]], strength: float) -> NDArray[np.int32]:
        """A record drawn in proportion to exp(strength / 2 times the share of signed queries that hold on it)."""
        scores = np.zeros(len(self._points), dtype=np.int64)
        for index, sign in moves:
            scores += self._values(index) if sign > 0 else GRID - self._values(index)
        scale = Fraction(2 * len(moves) * GRID) / Fraction(strength)
        point = self._points[self._curator.choose(scores, scale)]
        return np.array(np.unravel_index(int(point), self._shape), dtype=np.int32)

    def answers(self, record: NDArray[np.int32]) -> NDArray[np.float64]:
        """The value of every query on one record."""
        return np.array([float(query.evaluate(record[None, :])[0]) for query in self._family])

    def _values(self, index: int) -> NDArray[np.int64]:
        """A query on every point, in multiples of 1/GRID from 0 to GRID."""
        if index not in self._known:
            codes = np.stack(np.unravel_index(self._points, self._shape), axis=1)
            values = np.rint(self._family[index].evaluate(codes) * GRID).astype(np.int64)
            if len(self._known) * len(self._points) > 2**25:
                self._known.clear()
            self._known[index] = np.clip(values, 0, GRID)
        return self._known[index]


def _cap(each: float, draws: int, strength: float) -> int:
    """The least cap at which a round reveals at most `each` about a query."""
    if each >= strength:
        return 1
    kappa = math.expm1(each / draws) / math.expm1(strength / draws) if strength / draws < 700 else 0.0
    if kappa <= 0:
        raise QueryError(
            f"strength {strength:.3g} is too much for {draws} draws", advice="give more draws or less strength"
        )
    return math.ceil(2 / kappa)


def _statement(said: Discretion, beta: float) -> str:
    privacy = f"replacing one query changes the law of the records by epsilon {said.analyst_epsilon:.4g} at most"
    if said.alpha >= 1:
        return f"{privacy}; no promise on errors"
    return (
        f"{privacy}; all but fewer than {said.cap:,} signed queries within {said.alpha:.4g} of the rows with "
        f"probability {1 - beta:.3g}"
    )


def _discreet(certificate: Certificate) -> Certificate:
    """A certificate whose charges show what was spent and nothing about the questions."""
    return replace(certificate, charges=tuple(described.discreet.text for described in certificate.described))
