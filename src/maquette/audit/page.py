"""The page of an audit: one HTML file without scripts, which fetches nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from maquette.reports import CSS

if TYPE_CHECKING:
    from maquette.audit.run import Audit

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
INTRODUCTION = (
    "An audit tries to refute what the software claims. It ran on the machine and the versions below, on invented "
    "tables only. It can show that something is wrong; finding nothing is evidence, not proof. The privacy arguments "
    "are written at every door and in the documentation."
)


def page(audit: Audit) -> str:
    """The page."""
    made = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    verdict = "Nothing was found" if audit.passed else "The audit failed"
    killed = len(audit.mutants) - len(audit.survivors)
    facts = {
        "verdict": verdict,
        "random questions": f"{audit.questions.questions:,}",
        "calls of a door": f"{sum(audit.questions.doors.values()):,}",
        "mutants killed": f"{killed} of {len(audit.mutants)}",
        "version of maquette": audit.versions.get("maquette", ""),
        "seconds": f"{audit.seconds:.0f}",
    }
    parts = [
        _section("What was tried", _results(audit)),
        _section("Exact losses on all neighbours of tiny tables", _losses(audit)),
        _section("Lower bounds on epsilon from samples", _bounds(audit)),
        _section("Random questions", _questions(audit)),
        _section("Mutants", _mutants(audit)),
        _section("Versions", _table(("what", "version"), audit.versions.items())),
    ]
    cards = "".join(
        f'<div class="fact"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in facts.items()
    )
    banner = "" if audit.passed else f'<div class="banner"><strong>{verdict}</strong>{_failures(audit)}</div>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" '
        f'content="{POLICY}"><title>Privacy audit</title><style>{CSS}</style></head><body><main><h1>Privacy audit</h1>'
        f'<p class="soft">{made}</p>{banner}<p>{escape(INTRODUCTION)}</p><div class="facts">{cards}</div>'
        f"{''.join(parts)}</main></body></html>"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _failures(audit: Audit) -> str:
    failed = (result for result in audit.results if not result.passed)
    return "".join(f"<p>{escape(result.name)}: {escape((result.failure or '')[:400])}</p>" for result in failed)


def _results(audit: Audit) -> str:
    rows = [
        (result.name, result.tried, "passed" if result.passed else f"failed: {(result.failure or '')[:300]}")
        for result in audit.results
    ]
    return _table(("what", "how often", "outcome"), rows)


def _losses(audit: Audit) -> str:
    text = (
        "<p>The largest privacy loss between neighbours as a share of what was charged: 1 is tight, more is wrong.</p>"
    )
    rows = [(loss.door, f"{loss.pairs:,}", f"{loss.share:.6f}") for loss in audit.losses]
    return text + _table(("door", "pairs of neighbours", "largest loss / charge"), rows)


def _bounds(audit: Audit) -> str:
    text = (
        "<p>Epsilon is at least the bound, except with probability 1e-6; a bound above the claim refutes it. "
        "Production randomness; the event was chosen on other samples.</p>"
    )
    rows = [
        (b.door, f"{b.claim:g}", f"{b.bound:.3f}", f"{b.samples:,}", b.event, "holds" if b.holds else "REFUTED")
        for b in audit.bounds
    ]
    return text + _table(("door", "claimed epsilon", "lower bound", "samples", "event", "claim"), rows)


def _questions(audit: Audit) -> str:
    found = audit.questions
    text = (
        f"<p>{found.questions:,} questions, of which {found.refused:,} were refused before any charge. Each accepted "
        "one gave the value of an exact reference on two neighbouring tables, and the two differed by at most what was "
        f"priced; faults: {len(found.faults)}.</p>"
    )
    doors = _table(("door", "times"), ((door, f"{times:,}") for door, times in found.doors.most_common()))
    sorts = _table(("kind of question", "number"), ((kind, f"{n:,}") for kind, n in found.kinds.most_common()))
    faults = _table(("fault",), [(str(fault),) for fault in found.faults[:20]]) if found.faults else ""
    return f'{text}{faults}<div class="two">{doors}{sorts}</div>'


def _mutants(audit: Audit) -> str:
    text = "<p>Each is a deliberately broken variant of the library. An audit that misses them misses real faults.</p>"
    rows = [
        (mutant.name, mutant.room, mutant.killer, (mutant.said or "")[:160] if mutant.said is not None else "SURVIVED")
        for mutant in audit.mutants
    ]
    return text + _table(("mutant", "room", "check", "what the check said"), rows)
