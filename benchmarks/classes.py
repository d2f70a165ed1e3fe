"""Special query classes: error and time of each against its baselines.

python benchmarks/classes.py [--quick] [--charts FOLDER] [PART ...]

Parts: cuts, disjunctions, distances, game, lookups; each docstring says what it compares. Rows are generated.
"""

from __future__ import annotations

import argparse
import os
import time
from importlib import import_module
from pathlib import Path

from rich.console import Console

for variable in ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):  # before numpy starts its threads
    os.environ.setdefault(variable, "1")

PARTS = ("cuts", "disjunctions", "distances", "game", "lookups")


def main() -> None:
    parser = argparse.ArgumentParser(description="Error and time of the special query classes.")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--charts", type=Path, help="write charts (SVG) into this folder")
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    if given.charts:
        given.charts.mkdir(parents=True, exist_ok=True)
    console = Console(width=160)
    for name in given.parts:
        start = time.perf_counter()
        import_module(f"query_classes.{name}").run(console, given.quick, given.charts)
        console.print(f"  {name}: {time.perf_counter() - start:,.0f} s\n")


if __name__ == "__main__":
    main()
