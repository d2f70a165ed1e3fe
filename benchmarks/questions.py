"""One-off audit by questions: as many as asked for, over several processes, with the figures that are reported.

    python benchmarks/questions.py --count 1000000 --processes 2 --record --resume

A run may be stopped at any time: what it recorded is kept, and `--resume` goes on from there. Every batch is drawn
from its own seed, so a fault names the seed that shows it again:

    python benchmarks/questions.py --seed 1033 --count 1
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from maquette.audit import Findings, audit_batch
from maquette.audit.questions import PER_TABLE
from recording import record, recorded

STEP = 20  # batches between two records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="questions, at least")
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the first batch")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long, and say how many were asked")
    parser.add_argument("--record", action="store_true", help="keep the figures for the reliability page, as they grow")
    parser.add_argument("--name", default="questions", help="under which the figures are kept")
    parser.add_argument("--resume", action="store_true", help="go on after the last recorded batch of this name")
    parser.add_argument("--json", type=Path, default=None, help="also write the figures")
    arguments = parser.parse_args()
    before = recorded().get(arguments.name, {}) if arguments.resume else {}
    found, started = _found(before), time.perf_counter()
    seed, first_seed = before.get("next seed", arguments.seed), before.get("first seed", arguments.seed)
    figures: dict[str, Any] = {}
    with ProcessPoolExecutor(arguments.processes) as pool:
        while found.questions < arguments.count:
            step = range(seed, seed + min(STEP, -(-(arguments.count - found.questions) // PER_TABLE)))
            for batch in pool.map(audit_batch, step):
                found.add(batch)
            seed = step.stop
            minutes = (time.perf_counter() - started) / 60
            figures = _figures(found, before, minutes) | {"first seed": first_seed, "next seed": seed}
            print(f"{minutes:.1f} min: {found}", file=sys.stderr, flush=True)
            if arguments.record:
                record(arguments.name, figures)
            if arguments.minutes is not None and minutes > arguments.minutes:
                break
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2, ensure_ascii=False), encoding="utf-8")
    print(json.dumps(figures, indent=2, ensure_ascii=False))
    return int(figures.get("faults", 0) > 0)


def _found(before: Mapping[str, Any]) -> Findings:
    """What earlier runs tried; their faults are kept as texts."""
    kinds, doors = Counter(before.get("by sort", {})), Counter(before.get("by door", {}))
    return Findings(before.get("questions", 0), before.get("refused", 0), kinds, doors)


def _figures(found: Findings, before: Mapping[str, Any], minutes: float) -> dict[str, Any]:
    return {
        "questions": found.questions,
        "refused": found.refused,
        "asked": sum(found.doors.values()),
        "faults": before.get("faults", 0) + len(found.faults),
        "minutes": round(before.get("minutes", 0.0) + minutes, 1),
        "by sort": dict(found.kinds.most_common()),
        "by door": dict(found.doors.most_common()),
        "first faults": [*before.get("first faults", []), *map(str, found.faults)][:20],
    }


if __name__ == "__main__":
    sys.exit(main())
