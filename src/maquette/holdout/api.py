"""Method: the contract of every way to answer from a holdout: decide from public state, then apply the note."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from maquette.errors import GuardSealed
from maquette.holdout.certified import Certified
from maquette.holdout.statistic import Asked, Values

Note = dict[str, Any]


@dataclass(frozen=True)
class Guess:
    """A public number for a statistic, and where it comes from."""

    value: float
    source: Literal["guess", "hypothesis"]


@dataclass(frozen=True)
class Decision:
    """An answer that is not released yet, and the note from which a restart reaches the same state."""

    certified: Certified
    note: Note


class Method(Protocol):
    """One way to answer. Its state is a fold of `apply` over the notes of its decisions, and nothing else.

    `decide` computes the same things for every outcome, so that its running time reveals little about the rows; it may
    draw noise but changes no public state. `terms` are its public settings; a saved state must agree with all of them.
    """

    @property
    def terms(self) -> Mapping[str, Any]:
        """All settings that must not change during the life of a state, JSON-ready."""

    @property
    def exhausted(self) -> bool:
        """Whether its limit is reached, so that the rows are no longer read."""

    @property
    def needs_guess(self) -> bool:
        """Whether it cannot answer without a guess."""

    def decide(self, values: Values, guess: Guess | None) -> Decision:
        """The answer to a statistic with these values on the sample, for this guess."""

    def sealed(self, guess: Guess | None) -> Decision:
        """The answer once exhausted: the guess, uncertified; without one it is refused."""

    def refused(self) -> Note:
        """The note of a question that failed on the rows: the failure reveals something about them, so it costs."""

    def apply(self, note: Mapping[str, Any]) -> None:
        """Move to the state after a decision."""

    def reopened(self) -> Note | None:
        """The cost of opening a saved state, if any: a note to record before the first question."""


class Guesser(Protocol):
    """A public model that guesses; it learns from released answers only, so the certificate holds for any guess."""

    @property
    def terms(self) -> Mapping[str, Any]:
        """Its public settings, JSON-ready."""

    def max_failures(self, *, queries: int, tolerance: float) -> int:
        """Maximum number of guesses that miss by more than the tolerance, if answers are within a quarter of it."""

    def guess(self, asked: Asked) -> float | None:
        """A guess for a statistic; None if it has none."""

    def lesson(self, asked: Asked, value: float) -> Note | None:
        """What a released value teaches, JSON-ready, or None; it changes nothing yet."""

    def learn(self, note: Mapping[str, Any]) -> None:
        """Apply a lesson: when its answer is released, and again after a restart."""


def uncertified(
    guess: Guess | None, *, level: float, failures: int, queries: int, left: int | None, limit: str
) -> Certified:
    """The guess, with the trivial interval [0, 1]; refused if there is no guess."""
    if guess is None:
        raise GuardSealed(
            f"the holdout has reached its limit of {limit} and is not consulted any more",
            advice="nothing was recorded. Pass a "
            "guess to have it back uncertified, or open a new Holdout on rows that were never asked about",
        )
    return Certified(
        value=guess.value,
        half_width=1.0,
        level=level,
        source=guess.source,
        failures=failures,
        queries=queries,
        left=left,
        certificate="none",
        status="exhausted",
    )
