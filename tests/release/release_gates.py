"""What the gates of releases share: one small universe, noise that can be steered, and what a charge must be."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from release_checks import Integers, Seeded, open_records

import maquette as mq
from gate_tools import exact_by_records
from maquette.audit.reference import Call
from maquette.curator import Curator
from maquette.query import Contrasts, Marginal

SCHEMA = mq.Schema([mq.Integer("age", 0, 19), mq.Category("region", ["n", "e", "s"]), mq.Boolean("smoker")])
POINTS = np.array(list(np.ndindex(*SCHEMA.shape(SCHEMA.names))))
TOLERANCE = 1 + 1e-9
CURATOR: list[Curator] = []  # for mutants: what only the doors may see

Rows = NDArray[np.int64]


@functools.cache
def _opened(raw: bytes) -> mq.PrivateTable:
    return open_records(SCHEMA, np.frombuffer(raw, dtype=np.int64).reshape(-1, len(SCHEMA)))


def opened(rows: Rows) -> mq.PrivateTable:
    """A table of these rows; opened once."""
    return _opened(np.ascontiguousarray(rows, dtype=np.int64).tobytes())


class Steered(Seeded):
    """Seeded noise, or noise that makes the doors release a given transcript whatever the rows are.

    `calls` are the requests for noise, `truths` what it was added to and `released` what came of it, door by door.
    """

    def __init__(self, seed: int, transcript: Sequence[list[Integers]] | None) -> None:
        super().__init__(seed)
        self._transcript = None if transcript is None else list(transcript)
        self._aimed: list[Integers] | None = None
        self._silent = False
        self.truths: list[list[Integers]] = []
        self.released: list[list[Integers]] = []

    def laplace(self, scale: Fraction, size: int) -> Integers:
        return self._steered("laplace", scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        return self._steered("gaussian", variance, size)

    def _steered(self, kind: str, scale: Fraction, size: int) -> Integers:
        if self._silent:
            return np.zeros(size, dtype=np.int64)
        if self._aimed is None:
            return Seeded.laplace(self, scale, size) if kind == "laplace" else Seeded.gaussian(self, scale, size)
        self.calls.append(Call(kind, scale, size))
        return self._aimed.pop(0).reshape(-1)

    def answered(self, evaluate: Callable[[], list[Integers]]) -> list[Integers]:
        """What a door says: the noise learns what it is added to, then it is drawn."""
        self._silent = True
        truth = evaluate()
        self._silent = False
        if self._transcript is not None:
            assert self._transcript, "another door is opened than on the base"
            wanted = self._transcript.pop(0)
            assert [w.shape for w in wanted] == [t.shape for t in truth], "something else is asked than on the base"
            self._aimed = [w - t for w, t in zip(wanted, truth, strict=True)]
        said = evaluate()
        self.truths.append(truth)
        self.released.append(said)
        return said


def same(one: list[list[Integers]], other: list[list[Integers]]) -> bool:
    return all(np.array_equal(a, b) for x, y in zip(one, other, strict=True) for a, b in zip(x, y, strict=True))


def loss(currency: str, shift: Integers, call: Call) -> float:
    """The loss between two laws of the same noise so far apart, in the budget's own currency."""
    assert call.size == len(shift), "cells do not have noise of their own"
    if currency == "pure":
        assert call.kind == "laplace"
        return float(np.abs(shift).sum() / call.scale)
    assert call.kind == "gaussian"
    mu_squared = float((shift**2).sum() / call.scale)
    return mu_squared if currency == "gdp" else mu_squared / 2


def moved(question: Marginal | Contrasts, power: int) -> float:
    """The largest L1 norm, or squared L2 norm, of what one row adds, over every point of the universe."""
    return max(float((np.abs(np.ravel(exact_by_records(question, point[None]))) ** power).sum()) for point in POINTS)


def squared(question: Marginal | Contrasts, ends: int) -> float:
    """The largest squared distance between tables one row apart: of two cells 2, of contrasts at most 4 norms.

    The number of rows does not move, and is charged as if it did by one.
    """
    if ends == 2 and isinstance(question, Marginal):
        return 2.0 if question.columns else 1.0
    return ends**2 * moved(question, 2)


def price(currency: str, call: Call, l1: float, l2_squared: float) -> float:
    if currency == "pure":
        return l1 / float(call.scale)
    variance = float(call.scale)
    if currency == "zcdp":
        return l2_squared / (2 * variance)
    # The discrete law is Gaussian-private as the continuous one of variance s for which s^2 / (s - 1/12) is its own.
    return l2_squared / ((variance + math.sqrt(variance**2 - variance / 3)) / 2)


MOMENTS = ("before the charge", "charged", "drawn", "recorded")


@contextmanager
def interrupted(ledger: Any, access: int, moment: str) -> Iterator[None]:
    """Ctrl-C at one moment of one access."""
    reserve, commit = ledger.reserve, ledger.commit
    count = [-1]

    def here(when: str) -> None:
        if count[0] == access and when == moment:
            raise KeyboardInterrupt

    def charging(asked: Any) -> Any:
        count[0] += 1
        here("before the charge")
        ticket = reserve(asked)
        here("charged")
        return ticket

    def recording(*args: Any, **named: Any) -> Any:
        here("drawn")
        done = commit(*args, **named)
        here("recorded")
        return done

    with mock.patch.object(ledger, "reserve", charging), mock.patch.object(ledger, "commit", recording):
        yield
