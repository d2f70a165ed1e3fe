"""Small graphs, their exact cuts, and a seeded source of noise for the tests of cuts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.hypothesis import Hypothesis
from maquette.query import Cuts, LinearQuery, cut
from maquette.schema import Schema

Matrix = NDArray[np.float64]
Integers = NDArray[np.int64]
ADVERSARIES: tuple[Literal["min-gap", "max-gap", "random"], ...] = ("min-gap", "max-gap", "random")


class Seeded:
    """Noise of about the right laws from a numpy generator. Not private."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def laplace(self, scale: Fraction, size: int) -> Integers:
        stop = -math.expm1(-1 / float(scale))
        return np.asarray(self.rng.geometric(stop, size) - self.rng.geometric(stop, size), dtype=np.int64)

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        return np.rint(self.rng.normal(0, math.sqrt(variance), size)).astype(np.int64)

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        return int(np.argmax(scores / float(scale) + self.rng.gumbel(size=len(scores))))

    def permute_and_flip(self, scores: Integers, scale: Fraction) -> int:
        return int(np.argmax(scores / float(scale) + self.rng.exponential(size=len(scores))))


class Exact:
    """A graph as a model of itself."""

    def __init__(self, schema: Schema, edges: Integers) -> None:
        self.schema = schema
        self.table = np.zeros(schema.shape(schema.names))
        np.add.at(self.table, tuple(edges.T), 1.0 / len(edges))

    def marginal(self, columns: Sequence[str]) -> Matrix:
        positions = [self.schema.position(name) for name in columns]
        others = tuple(i for i in range(len(self.schema)) if i not in positions)
        return np.asarray(np.transpose(self.table.sum(axis=others), np.argsort(np.argsort(positions))))


def simple_graph(vertices: int, edges: int, seed: int = 0) -> Integers:
    """Different ordered pairs, most of them among the first half of the vertices."""
    rng = np.random.default_rng(seed)
    weight = np.outer(*[np.where(np.arange(vertices) < vertices / 2, 3.0, 1.0)] * 2).reshape(-1)
    chosen = rng.choice(vertices**2, edges, replace=False, p=weight / weight.sum())
    return np.stack(np.divmod(chosen, vertices), axis=1)


def multigraph(vertices: int, edges: int, seed: int = 0) -> Integers:
    """Pairs that repeat, lopsided."""
    rng = np.random.default_rng(seed)
    return np.minimum((vertices * rng.random((edges, 2)) ** 2).astype(np.int64), vertices - 1)


def opened(schema: Schema, edges: Integers) -> mq.PrivateTable:
    return mq.open_table(schema.decode(edges), schema)


def random_masks(vertices: int, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    masks = rng.random((count, vertices)) < rng.random((count, 1))
    masks[np.arange(count), rng.integers(0, vertices, count)] = True
    return np.asarray(masks)


def random_cut(schema: Schema, rng: np.random.Generator, *, undirected: bool = False) -> LinearQuery:
    one, two = random_masks(schema["from"].size, 2, rng)
    return cut(schema, one, two, undirected=undirected)


def most_updates(  # noqa: PLR0917 -- the parts of an update sequence
    model: Hypothesis, truth: Exact, family: Cuts, alpha: float, adversary: str, limit: float
) -> int:
    """How many updates a worst sequence makes, values pushed to the wrong side as far as a valid step allows."""
    rng, exact = np.random.default_rng(3), family.answers(truth)
    done = 0
    while done <= limit + 2:
        answers = family.answers(model)
        gaps = np.abs(exact - answers)
        off = np.flatnonzero(gaps >= alpha)
        if not len(off):
            break
        at = {"min-gap": gaps[off].argmin(), "max-gap": gaps[off].argmax(), "random": rng.integers(len(off))}[adversary]
        which = int(off[at])
        pushed = exact[which] + np.sign(answers[which] - exact[which]) * alpha * (1 - 1e-9)
        model.update(family[which], float(pushed))
        done += 1
    return done
