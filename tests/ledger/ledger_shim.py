"""Failing disks and jumping clocks: run as a program with `failing.c` preloaded, it prints one JSON report.

It runs apart from the tests because it forks, which a process with threads must not do.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from ledger_checks import TERMS, request
from ledger_harness import Say, fork, hear

from maquette.errors import BudgetExceeded, LedgerError
from maquette.privacy.ledger import SqliteLedger, Ticket, sqlite
from maquette.privacy.ledger.writer import Writer

WRITE, SYNC, OPEN = 1, 2, 4
FAULTS = {
    "EIO on sync": (SYNC, errno.EIO),
    "EIO on write": (WRITE, errno.EIO),
    "disk full": (WRITE, errno.ENOSPC),
    "read-only": (WRITE | OPEN, errno.EROFS),
}


def read_only(directory: Path) -> dict[str, str]:
    """What an opener is told where nothing can be written."""
    ctypes.CDLL(None).fail_after(os.fsencode(directory), WRITE | OPEN, 0, errno.EROFS, 1)
    try:
        SqliteLedger(directory / "ledger", TERMS).close()
    except LedgerError as refusal:
        return {"refusal": str(refusal)}
    return {"refusal": ""}


class GoesOn(Writer):
    """Broken on purpose: after a failed write it takes the next one."""

    def _commit(self, group: Any) -> None:
        self._failure = None
        super()._commit(group)


def fail(directory: Path, fault: str, forever: int, places: int, variant: str = "") -> dict[str, int]:
    """Let the so many-th call on the ledger's files fail, for every place; a library preloaded here does it.

    Whatever fails, the child that uses the ledger is told so and nothing else from then on; afterwards the ledger opens
    and holds all that was told. A child whose calls all succeeded found no failure: places past the end count as such.
    """
    shim = ctypes.CDLL(None)
    kinds, error = FAULTS[fault]
    if variant:
        sqlite.Writer = GoesOn  # type: ignore[misc]
    report: Counter[str] = Counter()

    def use(say: Say, path: Path, place: int) -> None:
        shim.fail_after(os.fsencode(path.parent), kinds, place, error, forever)
        try:
            ledger = SqliteLedger(path, TERMS)
            ledger._home.connection.execute("PRAGMA wal_autocheckpoint = 6")
            stopped = 0
            for number in range(8):
                try:
                    ticket = ledger.reserve(request(f"r{number}", units=1))
                    assert isinstance(ticket, Ticket)
                    ledger.commit(ticket, b"42")
                except LedgerError as refusal:
                    stopped += 1
                    say(f"refused {int('stopped' in str(refusal))}")
                else:
                    say(f"told r{number} {stopped}")
            say(f"failed {shim.failed()}")
            os._exit(0)  # as after a kill: nothing is mended by closing
        except LedgerError:
            say("unopened")

    for place in range(places):
        path = directory / str(place) / "ledger"
        path.parent.mkdir()
        if place % 2:
            SqliteLedger(path, TERMS).close()
        child, reader = fork(partial(use, path=path, place=place))
        lines = hear(reader)
        crashed = os.waitpid(child, 0)[1] != 0
        told = {line[1] for line in lines if line[0] == "told"}
        ledger = SqliteLedger(path, TERMS)
        answered = {charge.id for charge in ledger.charges() if charge.state == "answered"}
        ledger.verify()
        ledger.close()
        report.update(
            places=1,
            crashed=crashed,
            unopened=["unopened"] in lines,
            stopped=any(line[0] == "refused" for line in lines),
            unclear=sum(line == ["refused", "0"] for line in lines),
            unbacked=len(told - answered),
            told_after_stopping=sum(line[0] == "told" and line[2] != "0" for line in lines),
            told=len(told),
        )
    return dict(report)


def clock(directory: Path) -> dict[str, object]:
    """The same story three times, with a clock that stands as it is, jumps back and jumps ahead between all steps."""
    shim = ctypes.CDLL(None)
    years = 365 * 24 * 3600
    stories, years_seen = [], set()
    for name, jumps in (("steady", [0]), ("back", [-20 * years, -30 * years]), ("both", [40 * years, -40 * years, 0])):
        story: list[object] = []
        path = directory / name
        for boot in range(3):
            ledger = SqliteLedger(path, TERMS, anchor=directory / f"{name}.anchor")
            ledger.open_guard(f"g{boot}", hits=1)
            for number in range(5):
                shim.shift_clock(ctypes.c_long(jumps[number % len(jumps)]))
                years_seen.add(time.gmtime().tm_year)
                for id in (f"{boot}.{number}", "0.0", f"open{boot}", f"open{boot - 1}"):  # noqa: A001
                    asked = request(id, units=80)
                    try:
                        outcome = ledger.reserve(asked)
                        story.append(type(outcome).__name__)
                        if isinstance(outcome, Ticket) and not asked.id.startswith("open"):
                            ledger.commit(outcome, b"42")
                    except (LedgerError, BudgetExceeded) as refusal:
                        story.append(refusal.code)
                story.append((ledger.spent(), ledger.hits_left(f"g{boot}")))
            story.append([charge.state for charge in ledger.charges()])
            ledger.verify()
            ledger.close()
        stories.append(json.dumps(story))
        shim.shift_clock(ctypes.c_long(0))
    return {"same": len(set(stories)) == 1, "years": max(years_seen) - min(years_seen), "story": stories[0]}


if __name__ == "__main__":
    scene, where, *rest = sys.argv[1:]
    arguments = [int(word) if word.isdigit() else word for word in rest]
    print(json.dumps(globals()[scene](Path(where), *arguments)))
