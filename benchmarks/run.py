"""Every benchmark, one after another: `make bench`, or `python benchmarks/run.py --quick`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    for script in sorted(HERE.glob("*.py")):
        if script.name != Path(__file__).name:
            print(f"\n== {script.stem}", flush=True)
            subprocess.run([sys.executable, str(script), *sys.argv[1:]], check=True)


if __name__ == "__main__":
    main()
