"""kill -9, races between processes, a full disk and forks; broken variants must fail the same judgement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HARNESS = Path(__file__).with_name("ledger_harness.py")


def play(scene: str, directory: Path, *arguments: object) -> Any:
    command = [sys.executable, str(HARNESS), scene, str(directory), *map(str, arguments)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ), timeout=300)
    return json.loads(output.stdout)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("kills", "least"), [(40, 2), (200, 20)])
def test_kills_leave_no_overspend_no_conflict_and_no_unbacked_answer(tmp_path: Path, kills: int, least: int) -> None:
    report = play("crash", tmp_path, "SqliteLedger", kills, 1)
    assert (report["overspent"], report["conflicts"], report["unbacked"], report["unnoticed"]) == (0, 0, 0, 0), report
    assert min(report["told"], report["replayed"], report["lost"]) > least, report


@pytest.mark.thorough
@pytest.mark.parametrize(("variant", "caught"), [("TellsBeforeCommit", "unbacked"), ("ForgetsToSweep", "conflicts")])
def test_the_same_judgement_catches_broken_ledgers(tmp_path: Path, variant: str, caught: str) -> None:
    report = play("crash", tmp_path, variant, 60, 2)
    assert report[caught] > 0, report


@pytest.mark.thorough
def test_a_kill_during_creation_leaves_a_ledger_that_opens(tmp_path: Path) -> None:
    report = play("create", tmp_path, 40)
    assert report["finished"] < report["opened"] == 40, report


@pytest.mark.thorough
def test_eight_processes_are_granted_the_limit_exactly(tmp_path: Path) -> None:
    report = play("race", tmp_path, "SqliteLedger", 8, 600)
    assert (report["granted"], report["failed"]) == (600, 0), report


@pytest.mark.thorough
def test_the_race_catches_check_then_act(tmp_path: Path) -> None:
    report = play("race", tmp_path, "ChecksThenActs", 8, 600)
    assert report["granted"] > 600, report


def test_a_disk_that_fills_up_stops_the_ledger_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    report = play("fill", tmp_path, 300_000)
    assert report["stopped"] == 1, report
    assert report["told"] > 5, report
    assert report["unbacked"] == 0, report


def test_a_fork_is_refused_and_leaves_its_parent_alone(tmp_path: Path) -> None:
    report = play("inherit", tmp_path)
    assert "Open the ledger after forking" in report["refusal"], report
    assert (report["spent"], report["locked"]) == (10, 1), report
