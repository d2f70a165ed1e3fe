"""Publishing from a file: nothing is kept of a bad upload, a reviewed draft becomes a table that survives a restart."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rooms import settings

from maquette.errors import DataError, MaquetteError, QueryError, SchemaError
from maquette.privacy.ledger import inspect
from maquette.service import NotFound, Principal, Service

CUSTODIAN = Principal(name="custodian", role="custodian")
LINES = "\n".join(["age,sex", *(f"{20 + i % 60},{'f' if i % 2 else 'm'}" for i in range(900))]).encode()
PLAN: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-9, "alpha": 0.2}


@pytest.fixture
def service(tmp_path: Path) -> Any:
    with Service(settings(tmp_path)) as started:
        yield started


def drafted(service: Service) -> dict[str, Any]:
    return service.drafts.upload(CUSTODIAN, "Clinic visits.csv", [LINES])


@pytest.mark.thorough
def test_a_draft_becomes_a_table_and_is_there_after_a_restart(service: Service) -> None:
    draft = drafted(service)
    assert draft["name"] == "clinic_visits"
    assert draft["guessed"]
    assert draft["source_columns"] == ["age", "sex"]
    reviewed = service.drafts.revise(CUSTODIAN, draft["id"], draft["columns"], reviewed=True)
    assert not reviewed["guessed"]
    service.drafts.publish(CUSTODIAN, draft["id"], "clinic", **PLAN)
    first = service.tables["clinic"].ask(CUSTODIAN, "sex = 'f'")
    service.close()
    with Service(service.config) as again:
        assert again.tables["clinic"].ask(CUSTODIAN, "sex = 'f'").value == first.value


def test_a_draft_says_what_was_seen_and_what_was_left_out(service: Service) -> None:
    lines = "\n".join(["age,district", *(f"{20 + i % 60},d{i % 120}" for i in range(900))]).encode()
    draft = service.drafts.upload(CUSTODIAN, "wards.csv", [lines])
    assert draft["notes"]["age"][0] == "saw: whole numbers"
    assert [each.split(" (")[0] for each in draft["skipped"]] == ["district"]
    again = service.drafts.revise(CUSTODIAN, draft["id"], draft["columns"], reviewed=True)
    assert again["skipped"] == draft["skipped"]


def test_a_setting_that_is_not_a_value_is_named(service: Service) -> None:
    draft = drafted(service)
    age = draft["columns"][0]
    wrong = [{**age, "settings": {**age["settings"], "high": "old"}}, *draft["columns"][1:]]
    with pytest.raises(SchemaError, match=r"column 'age': high is old.*in double quotes"):
        service.drafts.revise(CUSTODIAN, draft["id"], wrong, reviewed=True)


@pytest.mark.thorough
def test_files_are_readable_by_their_owner_alone(service: Service) -> None:
    drafted(service)
    kept = list((service.config.directory / "drafts").rglob("*"))
    assert kept
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


@pytest.mark.thorough
def test_an_upload_that_was_not_opened_is_erased_in_time(service: Service) -> None:
    old, new, opened = drafted(service), drafted(service), drafted(service)
    service.drafts.revise(CUSTODIAN, opened["id"], opened["columns"], reviewed=True)
    service.drafts.publish(CUSTODIAN, opened["id"], "clinic", **PLAN)
    long_ago = time.time() - 86_400 * (service.config.limits.upload_days + 1)
    folders = [service.config.directory / "drafts" / old["id"], service.config.directory / "opened" / "clinic"]
    for folder in folders:
        os.utime(folder / "draft.json", (long_ago, long_ago))
    service.erase()
    assert not folders[0].exists()
    assert folders[1].exists()
    assert service.drafts.show(CUSTODIAN, new["id"])["name"] == "clinic_visits"


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("name", "content"), [("x.exe", b"a"), ("../../x", b"a"), ("empty.csv", b"")])
def test_a_bad_upload_leaves_nothing(service: Service, name: str, content: bytes) -> None:
    with pytest.raises((QueryError, DataError, SchemaError)):
        service.drafts.upload(CUSTODIAN, name, [content])
    folder = service.config.directory / "drafts"
    assert not folder.exists() or not list(folder.iterdir())


@pytest.mark.thorough
def test_a_setting_cannot_bring_another_column(service: Service) -> None:
    draft = drafted(service)
    column = {"name": "age", "kind": "integer", "settings": {"low": '0\n[[column]]\nname = "x"', "high": "99"}}
    with pytest.raises(SchemaError, match="one line"):
        service.drafts.revise(CUSTODIAN, draft["id"], [column], reviewed=True)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("wrong", ["../people", "0" * 16, ""])
def test_only_drafts_can_be_named(service: Service, wrong: str) -> None:
    with pytest.raises(NotFound):
        service.drafts.show(CUSTODIAN, wrong)


@pytest.mark.thorough
def test_a_draft_that_nobody_reviewed_is_not_opened(service: Service) -> None:
    with pytest.raises(QueryError, match="not reviewed"):
        service.drafts.publish(CUSTODIAN, drafted(service)["id"], "clinic", **PLAN)


def test_a_name_in_use_or_bad_settings_charge_nothing_and_keep_the_draft(service: Service) -> None:
    draft = drafted(service)
    service.drafts.revise(CUSTODIAN, draft["id"], draft["columns"], reviewed=True)
    for name, change in (("people", {}), ("Clinic", {}), ("clinic", {"epsilon": -1.0})):
        with pytest.raises(QueryError):
            service.drafts.publish(CUSTODIAN, draft["id"], name, **{**PLAN, **change})
        assert service.drafts.show(CUSTODIAN, draft["id"])["id"] == draft["id"]
    assert set(service.tables) == {"people", "other"}


@pytest.mark.thorough
def test_the_plan_reads_no_row(service: Service) -> None:
    draft = drafted(service)
    service.drafts.revise(CUSTODIAN, draft["id"], draft["columns"], reviewed=True)
    source = next((service.config.directory / "drafts").rglob("source.csv"))
    source.unlink()
    told = service.drafts.plan(CUSTODIAN, draft["id"], rows=5_000, **PLAN)
    assert len(told["preview"]) == 2
    assert told["words"]


def test_what_is_known_is_shown_without_a_charge(service: Service) -> None:
    from maquette.service.looking import doubts, picture

    table = service.tables["people"]
    table.ask(CUSTODIAN, "SELECT smoker, count(*) FROM people GROUP BY smoker")
    spent = table.session.spent
    shown = picture(CUSTODIAN, table, ["smoker"])
    assert abs(sum(cell["value"] for cell in shown["cells"]) - 1) < 0.05
    found = doubts(CUSTODIAN, table)
    assert found[-1]["column"] == "smoker"
    assert found[0]["width"] is None
    assert {each["column"] for each in found if each["free"]} == {"smoker"}
    with pytest.MonkeyPatch.context() as patch:
        taken: list[int] = []
        patch.setattr(table._rates, "take", lambda _, count: taken.append(count))
        doubts(CUSTODIAN, table)
    assert taken == [1]  # one look, however many columns
    assert table.session.spent == spent
    with pytest.raises(QueryError):
        picture(CUSTODIAN, table, ["smoker", "smoker"])


def reviewed(service: Service, lines: bytes = LINES) -> str:
    draft = service.drafts.upload(CUSTODIAN, "Clinic visits.csv", [lines])
    service.drafts.revise(CUSTODIAN, draft["id"], draft["columns"], reviewed=True)
    return str(draft["id"])


def refused_after_counting(service: Service, id_: str, name: str) -> None:
    """Opening that pays for an estimate of the number of rows and is then refused, since alpha is too small."""
    with pytest.raises(MaquetteError):
        service.drafts.publish(CUSTODIAN, id_, name, **{**PLAN, "alpha": 1e-3})
    assert (service.config.directory / f"{name}.ledger").exists()
    assert name not in service.tables


def test_rows_that_were_counted_get_no_second_budget_under_another_name(service: Service) -> None:
    id_ = reviewed(service)
    refused_after_counting(service, id_, "clinic")
    counted = len(inspect(service.config.directory / "clinic.ledger").charges)
    assert counted
    again = reviewed(service)
    for draft in (id_, again):
        with pytest.raises(QueryError, match="opened before as table 'clinic'"):
            service.drafts.publish(CUSTODIAN, draft, "clinic_again", **PLAN)
    assert not list(service.config.directory.glob("clinic_again*"))
    service.drafts.discard(CUSTODIAN, id_)
    service.drafts.publish(CUSTODIAN, again, "clinic", **PLAN)
    assert len(service.tables["clinic"].charges(CUSTODIAN)) >= counted, "the first opening is on the books"


def test_an_open_table_gets_no_second_budget(service: Service) -> None:
    service.drafts.publish(CUSTODIAN, reviewed(service), "clinic", **PLAN)
    with pytest.raises(QueryError, match="opened before as table 'clinic'"):
        service.drafts.publish(CUSTODIAN, reviewed(service), "other_clinic", **PLAN)


@pytest.mark.thorough
def test_a_refusal_before_any_row_was_counted_claims_nothing(service: Service) -> None:
    id_ = reviewed(service)
    with pytest.raises(QueryError):
        service.drafts.publish(CUSTODIAN, id_, "clinic", **{**PLAN, "epsilon": -1.0})
    assert service.drafts.publish(CUSTODIAN, id_, "visits", **PLAN) == "visits"


@pytest.mark.thorough
def test_the_name_of_another_files_ledger_is_refused_and_claims_nothing(service: Service) -> None:
    refused_after_counting(service, reviewed(service), "clinic")
    other = reviewed(service, LINES + b"\n30,f")
    with pytest.raises(QueryError, match="already, of other rows"):
        service.drafts.publish(CUSTODIAN, other, "clinic", **PLAN)
    assert service.drafts.publish(CUSTODIAN, other, "ward", **PLAN) == "ward"


def test_names_that_look_like_a_schema_file_are_names(service: Service) -> None:
    """Whoever made the file has written its header."""
    names = ["[[column]]", "a\u2028kind = b", 'x\n[[column]]\nname = "y"\nkind = "boolean"']
    table = pa.table({name: [i % 7 for i in range(200)] for name in names})
    stream = io.BytesIO()
    pq.write_table(table, stream)
    draft = service.drafts.upload(CUSTODIAN, "odd.parquet", [stream.getvalue()])
    assert [column["name"] for column in draft["columns"]] == names
    assert [column["kind"] for column in draft["columns"]] == ["integer"] * 3


def test_a_plan_takes_little_memory(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = drafted(service)
    service.drafts.revise(CUSTODIAN, draft["id"], draft["columns"], reviewed=True)
    monkeypatch.setattr("maquette.service.drafts.MOST_LEVELS", 5, raising=False)
    monkeypatch.setattr("maquette.service.drafts.MOST_VALUES", 1_000, raising=False)
    told = service.drafts.plan(CUSTODIAN, draft["id"], rows=10**9, **PLAN)
    assert [line[0].partition(" = ")[0] for line in told["preview"]] == ["rows with sex"]
    assert "of 500 rows" in told["words"][0]
