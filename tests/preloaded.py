"""Libraries in C that are preloaded into a process: they record what it does to its files, or make that fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def built(factory: pytest.TempPathFactory, source: Path) -> Path:
    """The same for tests, which are skipped where it cannot be done."""
    library = build(factory.mktemp(source.stem), source)
    if library is None:
        assert not os.environ.get("MAQUETTE_REQUIRE_ALL"), "tests of failing disks need Linux and a C compiler"
        pytest.skip("needs Linux and a C compiler")
    return library
