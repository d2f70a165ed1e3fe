"""The query-release game: one player picks records, the other queries; an equilibrium is a synthetic table.

`equilibrium` is the game in the open; `dual_query`, `both_learn`, `analyst_private` and `boosting` play it against
private rows through one door, `Curator.lottery`.
"""

from maquette.release.game.analyst_private import Discretion, Repair, analyst_private
from maquette.release.game.board import Board
from maquette.release.game.boosting import MedianModel, boosted
from maquette.release.game.both_learn import both_learn
from maquette.release.game.dual_query import dual_query
from maquette.release.game.equilibrium import Game, Hedge, Played, mixed_answer

__all__ = [
    "Board",
    "Discretion",
    "Game",
    "Hedge",
    "MedianModel",
    "Played",
    "Repair",
    "analyst_private",
    "boosted",
    "both_learn",
    "dual_query",
    "mixed_answer",
]
