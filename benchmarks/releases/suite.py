"""Tables that nobody tuned for: real ones from Python packages, and generated families, in two halves.

`tables("development")` is to work with; `tables("held")` is run once, when the work is done. The halves were fixed
before any result was seen, by one rule: real tables in order of their rows, and generated ones likewise, go to
development, held, held, development, and so on. "people" and "people-bins" are in development by choice: the second
was added because a release of it is known to fail. "classes" is in neither half: it is quick, for repeated releases.

Schemas are written as a custodian would: round ranges, bins of equal width, values beyond the range clamped. But the
ranges were chosen with the least and largest value of each column in sight. That is fair between methods, which all get
the same schema; a custodian must take ranges from public knowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from releases import families, real
from releases.packages import MissingPackage

Half = Literal["development", "held"]
Codes = NDArray[np.int32]
PATTERN: tuple[Half, ...] = ("development", "held", "held", "development")


@dataclass(frozen=True)
class Source:
    """Where a table comes from, and how many rows it has: the number decides its half."""

    name: str
    rows: int
    read: Callable[[], tuple[mq.Schema, Codes]]
    target: str | None = None


REAL = (
    Source("medpar", 1495, real.medpar, "died"),
    Source("loanapp", 1989, real.loanapp, "approve"),
    Source("hdma", 2381, real.hdma, "deny"),
    Source("chile", 2700, real.chile),
    Source("bfi", 2800, real.bfi),
    Source("ofp", 4406, real.ofp, "privins"),
    Source("fair", 6366, real.fair, "affair"),
    Source("happiness", 17137, real.happiness, "vhappy"),
    Source("rwm", 19609, real.rwm, "outwork"),
    Source("hi", 22272, real.hi, "whi"),
    Source("weather", 26115, real.weather),
    Source("diamonds", 53940, real.diamonds),
    Source("mortgages", 214144, real.mortgages, "home_ownership"),
    Source("flights", 336776, real.flights),
)
GENERATED = (
    Source("few-rows", 1200, families.few_rows),
    Source("latent", 10_000, families.latent),
    Source("chain", 20_000, families.chain),
    Source("functional", 30_000, families.functional),
    Source("yes-no", 40_000, families.yes_no),
    Source("large-columns", 200_000, families.large_columns),
)
KNOWN = (
    Source("people", 50_000, families.people, "smoker"),
    Source("people-bins", 50_000, families.people_bins, "smoker"),
)

REPEATED = Source("classes", 10_000, families.classes)


def halved(sources: tuple[Source, ...]) -> dict[str, Half]:
    """The half of each table, from the order of their rows alone."""
    ordered = sorted(sources, key=lambda source: (source.rows, source.name))
    return {source.name: PATTERN[i % len(PATTERN)] for i, source in enumerate(ordered)}


HALVES: dict[str, Half] = {**halved(REAL), **halved(GENERATED), **{source.name: "development" for source in KNOWN}}
SUITE = {source.name: source for source in (*KNOWN, *REAL, *GENERATED)}


@dataclass(frozen=True)
class SuiteTable:
    """One table of the suite; its rows are read when they are first used."""

    source: Source

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def half(self) -> Half:
        return HALVES[self.name]

    @property
    def target(self) -> str | None:
        """A yes/no column that the others predict, if there is one."""
        return self.source.target

    @cached_property
    def _loaded(self) -> tuple[mq.Schema, Codes]:
        return self.source.read()

    @property
    def schema(self) -> mq.Schema:
        return self._loaded[0]

    @property
    def codes(self) -> Codes:
        """The rows as codes of the schema's levels, a column each."""
        return self._loaded[1]

    def curator(self, epsilon: float, delta: float = 1e-9, *, codes: Codes | None = None) -> mq.Curator:
        """A curator of these rows, or of others of the same schema, accounted as `maquette release` does."""
        rows = self.codes if codes is None else codes
        values = {column.name: column.decode(rows[:, i]) for i, column in enumerate(self.schema)}
        return mq.Curator(mq.open_table(values, self.schema), mq.Budget(epsilon=epsilon, delta=delta, accounting="gdp"))


def table(name: str) -> SuiteTable:
    """The table of this name."""
    return SuiteTable(REPEATED if name == REPEATED.name else SUITE[name])


def tables(half: Half | Literal["both"] = "development") -> Iterator[SuiteTable]:
    """The tables of a half; those of packages that are not installed are skipped, with a line that says so."""
    halves = get_args(Half) if half == "both" else (half,)
    for name in SUITE:
        if HALVES[name] not in halves:
            continue
        found = table(name)
        try:
            _ = found.schema
        except MissingPackage as missing:
            print(f"{name}: skipped, {missing}")
            continue
        yield found
