"""Fuzz the PostgreSQL door: python benchmarks/pgwire_fuzz.py --frames 1000000. Loopback only.

The frames are those of tests/pgwire/pg_noise.py: right, odd and broken, in any order, before and after login. Counted
are the frames that the door has read: a broken one ends its connection, and what was sent behind it is lost. Reported
are frames, connections, processor time, memory at a tenth and at the end, errors that the door did not expect (none),
charges (none), and whether a client is served afterwards.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "pgwire"))


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=1_200.0, help="stop after this much time")
    given = parser.parse_args()

    from pg_client import RawClient, rows
    from pg_door import Door
    from pg_noise import storm

    from maquette.service.pgwire import Limits

    door = Door(Path(tempfile.mkdtemp()), limits=Limits(wrong_seconds=0.0, recheck_seconds=60.0))
    unexpected: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: unexpected.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("maquette.service.pgwire").addHandler(listener)
    me, before, begun = psutil.Process(), door.units(), time.monotonic()
    sent, used, early, step = 0, 0, 0, max(given.frames // 100, 1_000)
    while sent < given.frames and time.monotonic() - begun < given.seconds:
        used += storm(door, step, seed=sent)
        sent += step
        if not early and sent >= given.frames // 10:
            early = me.memory_info().rss
    with RawClient(door.port).login("alice", door.tokens["alice"]) as client:
        served = list(rows(client.query("SELECT 1"))) == [["1"]]
    print(f"frames {sent:,}, connections {used:,}, processor time {time.process_time():.0f} s (client and server)")
    print(f"memory {early / 2**20:.0f} MiB at a tenth, {me.memory_info().rss / 2**20:.0f} MiB at the end")
    print(f"errors that the door did not expect: {len(unexpected)} {unexpected[:3]}")
    print(f"charged {door.units() - before} units; a client is served: {served}; open: {len(door.server.connections)}")
    door.close()


if __name__ == "__main__":
    main()
