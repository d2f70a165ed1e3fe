"""Figures of the reliability runs, kept together: each script calls `record`, and `reliability.py` makes the page.

The file holds no date and no name of a machine, so that it changes only when a figure does.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results" / "reliability.json"


def record(name: str, figures: Mapping[str, Any], path: Path = RESULTS) -> None:
    """Merge the figures of one run, under its name, into the file; the version is added. Runs may end together."""
    path.parent.mkdir(parents=True, exist_ok=True)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        known = {**recorded(path), name: {**figures, "version": version("maquette")}}
        whole = path.with_suffix(".tmp")
        whole.write_text(json.dumps(known, indent=1, sort_keys=True, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(whole, path)
    finally:
        os.close(directory)


def recorded(path: Path = RESULTS) -> dict[str, Any]:
    """What was recorded, by name."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found
