"""Disks that fail, fill up or become read-only at any call, and clocks that jump: nothing unbacked is ever told."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_checks import ask, contents, opened, quick_directory

import maquette.privacy
from preloaded import FAILING, built

HARNESS = Path(__file__).with_name("ledger_shim.py")
PLACES = 30


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, FAILING)


@pytest.fixture
def quick() -> Iterator[Path]:
    with quick_directory() as directory:
        yield directory


def play(failing: Path, scene: str, *arguments: object) -> Any:
    command = [sys.executable, str(HARNESS), scene, *map(str, arguments)]
    environment = {**os.environ, "LD_PRELOAD": str(failing)}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=300)
    return json.loads(output.stdout)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("forever", [0, 1], ids=["once", "for ever"])
@pytest.mark.parametrize("fault", ["EIO on sync", "EIO on write", "disk full", "read-only"])
def test_whichever_call_fails_the_ledger_stops_and_nothing_told_is_unbacked(
    failing: Path, quick: Path, fault: str, forever: int
) -> None:
    report = play(failing, "fail", quick, fault, forever, PLACES)
    assert (report["crashed"], report["unbacked"], report["told_after_stopping"]) == (0, 0, 0), report
    assert report["unclear"] == 0, report
    assert min(report["unopened"], report["stopped"], report["told"]) > 0, report
    assert report["unopened"] + report["stopped"] > PLACES // 2, report


@pytest.mark.thorough
def test_the_same_judgement_catches_a_ledger_that_does_not_stop(failing: Path, quick: Path) -> None:
    report = play(failing, "fail", quick, "EIO on sync", 0, PLACES, "GoesOn")
    assert report["told_after_stopping"] > 0, report


def test_no_decision_follows_the_clock(failing: Path, tmp_path: Path) -> None:
    report = play(failing, "clock", tmp_path)
    assert report["years"] > 50, "the clock did jump"
    assert report["same"], report
    assert {"ledger.request-lost", "ledger.request-busy", "Recorded", "Ticket", "budget.exceeded"} <= {
        each for each in json.loads(report["story"]) if isinstance(each, str)
    }


def test_times_of_files_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path) as ledger:
        ask(ledger, "a")
        expected = contents(ledger)
    for moment in (0, 4_000_000_000):
        for file in tmp_path.iterdir():
            os.utime(file, (moment, moment))
        with opened(path) as ledger:
            assert contents(ledger) == expected


def test_no_source_of_the_account_knows_a_clock() -> None:
    sources = sorted(Path(maquette.privacy.__file__).parent.rglob("*.py"))
    assert len(sources) > 10
    clocks = {"time", "datetime", "sched", "calendar"}
    words = ("current_time", "current_date", "strftime", "julianday", "unixepoch", "datetime(")
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                assert not clocks & {name.name.partition(".")[0] for name in node.names}, source
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in clocks, source
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not any(word in node.value.lower() for word in words), source


def test_a_read_only_place_is_named(failing: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "ledger"):
        pass
    refusal = play(failing, "read_only", tmp_path)["refusal"]
    assert "cannot be opened" in refusal, refusal
    assert "Read-only file system" in refusal, refusal
