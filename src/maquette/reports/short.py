"""In short: what is protected, what the release is good for, one figure of quality, and what not to use it for."""

from __future__ import annotations

from html import escape

from maquette.reports.risk import told
from maquette.reports.subject import Subject, without_evidence

SMALL = 2.0  # a count below this many certified errors says little


def in_short(subject: Subject) -> str:
    """The first section, for a reader who reads no other."""
    epsilon, _ = told(subject.total)
    strength = "strong" if epsilon <= 1 else "moderate" if epsilon <= 5 else "weak"
    rows = subject.rows
    lines = [
        f"<b>Protected:</b> {escape(str(subject.unit))}. What readers, alone or together, can learn about it is "
        f"limited: epsilon is {epsilon:.3g}, commonly called {strength} protection.",
        f"<b>Good for:</b> counts, shares and averages of large groups among about {rows:,.0f} rows, in "
        f"{len(subject.schema)} columns.",
        f"<b>Quality:</b> {_quality(subject)}",
    ]
    if subject.schema.guessed:
        lines.append(
            "<b>Bounds came from the rows:</b> the schema was drafted by reading them and used without a review. Its "
            "bounds and levels are not protected."
        )
    counted = subject.facts.get("counted")
    if counted is not None:
        looked = " The custodian chose this number by looking at the rows; that choice is not protected."
        text = str(counted)
        lines.append(
            f"<b>Counted:</b> {escape(text[:1].upper() + text[1:])}; further rows are left out, and no interval "
            f"covers them.{looked if subject.facts.get('bound_from_rows') else ''}"
        )
    if subject.facts.get("cut"):
        text = str(subject.facts["cut"])
        lines.append(f"<b>Left out:</b> {escape(text[:1].upper() + text[1:])}. Both numbers are noisy and paid for.")
    never = "".join(f"<li>{escape(text)}</li>" for text in _never(subject))
    said = "".join(f"<p>{line}</p>" for line in lines)
    return f"{said}<p><b>Do not use it</b></p><ul>{never}</ul>"


def _quality(subject: Subject) -> str:
    check = None if subject.release is None else subject.release.check
    if check is not None:
        text = check.statement(subject.confidence)
        return escape(text[:1].upper() + text[1:]) + "."
    if without_evidence(subject):
        return "no measurements are kept with it, so no error can be stated."
    return "no check of the finished model was bought; every measured number has an interval of its own."


def _never(subject: Subject) -> list[str]:
    who = "a single row" if subject.facts.get("unit") is None else f"a single {subject.facts['unit']}"
    return [
        f"to say anything about {who}, or to look somebody up: no synthetic row is a real person",
        "for small groups: where an interval is as wide as the number, the number says nothing",
        'for combinations of columns that were not measured (listed under "least certain"), or to find rare events',
    ]
