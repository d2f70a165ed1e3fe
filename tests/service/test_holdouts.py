"""Holdouts over HTTP: certified scores, entries that are scored once, a leaderboard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rooms import SCHEMA, house, rows, settings

from maquette.service.config import HoldoutConfig


def test_a_leaderboard(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    held = rows(2_000, seed=9)
    pyarrow.parquet.write_table(pa.table(held), tmp_path / "held.parquet")
    (tmp_path / "held.toml").write_text(SCHEMA.dumps())
    one = HoldoutConfig(
        name="held", source=str(tmp_path / "held.parquet"), schema=str(tmp_path / "held.toml"), target="smoker"
    )
    with house(settings(tmp_path, holdouts=(one,))) as made:
        path = "/v1/holdouts/held"
        assert made.call("custodian", "GET", path).json()["rows"] == 2_000
        assert made.call("ada", "GET", path).status_code == 404, "ada may see the table people alone"
        right = [bool(value) for value in held["smoker"]]
        wrong = [not value for value in right]
        for entry, predictions in (("good", right), ("bad", wrong)):
            body = {"entry": entry, "predictions": predictions, "guess": 0.5}
            score = made.call("gus", "POST", f"{path}/entries", json=body)
            assert score.status_code == 200, score.text
        board = made.call("gus", "GET", f"{path}/leaderboard").json()["entries"]
        assert [one["entry"] for one in board] == ["good", "bad"]
        again = made.call("gus", "POST", f"{path}/entries", json={"entry": "good", "predictions": wrong}).json()
        assert again["value"] == board[0]["value"], "an entry is scored once"
        short = made.call("gus", "POST", f"{path}/entries", json={"entry": "x", "predictions": [True]})
        assert short.status_code == 422
        asked = made.call("gus", "POST", f"{path}/ask", json={"where": "smoker", "guess": 0.3}).json()
        assert abs(asked["value"] - np.mean(held["smoker"])) <= asked["half_width"]
        code = made.call(
            "gus", "POST", f"{path}/entries", json={"entry": "x", "statistic": "eval", "predictions": right}
        )
        assert code.status_code == 422
