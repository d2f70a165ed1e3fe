"""Description: what a charge was for, as the ledger keeps it and a certificate lists it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maquette.errors import DataError
from maquette.privacy.cost import Event, from_dict

MOST_TIMES = 2**63  # ledger units are fewer
_as_text = json.JSONEncoder(sort_keys=True).encode


@dataclass(frozen=True)
class Description:
    """The public facts of a charge: its door, the events it was charged for, and what it asked.

    The ledger stores the JSON `text`, which `of` reads back. Nothing here depends on the rows.

    >>> described = Description.of('{"columns": [["age"], []], "door": "measure", "events": []}')
    >>> described.door, described.columns
    ('measure', (('age',), ()))
    """

    facts: Mapping[str, Any]

    @classmethod
    def of(cls, text: str | bytes) -> Description:
        """Read the text of a charge."""
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError):
            facts = None
        if not isinstance(facts, dict):
            raise DataError(
                "a charge is not described by a JSON object", advice="read it with the version that wrote it"
            )
        return cls(facts)

    @classmethod
    def made(cls, door: str, events: Sequence[Event], public: Mapping[str, Any]) -> Description:
        """Describe a charge for some events; `public` holds the other public facts that define the question."""
        counted = Counter(events).items() if len(events) > 1 else [(event, 1) for event in events]
        grouped = [{**event.as_dict(), "times": times} for event, times in counted]
        return cls({"door": door, "events": grouped, **public})

    @property
    def text(self) -> str:
        """The description as JSON, in the canonical form that is stored and hashed."""
        return _as_text(self.facts)

    @property
    def door(self) -> str:
        """The door that was charged; "?" if the text does not name it."""
        return str(self.facts.get("door", "?"))

    @property
    def events(self) -> tuple[tuple[Event, int], ...]:
        """The events that were charged, each with the number of times it happened."""
        try:
            return tuple(_counted(event) for event in self.facts.get("events", ()))
        except (ArithmeticError, RecursionError, TypeError, ValueError):  # anyone can make a certificate
            raise _unread("events") from None

    @property
    def questions(self) -> tuple[str, ...]:
        """The keys of the questions, if listed."""
        listed = self.facts.get("questions", ())
        return tuple(map(str, listed)) if isinstance(listed, list) else ()

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each question, if the door lists them."""
        listed = self.facts.get("columns", ())
        if not isinstance(listed, list | tuple) or not all(isinstance(names, list | tuple) for names in listed):
            raise _unread("columns")
        return tuple(tuple(map(str, names)) for names in listed)

    @property
    def note(self) -> Any:
        """The caller's public note; None if there is none."""
        return self.facts.get("note")

    @property
    def discreet(self) -> Description:
        """The same without the question: only the door and the events."""
        return Description({word: self.facts[word] for word in ("door", "events") if word in self.facts})


def _counted(event: Mapping[str, Any]) -> tuple[Event, int]:
    body = dict(event)
    times = body.pop("times", 1)
    if type(times) is not int or not 0 <= times < MOST_TIMES:
        raise ValueError("a number of times")
    return from_dict(body), times


def _unread(what: str) -> DataError:
    return DataError(f"the {what} of a charge cannot be read", advice="read it with the version that wrote it")
