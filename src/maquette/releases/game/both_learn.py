"""Both players learn: multiplicative weights over the universe against multiplicative weights over signed queries.

Each plays before it sees the other's move, so the errors of the query player's draws average out over the rounds and
one draw per round is enough. The average model is the data player's half of an equilibrium. Mechanisms §7.1, solver
(3).
"""

from __future__ import annotations

import math

import numpy as np

from maquette.curator import Curator
from maquette.distinguisher import Clause
from maquette.errors import QueryError
from maquette.estimates import DenseModel, NoEvidence, check_dense, units_for
from maquette.query import Workload
from maquette.releases.artifact import Release, certified
from maquette.releases.game.budget import (
    Calibration,
    GameBudget,
    QueryPlayer,
    affordable,
    best_play,
    check_play,
    fund,
    in_words,
    played_error,
)
from maquette.releases.game.cells import CellIndex, Values, index_for
from maquette.releases.progress import Progress
from maquette.schema import Schema, impossible_cells
from maquette.theory import game as theory

MAX_CELLS = 2**22
ROUNDS = 300  # practical number of rounds; the theorem's best number is many thousands
DRAWS = 20  # practical number of draws per round


class DataPlayer:
    """Multiplicative weights over the universe at rate eta; its gain is the share of drawn signed queries that hold.

    Average regret over T rounds: ln N / (eta T) + eta / 8, at the best eta sqrt(ln N / (2T)). Public.
    """

    def __init__(self, schema: Schema, eta: float) -> None:
        self.eta = eta
        closed = impossible_cells(schema)
        self._logs = np.zeros(schema.shape(schema.names))
        if closed is not None:
            self._logs[closed] = -np.inf

    @property
    def strategy(self) -> Values:
        """The distribution it plays."""
        weights = np.exp(self._logs - self._logs.max())
        return np.asarray(weights / weights.sum())

    def learn(self, clauses: list[Clause]) -> None:
        """Learn from the query player's move: signed conjunctions of equal weight."""
        for clause in clauses:
            cells: list[int | slice] = [slice(None)] * self._logs.ndim
            for column, level in clause.literals:
                cells[column] = level
            self._logs[tuple(cells)] += clause.sign * self.eta / len(clauses)


def both_learn(
    curator: Curator,
    workload: Workload,
    *,
    calibration: Calibration = "practical",
    rounds: int | None = None,
    draws: int | None = None,
    beta: float = 0.05,
    rows: int | None = None,
    rng: np.random.Generator | None = None,
    progress: bool | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
) -> Release:
    """The average of a dense model's plays against privately drawn queries; for universes that can be listed.

    Privacy: as `dual_query`, rho = s eta^2 (T - 1) T (2T - 1) / (12 n^2) or epsilon = eta s T (T - 1) / n. Accuracy:
    with calibration="theory" every cell is within sqrt(ln N / (2T)) + R_B + sqrt(2 ln(1/beta) / (sT)) with probability
    1 - beta, R_B the regret of the queries' weights at rate eta, plus twice the error of the row estimate. "practical"
    plays a few hundred rounds of several draws and promises nothing. Interrupting it releases the average up to then.
    """
    check_play(calibration, rounds=rounds, draws=draws)
    check_dense(curator.schema)
    if curator.schema.size > MAX_CELLS:
        raise QueryError(
            f"the universe has more than {MAX_CELLS:,} cells", advice="use dual_query, which needs no list of them"
        )
    index = index_for(curator, workload)
    lottery = curator.lottery(index.tables)
    coins = np.random.default_rng() if rng is None else rng
    with curator.account("both-learn") as account:
        units = units_for(curator, epsilon, rho, units)
        funds = fund(curator, index, units, rows, beta)
        chosen = _chosen(index, funds, calibration, rounds, draws)
        queries = QueryPlayer(curator, lottery, funds, eta=chosen.eta, draws=chosen.draws)
        data = DataPlayer(curator.schema, data_rate(index, chosen.rounds))
        total, done = np.zeros(curator.schema.shape(curator.schema.names)), 0
        with Progress("rounds", chosen.rounds, progress) as shown:
            try:
                while done < chosen.rounds:
                    clauses = [
                        index.clause(*move)
                        for move in queries.play(index.project(total) / done if done else None, coins)
                    ]
                    total += data.strategy  # its move was made before the draws were seen
                    data.learn(clauses)
                    done += 1
                    shown.update(done, 0.0)
            except KeyboardInterrupt:
                if not done:
                    raise
    promise = None
    if calibration == "theory" and done == chosen.rounds:
        promise = in_words(played_error(theory.both_learn_error, index, funds, chosen), beta)
    if promise and curator.schema.impossible:
        promise += ", if no row holds an impossible combination"
    certificate = certified(curator, "both-learn", account, accuracy=promise)
    return Release(curator.schema, DenseModel(curator.schema, total / total.sum()), NoEvidence(funds.rows), certificate)


def data_rate(index: CellIndex, rounds: int) -> float:
    """The data player's best rate: sqrt(8 ln N / T)."""
    return math.sqrt(8 * index.log_universe / rounds)


def _chosen(
    index: CellIndex, funds: GameBudget, calibration: Calibration, rounds: int | None, draws: int | None
) -> theory.Play:
    if calibration == "theory" and rounds is None and draws is None:
        best = best_play(theory.both_learn, index, funds)
        rounds, draws = best.rounds, best.draws
    rounds, draws = rounds or ROUNDS, draws or DRAWS
    eta = min(affordable(funds, rounds, draws), math.sqrt(2 * math.log(2 * index.cells) / rounds))
    return theory.Play(alpha=math.inf, rounds=rounds, draws=draws, eta=eta)
