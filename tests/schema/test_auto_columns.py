"""Columns whose bins are still to be drawn: their wide grid, their files, and the commands that draw them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.cli import main
from maquette.errors import SchemaError
from maquette.schema import Number, Schema


@pytest.mark.parametrize(
    ("low", "high", "precision"), [(0, 1e7, 0), (1900, 2100, 0), (-5, 5, 2), (0, 1, None), (-1e12, 1e14, None)]
)
def test_the_wide_grid_follows_from_the_declaration(low: float, high: float, precision: int | None) -> None:
    column = Number("x", low, high, bins="auto", precision=precision)
    edges = column.boundaries
    assert (edges[0], edges[-1]) == (low, high)
    assert (np.diff(edges) > 0).all()
    assert 100 <= column.known <= 4_000
    if precision is not None:
        assert np.allclose(edges * 10**precision, np.round(edges * 10**precision))
    assert np.diff(edges).max() <= max((high - low) / 400, 0 if precision is None else 10**-precision)


def test_a_schema_file_keeps_the_declaration() -> None:
    schema = Schema([Number("x", 0, 1000, bins="auto", precision=0, atoms=[0], nullable=True)])
    assert 'bins = "auto"' in schema.dumps()
    again = Schema.loads(schema.dumps())
    assert again == schema
    assert again.undrawn == ("x",)
    drawn = schema.with_cuts({"x": [1, 5, 100]})
    assert drawn.undrawn == ()
    assert drawn["x"].labels[0] == "0"
    assert Schema.loads(drawn.dumps()) == drawn
    assert schema.evenly_cut()["x"].known == 17


@pytest.mark.parametrize(
    "settings",
    [
        {"low": 0, "high": 0},
        {"low": 0, "high": float("inf")},
        {"low": -1e16, "high": 0},
        {"low": 0, "high": 9, "bins": "many"},
        {"low": 0},
        {"edges": [0, 1], "low": 0, "high": 1},
    ],
)
def test_a_wrong_declaration_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="'x'"):
        Number("x", **{"bins": "auto", **settings})


def test_combinations_cannot_name_bins_that_are_not_drawn() -> None:
    columns = [Number("x", 0, 9, bins="auto"), mq.Boolean("a")]
    with pytest.raises(SchemaError, match="not been drawn yet"):
        Schema(columns, impossible=[{"x": "[0, 1)", "a": "true"}])


@pytest.mark.thorough
def test_the_command_line_draws_bins_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["maquette", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    rng = np.random.default_rng(5)
    rows = "\n".join(f"{v:.0f},{'yes' if v > 30 else 'no'}" for v in rng.exponential(40, 3_000))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(f"x,a\n{rows}\n")
    Schema([Number("x", 0, 100_000, precision=0, bins="auto"), mq.Boolean("a")]).save(tmp_path / "t.toml")
    common = ["t.csv", "--schema", "t.toml", "--epsilon", "2"]
    code, _, told = run("release", *common, "--out", "t.maq")
    assert code == 1
    assert "--bins-epsilon 0.2" in told
    assert "Nothing was charged" in told
    code, out, told = run("schema", "bins", *common, "--bins-epsilon", "0.5")
    assert code == 0, told
    schema = Schema.loads(out)
    assert schema.undrawn == ()
    assert "the bins cost epsilon 0.5" in told
    code, _, told = run("release", *common, "--ways", "1", "--out", "t.maq")
    assert code == 0, told
    assert mq.Release.load(tmp_path / "t.maq").schema == schema
