"""Draft: what a method made, before `release` certifies it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maquette.estimates import Evidence, Step
from maquette.releases.artifact import Model


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a method made, before `release` certifies it: a model, and what was measured.

    `evidence` gives answers their intervals; if there is none, `NoEvidence(rows)` holds the number of rows.
    `accuracy` states a theorem, for the certificate. `explanation` says in words what was decided and why.
    """

    model: Model
    evidence: Evidence
    accuracy: str | None = None
    trace: Sequence[Step] = ()
    explanation: Sequence[str] = ()
