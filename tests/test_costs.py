"""The page of costs is made from what was recorded, and its cost model from the same figures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import scale_page
from recording import recorded


def test_the_page_is_up_to_date() -> None:
    made = scale_page.page(recorded(scale_page.SCALE), recorded(scale_page.COLUMNS))
    assert scale_page.PAGE.read_text(encoding="utf-8") == made, "run `python benchmarks/scale.py --chart`"
    assert scale_page.CHART.is_file()


def test_a_line_through_two_sizes() -> None:
    figures = {"1e+06 maquette": {"open": 1.5}, "1e+07 maquette": {"open": 6.0}}
    start, slope = scale_page.line(figures, "open")
    assert start == pytest.approx(1.0)
    assert slope * 1e6 == pytest.approx(0.5)
