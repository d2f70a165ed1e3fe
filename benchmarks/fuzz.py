"""Fuzzers of what strangers hand over: SQL, conditions, schema files, saved releases, ledger files.

    python benchmarks/fuzz.py --target sql --count 1000000 --workers 2 --record
    python benchmarks/fuzz.py --target maq --only 12345          # one input again, with its traceback

Every input is a function of the seed and its number. Prints JSON; the exit code is 1 if there is a finding: an
undocumented exception, more than 2 s or 200 MB for one input, a crash, a hang, or a broken property.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "fuzz"), str(ROOT / "benchmarks")]

from fuzz_runner import Outcome, made, run_in_workers  # noqa: E402
from fuzz_targets import TARGETS, target_of  # noqa: E402


def figures(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain numbers."""
    return {
        "inputs": outcome.count,
        "findings": outcome.found,
        "outcomes": dict(outcome.outcomes.most_common()),
        "inputs_per_second": round(outcome.count / outcome.seconds),
        "slowest_seconds": round(outcome.slowest[0], 3),
        "slowest_input": outcome.slowest[1],
        "most_megabytes": round(outcome.peak[0], 1),
        "largest_input": outcome.peak[1],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, help="stop after so long, and say how many inputs were run")
    parser.add_argument("--only", type=int, help="run this one input in this process and show it")
    parser.add_argument("--record", action="store_true", help="write the figures to results/reliability.json")
    settings = parser.parse_args()
    if settings.only is not None:
        target = target_of(settings.target)
        given = made(target, settings.seed, settings.only)
        print(repr(given)[:4000])
        print(target.run(given))
        return 0
    outcome = run_in_workers(
        settings.target,
        settings.seed,
        first=settings.first,
        count=settings.count,
        workers=settings.workers,
        target_of=target_of,
        minutes=settings.minutes,
    )
    found = {"target": settings.target, "seed": settings.seed, **figures(outcome)}
    print(json.dumps({**found, "shown": outcome.findings}, indent=1))
    if settings.record:
        from recording import record

        record(f"fuzz-{settings.target}", found)
    return int(outcome.found > 0)


if __name__ == "__main__":
    sys.exit(main())
