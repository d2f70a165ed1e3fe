"""Sampled for other versions, each test runs in one part, with one of its cases; modules are imported in all parts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parent.parent / ".ci"
CASES = """
import pytest

def test_single(): pass

@pytest.mark.parametrize("case", range(5))
def test_many(case): pass

class TestGroup:
    @pytest.mark.parametrize("case", ["a[b]", "c"])
    def test_inside(self, case): pass
"""


def sampled(folder: Path, part: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "sample", "--sample", part]
    environment = {**os.environ, "PYTHONPATH": str(TOOLS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    told = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    return re.findall(r"^(\S+\.py::[\w:]+)", told, re.MULTILINE)


def test_two_parts_run_each_test_once_and_the_imports_twice(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "test_rooms.py").write_text(CASES)
    parts = [sampled(tmp_path, f"{part}/2") for part in (1, 2)]
    rooms = [name for name in parts[0] if name.startswith("test_rooms.py")]
    assert len(rooms) == 1 + 5 + 2
    assert rooms == [name for name in parts[1] if name.startswith("test_rooms.py")]
    assert sorted(name for part in parts for name in part if name not in rooms) == [
        "test_cases.py::TestGroup::test_inside",
        "test_cases.py::test_many",
        "test_cases.py::test_single",
    ]
