"""A case in a process of its own: one thread, a limit of wall time far above that of CPU time, a JSON object back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parent.parent
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
PATIENCE = 20.0  # wall seconds for a second of CPU time, on a machine that others use


def run(module: str, case: dict[str, Any]) -> dict[str, Any]:
    """What the module measured, or a note why it did not."""
    paths = os.pathsep.join([str(BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths}
    limit = PATIENCE * (60.0 + 3 * case["limit"])
    command = [sys.executable, "-m", f"releases.{module}", json.dumps(case)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"note": f"stopped after {limit:.0f} s"}
    if ended.returncode:
        return {"note": (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]}
    measured: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return measured
