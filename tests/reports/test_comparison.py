"""Comparison of two releases, and numeric columns as histograms."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import maquette as mq
from maquette.cli import main
from maquette.errors import DataError
from maquette.reports import compare, report
from maquette.reports.comparison import changes
from maquette.reports.histograms import drawn_column
from maquette.reports.subject import Seen, subject_of
from maquette.reports.tables import Cell, column_cells
from maquette.schema import Column

AGE = mq.Integer("age", 0, 99, width=10)


@cache
def made(shift: float, extra: bool = False) -> mq.Release:
    rng = np.random.default_rng(3)
    columns: list[Column] = [AGE, mq.Number("gain", 0, 1000, bins=10, atoms=[0], nullable=True)]
    rows = {"age": np.clip(rng.normal(40 + shift, 15, 4_000), 0, 99).astype(int)}
    rows["gain"] = np.where(rng.random(4_000) < 0.5, 0.0, rng.uniform(0, 1000, 4_000))
    if extra:
        columns.append(mq.Boolean("<b>new"))
        rows["<b>new"] = rng.random(4_000) < 0.5
    schema = mq.Schema(columns)
    with mq.Curator(mq.open_table(rows, schema), mq.Budget(epsilon=3.0)) as curator:
        return mq.release(curator, mq.marginals(schema, k=1), check=False)


def test_a_shift_is_found_and_noise_is_not(tmp_path: Path) -> None:
    found = changes(subject_of(made(0)), subject_of(made(12)))
    assert found[0].column == "age"
    assert found[0].clear
    assert not any(change.clear for change in changes(subject_of(made(0)), subject_of(made(0))))


@pytest.mark.thorough
def test_the_page_compares_and_escapes(tmp_path: Path) -> None:
    page = compare(made(0), made(12, extra=True), tmp_path / "c.html", names=("2024", "<i>2025"))
    text = page.read_text(encoding="utf-8")
    assert "&lt;i&gt;2025" in text
    assert "<i>2025" not in text
    assert "Only in &lt;i&gt;2025: &lt;b&gt;new." in text
    assert "add up to at most <b>6</b>" in text
    assert 'scope="row"' in text
    with pytest.raises(DataError, match="no folder"):
        compare(made(0), made(0), tmp_path / "none" / "c.html")


@pytest.mark.thorough
def test_the_command_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made(0).save("a.maq")
    made(12).save("b.maq")
    monkeypatch.setattr(sys, "argv", ["maquette", "report", "a.maq", "--compare", "b.maq", "--out", "c.html"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code, capsys.readouterr().err
    assert "a.maq and b.maq, compared" in Path("c.html").read_text(encoding="utf-8")


def test_even_bins_are_a_histogram_on_the_line_of_numbers() -> None:
    subject = subject_of(made(0))
    cells = column_cells(subject, "gain")
    spec, caption = drawn_column(subject.schema["gain"], cells)
    bars, bands = (layer["encoding"] for layer in spec["layer"])
    assert (bars["x"]["field"], bars["x2"]["field"]) == ("from", "to")
    assert (bands["y"]["field"], bands["y2"]["field"]) == ("low", "high")
    assert caption.startswith("Missing: ")
    values = next(iter(spec["datasets"].values())) if "datasets" in spec else spec["data"]["values"]
    assert values[0]["label"] == "0"
    assert values[0]["from"] < 0 < values[0]["to"], "a single value has a visible bar"


def test_uneven_bins_are_drawn_side_by_side() -> None:
    column = mq.Number("x", edges=[0, 1, 10, 100, 1000, 10_000])
    cells = [
        Cell((label,), Seen(0.2, 0.1, 0.3, True), (float(low), float(high)))
        for label, low, high in zip(column.labels, column.boundaries, column.boundaries[1:], strict=False)
    ]
    spec, caption = drawn_column(column, cells)
    assert "different widths" in caption
    assert "from" not in str(spec["layer"][0]["encoding"])


@pytest.mark.thorough
def test_a_page_can_be_read_without_eyes_or_mouse() -> None:
    text = report(made(0))
    assert text.count("<caption>Shares of") == 2
    assert '<a class="skip" href="#short">' in text
    assert '<nav aria-label="Sections">' in text
    assert "<tr><th>" not in text
    assert '<div class="scroll">' not in text
    assert "@page" in text
