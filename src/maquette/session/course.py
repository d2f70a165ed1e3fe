"""Course: how well one question is known, from one moment to the next, by the states of its parts in all bases."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from maquette.estimates import Columns
from maquette.session.precision.view import View
from maquette.session.precision.width import Known, together

if TYPE_CHECKING:
    from maquette.session.transcript import State

_moment = attrgetter("moment")


class Course:
    """What was measured of a question until `now`; bases in which nothing was measured are left out."""

    def __init__(self, states: Mapping[Columns, Sequence[State]], view: View, now: int, *, mixed: bool) -> None:
        """`mixed`: something was measured in a basis that is not a part's own."""
        self.now = now
        self._seen: list[tuple[Columns, list[tuple[Columns, float, Sequence[State]]]]] = [
            (part, [(key, ratio, found) for key, ratio in keys if (found := states.get(key))])
            for part, keys in (view.bases if mixed else [(part, ((part, 1.0),)) for part in view.gains])
        ]
        self._known: dict[int, dict[Columns, Known]] = {}

    def changes(self, after: int) -> list[int]:
        """The moments after this one at which what is known changed."""
        every = [state.moment for _, seen in self._seen for _, _, states in seen for state in states]
        return sorted({moment for moment in every if after < moment <= self.now})

    def known(self, moment: int | None = None) -> dict[Columns, Known]:
        """What is known of the parts as of a moment (default: now), in terms of the gains of the question.

        Parts not measured are left out; the precisions of all bases add up.
        """
        moment = self.now if moment is None else moment
        if (found := self._known.get(moment)) is None:
            found = self._known[moment] = {}
            for part, seen in self._seen:
                here = [(key, ratio, state.known) for key, ratio, states in seen if (state := as_of(states, moment))]
                if here:
                    found[part] = together(part, here)
        return found


def as_of(states: Sequence[State] | None, moment: int) -> State | None:
    """The last of some states that was there at a moment."""
    if not states:
        return None
    last = states[-1]
    if last.moment <= moment:
        return last
    place = bisect_right(states, moment, key=_moment)
    return states[place - 1] if place else None
