"""Saved releases whose facts were written by hand, under a right seal: refused by an error of the library, or usable.

What loads is also shown, reported and described for a registry, which reads facts that answers do not need.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from release_checks import SCHEMA, Seeded, released, table_of

import maquette as mq
from maquette.errors import BudgetError, DataError, MaquetteError
from maquette.privacy import DiscreteLaplace
from maquette.privacy.ledger import Description
from maquette.releases.archive import MANIFEST, SEAL
from maquette.reports.quality import similarity

HUGE = 10**400
STEP: dict[str, Any] = {"round": 1, "columns": ["region"], "distance": 0.5, "noise": 0.1}
CHARGE: dict[str, Any] = {"door": "measure", "events": [], "columns": [["region"]]}
LAPLACE: dict[str, Any] = {"kind": "discrete-laplace", "scale": "1", "sensitivity": "1"}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("crafted") / "made.maq"
    released("laplace", table_of(SCHEMA, 500), mq.Budget(epsilon=1.0), Seeded(1)).save(path)
    with zipfile.ZipFile(path) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def written(path: Path, parts: dict[str, bytes], *place: str, value: Any) -> Path:
    manifest = json.loads(parts[MANIFEST])
    node = manifest
    for name in place[:-1]:
        node = node[name]
    node[place[-1]] = value
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.comment = bytes(SEAL)
        for name, part in (parts | {MANIFEST: json.dumps(manifest).encode()}).items():
            file.writestr(name, part)
    content = stream.getvalue()[:-SEAL]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    return path


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("start", 5),
        ("start", {}),
        ("cut", ["x"]),
        ("table", 7),
        ("table", "two words"),
        ("table", "a" * 256),
        ("table", ""),
        ("drafted", "no"),
        ("bound_from_rows", 1),
        ("currency", "gold"),
        ("delta", 2),
        ("delta", HUGE),
        ("relation", f"add-remove of one unit (up to {'9' * 5000} rows)"),
    ],
)
def test_facts_of_a_certificate_that_nothing_can_show_are_refused(
    tmp_path: Path, parts: dict[str, bytes], word: str, value: Any
) -> None:
    with pytest.raises(DataError, match="certificate lacks a number or a text, or has an invalid one"):
        mq.Release.load(written(tmp_path / "odd.maq", parts, "certificate", word, value=value))


@pytest.mark.parametrize(
    "change",
    [{"distance": "far"}, {"distance": HUGE}, {"noise": None}, {"noise": -1}, {"round": "one"}, {"columns": [5]}],
)
def test_rounds_that_no_page_can_draw_are_refused(
    tmp_path: Path, parts: dict[str, bytes], change: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match="rounds lack a number"):
        mq.Release.load(written(tmp_path / "odd.maq", parts, "trace", value=[STEP | change]))
    assert mq.Release.load(written(tmp_path / "right.maq", parts, "trace", value=[STEP])).trace[0].round == 1


def read(charge: str) -> object:
    described = Description.of(charge)
    return described.columns, described.events


@pytest.mark.parametrize(
    "charge",
    [
        "[" * 100_000,
        "5",
        json.dumps(CHARGE | {"columns": 5}),
        json.dumps(CHARGE | {"columns": [5]}),
        json.dumps(CHARGE | {"events": 5}),
        json.dumps(CHARGE | {"events": [5]}),
        json.dumps(CHARGE | {"events": [LAPLACE | {"kind": []}]}),
        json.dumps(CHARGE | {"events": [LAPLACE | {"scale": "1/0"}]}),
        json.dumps(CHARGE | {"events": [LAPLACE | {"times": "x"}]}),
        json.dumps(CHARGE | {"events": [LAPLACE | {"times": HUGE}]}),
        json.dumps(CHARGE | {"events": [{"kind": "pure", "epsilon": HUGE}]}),
    ],
    ids=range(11),
)
def test_charges_that_cannot_be_read_are_refused_where_they_are_read(
    tmp_path: Path, parts: dict[str, bytes], charge: str
) -> None:
    made = mq.Release.load(written(tmp_path / "odd.maq", parts, "certificate", "charges", value=[charge]))
    assert made.answer("smoker").low >= 0
    with pytest.raises(MaquetteError):
        mq.report(made)
    with pytest.raises(MaquetteError):
        read(charge)


def test_a_scale_over_nothing_is_no_number() -> None:
    with pytest.raises(BudgetError, match="expected a finite number"):
        DiscreteLaplace("1/0", 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0.0, -3.0])
def test_rows_drawn_beside_a_noisy_number_of_rows_of_nothing(rows: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise can make the number of rows of a small table 0: a report divided by it."""
    made = released("everything", table_of(SCHEMA, 500), mq.Budget(epsilon=1.0), Seeded(1))
    monkeypatch.setattr(mq.Release, "rows", rows)
    assert similarity(made, 50)
