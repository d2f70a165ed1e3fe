"""Both players learn: multiplicative weights over the universe against multiplicative weights over signed queries.

Each plays before it sees the other's move, so the errors of the query player's draws average out over the rounds and
one draw per round is enough. The average model is the data player's half of an equilibrium. Mechanisms §7.1, solver
(3).
"""

from __future__ import annotations

import math
from functools import partial

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
    affordable,
    best_play,
    opened,
    played_error,
    promise_of,
    seated,
)
from maquette.releases.game.cells import CellIndex, Values
from maquette.releases.progress import Progress
from maquette.schema import Schema, impossible_cells
from maquette.theory import game as theory, least_rows

MAX_CELLS = 2**22
LEAST_ROUNDS, MOST_ROUNDS = 300, 2_000  # practical numbers of rounds; the theorem's best may be millions
DRAWS = 20  # most practical draws per round
EAGER = 3.0  # practical rate of the query player, as a multiple of the one with the least proven regret
MAX_SECONDS = 600.0  # longest play that calibration="theory" chooses by itself
MAX_CHARGES = 10**5  # most rounds that it chooses: every one is a charge in the ledger


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
    1 - beta, R_B the regret of the queries' weights at rate eta, plus twice the error of the row estimate; a best
    number of rounds that would take hours is refused before any draw. "practical" plays as many rounds as the budget
    pays for at an eager rate, 300 to 2,000, spends the whole budget on them, and promises nothing. Interrupting it
    releases the average up to then.
    """
    check_dense(curator.schema)
    if curator.schema.size > MAX_CELLS:
        raise QueryError(
            f"the universe has more than {MAX_CELLS:,} cells", advice="use dual_query, which needs no list of them"
        )
    table = seated(curator, workload, calibration, rng, rounds=rounds, draws=draws)
    index = table.index
    with curator.account("both-learn") as account:
        choose = partial(_chosen, index, calibration=calibration, rounds=rounds, draws=draws)
        play = opened(curator, table, choose, units=units_for(curator, epsilon, rho, units), rows=rows, beta=beta)
        chosen = play.chosen
        data = DataPlayer(curator.schema, data_rate(index, chosen.rounds))
        total, done = np.zeros(curator.schema.shape(curator.schema.names)), 0
        with Progress("rounds", chosen.rounds, progress) as shown:
            try:
                while done < chosen.rounds:
                    clauses = [
                        index.clause(*move)
                        for move in play.player.play(index.project(total) / done if done else None, table.coins)
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
        promise = promise_of(theory.both_learn_error, table, play, beta=beta)
    if promise and curator.schema.impossible:
        promise += ", if no row holds an impossible combination"
    certificate = certified(curator, "both-learn", account, accuracy=promise)
    return Release(
        curator.schema, DenseModel(curator.schema, total / total.sum()), NoEvidence(play.funds.rows), certificate
    )


def data_rate(index: CellIndex, rounds: int) -> float:
    """The data player's best rate: sqrt(8 ln N / T)."""
    return math.sqrt(8 * index.log_universe / rounds)


def _chosen(
    index: CellIndex, funds: GameBudget, calibration: Calibration, rounds: int | None, draws: int | None
) -> theory.Play:
    """Rounds, draws and rate, from public numbers only."""
    if calibration == "theory":
        if rounds is None and draws is None:
            best = best_play(theory.both_learn, index, funds)
            _check_time(index, funds, best)
            rounds, draws = best.rounds, best.draws
        rounds, draws = rounds or LEAST_ROUNDS, draws or 1
        eta = min(affordable(funds, rounds, draws), _proven_rate(index, rounds))
    else:
        draws = draws or _practical_draws(index, funds)
        rounds = rounds or _practical_rounds(index, funds, draws)
        eta = affordable(funds, rounds, draws)
        if not math.isfinite(eta):  # one round draws uniformly, at any rate
            eta = _proven_rate(index, rounds)
    return theory.Play(alpha=math.inf, rounds=rounds, draws=draws, eta=eta)


def _proven_rate(index: CellIndex, rounds: int) -> float:
    """The query player's rate with the least regret: sqrt(2 ln(2 |Q|) / T)."""
    return math.sqrt(2 * math.log(2 * index.cells) / rounds)


def _practical_draws(index: CellIndex, funds: GameBudget) -> int:
    """The most draws, up to DRAWS, whose rate the budget pays for in the fewest rounds."""
    for draws in range(DRAWS, 1, -1):
        if affordable(funds, LEAST_ROUNDS, draws) >= _proven_rate(index, LEAST_ROUNDS):
            return draws
    return 1


def _practical_rounds(index: CellIndex, funds: GameBudget, draws: int) -> int:
    """The most rounds that the budget pays for at the eager rate: more would lower it, fewer leave time unused."""
    low, high = LEAST_ROUNDS, MOST_ROUNDS + 1
    while high - low > 1:
        middle = (low + high) // 2
        enough = affordable(funds, middle, draws) >= EAGER * _proven_rate(index, middle)
        low, high = (middle, high) if enough else (low, middle)
    return low


def seconds_for(index: CellIndex, rounds: int) -> float:
    """About how long this many rounds take: every round passes once over the universe and once over the cells."""
    return rounds * (1.2e-3 + 2.5e-6 * index.cells + 4.5e-8 * index.schema.size)


def _check_time(index: CellIndex, funds: GameBudget, best: theory.Play) -> None:
    """Refuse a best play that nobody waits for, with its rounds and its time, and say what can be played."""
    if best.rounds <= MAX_CHARGES and seconds_for(index, best.rounds) <= MAX_SECONDS:
        return
    most = min(MAX_CHARGES, int(best.rounds * MAX_SECONDS / seconds_for(index, best.rounds)))
    eta = min(affordable(funds, most, 1), _proven_rate(index, most))
    shorter = theory.Play(alpha=math.inf, rounds=most, draws=1, eta=eta)
    promised = played_error(theory.both_learn_error, index, funds, shorter)
    fits = least_rows(lambda rows: _best_rounds_at(index, funds, rows) > most, max(2, int(funds.rows)))
    raise QueryError(
        f"with {funds.rows:,.0f} rows the least promised error, {best.alpha:.3g}, takes {best.rounds:,} rounds, each "
        f"with a charge, about {_duration(seconds_for(index, best.rounds))}",
        expected=f"at most {most:,} rounds here",
        advice=f"give rounds={most} to promise {promised:.3g} in about {_duration(seconds_for(index, most))}, or "
        'calibration="practical". The best number of rounds grows with the rows: '
        + (f"up to about {fits:,} rows it would fit" if fits else "with fewer rows it would be smaller"),
    )


def _best_rounds_at(index: CellIndex, funds: GameBudget, rows: int) -> int:
    found = theory.both_learn(
        log_universe=index.log_universe,
        queries=index.cells,
        rows=rows / funds.moves,
        amount=funds.amount,
        pure=funds.pure,
        beta=funds.beta,
    )
    return found.rounds


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
