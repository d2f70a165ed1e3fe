"""What is free, printed or saved follows from what was released: nothing else about the rows is in it.

Two tables answer every compiled question alike and differ in what an engine knows beside that: the number of rows and
the fingerprint. With the same noise everything that leaves the wall must be the same, byte by byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.curator.engines.memory import MemoryEngine
from maquette.curator.table import PrivateTable, engine_of, private_table
from maquette.errors import MaquetteError

ROWS = 3_000
QUESTIONS = [
    "SELECT count(*) FROM people WHERE age >= 50",
    "SELECT sex, avg(income) FROM people GROUP BY sex",
    "SELECT count(*) FROM nowhere",
    "SELECT height FROM people",
]


class Seeded:
    """Noise that two runs share; not private."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)

    def laplace(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        return np.rint(self._rng.laplace(0, float(scale), size)).astype(np.int64)

    def gaussian(self, variance: Fraction, size: int) -> NDArray[np.int64]:
        return np.rint(self._rng.normal(0, float(variance) ** 0.5, size)).astype(np.int64)

    def exponential(self, scores: NDArray[np.int64], scale: Fraction) -> int:
        return int(np.argmax(scores / float(scale) + self._rng.gumbel(size=len(scores))))

    permute_and_flip = exponential


def table(more: int) -> PrivateTable:
    """The same records behind an engine that knows of `more` rows, under another fingerprint."""
    schema = mq.Schema(
        [
            mq.Integer("age", 0, 99, width=10),
            mq.Category("sex", ["f", "m"]),
            mq.Boolean("smoker", nullable=True),
            mq.Number("income", 0, 1000, bins=5),
        ]
    )
    rng = np.random.default_rng(0)
    rows = {
        "age": rng.integers(0, 100, ROWS),
        "sex": rng.choice(["f", "m"], ROWS),
        "smoker": rng.choice([True, False], ROWS),
        "income": rng.uniform(0, 1000, ROWS),
    }
    held = engine_of(mq.open_table(rows, schema))
    assert isinstance(held, MemoryEngine)
    chunks = list(held._chunks())
    digest = hashlib.sha256(str(more).encode()).hexdigest()
    engine = MemoryEngine(schema, ROWS + more, digest, [codes for codes, _ in chunks], [values for _, values in chunks])
    return private_table(engine, None, 1, "people")


def told(ask: Callable[[], object]) -> str:
    """An answer, or a refusal, as text."""
    try:
        return str(ask())
    except MaquetteError as refusal:
        return f"{type(refusal).__name__}: {refusal}"


def everything(more: int, folder: Path) -> dict[str, Any]:
    """What an analyst can see of a release, a session and the budget."""
    curator = mq.Curator(table(more), mq.Budget(epsilon=1.0, delta=1e-9), noise=Seeded())
    seen: dict[str, Any] = {"new": curator._repr_html_()}
    release = mq.release(curator, mq.marginals(curator.schema, k=2), epsilon=0.4)
    release.save(folder / "people.maq")
    seen |= {"saved": (folder / "people.maq").read_bytes(), "release": repr(release), "explained": release.explain()}
    seen |= {"certificate": str(release.certificate), "page": release._repr_html_()}
    session = mq.online(curator, alpha=0.05)
    for text in QUESTIONS:
        seen[f"before: {text}"] = told(lambda: session.explain(text))  # noqa: B023
        seen[f"answer: {text}"] = told(lambda: session.ask(text))  # noqa: B023
        seen[f"after: {text}"] = told(lambda: (session.explain(text), session.outlook(), curator.spent))  # noqa: B023
    seen["too much"] = told(lambda: curator.measure(["age"], epsilon=5.0))
    return seen


@pytest.mark.filterwarnings("ignore")
def test_nothing_beside_the_released_numbers_leaves_the_wall(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    one, other = everything(0, tmp_path / "a"), everything(7, tmp_path / "b")
    assert {what: (seen, other[what]) for what, seen in one.items() if seen != other[what]} == {}


@pytest.mark.filterwarnings("ignore")
def test_a_number_of_rows_that_is_public_is_told() -> None:
    """The two tables do differ: under "replace" the number of rows is public, and free."""
    budget = mq.Budget(epsilon=1.0, delta=1e-9)
    counts = [mq.Curator(table(more), budget, relation="replace", noise=Seeded()).count_rows() for more in (0, 7)]
    assert counts == [ROWS, ROWS + 7]
