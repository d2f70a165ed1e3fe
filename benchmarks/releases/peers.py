"""Peers from PyPI, each in an environment of its own: what they need must not meddle with what we need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parent.parent
OPENDP = ("opendp", ("opendp[mbi]==0.16.0", "mbi==1.1.0", "pandas"), "releases.opendp_peer")
PEERS = {"AIM": OPENDP, "MST": OPENDP}  # environment, what is installed in it, the module that runs it
LIMIT = 1500.0  # seconds


def python(name: str, folder: Path) -> str:
    """The interpreter of a peer's environment, which is made if it is not there."""
    environment, needs, _ = PEERS[name]
    home = folder / environment
    interpreter = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    done = home / "installed.json"
    if not done.exists() or json.loads(done.read_text(encoding="utf-8")) != list(needs):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([str(interpreter), "-m", "pip", "install", "--quiet", *needs], check=True)
        done.write_text(json.dumps(needs), encoding="utf-8")
    return str(interpreter)


def run(name: str, folder: Path, case: dict[str, Any], limit: float) -> dict[str, Any] | str:
    """What a peer measured of itself, or why it did not."""
    try:
        interpreter = python(name, folder)
    except subprocess.CalledProcessError:
        return "could not be installed"
    command = [interpreter, "-m", PEERS[name][2], json.dumps({**case, "method": name})]
    paths = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, env=paths)
    except subprocess.TimeoutExpired:
        return f"not done in {limit:.0f} s"
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    measured: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return measured
