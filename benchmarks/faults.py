"""Faults in numbers: `python benchmarks/faults.py --kills 10000 --images 10000 --tampers 10000` prints one JSON line.

Processes with several clients are killed again and again, and the disks that a power cut could leave are opened, as
they are and after a loss of the log, of the head file or of the newest copy. Files are changed, or come from older
copies and from copies that went on by themselves, and must be refused or `harmless`. Every count of a fault must be 0:
`overspent` units beyond what was granted, `conflicts` (requests with two answers), `unbacked` answers told that the
ledger does not hold, `unnoticed` losses of the log after a kill, and `bad` images, which lack a told answer or do not
open after a power cut alone. `--variant` runs a ledger that is broken on purpose, which must show. The runs are cut
into rounds of fresh ledgers, so that their time grows with their number and not with its square.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests" / "ledger"
sys.path[:0] = [str(TESTS), str(TESTS.parent)]

KILLS_PER_ROUND = 500
IMAGES_PER_ROUND = 1_000
HEADS = {"NoHead": "none", "LateHead": "late"}
SYNCS = ("NORMAL", "OFF")
CRASHES = ("TellsBeforeCommit", "ForgetsToSweep")


def kills(count: int, variant: str, seed: int) -> dict[str, int]:
    """Kill -9 in rounds: the harness forks, so it runs as a program of its own."""
    total: Counter[str] = Counter(kills=0)
    while total["kills"] < count:
        crashes = min(KILLS_PER_ROUND, count - total["kills"])
        with tempfile.TemporaryDirectory() as directory:
            program = [sys.executable, str(TESTS / "ledger_harness.py"), "crash", directory, variant]
            command = [*program, str(crashes), str(seed + total["kills"])]
            output = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ))
        total.update(json.loads(output.stdout), kills=crashes)
    return dict(total)


def images(count: int, variant: dict[str, str], seed: int, *, directories: bool = True) -> dict[str, Any]:
    """Power cuts in rounds, each over a fresh recording of three boots; without `directories` none is ever synced."""
    from ledger_disk import RECORDER, judge, record

    from preloaded import build

    opened: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    told = 0
    with tempfile.TemporaryDirectory() as name:
        recorder = build(Path(name), RECORDER)
        if recorder is None:
            raise SystemExit("power-loss images need Linux and a C compiler; run with --images 0")
        for number in range(0, count, IMAGES_PER_ROUND):
            records = record(recorder, Path(name) / str(number), **variant)
            if not directories:
                records = [step for step in records if step.kind != b"S" or step.path.name != "live"]
            judgement = judge(records, min(IMAGES_PER_ROUND, count - number), seed + number)
            opened.update(judgement.images)
            bad.update(judgement.bad)
            refused.update(judgement.refused)
            told += judgement.told
    return {
        "opened": dict(opened),
        "bad": {kind: bad[kind] for kind in opened},
        "refused": {kind: refused[kind] for kind in opened},
        "told": told,
    }


def tampers(count: int, seed: int) -> dict[str, int]:
    """Changed bytes of every file, and older and forked databases under the newest head file."""
    from ledger_tamper import judge

    return dict(judge(count, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="processes to kill")
    parser.add_argument("--images", type=int, default=100, help="moments at which the power is cut")
    parser.add_argument("--tampers", type=int, default=300, help="changed bytes, older copies and forks to open")
    parser.add_argument("--seed", type=int, default=1, help="of the moments, not of any noise")
    parser.add_argument(
        "--variant", choices=[*CRASHES, *SYNCS, *HEADS, "NoDirectorySync"], help="a ledger broken on purpose"
    )
    parser.add_argument("--record", action="store_true", help="keep the figures for the reliability page")
    asked = parser.parse_args()
    broken = asked.variant
    start, processor = time.perf_counter(), os.times()
    report: dict[str, Any] = {"variant": broken}
    if asked.kills and (broken is None or broken in CRASHES):
        report["kills"] = kills(asked.kills, broken or "SqliteLedger", asked.seed)
    if asked.images and broken not in CRASHES:
        variant = {"synchronous": broken} if broken in SYNCS else {"head": HEADS[broken]} if broken in HEADS else {}
        report["images"] = images(asked.images, variant, asked.seed, directories=broken != "NoDirectorySync")
    if asked.tampers and broken is None:
        report["tampers"] = tampers(asked.tampers, asked.seed)
    spent = [after - before for before, after in zip(processor, os.times(), strict=True)]
    report["seconds"] = round(time.perf_counter() - start)
    report["cpu_seconds"] = round(sum(spent[:4]))
    print(json.dumps(report))
    if asked.record and broken is None:
        from recording import record

        for name, part in (("kills", "kills"), ("power", "images"), ("tampering", "tampers")):
            if part in report:
                record(name, report[part])


if __name__ == "__main__":
    main()
