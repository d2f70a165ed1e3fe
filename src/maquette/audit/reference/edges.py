"""Numbers and names at the edges: where arithmetic wraps, rounds or cancels, and where text must be quoted."""

from __future__ import annotations

import math

import numpy as np

FINE = 2**20  # the grid of weights that are not 0 or 1, as the library documents it

WEIGHTS = (
    0.0,
    -0.0,
    5e-324,
    2.0**-1022,
    2.0**-53,
    2.0**-41,
    2.0**-40,
    math.nextafter(2.0**-21, 0.0),
    2.0**-21,
    math.nextafter(2.0**-21, 1.0),
    2.0**-20,
    3 * 2.0**-21,
    5 * 2.0**-21,
    0.1,
    1 / 3,
    0.5 - 2.0**-54,
    0.5 - 2.0**-21,
    0.5,
    0.5 + 2.0**-21,
    1 - 2.0**-20,
    1 - 2.0**-21,
    1 - 2.0**-40,
    1 - 2.0**-41,
    1 - 2.0**-53,
    1.0,
    1.0,
    1.0,
)
BEYOND = (math.nan, math.inf, -math.inf, -5e-324, -(2.0**-21), -1.0, 1 + 2.0**-52, 1 + 2.0**-21, 2.0, 2.0**63, 1e308)
CONSTANTS = (
    0.0,
    -0.0,
    1.0,
    0.5,
    1 / 3,
    -1.0,
    2.0,
    2.0**-20,
    2.0**-21,
    2.0**-40,
    1 - 2.0**-53,
    1 + 2.0**-52,
    2.0**22,
    2.0**23,
    2.0**24,
    -(2.0**24),
    2.0**31,
    2.0**40,
    2.0**52,
    2.0**53,
    2.0**62,
    2.0**63,
    -(2.0**63),
    2.0**64,
    1e18,
    1e300,
    -1e300,
    5e-324,
)
INTEGERS = (0, 1, -1, 2, -3, 7, 2**12, -(2**14), 2**20, 2**27, 2**28, -(2**28), 2**28 + 1, 2**31, 2**32, 2**53 + 1)
EXTREME_INTEGERS = (2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
NAMES = (
    "age",
    "AGE",
    "x y",
    " blank ",
    '"quoted"',
    "it's",
    "1st",
    "*",
    "select",
    "group",
    "count(*)",
    "é",
    "日本",
    "a.b",
    "a,b",
    "-- x",
    "%s",
    "{}",
    "k0",
    "u",
    "v0",
    "n",
    "\t",
    "weight",
    "null",
)
LEVELS = ("a", "B", "it's", '"', "1", "01", "1.0", "NULL?", "é", "x y", "-", "%", "日", "true", "a,b", "\\")


def weight(rng: np.random.Generator) -> float:
    """A weight in [0, 1], mostly at an edge of the grid or of float64."""
    kind = rng.integers(6)
    if kind < 3:
        return WEIGHTS[rng.integers(len(WEIGHTS))]
    if kind == 3:
        return int(rng.integers(FINE + 1)) / FINE
    if kind == 4:
        return (int(rng.integers(FINE)) + 0.5) / FINE
    return float(rng.random())


def weights(rng: np.random.Generator, size: int, special: int) -> np.ndarray:
    """One weight for every level; often two different ones, with the level `special` alone in its class."""
    style = rng.integers(6)
    if style == 0:
        vector = np.ones(size)
        vector[special] = 0.0
    elif style == 1:
        vector = np.zeros(size)
        vector[special] = 1.0
    elif style == 2:
        vector = np.full(size, weight(rng))
        vector[special] = weight(rng)
    elif style == 3:
        vector = (rng.random(size) < 0.5).astype(np.float64)
    else:
        vector = np.array([weight(rng) for _ in range(min(size, 12))])[rng.integers(min(size, 12), size=size)]
        vector[special] = weight(rng)
    if rng.random() < 0.02:
        vector[rng.integers(size)] = BEYOND[rng.integers(len(BEYOND))]
    return vector
