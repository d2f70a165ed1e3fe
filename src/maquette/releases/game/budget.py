"""The budget of a game: units for the query player's draws, and the number of rows that errors are divided by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, Drawn, Lottery
from maquette.errors import BudgetError, QueryError
from maquette.privacy import UNITS_PER_ONE, Selection
from maquette.query import Workload
from maquette.releases.game.cells import CellIndex, Values, index_for
from maquette.releases.opening import check_promise_of, opening
from maquette.theory import game as theory

MARGIN = 1e-9  # share of the budget left unspent, against rounding of charges

Calibration = Literal["practical", "theory"]


@dataclass(frozen=True, kw_only=True)
class GameBudget:
    """Units for the draws, the (estimated) number of rows, its possible error, and the failure probability left.

    `moves` is the most by which one unit moves a count: n / moves is what theorems call the number of rows.
    """

    units: int
    rows: float
    slack: float
    moves: int
    beta: float
    pure: bool

    @property
    def amount(self) -> float:
        """The units as epsilon under a pure budget, otherwise as rho."""
        return self.units / UNITS_PER_ONE

    @property
    def stretch(self) -> float:
        """Factor by which gains exceed [-1, 1] if the number of rows is overestimated by `slack`."""
        return 1 + self.slack / self.rows


def check_play(calibration: str, **counts: int | None) -> None:
    """Refuse a calibration that does not exist, and a number of rounds, draws or responses that cannot be played."""
    if calibration not in ("practical", "theory"):
        raise QueryError(f"calibration is {calibration!r}", expected='"practical" or "theory"')
    for word, value in counts.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise QueryError(f"{word} is {value!r}", expected="a whole number of at least 1, or None to choose")


def best_play(solve: Callable[..., theory.Play], index: CellIndex, funds: GameBudget) -> theory.Play:
    """The rounds and draws with the least error that a theorem promises; refused if it promises nothing."""
    best = solve(
        log_universe=index.log_universe,
        queries=index.cells,
        rows=funds.rows / funds.moves,
        amount=funds.amount,
        pure=funds.pure,
        beta=funds.beta,
    )
    if best.alpha >= 1:
        raise QueryError(
            f"with about {funds.rows:.3g} rows the theorem promises an error of {best.alpha:.3g}, which says nothing",
            advice='give more rows or budget, or calibration="practical", which is as private and promises no error',
        )
    return best


def fund(curator: Curator, index: CellIndex, units: int, rows: int | None, beta: float) -> GameBudget:
    """Check the public arguments, and buy the row estimate if one is needed."""
    check_promise_of(beta, rows)
    currency = curator.budget.accountant.currency
    if currency not in ("pure", "zcdp"):
        raise BudgetError(
            f"draws are priced in epsilon or rho, not in {currency}", advice='use Budget(..., accounting="zcdp")'
        )
    moves = max(curator.relation.one_cell(table) for table in index.tables)
    begun = opening(curator, units, rows=rows, beta=beta)
    return GameBudget(
        units=begun.units, rows=begun.rows, slack=begun.slack, moves=moves, beta=begun.beta, pure=currency == "pure"
    )


def affordable(funds: GameBudget, rounds: int, draws: int) -> float:
    """The rate eta at which the budget pays for all draws."""
    most = theory.affordable_eta(
        draws=draws,
        rounds=rounds,
        rows=funds.rows / funds.moves,
        amount=max(0.0, funds.amount - rounds * draws / UNITS_PER_ONE) * (1 - MARGIN),
        pure=funds.pure,
    )
    return float(most)


class QueryPlayer:
    """Multiplicative weights over signed cells; only draws from them are ever seen.

    Privacy: in round t a draw is an exponential mechanism with epsilon_t = 2 eta (t - 1) m / n, where one unit moves a
    count by at most m (`Relation.one_cell`, both relations) and n is the public number that eta is relative to; all
    draws together cost `theory.game.draws_rho` or `draws_epsilon` at n / m rows. The first round is uniform and free:
    by public coins, or, where the draws must hide the queries as well, by the curator's secret randomness. `answers`
    may depend on the rows only through earlier draws.
    """

    def __init__(self, curator: Curator, lottery: Lottery, funds: GameBudget, *, eta: float, draws: int) -> None:
        self._curator = curator
        self._lottery = lottery
        self._funds = funds
        self.eta = eta
        self.draws = draws
        self.round = 0

    def play(
        self, answers: Values | None, rng: np.random.Generator | None, *, cap: int | None = None
    ) -> list[tuple[int, int]]:
        """Draw cells with signs against the data player's average answers (fractions); secretly if `rng` is None."""
        self.round += 1
        if self.round == 1 or answers is None:
            first = self._secretly() if rng is None else rng.integers(self._lottery.candidates, size=self.draws)
            return [(int(i % self._lottery.cells), 1 if i < self._lottery.cells else -1) for i in first]
        drawn = self._draw(answers, cap)
        assert drawn.signs is not None
        return list(zip(drawn.cells.tolist(), drawn.signs.tolist(), strict=True))

    def _secretly(self) -> NDArray[np.int64]:
        even = np.zeros(self._lottery.candidates, dtype=np.int64)
        return np.array([self._curator.choose(even, Fraction(1)) for _ in range(self.draws)], dtype=np.int64)

    def _draw(self, answers: Values, cap: int | None) -> Drawn:
        rows = self._funds.rows / self._funds.moves
        event = Selection(theory.draw_epsilon(eta=self.eta, turn=self.round, rows=rows))
        units = self.draws * self._curator.budget.accountant.units(event)
        return self._lottery.draw(answers * self._funds.rows, draws=self.draws, cap=cap, units=units)


@dataclass(frozen=True)
class Table:
    """What a game is played on: its cells, its lottery and its public coins; checked before anything is charged."""

    index: CellIndex
    lottery: Lottery
    coins: np.random.Generator


def seated(
    curator: Curator,
    workload: Workload,
    calibration: str,
    rng: np.random.Generator | None,
    **counts: int | None,
) -> Table:
    """Check the settings of a play, and open its lottery."""
    check_play(calibration, **counts)
    index = index_for(curator, workload)
    return Table(index, curator.lottery(index.tables), np.random.default_rng() if rng is None else rng)


@dataclass(frozen=True)
class Opened:
    """A game that is paid for: its budget, the rounds, draws and rate that were chosen, and the query player."""

    funds: GameBudget
    chosen: theory.Play
    player: QueryPlayer


def opened(
    curator: Curator,
    table: Table,
    choose: Callable[[GameBudget], theory.Play],
    *,
    units: int,
    rows: int | None,
    beta: float,
) -> Opened:
    """Buy the row estimate if one is needed, choose the play by what is left, and seat the query player."""
    funds = fund(curator, table.index, units, rows, beta)
    chosen = choose(funds)
    player = QueryPlayer(curator, table.lottery, funds, eta=chosen.eta, draws=chosen.draws)
    return Opened(funds, chosen, player)


def promise_of(
    error: Callable[..., Values], table: Table, play: Opened, *, beta: float, gap: float = 0.0
) -> str | None:
    """The theorem of a finished play, for its certificate; `gap` is what its responses left open."""
    return in_words(gap + played_error(error, table.index, play.funds, play.chosen), beta)


def played_error(error: Callable[..., Values], index: CellIndex, funds: GameBudget, chosen: theory.Play) -> float:
    """What a theorem promises for the settings that were played, with the error of the row estimate."""
    alpha = error(
        log_universe=index.log_universe,
        queries=index.cells,
        eta=chosen.eta,
        draws=chosen.draws,
        rounds=chosen.rounds,
        beta=funds.beta,
        stretch=funds.stretch,
    )
    return float(alpha) + 2 * funds.slack / funds.rows


def in_words(alpha: float, beta: float) -> str | None:
    """The promise of a game as a certificate states it; None if it is vacuous."""
    if alpha >= 1:
        return None
    return f"every cell of the workload within {alpha:.4g} of the rows with probability {1 - beta:.3g}"
