"""L3: lower bounds on epsilon from samples of the doors on two neighbours, with production randomness.

The first half of the samples selects the event that distinguishes the neighbours best; a fresh second half bounds
epsilon with it: Clopper-Pearson, wrong with probability 1e-6. A bound above the claim proves a fault; one below proves
nothing, which is why exact losses come first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.audit.reference.statistics import epsilon_lower_bound
from maquette.audit.tiny import BASE, asked, tiny_table
from maquette.curator import Curator
from maquette.privacy import Budget
from maquette.query import Marginal

EPSILON = 1.0
FAILURE = 1e-6
_TOTAL = 9_000  # epsilon of one ledger

Sampler = Callable[[Curator, int], NDArray[np.int64]]  # given the number of uses at EPSILON each: one output each


@dataclass(frozen=True)
class Bound:
    """What samples say about one door."""

    door: str
    claim: float
    bound: float
    samples: int
    event: str

    @property
    def holds(self) -> bool:
        """Whether the claim is not refuted."""
        return self.bound <= self.claim


def _measured(curator: Curator, uses: int) -> NDArray[np.int64]:
    values = curator.measure_many([asked("a")] * uses, epsilon=EPSILON * uses, noise="laplace")
    return np.array([int(m.values) for m in values])


def _errors(curator: Curator, uses: int) -> NDArray[np.int64]:
    table = Marginal(curator.schema, ["a"])
    return np.array([int(curator.measure_error([table], [[9, 0]], epsilon=EPSILON).values[0]) for _ in range(uses)])


def _selected(curator: Curator, uses: int) -> NDArray[np.int64]:
    table, answer = Marginal(curator.schema, ["a"]), [np.array([1.0, 1.0])]
    found = [curator.select_worst([table], answer, epsilon=EPSILON, signed=True) for _ in range(uses)]
    return np.array([2 * (one.cell or (0,))[0] + (one.sign == 1) for one in found])


def _best(curator: Curator, uses: int) -> NDArray[np.int64]:
    candidates = np.array([[1.0], [2.0], [4.0]])
    return np.array([curator.select_best([asked("a")], candidates, epsilon=EPSILON).index for _ in range(uses)])


def _drawn(curator: Curator, uses: int) -> NDArray[np.int64]:
    drawn = curator.lottery([Marginal(curator.schema, ["a"])]).draw([1.0, 1.0], draws=uses, epsilon=EPSILON * uses)
    assert drawn.signs is not None
    return np.asarray(2 * drawn.cells + (drawn.signs == 1), dtype=np.int64)


def _tested(curator: Curator, uses: int) -> NDArray[np.int64]:
    found = []
    for _ in range(uses):
        guard = curator.guard(2.0, epsilon=EPSILON, numeric=False)
        hits = 0
        for place in range(3):
            if guard.test(asked("a"), 0.0).above:
                hits = 3 - place
                break
        found.append(hits)
    return np.array(found)


SAMPLERS: dict[str, tuple[Sampler, float]] = {  # with the share of samples to use
    "measure": (_measured, 1.0),
    "measure_error": (_errors, 0.2),
    "select_worst": (_selected, 0.2),
    "select_best": (_best, 0.2),
    "lottery": (_drawn, 1.0),
    "guard": (_tested, 0.06),
}


def bounds(samples: int = 20_000) -> list[Bound]:
    """A lower bound for every door, from about `samples` samples on each of two neighbours."""
    return [_bound(door, sampler, max(200, int(samples * share))) for door, (sampler, share) in SAMPLERS.items()]


def check_bounds(samples: int = 4_000) -> None:
    """No claim is refuted."""
    for bound in bounds(samples):
        assert bound.holds, f"{bound.door}: epsilon is at least {bound.bound:.3g}, and {bound.claim:.3g} was claimed"


def _bound(door: str, sampler: Sampler, samples: int) -> Bound:
    one, other = (_sampled(units, sampler, samples) for units in (BASE, (*BASE, ((1, 0),))))
    half = samples // 2
    events = {f"output {sign} {value}": (sign, int(value)) for value in np.unique(one[:half])[:60] for sign in "<=>"}
    share = {name: _counts(event, one[:half], other[:half]) for name, event in events.items()}
    best = max(share, key=lambda name: epsilon_lower_bound(*share[name], half, failure=0.05))
    first, second = _counts(events[best], one[half:], other[half:])
    found = max(0.0, epsilon_lower_bound(first, second, len(one) - half, failure=FAILURE))
    return Bound(door, EPSILON, found, 2 * samples, best)


def _sampled(units: tuple[object, ...], sampler: Sampler, samples: int) -> NDArray[np.int64]:
    parts, left, step = [], samples, int(_TOTAL / EPSILON) - 1
    while left:
        uses = min(left, step)
        with Curator(tiny_table(units, 1), Budget(epsilon=float(_TOTAL))) as curator:
            parts.append(sampler(curator, uses))
        left -= uses
    return np.concatenate(parts)


def _counts(event: tuple[str, int], one: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[int, int]:
    sign, value = event
    holds = {"<": np.less, "=": np.equal, ">": np.greater}[sign]
    return int(holds(one, value).sum()), int(holds(other, value).sum())
