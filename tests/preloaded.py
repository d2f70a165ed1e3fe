"""Libraries in C that are preloaded into a process: they record what it does to its files, or make that fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FAILING = Path(__file__).with_name("failing.c")


def build(directory: Path, source: Path) -> Path | None:
    """Compile a library to preload; None where that cannot be done."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    library = directory / f"{source.stem}.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return library
