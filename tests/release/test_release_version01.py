"""Releases saved by version 0.1 load, answer the same numbers, and are saved again as the same bytes.

The files are of generated rows, one for every kind of model and evidence that version 0.1 could save; what it answered
from them stands in `version-0.1-answers.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq

FILES = Path(__file__).with_name("files")
SAID: dict[str, dict[str, Any]] = json.loads((FILES / "version-0.1-answers.json").read_text(encoding="utf-8"))
KINDS = {
    "DenseModel",
    "GraphicalModel",
    "MergedModel",
    "ParityAnswers",
    "ParityModel",
    "Tables",
    "WeightedRecords",
    "MergedEvidence",
    "NoEvidence",
    "Residuals",
}


def compared(answer: mq.Answered, said: list[Any]) -> None:
    """The same values. Intervals may have become narrower, never wider, and hold the value."""
    for number, (value, low, high) in zip(answer.numbers, np.reshape(said, (-1, 3)), strict=True):
        assert number.value == pytest.approx(value, rel=1e-9, abs=1e-12)
        slack = 1e-9 * max(1.0, abs(low), abs(high))
        assert low - slack <= number.low <= number.value <= number.high <= high + slack


def opened(name: str) -> mq.Release:
    return mq.Release.load(FILES / f"version-0.1-{name}.maq", digest=SAID[name]["digest"])


def test_the_files_hold_every_kind() -> None:
    assert {facts[role] for facts in SAID.values() for role in ("model", "evidence")} == KINDS


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("name", SAID)
def test_a_release_of_version_01_answers_as_it_did(name: str) -> None:
    release, said = opened(name), SAID[name]
    assert (type(release.model).__name__, type(release.evidence).__name__) == (said["model"], said["evidence"])
    assert release.certificate.method == said["method"]
    assert release.certificate.version == "0.1.0"
    assert release.rows == pytest.approx(said["rows"], rel=1e-12)
    column, masses = said["marginal"]
    assert release.marginal(column) == pytest.approx(np.array(masses), rel=1e-9)
    for question, values in said["answers"].items():
        compared(release.answer(question), values)
    if said["sample"] is not None:
        sampled = release.sample(4, rng=np.random.default_rng(0)).to_pylist()
        # Version 0.1 gave the middle of a bin; values are now spread over it, so the levels are compared.
        drawn = [[str(value) for value in row.values()] for row in sampled]
        one, other = (
            release.schema.encode(dict(zip(release.schema.names, map(list, zip(*rows, strict=True)), strict=True)))
            for rows in (drawn, said["sample"])
        )
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize("name", SAID)
def test_a_release_of_version_01_is_saved_again_as_the_same_bytes(name: str, tmp_path: Path) -> None:
    assert opened(name).save(tmp_path / "again.maq") == SAID[name]["digest"]
