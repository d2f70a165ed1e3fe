"""What a session knows: from the first moment at which it could be told, found the same way whenever it is asked."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from session_checks import SeededNoise, curator_of

import maquette as mq
from maquette.query import Marginal
from maquette.session.answering import Settled
from maquette.session.knowledge import Knowledge
from maquette.session.question import Goal, everyone

SCHEMA = mq.Schema([mq.Integer("age", 0, 5), mq.Boolean("smoker"), mq.Category("town", ["a", "b", "c"])])
CONDITIONS = [
    " AND ".join(chosen)
    for ages, smokes, towns in itertools.product(
        ["", "age = 1", "age >= 2", "age IN (0, 3, 4)"], ["", "smoker"], ["", "town = 'a'", "town <> 'b'"]
    )
    if (chosen := [part for part in (ages, smokes, towns) if part])
]


GAUSSIAN, LAPLACE = mq.Budget(rho=5e3), mq.Budget(epsilon=5e3)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    ("budget", "simultaneous"),
    [(GAUSSIAN, False), (GAUSSIAN, True), (LAPLACE, False)],
    ids=["gaussian", "gaussian, all together", "laplace"],
)
def test_the_first_fit_is_that_of_a_search_in_order(budget: mq.Budget, simultaneous: bool) -> None:
    rng = np.random.default_rng(5)
    rows = {"age": rng.integers(0, 6, 900), "smoker": rng.random(900) < 0.3, "town": rng.choice(["a", "b", "c"], 900)}
    found = set()
    with curator_of(SCHEMA, rows, budget, SeededNoise(1)) as curator:
        for alpha in (0.2, 0.1, 0.06):  # every further session buys more pieces of the same parts
            session = mq.online(curator, alpha=alpha, simultaneous=simultaneous, warm_start="none")
            for place in rng.permutation(len(CONDITIONS))[:12]:
                session.ask(CONDITIONS[place])
        transcript = session._record.transcript
        for tolerance in (2.0, 30.0, 45.0, 60.0, 90.0, 150.0, 300.0):
            knowledge = Knowledge(session._record, session._knowledge.widths, tolerance)
            for condition in CONDITIONS:
                view = knowledge.view(Goal(Marginal(SCHEMA, (), mq.where(SCHEMA, condition))))
                assert view is not None
                moments = range(transcript.moment + 1)
                fits = [moment for moment in moments if knowledge.width(view, moment) <= tolerance]
                assert knowledge._first_fit(view) == (fits[0] if fits else None)
                found.add(fits[0] if fits else None)
    assert len(found) > 5  # several moments, and none


def test_an_unknown_goal_is_looked_for_again_only_when_something_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"age": [0, 1, 2] * 300, "smoker": [True, False, False] * 300, "town": ["a", "b", "c"] * 300}
    looked, earliest = list[str](), Knowledge._earliest

    def counted(self: Knowledge, goal: Goal) -> Settled | None:
        looked.append(goal.key)
        return earliest(self, goal)

    with curator_of(SCHEMA, rows, GAUSSIAN, SeededNoise(1)) as curator:
        session = mq.online(curator, alpha=0.1, warm_start="none")
        goal = Goal(Marginal(SCHEMA, (), mq.where(SCHEMA, "age = 1 AND smoker")))
        monkeypatch.setattr(Knowledge, "_earliest", counted)
        assert [session._knowledge.state(goal) for _ in range(3)] == [None] * 3
        assert looked == [goal.key]
        session.ask("town = 'a'")
        assert session._knowledge.state(goal) is None
        assert looked.count(goal.key) == 2
        session.ask("age = 1 AND smoker")
        settled = session._knowledge.state(goal)
        assert settled is not None
        assert settled == earliest(session._knowledge, goal)


def test_what_is_known_of_all_rows_is_kept_for_a_moment_and_never_for_now() -> None:
    """A share of the rows as the parts have it now, after each of several charges."""
    rng = np.random.default_rng(5)
    rows = {"age": rng.integers(0, 6, 900), "smoker": rng.random(900) < 0.3, "town": rng.choice(["a", "b", "c"], 900)}
    goals, said = (Goal(Marginal(SCHEMA, (), mq.where(SCHEMA, "smoker"))), everyone(SCHEMA)), set[float]()
    with curator_of(SCHEMA, rows, GAUSSIAN, SeededNoise(1)) as curator:
        session = mq.online(curator, alpha=0.2, simultaneous=False, warm_start="none")
        session.ask("smoker")
        kept = Knowledge(session._record, session._knowledge.widths, 1e-3)  # nothing is as precise as that
        for alpha in (0.1, 0.05, 0.02):
            mq.online(curator, alpha=alpha, simultaneous=False, warm_start="none").ask("smoker")
            anew = Knowledge(session._record, session._knowledge.widths, 1e-3)
            (top, bottom, bounds), again = (known.numbers(goals).ratio(*goals) for known in (kept, anew))
            assert (float(top.values), float(bottom.values)) == (float(again[0].values), float(again[1].values))
            assert [float(end) for end in bounds] == [float(end) for end in again[2]]
            said.add(float(bottom.values))
    assert len(said) > 1
