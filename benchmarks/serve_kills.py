"""kill -9 of one of three server processes that share a table through PostgreSQL, under load.

    python benchmarks/serve_kills.py --count 1000 [--clients 6] [--record]

Starts a PostgreSQL and three `maquette serve` of its own on this machine. Clients ask with keys and ask again under the
same key when a server is gone. Afterwards every key is asked again, and the ledger is opened alone, verified and
compared with everything clients were told: zero overspending, conflicting replays and unbacked answers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests"), str(Path(__file__).parents[1] / "tests" / "service")]


def main() -> None:
    from kill_servers import torture

    from postgres_server import running
    from recording import record

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=50, help="How many times a server is killed.")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--answers", type=int, default=10, help="Answers between two kills.")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, running() as server:
        found = torture(Path(folder), server.address, kills=given.count, clients=given.clients, answers=given.answers)
    figures = {
        "kills": found.kills,
        "asked": found.asked,
        "answered": found.answered,
        "refused for good": dict(found.refusals),
        "charges": dict(found.states),
        "faults": sum(found.faults.values()),
        "minutes": round((time.perf_counter() - began) / 60, 1),
    }
    print(figures, dict(+found.faults))
    if given.record:
        record("serve_kills", figures)
    sys.exit(1 if figures["faults"] else 0)


if __name__ == "__main__":
    main()
