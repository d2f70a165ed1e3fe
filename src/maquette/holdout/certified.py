"""Certified: an answer about the population, with an interval that holds together with all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from maquette.theory import html_table

Source = Literal["guess", "holdout", "hypothesis"]
Certificate = Literal["transcript", "dp-transfer", "fresh", "none"]
Status = Literal["ok", "widened", "exhausted"]

HEAD = ("value", "interval", "holds together with probability", "from the", "status")


@dataclass(frozen=True, kw_only=True)
class Certified:
    """A value within `half_width` of the population's, for all answers of the holdout at once with probability `level`.

    `source`: the guess was close enough and is returned unchanged ("guess"; "hypothesis" if a public model made it), or
    the holdout answered. `failures` is the number of questions that the holdout had to answer until now, out of
    `queries` asked; `left` is how many more it can answer, None if there is no limit. `certificate` is the basis of the
    interval: the number of possible transcripts, privacy and a transfer theorem, rows used once ("fresh"), or nothing;
    then the half-width is 1. `status` is "widened" when the requested tolerance can no longer be met, "exhausted" when
    the holdout was not consulted because its limit is reached.
    """

    value: float
    half_width: float
    level: float
    source: Source
    failures: int
    queries: int
    left: int | None
    certificate: Certificate
    status: Status

    @property
    def low(self) -> float:
        """The lower end of the interval, a fraction."""
        return max(0.0, self.value - self.half_width)

    @property
    def high(self) -> float:
        """The upper end of the interval, a fraction."""
        return min(1.0, self.value + self.half_width)

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        left = "" if self.left is None else f", {self.left:,} left"
        note = "" if self.status == "ok" else f", {self.status}"
        return (
            f"Certified({self.value:.4g} ± {self.half_width:.2g} at {self.level:g} together, from the {self.source}, "
            f"query {self.queries:,}, {self.failures:,} answered by the holdout{left}{note})"
        )

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row in a table: value, interval, source, status."""
        interval = f"{self.low:.4g} to {self.high:.4g}"
        return f"{self.value:.4g}", interval, f"{self.level:g}", self.source, self.status

    def _repr_html_(self) -> str:
        return html_table("Certified", [HEAD, self.cells])

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, exact."""
        return dict(self.__dict__)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Certified:
        """What `as_dict` described."""
        return cls(**stored)
