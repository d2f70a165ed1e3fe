"""One-off audit by questions: as many as asked for, over several processes, with the figures that are reported.

    python benchmarks/questions.py --count 1000000 --processes 2 --json questions.json

Every batch is drawn from its own seed, so a fault names the seed that shows it again:

    python benchmarks/questions.py --seed 1033 --count 1
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from maquette.audit import Findings, audit_batch
from maquette.audit.questions import PER_TABLE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="questions, at least")
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first batch")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long, and say how many were asked")
    parser.add_argument("--record", action="store_true", help="keep the figures for the reliability page")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures")
    arguments = parser.parse_args()
    found, started = Findings(), time.perf_counter()
    batches = -(-arguments.count // PER_TABLE)
    seeds = range(arguments.seed, arguments.seed + batches)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for first in range(0, batches, 50):
            for batch in pool.map(audit_batch, seeds[first : first + 50]):
                found.add(batch)
            minutes = (time.perf_counter() - started) / 60
            print(f"{minutes:.1f} min: {found}", file=sys.stderr)
            if arguments.minutes is not None and minutes > arguments.minutes:
                break
    figures = {
        "questions": found.questions,
        "refused": found.refused,
        "asked": sum(found.doors.values()),
        "faults": len(found.faults),
        "minutes": round((time.perf_counter() - started) / 60, 1),
        "first seed": arguments.seed,
        "by sort": dict(found.kinds.most_common()),
        "by door": dict(found.doors.most_common()),
        "first faults": [str(fault) for fault in found.faults[:20]],
    }
    if arguments.record:
        from recording import record

        record("questions", figures)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False), encoding="utf-8")
    print(json.dumps(figures, indent=2, ensure_ascii=False))
    return 0 if found.sound else 1


if __name__ == "__main__":
    sys.exit(main())
