"""The fast tier leaves out what is marked thorough, says how much, and keeps cases of it where the mark says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HYPOTHESIS = "_hypothesis_pytestplugin"
CASES = """
import pytest
from hypothesis import given, settings
from hypothesis.strategies import integers

@pytest.mark.thorough
def test_slow(): pass

@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("case", range(9))
def test_many(case): pass

def test_quick(): pass

@settings(max_examples=40, database=None)
@given(integers())
def test_property(number): print("tried", number)
"""


def run(folder: Path, *arguments: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = thorough\n")
    (folder / "conftest.py").write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\nfrom tiers import *\n")
    (folder / "test_cases.py").write_text(CASES)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist",
        "-p",
        HYPOTHESIS,
        *arguments,
    ]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, check=True).stdout


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_the_fast_tier_says_what_it_leaves_out(tmp_path: Path, workers: tuple[str, ...]) -> None:
    told = run(tmp_path, *workers, "-s")
    assert "5 passed" in told
    assert all(f"test_many[{case}]" in told for case in (0, 3, 6))
    assert workers or told.count("tried") == 10, "a quarter of the examples"
    assert "7 thorough tests were left out; `make test-all` runs them too" in told


@pytest.mark.thorough
def test_everything_runs_when_asked(tmp_path: Path) -> None:
    told = run(tmp_path, "--thorough", "-s")
    assert "12 passed" in told
    assert told.count("tried") == 40
    assert "left out" not in told


@pytest.mark.thorough
def test_a_thorough_test_runs_when_it_is_named(tmp_path: Path) -> None:
    assert "1 passed" in run(tmp_path, "test_cases.py::test_slow")


@pytest.mark.thorough
def test_workers_take_the_longest_files_first(tmp_path: Path) -> None:
    (tmp_path / "test_a_short_one.py").write_text("def test_first(): pass\ndef test_second(): pass\n")
    told = run(tmp_path, "--thorough", "-n", "1", "--dist", "loadfile", "--no-loadscope-reorder")
    assert told.index("test_slow") < told.index("test_first") < told.index("test_second")
