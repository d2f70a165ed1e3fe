"""Every bound as a function, and `plan`: which mechanism, what error, how many rows.

Rooms by topic: `noise`, `selection`, `net`, `updates` (T of every update algorithm), `offline` and `online` (the
iterative construction), `composition`, `holdout` and `transfer` (reusing a sample). A bound takes public numbers and
returns a fraction of rows; it reads no data and costs nothing. Arguments are taken to be in range: `plan` is the door
that checks them. Codes such as A1 name the corrections to the published statements in MECHANISMS §13.
"""

from maquette.theory import (
    composition,
    cuts,
    disjunctions,
    distance,
    game,
    holdout,
    net,
    noise,
    offline,
    online,
    polynomial,
    selection,
    transfer,
    updates,
)
from maquette.theory.disjunctions import plan_disjunctions
from maquette.theory.plan import Plan, Promise, plan

__all__ = [
    "Plan",
    "Promise",
    "composition",
    "cuts",
    "disjunctions",
    "distance",
    "game",
    "holdout",
    "net",
    "noise",
    "offline",
    "online",
    "plan",
    "plan_disjunctions",
    "polynomial",
    "selection",
    "transfer",
    "updates",
]
