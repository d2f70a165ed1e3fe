"""Fuzzers of what strangers hand over: SQL, conditions, schema files, saved releases, ledger files.

    python benchmarks/fuzz.py --target sql --count 1000000 --workers 2 --record --resume
    python benchmarks/fuzz.py --target maq --only 12345          # one input again, with its traceback

Every input is a function of the seed and its number. A run may be stopped at any time: what it recorded is kept, and
`--resume` goes on after it, with the recorded seed. Prints JSON; the exit code is 1 if there is a finding: an
undocumented exception, more than 2 s or 200 MB for one input, a crash, a hang, or a broken property.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "fuzz"), str(ROOT / "benchmarks")]

from fuzz_runner import Outcome, made, run_in_workers  # noqa: E402
from fuzz_targets import TARGETS, target_of  # noqa: E402

from recording import record, recorded  # noqa: E402

SLOWEST, LARGEST = ("slowest_seconds", "slowest_input"), ("most_megabytes", "largest_input")


def before(figures: Mapping[str, Any]) -> Outcome:
    """What earlier runs recorded, to be added to."""
    if "next_input" not in figures:
        return Outcome()
    slowest, peak = ((figures[a], figures[b]) for a, b in (SLOWEST, LARGEST))
    words = Counter(figures["outcomes"])
    shown = list(figures.get("shown", []))
    return Outcome(figures["inputs"], words, shown, figures["findings"], slowest, figures["cpu_seconds"], peak)


def figures(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain numbers."""
    return {
        "inputs": outcome.count,
        "findings": outcome.found,
        "outcomes": dict(outcome.outcomes.most_common()),
        "inputs_per_cpu_second": round(outcome.count / max(outcome.seconds, 1e-9)),
        "cpu_seconds": round(outcome.seconds, 1),
        SLOWEST[0]: round(outcome.slowest[0], 3),
        SLOWEST[1]: outcome.slowest[1],
        LARGEST[0]: round(outcome.peak[0], 1),
        LARGEST[1]: outcome.peak[1],
        "shown": outcome.findings,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step", type=int, default=10_000, help="inputs between two records, each in new workers")
    parser.add_argument("--minutes", type=float, help="stop after so long, and say how many inputs were run")
    parser.add_argument("--only", type=int, help="run this one input in this process and show it")
    parser.add_argument("--record", action="store_true", help="keep the figures for the reliability page, as they grow")
    parser.add_argument("--name", help="under which the figures are kept; default: fuzz-TARGET")
    parser.add_argument("--resume", action="store_true", help="go on after the last recorded input of this name")
    settings = parser.parse_args()
    if settings.only is not None:
        target = target_of(settings.target)
        given = made(target, settings.seed, settings.only)
        print(repr(given)[:4000])
        print(target.run(given))
        return 0
    name = settings.name or f"fuzz-{settings.target}"
    known = recorded().get(name, {}) if settings.resume else {}
    total, seed = before(known), known.get("seed", settings.seed) if "next_input" in known else settings.seed
    start, began = known.get("next_input", settings.first), time.monotonic()
    left = settings.count - (total.count if settings.resume else 0)
    found: dict[str, Any] = {}
    while left > 0 and (settings.minutes is None or time.monotonic() - began < 60 * settings.minutes):
        count = min(settings.step, left)
        spent = _children()
        outcome = run_in_workers(
            settings.target, seed, first=start, count=count, workers=settings.workers, target_of=target_of
        )
        outcome.seconds = _children() - spent
        seconds = total.seconds + outcome.seconds
        total.add(outcome)
        total.seconds, start, left = seconds, start + count, left - count
        found = {"target": settings.target, "seed": seed, "next_input": start, **figures(total)}
        print(f"{total.count:,} inputs, {total.found} findings", file=sys.stderr, flush=True)
        if settings.record:
            record(name, found)
    print(json.dumps(found, indent=1))
    return int(total.found > 0)


def _children() -> float:
    """CPU seconds of the workers that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
