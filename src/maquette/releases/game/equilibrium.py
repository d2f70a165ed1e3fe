"""The query-release game itself, on public data: gains, strategies, regrets and equilibria.

The data player picks a record, the query player a signed query f (Q is closed under f -> 1 - f), which gains f(x) less
f(record). The value is 0: the data player may play the table itself, the query player any query and its negation at
even odds. A distribution over records that loses at most alpha answers every query within alpha. Everything here is
public: the answers f(x) are an argument, so this is for learning, for checking, and for tables that are public.
Mechanisms §7.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError

Values = NDArray[np.float64]


class Hedge:
    """Multiplicative weights over actions, at rate eta on gains of known width; it knows its own regret.

    Average regret after T rounds: at most ln A / (eta T) + eta width^2 / 8 for A actions.
    """

    def __init__(self, actions: int, eta: float) -> None:
        self.eta = eta
        self._totals = np.zeros(actions)
        self._earned = 0.0
        self.rounds = 0

    @property
    def strategy(self) -> Values:
        """The distribution it plays next."""
        weights = np.exp(self.eta * (self._totals - self._totals.max()))
        return np.asarray(weights / weights.sum())

    def learn(self, gains: Values) -> None:
        """Learn what every action would have gained."""
        self._earned += float(self.strategy @ gains)
        self._totals += gains
        self.rounds += 1

    @property
    def regret(self) -> float:
        """By how much, on average, the best single action would have done better."""
        return (float(self._totals.max()) - self._earned) / max(1, self.rounds)


@dataclass(frozen=True, eq=False)
class Played:
    """Average strategies of both players and their average regrets, whose sum bounds the distance from equilibrium."""

    data: Values = field(repr=False)
    queries: Values = field(repr=False)
    data_regret: float
    query_regret: float


class Game:
    """A zero-sum game given by what the query player gains: one row per move of its own, one column per other move.

    >>> game = Game.of_queries(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), data=np.array([0.5, 0.25, 0.25]))
    >>> game.worst(np.array([0.5, 0.25, 0.25])), round(game.worst(np.array([1.0, 0.0, 0.0])), 3)
    (0.0, 0.5)
    """

    def __init__(self, gains: Values) -> None:
        self.gains = np.asarray(gains, dtype=np.float64)
        if self.gains.ndim != 2 or not self.gains.size or not np.isfinite(self.gains).all():
            raise QueryError(f"gains have shape {self.gains.shape}", expected="a finite table, moves x moves")

    @classmethod
    def of_queries(cls, values: Values, data: Values) -> Game:
        """From f(record) in [0, 1] for every query and record, and the table as a distribution over records.

        The moves of the query player are all queries, then all negations.
        """
        values, data = np.asarray(values, dtype=np.float64), np.asarray(data, dtype=np.float64)
        if values.ndim != 2 or data.shape != values.shape[1:] or not math.isclose(float(data.sum()), 1.0):
            raise QueryError(
                f"got values {values.shape} and a table {data.shape}", expected="queries x records, and masses"
            )
        gains = (values @ data)[:, None] - values
        return cls(np.concatenate([gains, -gains]))

    @classmethod
    def of_databases(cls, values: Values, truth: Values) -> Game:
        """For queries that are not linear: the data player picks whole databases y and loses |f(x) - f(y)|.

        A strategy is then a distribution over databases, not one of them: answer by `mixed_answer`, since a single
        database drawn from it need not be accurate (erratum A13). The value is the error of the best mixture.
        """
        values = np.asarray(values, dtype=np.float64)
        return cls(np.abs(np.asarray(truth, dtype=np.float64)[:, None] - values))

    def gain(self, queries: Values, data: Values) -> float:
        """What the query player gains on average."""
        return float(queries @ self.gains @ data)

    def worst(self, data: Values) -> float:
        """The most a query can gain against this strategy: for linear queries, its largest error."""
        return float((self.gains @ data).max())

    def safest(self, queries: Values) -> float:
        """The least that a strategy over queries gains, against any move of the data player."""
        return float((queries @ self.gains).min())

    def distance(self, data: Values, queries: Values, value: float = 0.0) -> float:
        """The least alpha at which both strategies are an alpha-equilibrium: neither can be off `value` by more."""
        return max(self.worst(data) - value, value - self.safest(queries))

    def play(self, rounds: int) -> Played:
        """Both players by multiplicative weights at their best rates; the averages are a (R_A + R_B)-equilibrium."""
        if rounds < 1:
            raise QueryError(f"rounds is {rounds}", expected="at least 1")
        moves, records = self.gains.shape
        width = max(float(np.ptp(self.gains)), 1e-12)
        queries = Hedge(moves, math.sqrt(8 * math.log(max(moves, 2)) / rounds) / width)
        data = Hedge(records, math.sqrt(8 * math.log(max(records, 2)) / rounds) / width)
        average_data, average_queries = np.zeros(records), np.zeros(moves)
        for _ in range(rounds):
            one, other = data.strategy, queries.strategy
            average_data += one / rounds
            average_queries += other / rounds
            data.learn(-(other @ self.gains))
            queries.learn(self.gains @ one)
        return Played(average_data, average_queries, data.regret, queries.regret)


def mixed_answer(answers: Values, weights: Values, how: Literal["mean", "median"] = "median") -> float:
    """The answer of a distribution over databases, from the answer of each.

    If the distribution loses alpha on average, the mean is off by at most alpha (Jensen), the median by at most twice
    that (Markov: half of the mass is off by no more), and it is not moved by a few databases that are far off.
    """
    if how not in ("mean", "median"):
        raise QueryError(f"how is {how!r}", expected='"mean" or "median"')
    answers, weights = np.asarray(answers, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if how == "mean":
        return float(answers @ weights)
    order = np.argsort(answers, kind="stable")
    middle = int(np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2))
    return float(answers[order[min(middle, len(order) - 1)]])
