"""Typed programs need no isinstance: the checker accepts them as they stand, and they run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typed_callers

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.mark.thorough
def test_the_checker_accepts_typed_callers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(HERE / "typed_callers.py")],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "MYPYPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = (HERE / "typed_callers.py").read_text(encoding="utf-8")
    assert "isinstance(" not in text
    assert "type: ignore" not in text


def test_typed_callers_run() -> None:
    with typed_callers.custodian() as curator:
        counts = typed_callers.analyst(curator)
        assert counts["women"] == counts["f"]
        assert counts["all"] == counts["f"] + counts["m"]
        assert typed_callers.questions(curator)[-1] == "cache"
        assert typed_callers.publisher(curator) == 4
        code, advice, difference = typed_callers.engineer(curator)
        assert (code, difference > 0) == ("budget.exceeded", True)
        assert advice is not None
    assert 0.0 <= typed_callers.data_scientist([0.5] * 1000) <= 1.0
