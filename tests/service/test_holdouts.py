"""Holdouts over HTTP: certified scores, entries that are scored once, a leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rooms import SCHEMA, house, rows, settings

from maquette.errors import QueryError
from maquette.service import Service
from maquette.service.config import HoldoutConfig

LINES = "\n".join(["age,churned", *(f"{20 + i % 60},{'yes' if i % 3 else 'no'}" for i in range(900))]).encode()


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


@pytest.mark.thorough
def test_a_holdout_is_registered_from_a_file_and_is_there_after_a_restart(tmp_path: Path) -> None:
    config = settings(tmp_path)
    with house(config) as made:

        def call(method: str, path: str, who: str = "custodian", **body: object) -> dict[str, Any]:
            return made.call(who, method, path, json=body).json()

        def upload() -> dict[str, Any]:
            sent = made.call("custodian", "POST", "/v1/drafts/upload?filename=churn.csv", content=LINES)
            return sent.json()

        draft = upload()
        register = {"draft": draft["id"], "name": "churn", "target": "churned"}
        assert call("POST", "/v1/holdouts", who="gus", **register)["status"] == 403
        assert call("POST", "/v1/holdouts", **{**register, "target": "nothing"})["status"] == 422
        assert call("POST", "/v1/holdouts", **{**register, "target": None})["status"] == 422
        unread = call("POST", "/v1/holdouts", **register, conditions=True)
        assert "not reviewed" in unread["detail"]
        call("PUT", f"/v1/drafts/{draft['id']}", columns=draft["columns"], reviewed=True)
        facts = call("POST", "/v1/holdouts", **register, conditions=True)
        assert facts["rows"] == 900
        scored = call("POST", "/v1/holdouts/churn/entries", who="gus", entry="all yes", predictions=["yes"] * 900)
        assert abs(scored["value"] - 2 / 3) <= scored["half_width"]
        far = call("POST", "/v1/holdouts/churn/entries", entry="far", statistic="absolute", predictions=["no"] * 900)
        assert abs(far["value"] - 2 / 3) <= far["half_width"]
        odd = call("POST", "/v1/holdouts/churn/entries", entry="odd", predictions=["perhaps"] * 900)
        assert (odd["status"], odd["expected"]) == (422, "true or false, or yes or no")
        assert call("POST", "/v1/holdouts/churn/ask", who="gus", where="churned AND age >= 30")["half_width"] > 0
        again = upload()
        for name in ("churn", "other_name"):  # the same rows have one account of how often they were used
            assert call("POST", "/v1/holdouts", draft=again["id"], name=name, target="churned")["status"] == 422
        call("PUT", f"/v1/drafts/{again['id']}", columns=again["columns"], reviewed=True)
        table = call("POST", f"/v1/drafts/{again['id']}/publish", name="rows", epsilon=1.0, delta=1e-9, alpha=0.3)
        assert table["status"] == 422, "rows of a holdout are not opened as a table"
        token = call("POST", "/v1/tokens", name="eve", tables=["churn"])
        assert token["tables"] == ["churn"]
    with Service(config) as restarted:
        board = restarted.holdouts["churn"].leaderboard(restarted.people.authenticate(token["token"]))
        assert {entry["entry"] for entry in board} == {"all yes", "far"}


def test_names_of_entries_are_those_of_one_person(tmp_path: Path) -> None:
    """A person named as a group is, and an entry with a slash: two entries, two scores."""
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"y": ["a", "b"] * 300}), tmp_path / "held.parquet")
    one = HoldoutConfig(name="held", source=str(tmp_path / "held.parquet"), target="y")
    with house(settings(tmp_path, holdouts=(one,))) as made:
        for name, group in (("g", None), ("x", "g")):
            made.tokens[name], _ = made.service.people.mint(name, group=group)
        path, scores = "/v1/holdouts/held/entries", []
        for who, entry, given in (("g", "x/first", ["c"] * 600), ("x", "first", ["a", "b"] * 300)):
            scores.append(
                made.call(who, "POST", path, json={"entry": entry, "predictions": given, "guess": 0.5}).json()
            )
        assert scores[0]["value"] < 0.2, scores
        assert scores[1]["value"] > 0.8, scores


def test_one_long_prediction_takes_no_memory_for_all(tmp_path: Path) -> None:
    import tracemalloc

    from maquette.service.holdouts import alike, listed

    tracemalloc.start()
    given = alike(listed(["x" * 1_000_000, *["a"] * 999]), "O")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (given == np.array(["x", *["a"] * 999], dtype=object)).sum() == 999
    assert peak < 20_000_000
    assert alike(listed(["1", 2.5, True]), "O").tolist() == ["1", "2.5", "True"]
    assert alike(listed(["1", 2.5]), "f").tolist() == [1.0, 2.5]


def test_numbers_that_are_not_finite_are_refused_before_rows_are_read(tmp_path: Path) -> None:
    """A refusal that is recorded makes every later interval wider: nobody may cause one for nothing."""
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"z": [0.5, 1.5] * 300}), tmp_path / "held.parquet")
    one = HoldoutConfig(name="held", source=str(tmp_path / "held.parquet"), target="z")
    with house(settings(tmp_path, holdouts=(one,))) as made:
        held, who = made.service.holdouts["held"], made.service.people.authenticate(made.tokens["gus"])
        for number, bound in ((float("nan"), 1.0), (float("inf"), 1.0), (1.0, float("inf"))):
            with pytest.raises(QueryError, match="not a finite number"):
                held.submit(who, "odd", [number] * 600, statistic="squared", bound=bound, guess=0.5)
        assert held.submit(who, "far", [1e308] * 600, statistic="squared", guess=0.5).value > 0.8
