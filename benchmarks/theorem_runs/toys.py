"""One small table for each theorem: a run of the whole mechanism, its error, and the error that it promised.

A run opens a curator with the noise that it is given, so that every door, charge and draw is the real one. `broken` is
what the gate must notice: noise louder than the doors believe by that factor, or a patched part of the mechanism.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.curator import Curator, NoiseSource
from maquette.estimates import DenseModel
from maquette.query import LinearQuery, Workload
from maquette.releases import (
    LearnedDistinguisher,
    Net,
    ReleaseLearner,
    agreement,
    boosted,
    learn_from_release,
    learn_privately,
    net_mechanism,
    projection,
    small_db,
)
from maquette.releases.game import boosting
from maquette.session import PrivateMultiplicativeWeights
from theorem_runs.noise import Seeded

Values = NDArray[np.float64]
BETA = 0.1


class Ran(NamedTuple):
    """One run: the error, and what was promised; infinite where nothing was."""

    error: float
    promised: float


@dataclass(frozen=True)
class Toy:
    """A theorem on a small table."""

    title: str
    statement: str
    table: str
    run: Callable[[NoiseSource], Ran]
    loud: int = 1
    patch: Callable[[], AbstractContextManager[Any]] = field(default=nullcontext)
    sabotage: str = ""

    @property
    def broken(self) -> str:
        return self.sabotage or f"noise {self.loud} times as large"


def rows_of(schema: mq.Schema, probabilities: Sequence[float], rows: int) -> tuple[mq.PrivateTable, Values]:
    """A table with these shares of the cells of two-level columns, and its exact shares."""
    cells = np.array(list(itertools.product((0, 1), repeat=len(schema.names))), dtype=bool)
    counts = np.floor(np.array(probabilities) / sum(probabilities) * rows).astype(int)
    counts[0] += rows - counts.sum()
    records = np.repeat(cells, counts, axis=0)
    opened = mq.open_table({name: records[:, i].tolist() for i, name in enumerate(schema.names)}, schema)
    return opened, (counts / rows).reshape((2,) * len(schema.names))


def promised(text: str | None) -> float:
    """The number that a certificate or a learner states."""
    found = re.search(r"(?:within|at most) ([\d.e-]+)", text or "")
    return float(found[1]) if found else np.inf


def coins(noise: NoiseSource) -> np.random.Generator:
    """Public coins for a run: fresh, or from the seed of its noise."""
    return noise.rng if isinstance(noise, Seeded) else np.random.default_rng()


def largest(release: mq.Release, workload: Workload, truth: Values) -> float:
    """The largest error of a cell of the workload."""
    names = release.schema.names
    off = 0.0
    for table in workload.marginals:
        others = tuple(i for i, name in enumerate(names) if name not in table.names)
        off = max(off, float(np.abs(release.marginal(*table.names) - truth.sum(axis=others)).max()))
    return off


TWO = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
SKEWED, SKEWED_TRUTH = rows_of(TWO, (1, 2, 3, 14), 200)
LARGE, LARGE_TRUTH = rows_of(TWO, (1, 2, 3, 14), 20_000)
SINGLES = mq.marginals(TWO, k=1)
PAIRS = mq.marginals(TWO, k=2)
FOUR = mq.Schema([mq.Boolean(name) for name in "abcd"])
MIXED, MIXED_TRUTH = rows_of(FOUR, (8, 1, 1, 2, 1, 2, 1, 4, 1, 3, 1, 2, 2, 1, 4, 6), 300)


def _net(mechanism: str, relation: str, epsilon: float) -> Callable[[NoiseSource], Ran]:
    """A net of candidates of its own: what is promised is the distance to the best of them."""
    histograms = np.random.default_rng(1).dirichlet(np.ones(4), size=30)
    net = Net.histograms(TWO, histograms)
    errors = np.abs(net.answers(list(PAIRS)) - SKEWED_TRUTH.reshape(-1)).max(axis=1)

    def run(noise: NoiseSource) -> Ran:
        with Curator(SKEWED, mq.Budget(epsilon=epsilon), relation=relation, noise=noise) as curator:  # type: ignore[arg-type]
            made = net_mechanism(curator, PAIRS, net, mechanism=mechanism, beta=BETA)  # type: ignore[arg-type]
        off = float(np.abs(made.marginal("a", "b") - SKEWED_TRUTH).max())
        return Ran(off - errors.min(), promised(made.certificate.accuracy))

    return run


def _covering(build: Callable[[], Net], asked: Sequence[LinearQuery], epsilon: float) -> Callable[[NoiseSource], Ran]:
    """A net that covers every table, built by the first run: what is promised is the error itself."""
    net = cache(build)
    weights = np.stack([query.weights(asked[0].schema.names).reshape(-1) for query in asked])
    table, truth = rows_of(asked[0].schema, (1, 2, 3, 14)[: asked[0].schema.size], 400)

    def run(noise: NoiseSource) -> Ran:
        with Curator(table, mq.Budget(epsilon=epsilon), relation="replace", noise=noise) as curator:
            made = net_mechanism(curator, asked, net(), mechanism="exponential", beta=BETA)
        off = made.marginal(*made.schema.names).reshape(-1) - truth.reshape(-1)
        return Ran(float(np.abs(weights @ off).max()), promised(made.certificate.accuracy))

    return run


def _small_db(noise: NoiseSource) -> Ran:
    with Curator(SKEWED, mq.Budget(epsilon=1.0), relation="replace", noise=noise) as curator:
        made = small_db(curator, PAIRS, rows=12, mechanism="exponential", beta=BETA)
    return Ran(largest(made, PAIRS, SKEWED_TRUTH), promised(made.certificate.accuracy))


def _constructed(epsilon: float, **settings: Any) -> Callable[[NoiseSource], Ran]:
    """The iterative construction with these settings."""

    def run(noise: NoiseSource) -> Ran:
        with Curator(LARGE, mq.Budget(epsilon=epsilon), relation="replace", noise=noise) as curator:
            facts = {"method": "iterative-construction", "check": False, "beta": BETA, **settings}
            made = mq.release(curator, SINGLES, **facts)
        return Ran(largest(made, SINGLES, LARGE_TRUTH), promised(made.certificate.accuracy))

    return run


QUESTIONS = [  # a question after each that the model answers badly, if it learnt nothing
    mq.where(TWO, text)
    for text in ("a", "a AND b", "b", "NOT a AND NOT b", "a OR b", "NOT a AND b", "a AND NOT b", "NOT a", "NOT b")
]


def _lecture(noise: NoiseSource) -> Ran:
    """Every question is the one on which the model errs most."""
    weights = [query.weights(TWO.names) for query in QUESTIONS]
    truth, worst = [float((each * LARGE_TRUTH).sum()) for each in weights], 0.0
    left = list(range(len(QUESTIONS)))
    budget = mq.Budget(epsilon=40.0, delta=1e-6, accounting="basic")
    with Curator(LARGE, budget, relation="replace", noise=noise) as curator:
        session = PrivateMultiplicativeWeights(curator, epsilon=40.0, queries=len(QUESTIONS), beta=BETA)
        while left:
            next_one = max(left, key=lambda i: abs(session.hypothesis.answer(QUESTIONS[i]) - truth[i]))
            left.remove(next_one)
            worst = max(worst, abs(session.ask(QUESTIONS[next_one]).value - truth[next_one]))
    return Ran(worst, session.alpha)


def stubborn(curator: Curator, queries: Sequence[LinearQuery], rows: float, units: int) -> DenseModel:
    """A base that knows the table of a toy, but for one cell, on which it always errs."""
    return DenseModel(curator.schema, _off())


def _off() -> Values:
    """The toy's table with 0.15 of its rows moved from one cell to its neighbour."""
    moved: Values = MIXED_TRUTH.copy()
    moved[0, 0] -= [[0.15, 0.0], [0.0, 0.0]]
    moved[0, 1] += [[0.15, 0.0], [0.0, 0.0]]
    return moved


def _boosted(noise: NoiseSource) -> Ran:
    """A base that errs on the same two cells in every round: nothing may be promised."""
    workload = mq.marginals(FOUR, k=1)
    with Curator(MIXED, mq.Budget(rho=200.0, delta=1e-9), relation="replace", noise=noise) as curator:
        facts: dict[str, Any] = {"rounds": 12, "draws": 1, "tests": 8, "good": 0.05, "bad": 0.1, "beta": BETA}
        made = boosted(curator, workload, base=stubborn, rng=coins(noise), **facts)
    return Ran(largest(made, workload, MIXED_TRUTH), promised(made.certificate.accuracy))


def _every_test_passes() -> AbstractContextManager[Any]:
    return mock.patch.object(boosting._Test, "passed", lambda self, cells, answers, units: len(cells))


def _projected(k: int) -> Callable[[NoiseSource], Ran]:
    """The root mean squared error of all parities of at most k columns."""
    sets = [held for size in range(1, k + 1) for held in itertools.combinations(range(4), size)]
    signs = np.array([-1.0, 1.0])

    def parity(cells: Values) -> float:
        for _ in range(cells.ndim):
            cells = cells @ signs
        return float(cells)

    def run(noise: NoiseSource) -> Ran:
        with Curator(MIXED, mq.Budget(epsilon=1.0, delta=1e-6), relation="replace", noise=noise) as curator:
            made = projection(curator, k=k, beta=BETA)
        off = []
        for held in sets:
            others = tuple(i for i in range(4) if i not in held)
            asked = made.marginal(*(FOUR.names[i] for i in held))
            off.append(parity(asked) - parity(MIXED_TRUTH.sum(axis=others)))
        return Ran(float(np.sqrt(np.mean(np.square(off)))), promised(made.certificate.accuracy))

    return run


CONCEPTS = ["a", "b", "c", "a AND b", "a OR c", "NOT a", "b AND c"]


def _risks() -> dict[str, float]:
    agree = [agreement(FOUR, concept, "d").weights(FOUR.names) for concept in CONCEPTS]
    return {concept: 1 - float((w * MIXED_TRUTH).sum()) for concept, w in zip(CONCEPTS, agree, strict=True)}


RISKS = _risks()


def _learnt_privately(noise: NoiseSource) -> Ran:
    with Curator(MIXED, mq.Budget(epsilon=0.5), relation="replace", noise=noise) as curator:
        found = learn_privately(curator, CONCEPTS, "d", beta=BETA)
    return Ran(RISKS[found.concept] - min(RISKS.values()), promised(found.excess))


def _learnt_from_release(noise: NoiseSource) -> Ran:
    """A release of the agreements by SmallDB: the excess is at most twice what its certificate promises."""
    concepts = ["a", "NOT a", "a AND NOT a"]
    asked = [agreement(TWO, concept, "b") for concept in concepts]
    with Curator(SKEWED, mq.Budget(epsilon=4.0), relation="replace", noise=noise) as curator:
        release = small_db(curator, asked, rows=40, mechanism="exponential", beta=BETA)
    found = learn_from_release(release, concepts, "b")
    risks = [1 - float((query.weights(TWO.names) * SKEWED_TRUTH).sum()) for query in asked]
    return Ran(risks[concepts.index(found.concept)] - min(risks), 2 * promised(release.certificate.accuracy))


_ONE = mq.Schema([mq.Boolean("a")])
_ASKED = [mq.where(TWO, text) for text in ("a", "b", "a AND b")]
_OF_TWO = "4 cells, 200 rows"
_OF_LARGE = "4 cells, 20,000 rows"

TOYS: dict[str, Toy] = {
    "net": Toy("Net mechanism, exponential", "proposition 5.2", _OF_TWO, _net("exponential", "replace", 0.5), 16),
    "net-flip": Toy("Net mechanism, default", "proposition 5.2", _OF_TWO, _net("auto", "replace", 0.5), 16),
    "net-count": Toy(
        "Net, private number of rows", "proposition 5.2", _OF_TWO, _net("exponential", "add-remove", 2.0), 512
    ),
    "small-db": Toy("SmallDB", "lecture, theorem 5", _OF_TWO, _small_db, 128),
    "dual-net": Toy(
        "Net of transcripts",
        "section 5.3.1",
        "4 cells, 400 rows",
        _covering(lambda: Net.transcripts("multiplicative-weights", _ASKED, 0.3), _ASKED, 0.5),
        256,
    ),
    "vc-net": Toy(
        "Net by VC dimension",
        "section 5.1",
        "2 cells, 400 rows",
        _covering(lambda: Net.of_dimension([mq.where(_ONE, "a")], 0.5), [mq.where(_ONE, "a")], 0.5),
        256,
    ),
    "book": Toy(
        "Iterative construction, book", "theorem 5.7, corrected", _OF_LARGE, _constructed(20.0, constants="book"), 256
    ),
    "mirror": Toy(
        "Mirror descent with norms",
        "Jain and Thakurta",
        _OF_LARGE,
        _constructed(20.0, hypothesis="mirror-descent", norm=0.85, query_norm=2.0),
        256,
    ),
    "lecture": Toy("Private multiplicative weights", "lecture, theorem 8, corrected", _OF_LARGE, _lecture, 32),
    "boosting": Toy(
        "Boosting, tested; its base errs on two cells",
        "Mechanisms §7.3",
        "16 cells, 300 rows",
        _boosted,
        patch=_every_test_passes,
        sabotage="every test passes",
    ),
    "projection-2": Toy("Projection, k = 2", "slides", "4 columns, 300 rows", _projected(2), 256),
    "projection-4": Toy("Projection, k = 4", "slides", "4 columns, 300 rows", _projected(4), 64),
    "learner": Toy("Private learner", "section 5.3.2", "7 concepts, 300 rows", _learnt_privately, 64),
    "learner-release": Toy(
        "Learner from a release", "section 5.3.2", "3 concepts, 200 rows", _learnt_from_release, 512
    ),
    "release-learner": Toy(
        "Release from a learner",
        "section 5.3.2",
        _OF_LARGE,
        _constructed(20.0, distinguisher=LearnedDistinguisher(ReleaseLearner())),
        256,
    ),
}
