"""Every mechanism of a theorem beside the default release, at the same price on the same table, by runs.

A comparison has settings; each has several methods, and each run gives an error. The verdict is read from the means: a
method beats the default where its mean is smaller by more than two standard errors of the difference.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.curator import Curator
from maquette.releases import (
    LearnedDistinguisher,
    Net,
    ReleaseLearner,
    agreement,
    boosted,
    learn_from_release,
    learn_privately,
    learned_conjunctions,
    net_mechanism,
    projection,
    small_db,
)
from maquette.session import LazyConstruction, PrivateMultiplicativeWeights

Values = NDArray[np.float64]
Run = Callable[[], float]
DEFAULT = "default release"
DELTA = 1e-9


@dataclass(frozen=True)
class Comparison:
    """Methods on one question of size; `settings` yields the name of each setting and its methods."""

    title: str
    error: str
    settings: Callable[[], Iterator[tuple[str, dict[str, Run]]]]
    runs: int = 20


def measured(compared: Comparison, runs: int) -> dict[str, dict[str, dict[str, float]]]:
    """The mean error and its standard error, by setting and method."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for setting, methods in compared.settings():
        found[setting] = {}
        for name, run in methods.items():
            errors = np.array([run() for _ in range(runs)])
            found[setting][name] = {
                "mean": float(f"{errors.mean():.3g}"),
                "doubt": float(f"{errors.std(ddof=1) / np.sqrt(runs):.2g}"),
            }
    return found


def winners(figures: dict[str, dict[str, dict[str, float]]]) -> dict[str, list[str]]:
    """The methods that beat the default, by setting."""
    return {
        setting: [
            name
            for name, each in methods.items()
            if name != DEFAULT
            and each["mean"] + 2 * np.hypot(each["doubt"], methods[DEFAULT]["doubt"]) < methods[DEFAULT]["mean"]
        ]
        for setting, methods in figures.items()
    }


def opened(records: NDArray[Any], schema: mq.Schema) -> mq.PrivateTable:
    return mq.open_table({name: records[:, i].tolist() for i, name in enumerate(schema.names)}, schema)


def shares(records: NDArray[Any], held: tuple[int, ...], sizes: tuple[int, ...]) -> Values:
    counts = np.zeros(sizes)
    np.add.at(counts, tuple(records[:, i].astype(int) for i in held), 1 / len(records))
    return counts


def worst(release: Any, records: NDArray[Any], k: int) -> float:
    """The largest error of a cell of the k-way tables."""
    schema = release.schema
    sizes = schema.shape(schema.names)
    return max(
        float(np.abs(release.marginal(*(schema.names[i] for i in held)) - truth).max())
        for held in itertools.combinations(range(len(sizes)), k)
        for truth in [shares(records, held, tuple(sizes[i] for i in held))]
    )


def _nets() -> Iterator[tuple[str, dict[str, Run]]]:
    """Six cells. Last year's table has 5,000 people of the same population; 19 other candidates are wrong."""
    schema = mq.Schema([mq.Integer("x", 0, 2), mq.Boolean("y")])
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(6))
    workload = mq.marginals(schema, k=2)
    asked = list(workload)
    last = rng.multinomial(5000, law) / 5000
    others = rng.dirichlet(np.ones(6), size=19)
    candidates = Net.histograms(schema, np.vstack([last, others]))
    dual = Net.transcripts("multiplicative-weights", asked, 0.4)
    for rows in (30, 100, 1000, 10_000):
        cells = rng.choice(6, size=rows, p=law)
        records = np.column_stack([cells // 2, cells % 2])
        table = mq.open_table({"x": records[:, 0].tolist(), "y": (records[:, 1] == 1).tolist()}, schema)

        def by(make: Callable[[Curator], Any], table: Any = table, records: Any = records) -> Run:
            def run() -> float:
                with Curator(table, mq.Budget(epsilon=1.0), relation="replace") as curator:
                    return worst(make(curator), records, 2)

            return run

        yield (
            f"{rows:,} rows",
            {
                "SmallDB, 20 rows": by(lambda c: small_db(c, workload, rows=20, mechanism="exponential")),
                "net of transcripts": by(lambda c: net_mechanism(c, asked, dual, mechanism="exponential")),
                "net with last year's table": by(lambda c: net_mechanism(c, workload, candidates)),
                DEFAULT: by(lambda c: mq.release(c, workload)),
            },
        )


def _norms() -> Iterator[tuple[str, dict[str, Run]]]:
    """A nearly uniform column: its 2-norm is 0.13, a cell's is 1."""
    schema = mq.Schema([mq.Integer("x", 0, 63)])
    workload = mq.marginals(schema, k=1)
    rng = np.random.default_rng(1)
    for rows in (100_000, 1_000_000):
        records = rng.choice(64, size=(rows, 1), p=rng.dirichlet(np.full(64, 20.0)))
        table = mq.open_table({"x": records[:, 0].tolist()}, schema)

        def by(table: Any = table, records: Any = records, **settings: Any) -> Run:
            def run() -> float:
                with Curator(table, mq.Budget(epsilon=1.0, delta=DELTA), relation="replace") as curator:
                    return worst(mq.release(curator, workload, **settings), records, 1)

            return run

        loop: dict[str, Any] = {"method": "iterative-construction", "check": False}
        norms: dict[str, Any] = {"norm": 0.14, "query_norm": 1.0}
        yield (
            f"{rows:,} rows",
            {
                "multiplicative weights": by(**loop),
                "(1 - eta q)": by(**loop, hypothesis="linear-weights"),
                "perceptron with norms": by(**loop, hypothesis="perceptron", **norms),
                "mirror descent, query_norm 1": by(**loop, hypothesis="mirror-descent", query_norm=1.0),
                DEFAULT: by(),
            },
        )


def _lecture() -> Iterator[tuple[str, dict[str, Run]]]:
    """Sixty random conjunctions about three columns, asked one by one; the release answers the same ones."""
    schema = mq.Schema([mq.Boolean(name) for name in "abc"])
    rng = np.random.default_rng(2)
    cells = np.array(list(itertools.product((0, 1), repeat=3)))
    asked = [
        mq.query.LinearQuery.product(schema, {name: np.rint(rng.random(2)).tolist() for name in schema.names})
        for _ in range(60)
    ]
    law = np.array([190, 4, 30, 2, 1, 70, 3, 100]) / 400
    for rows in (200_000, 2_000_000):
        counts = np.round(law * rows).astype(int)
        table = opened(np.repeat(cells, counts, axis=0).astype(bool), schema)
        truth = [float((query.evaluate(cells.astype(np.int32)) * counts).sum() / counts.sum()) for query in asked]
        basic = mq.Budget(epsilon=10.0, delta=DELTA, accounting="basic")

        def session(kind: Any, table: Any = table, truth: Any = truth, basic: Any = basic) -> Run:
            def run() -> float:
                with Curator(table, basic, relation="replace") as curator:
                    opened_one = kind(curator, epsilon=10.0, queries=60)
                    return max(abs(opened_one.ask(q).value - t) for q, t in zip(asked, truth, strict=True))

            return run

        def released(table: Any = table, truth: Any = truth) -> float:
            with Curator(table, mq.Budget(epsilon=10.0, delta=DELTA), relation="replace") as curator:
                made = mq.release(curator, mq.marginals(schema, k=3))
                return max(abs(made.answer(q).value - t) for q, t in zip(asked, truth, strict=True))

        yield (
            f"{rows:,} rows",
            {
                "the lecture's": session(PrivateMultiplicativeWeights),
                "lazy construction": session(LazyConstruction),
                DEFAULT: released,
            },
        )


def _boosting() -> Iterator[tuple[str, dict[str, Run]]]:
    """All pairs of four columns, 20,000 rows; nothing is promised at rho 0.1."""
    rng = np.random.default_rng(3)
    likely = rng.beta(0.6, 0.9, (3, 4))
    records = rng.random((20_000, 4)) < likely[rng.integers(3, size=20_000)]
    schema = mq.Schema([mq.Boolean(name) for name in "abcd"])
    table, workload = opened(records, schema), mq.marginals(schema, k=2)
    settings: dict[str, Any] = {"rounds": 15, "draws": 20, "good": 0.05, "bad": 0.1}
    for rho in (0.1, 1.0, 50.0):

        def by(make: Callable[[Curator], Any], rho: float = rho) -> Run:
            def run() -> float:
                with Curator(table, mq.Budget(rho=rho, delta=DELTA), relation="replace") as curator:
                    return worst(make(curator), records, 2)

            return run

        yield (
            f"rho {rho:g}",
            {
                "boosting, tested": by(lambda c: boosted(c, workload, tests=10, **settings)),
                "boosting": by(lambda c: boosted(c, workload, **settings)),
                DEFAULT: by(lambda c: mq.release(c, workload)),
            },
        )


def _projection() -> Iterator[tuple[str, dict[str, Run]]]:
    """Parities of yes/no columns of rows in two groups, or of coins; k = 2 and 4 of 10 columns, pairs of 40."""
    rng = np.random.default_rng(4)
    for columns, k, rows, kind in (
        (10, 2, 100, "groups"), (10, 2, 1000, "groups"), (10, 4, 100, "groups"), (10, 4, 1000, "groups"),
        (10, 2, 1000, "coins"), (40, 2, 300, "groups"), (40, 2, 300, "coins"), (40, 2, 3000, "groups"),
    ):  # fmt: skip
        ill = rng.random(rows) < 0.3
        chance = np.where(ill, 0.7, 0.15)[:, None] if kind == "groups" else 0.5
        records = rng.random((rows, columns)) < chance
        schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(columns)])
        table, workload = opened(records, schema), mq.marginals(schema, k=k)
        signs = np.where(records, 1.0, -1.0)
        sets = [held for size in range(1, k + 1) for held in itertools.combinations(range(columns), size)]
        truth = np.array([signs[:, list(held)].prod(axis=1).mean() for held in sets])

        def by(
            make: Callable[[Curator], Any],
            table: Any = table,
            sets: Any = sets,
            truth: Any = truth,
            names: Any = schema.names,
        ) -> Run:
            def run() -> float:
                with Curator(table, mq.Budget(epsilon=1.0, delta=DELTA), relation="replace") as curator:
                    made = make(curator)
                off = [_parity(made.marginal(*(names[i] for i in held))) for held in sets] - truth
                return float(np.sqrt(np.mean(off**2)))

            return run

        yield (
            f"{columns} columns ({kind}), k = {k}, {rows:,} rows",
            {
                "projection": by(lambda c, k=k: projection(c, k=k)),  # type: ignore[misc]
                DEFAULT: by(lambda c, workload=workload: mq.release(c, workload)),  # type: ignore[misc]
            },
        )  # fmt: skip


def _parity(cells: Values) -> float:
    for _ in range(cells.ndim):
        cells = cells @ np.array([-1.0, 1.0])
    return float(cells)


def _learners() -> Iterator[tuple[str, dict[str, Run]]]:
    """The excess risk of the chosen one of 21 conjunctions of one or two of six columns."""
    rng = np.random.default_rng(5)
    names = [f"c{i}" for i in range(6)]
    schema = mq.Schema([mq.Boolean(name) for name in [*names, "y"]])
    concepts = [*names, *(f"{a} AND {b}" for a, b in itertools.combinations(names, 2))]
    for rows in (50, 200, 1000):
        bits = rng.random((rows, 6)) < 0.5
        label = (bits[:, 0] & bits[:, 1]) ^ (rng.random(rows) < 0.2)
        records = np.column_stack([bits, label])
        table = opened(records, schema)
        risk = {c: 1 - float(agreement(schema, c, "y").evaluate(records.astype(np.int32)).mean()) for c in concepts}
        triples = mq.marginals(schema, columns=[(a, b, "y") for a, b in itertools.combinations(names, 2)])

        def by(choose: Callable[[Curator], str], table: Any = table, risk: Any = risk) -> Run:
            def run() -> float:
                with Curator(table, mq.Budget(epsilon=1.0, delta=DELTA), relation="replace") as curator:
                    return float(risk[choose(curator)] - min(risk.values()))

            return run

        yield (
            f"{rows:,} rows",
            {
                "private learner": by(lambda c: learn_privately(c, concepts, "y").concept),
                DEFAULT: by(lambda c, t=triples: learn_from_release(mq.release(c, t), concepts, "y").concept),  # type: ignore[misc]
            },
        )


def _from_learners() -> Iterator[tuple[str, dict[str, Run]]]:
    """All pairs of four columns, 20,000 rows, at a pure epsilon at which promises are not vacuous."""
    rng = np.random.default_rng(6)
    likely = rng.beta(0.6, 0.9, (3, 4))
    records = rng.random((20_000, 4)) < likely[rng.integers(3, size=20_000)]
    schema = mq.Schema([mq.Boolean(name) for name in "abcd"])
    table, workload = opened(records, schema), mq.marginals(schema, k=2)

    def by(**settings: Any) -> Run:
        def run() -> float:
            with Curator(table, mq.Budget(epsilon=60.0), relation="replace") as curator:
                return worst(mq.release(curator, workload, **settings), records, 2)

        return run

    loop: dict[str, Any] = {"method": "iterative-construction", "check": False}
    yield (
        "epsilon 60",
        {
            "learner from a release": by(**loop, distinguisher=LearnedDistinguisher(ReleaseLearner())),
            "exponential learner": by(**loop, distinguisher=LearnedDistinguisher()),
            DEFAULT: by(),
        },
    )


def _functions() -> Iterator[tuple[str, dict[str, Run]]]:
    """The average error of 120 three-way conjunctions of ten columns."""
    rng = np.random.default_rng(7)
    schema = mq.Schema([mq.Boolean(f"c{i}") for i in range(10)])
    sets = list(itertools.combinations(range(10), 3))
    for rows in (500, 20_000):
        kind = rng.random(rows) < 0.5
        records = rng.random((rows, 10)) < np.where(
            kind[:, None], np.linspace(0.4, 0.95, 10), np.linspace(0.6, 0.1, 10)
        )
        table = opened(records, schema)
        truth = [records[:, list(held)].all(axis=1).mean() for held in sets]

        def by(answers: Callable[[Curator], list[float]], table: Any = table, truth: Any = truth) -> Run:
            def run() -> float:
                with Curator(table, mq.Budget(epsilon=1.0, delta=DELTA), relation="replace") as curator:
                    return float(np.mean(np.abs(np.array(answers(curator)) - truth)))

            return run

        def learned(curator: Curator) -> list[float]:
            made = learned_conjunctions(curator, 3, degree=1, examples=40)
            return [made.answer([schema.names[i] for i in held]) for held in sets]

        def released(curator: Curator) -> list[float]:
            made = mq.release(curator, mq.marginals(schema, k=3))
            return [float(made.marginal(*(schema.names[i] for i in held))[1, 1, 1]) for held in sets]

        yield f"{rows:,} rows", {"learned f_D": by(learned), DEFAULT: by(released)}


LARGEST = "largest error of a cell"
COMPARISONS: dict[str, Comparison] = {
    "nets": Comparison("Nets: 6 cells, epsilon 1, pure", LARGEST, _nets),
    "norms": Comparison("Norms and (1 - eta q): 64 cells, epsilon 1, delta 1e-9", LARGEST, _norms, 5),
    "lecture": Comparison(
        "The lecture's mechanism: 60 questions, epsilon 10, delta 1e-9", "largest error", _lecture, 10
    ),
    "boosting": Comparison("Tested boosting: all pairs of 4 columns, 20,000 rows", LARGEST, _boosting, 5),
    "projection": Comparison(
        "Projection: epsilon 1, delta 1e-9", "root mean squared error of a parity", _projection, 5
    ),
    "learners": Comparison("A learner, alone or from a release: epsilon 1, delta 1e-9", "excess risk", _learners, 20),
    "from-learners": Comparison(
        "A release from a learner: all pairs of 4 columns, 20,000 rows", LARGEST, _from_learners, 5
    ),
    "functions": Comparison("Marginals by learning f_D: epsilon 1, delta 1e-9", "average error", _functions, 5),
}
