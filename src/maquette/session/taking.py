"""`take`: adds one charge to what a session holds: the numbers of single goals, and pieces of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from maquette.curator import Measurement
from maquette.estimates import Columns, spread
from maquette.privacy import DiscreteGaussian
from maquette.session.ahead import Layered
from maquette.session.order import Owned
from maquette.session.own import Direct, Own, Rented
from maquette.session.precision.bases import ANCHOR, tells, whole_kind
from maquette.session.precision.family import places_of
from maquette.session.precision.shares import DIVISIONS, anchored_after
from maquette.session.precision.view import Component
from maquette.session.question import Goal
from maquette.session.transcript import Transcript


class Held(Protocol):
    """What charges add to: a record, or what it will be."""

    transcript: Transcript
    own: Any  # lists of `Own` by the key of their goal
    wholes: dict[Columns, int]
    directs: int
    cells: bool | None
    begun: dict[str, float | None] | None
    before: int | None


def take(held: Held, measured: Sequence[Measurement], note: Any, owned: Owned) -> None:
    """Add one charge. What belongs to single goals is kept first: nobody reads it before its moment has come.

    A whole table has a number after those measured as asked. What is derived from parts is derived from it too, so the
    share of the doubt for that is taken after it, unless nothing else is read from it. Earlier divisions took it
    there only if the number of rows is public.
    """
    directs, rented = owned
    transcript, moment = held.transcript, held.transcript.moment + 1
    bought, asked = len(note["parts"]), len(note["parts"]) + len(note["direct"])
    held.cells = note["cells"]
    whole = [one for one, (goal, _) in zip(measured[bought:asked], directs, strict=True) if _tells_parts(one, goal)]
    keys = [tuple(key) for key in note["parts"]]
    if held.begun is None:
        held.begun = note.get("account", {})  # none in notes of versions that had one account only
    division = DIVISIONS[held.begun.get("division")]
    tables = [key for key in keys if whole_kind(key) is not None]
    in_parts = len(tables) < bought or note["rent"]
    if ANCHOR in tables:
        held.directs = anchored_after(held.directs, held.before)
        held.wholes = {ANCHOR: held.directs, **held.wholes}
    rows = _rows(transcript, dict(zip(keys, measured, strict=False)))
    if held.before is None and (in_parts or (whole and not held.cells)):
        held.before = held.directs + (0 if in_parts else len(directs))
    for measurement, (goal, _), facts in zip(measured[bought:asked], directs, note["direct"], strict=True):
        held.directs += 1
        centre = rows if goal.centred else None
        if centre is None and goal.centred:
            continue  # the charge that was to bring the number of rows was lost or refused: it tells nothing
        keep(held.own, goal, Direct(moment, measurement, goal.signed, held.directs, facts, centre))
    for key in tables:
        if key not in held.wholes:
            held.wholes = {**held.wholes, key: held.directs + 1}
            held.directs += places_of(transcript.schema, key) if division.weighs else 1
    told = any(key != ANCHOR and tells(key) for key in tables) and (division.centres or transcript.rows_are_public)
    if told and held.before is None:
        held.before = held.directs
    single = iter(measured[asked:])
    for goal, contrasts in rented:
        components = {}
        for part, _, factor in contrasts:
            measurement = next(single)
            value = factor * float(measurement.values.reshape(-1)[0])
            components[part] = Component(value, (factor * spread(measurement)) ** 2)
        keep(held.own, goal, Rented(moment, components))
    transcript.add(
        [*measured[:bought], *([] if held.cells else whole)],
        cells=bool(held.cells),
        keys=keys,
        beside=[*measured[asked:], *measured[bought:asked]],
        chained="chained" in note,
    )


def keep(kept: dict[str, list[Own]] | Layered[str, Own], goal: Goal, own: Own) -> None:
    """Keep what was measured for one goal."""
    kept.setdefault(goal.key, []).append(own)


def _rows(transcript: Transcript, bought: Mapping[Columns, Measurement]) -> Component | None:
    """The number of rows as it was first measured for all counts, by an earlier charge or by this one."""
    if transcript.has(ANCHOR):
        value, variance = transcript.states(ANCHOR)[0].part
        return Component(float(value), float(variance))
    if ANCHOR not in bought:
        return None
    return Component(float(bought[ANCHOR].values), spread(bought[ANCHOR]) ** 2)


def _tells_parts(measurement: Measurement, goal: Goal) -> bool:
    return goal.tells_parts and isinstance(measurement.event, DiscreteGaussian)
