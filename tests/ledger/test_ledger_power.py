"""Power loss: whatever the disk kept of what was not yet synced, every answer that was told is there afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_disk import LOSSES, RECORDER, Judgement, judge, record

from preloaded import built

IMAGES = 150


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory, RECORDER)


def judged(recorder: Path, tmp_path: Path, **variant: str) -> Judgement:
    return judge(record(recorder, tmp_path, **variant), IMAGES, seed=3)


@pytest.mark.thorough
def test_no_told_answer_is_lost_with_the_power_and_no_other_loss_goes_unnoticed(recorder: Path, tmp_path: Path) -> None:
    judgement = judged(recorder, tmp_path)
    assert judgement.bad.total() == 0, judgement
    assert judgement.told > 100
    assert all(judgement.refused[loss] > IMAGES // 10 for loss in LOSSES), judgement


@pytest.mark.thorough
def test_a_ledger_of_version_01_loses_nothing_while_it_gets_its_head(recorder: Path, tmp_path: Path) -> None:
    judgement = judge(record(recorder, tmp_path, start="version-0.1"), IMAGES, seed=4)
    assert judgement.bad.total() == 0, judgement
    assert judgement.refused.total() > IMAGES // 2, judgement


@pytest.mark.thorough
@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_same_judgement_catches_missing_syncs(recorder: Path, tmp_path: Path, synchronous: str) -> None:
    assert judged(recorder, tmp_path, synchronous=synchronous).bad["power cut"] > IMAGES // 10


@pytest.mark.thorough
def test_the_same_judgement_catches_missing_syncs_of_the_directory(recorder: Path, tmp_path: Path) -> None:
    records = record(recorder, tmp_path)
    unsynced = [step for step in records if step.kind != b"S" or step.path.name != "live"]
    assert len(unsynced) < len(records)
    assert judge(unsynced, IMAGES, seed=3).bad["power cut"] > IMAGES // 10


@pytest.mark.thorough
def test_the_same_judgement_catches_a_ledger_without_a_head(recorder: Path, tmp_path: Path) -> None:
    judgement = judged(recorder, tmp_path, head="none")
    assert judgement.bad["power cut"] == 0
    assert judgement.bad["log lost"] > IMAGES // 10, judgement
    assert judgement.bad["older copy"] > IMAGES // 10, judgement


@pytest.mark.thorough
def test_the_same_judgement_catches_a_head_that_is_written_after_the_answer_is_told(
    recorder: Path, tmp_path: Path
) -> None:
    judgement = judged(recorder, tmp_path, head="late")
    assert judgement.bad["power cut"] == 0
    assert judgement.bad["older copy"] > IMAGES // 30, judgement
