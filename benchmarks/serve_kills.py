"""kill -9 of one of three server processes that share a table through PostgreSQL, under load.

    python benchmarks/serve_kills.py --count 1000 [--clients 6] [--record]

Starts a PostgreSQL of its own on this machine, and forks servers from a process that has imported everything. Most of
them end themselves with SIGKILL at a chosen place: before or after the commit of a charge, before or after its answer
is recorded, before the reply; the others are killed at a random moment. Clients ask with keys, cut some of their
connections, and ask again under the same key. Afterwards every key is asked again, and the ledger is opened alone,
verified and compared with everything clients were told: zero overspending, conflicting replays and unbacked answers.
The run is cut into rounds of fresh ledgers, and recorded after each.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "service")]

KILLS_PER_ROUND = 50


def main() -> None:
    from kill_servers import Nursery, Outcome, Servers, torture

    from postgres_server import running
    from recording import record

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=50, help="How many times a server is killed.")
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    total, nursery = Outcome(), Nursery()
    while (done := sum(total.kills.values())) < given.count:
        with tempfile.TemporaryDirectory() as folder, running() as server:
            servers = Servers(nursery, Path(folder), server.address, table=f"people_{given.seed + done}")
            kills = min(KILLS_PER_ROUND, given.count - done)
            total += torture(servers, kills=kills, clients=given.clients, seed=given.seed + done)
        figures = _figures(total)
        print(figures, dict(+total.faults), flush=True)
        if given.record:
            record("serve_kills", figures)
    nursery.close()
    print(f"CPU minutes {sum(os.times()[:4]) / 60:.1f}")
    sys.exit(1 if +total.faults else 0)


def _figures(total: Any) -> dict[str, Any]:
    return {
        "kills": sum(total.kills.values()),
        "asked": total.asked,
        "answered": total.answered,
        "connections_cut": total.cut,
        "lost": total.states["lost"],
        "faults": sum(total.faults.values()),
        "places": _plain(total.kills),
        "refused_for_good": _plain(total.refusals),
        "charges": _plain(total.states),
    }


def _plain(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))


if __name__ == "__main__":
    main()
