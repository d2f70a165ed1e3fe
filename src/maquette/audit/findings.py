"""What an audit by random questions tried and found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """A door that gave, charged or refused something wrong; `seed` draws the question again."""

    seed: int
    door: str
    question: str
    what: str

    def __str__(self) -> str:
        return f"{self.door} (seed {self.seed}): {self.what}; asked {self.question}"


@dataclass
class Findings:
    """Counts of questions, by kind and by door, and the faults."""

    questions: int = 0
    refused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    doors: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    def add(self, other: Findings) -> None:
        """Add the findings of another part."""
        self.questions += other.questions
        self.refused += other.refused
        self.kinds += other.kinds
        self.doors += other.doors
        self.faults += other.faults

    def __repr__(self) -> str:
        return (
            f"Findings({self.questions:,} questions, {self.refused:,} refused, {sum(self.doors.values()):,} asked of "
            f"{len(self.doors)} doors, {len(self.faults):,} faults)"
        )
