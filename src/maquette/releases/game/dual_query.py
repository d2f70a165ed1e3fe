"""DualQuery: the query player learns, the data player answers each of its draws with one synthetic record.

Neither the universe nor a distribution over it is ever listed: the private step draws a few queries, the public one is
a small satisfiability problem over the columns they name. So it runs on hundreds of columns, and is coarse: its
synthetic table has a few records for each round. Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014; Mechanisms §7.2.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from maquette.curator import Curator
from maquette.distinguisher import Responder, Solver
from maquette.errors import QueryError
from maquette.estimates import NoEvidence, units_for
from maquette.hypothesis import WeightedRecords
from maquette.query import Workload
from maquette.releases.artifact import Release, certified
from maquette.releases.game.budget import (
    Calibration,
    GameBudget,
    affordable,
    best_play,
    opened,
    promise_of,
    seated,
)
from maquette.releases.game.cells import CellIndex
from maquette.releases.progress import Progress
from maquette.theory import game as theory

DRAWS = 50  # practical number of draws per round
RATE = 1.0  # practical eta, if the budget allows it
RESPONSES = 4  # practical number of records per round
MOST_ROUNDS = 200
LEAST_ROUNDS = 10
MAX_CLAUSES = 2**16  # maximum draws per round that the theorem may ask for


def dual_query(
    curator: Curator,
    workload: Workload,
    *,
    calibration: Calibration = "practical",
    rounds: int | None = None,
    draws: int | None = None,
    responses: int = RESPONSES,
    solver: str | Responder = "auto",
    seconds: float = 1.0,
    beta: float = 0.05,
    rows: int | None = None,
    rng: np.random.Generator | None = None,
    progress: bool | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
) -> Release:
    """Synthetic records for the cells of a workload's tables over any number of columns.

    `rounds` and `draws` (per round) override the choice of `calibration`: "practical", from the budget and the number
    of rows, or "theory", the settings with the least promised error. Every round adds `responses` records that answer
    its draws, with ties broken by the public coins of `rng`. `solver` is "auto", "cp-sat", "highs" or any `Responder`,
    with `seconds` for each response.

    Privacy: T - 1 lotteries of s draws; in round t each is an exponential mechanism with epsilon_t = 2 eta (t - 1) / n,
    so rho = s eta^2 (T - 1) T (2T - 1) / (12 n^2), or eta s T (T - 1) / n under a pure budget. Under add-remove n is an
    estimate, bought with a hundredth of the budget (or `rows`, if that is public): the price holds for any n. Records
    are computed from what was drawn. Accuracy: with calibration="theory" every cell is within the certificate's bound
    with probability 1 - beta: the regret of the weights, the error of representing them by s draws, the average gap
    that the solver left open, and twice the error of the row estimate. Interrupting it releases the records made by
    then.
    """
    table = seated(curator, workload, calibration, rng, rounds=rounds, draws=draws, responses=responses)
    index = table.index
    respond = Solver(engine=solver, seconds=seconds) if isinstance(solver, str) else solver
    with curator.account("dual-query") as account:
        choose = partial(_chosen, index, calibration=calibration, rounds=rounds, draws=draws)
        play = opened(curator, table, choose, units=units_for(curator, epsilon, rho, units), rows=rows, beta=beta)
        chosen = play.chosen
        records: list[np.ndarray] = []
        totals, gap = np.zeros(index.cells), 0.0
        with Progress("rounds", chosen.rounds, progress) as shown:
            try:
                for done in range(chosen.rounds):
                    clauses = [
                        index.clause(*move) for move in play.player.play(totals / done if done else None, table.coins)
                    ]
                    found = [respond(curator.schema, clauses, table.coins) for _ in range(responses)]
                    for response in found:
                        totals[index.find(response.record)] += 1.0 / responses
                        gap += response.gap / (len(clauses) * responses * chosen.rounds)
                    records.extend(response.record for response in found)
                    shown.update(done + 1, 1 - found[-1].satisfied / len(clauses))
            except KeyboardInterrupt:
                if not records:
                    raise
    model = WeightedRecords(curator.schema, np.stack(records), step="exact")
    finished = len(records) == chosen.rounds * responses
    promise = None
    if calibration == "theory" and finished:
        promise = promise_of(theory.dual_query_error, table, play, beta=beta, gap=gap)
    certificate = certified(curator, "dual-query", account, accuracy=promise)
    return Release(curator.schema, model, NoEvidence(play.funds.rows), certificate)


def _chosen(
    index: CellIndex, funds: GameBudget, calibration: Calibration, rounds: int | None, draws: int | None
) -> theory.Play:
    """Rounds, draws and rate, from public numbers only."""
    if calibration == "theory" and rounds is None and draws is None:
        best = best_play(theory.dual_query, index, funds)
        if best.draws > MAX_CLAUSES:
            raise QueryError(
                f"the theorem wants {best.draws:,} draws a round, more than a solver can take",
                advice="give rounds and draws",
            )
        rounds, draws = best.rounds, best.draws
    draws = DRAWS if draws is None else draws
    rounds = practical_rounds(funds, draws) if rounds is None else rounds
    eta = affordable(funds, rounds, draws)
    if calibration == "theory":
        eta = min(eta, math.sqrt(2 * math.log(2 * index.cells) / rounds))
    elif not math.isfinite(eta):
        eta = RATE
    return theory.Play(alpha=math.inf, rounds=rounds, draws=draws, eta=eta)


def practical_rounds(funds: GameBudget, draws: int) -> int:
    """The most rounds that the budget allows at the practical rate: more would lower it and flatten the weights."""
    rounds = LEAST_ROUNDS
    while rounds < MOST_ROUNDS and affordable(funds, rounds + 1, draws) >= RATE:
        rounds += 1
    return rounds
