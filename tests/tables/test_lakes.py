"""Delta and Iceberg tables: read where DuckDB's extension is at hand, refused with a reason where it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maquette as mq
from maquette.curator import sources
from maquette.curator.sources import Source, content_of
from maquette.curator.table import engine_of
from maquette.errors import UnreadableSource

SCHEMA = mq.Schema([mq.Integer("a", 0, 9)])
FIELDS = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}


def install(kind: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Install an extension for this test, from the package that carries it for this DuckDB; whether there is one."""
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))  # where DuckDB looks for extensions
    package = find_spec(f"duckdb_extension_{kind}")
    folders = [] if package is None else package.submodule_search_locations or []
    files = [
        file for folder in folders for file in Path(folder).rglob(f"v{duckdb.__version__}/{kind}.duckdb_extension")
    ]
    with duckdb.connect() as engine:
        for file in files:
            engine.execute(f"INSTALL '{file}'")
    return bool(files)


def delta(folder: Path) -> Path:
    """A Delta table of two files, each committed by itself."""
    (folder / "_delta_log").mkdir(parents=True)
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    format_ = {"provider": "parquet", "options": {}}
    about = {"id": "1", "format": format_, "schemaString": json.dumps(FIELDS), "partitionColumns": []}
    commit(folder, [protocol, {"metaData": {**about, "configuration": {}}}, added(folder, "one", [1, 2, 3])])
    commit(folder, [added(folder, "two", [4, 5])])
    return folder


def added(folder: Path, name: str, values: Sequence[int]) -> dict[str, Any]:
    path = folder / f"{name}.parquet"
    pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), path)
    facts = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
    return {"add": {**facts, "dataChange": True}}


def commit(folder: Path, actions: Sequence[dict[str, Any]]) -> None:
    log = folder / "_delta_log"
    number = len(list(log.iterdir()))
    (log / f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)))


def delete(folder: Path, name: str) -> None:
    """Delete all rows of a file; the file stays, as it does until it is vacuumed."""
    commit(folder, [{"remove": {"path": f"{name}.parquet", "deletionTimestamp": 1, "dataChange": True}}])


def by_log(engine: duckdb.DuckDBPyConnection, root: Path) -> Source | None:
    """What the extension does: the files that were added and not removed."""
    lines = [line for commit in sorted((root / "_delta_log").iterdir()) for line in commit.read_text().splitlines()]
    actions = [json.loads(line) for line in lines]
    gone = {each["remove"]["path"] for each in actions if "remove" in each}
    kept = [each["add"]["path"] for each in actions if "add" in each and each["add"]["path"] not in gone]
    relation = engine.sql(f"SELECT * FROM read_parquet({[str(root / path) for path in kept]})")
    return Source(relation, relation.columns)


@contextmanager
def readable(how: str, folder: Path) -> Iterator[bool]:
    """Whether Delta tables can be read: by the extension, if it is at hand, or by what stands for it here."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if how == "stand-in":
            patch.setattr(sources, "_lake", by_log)
        yield how == "stand-in" or install("delta", folder / "home", patch)


def counted(path: Path, **options: Any) -> list[int]:
    return engine_of(mq.open_table(path, SCHEMA, **options)).counts(["a"]).tolist()


def test_a_delta_table_has_the_rows_of_its_log(tmp_path: Path) -> None:
    for how in ("extension", "stand-in"):
        lake = delta(tmp_path / f"lake of {how}")
        with readable(how, tmp_path / how) as found:
            if not found:
                with pytest.raises(UnreadableSource, match=r"DuckDB has no extension here .* INSTALL delta"):
                    counted(lake)
                continue
            assert counted(lake) == [0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
            delete(lake, "one")
            for options in ({}, {"memory_limit": 0}, {"memory_limit": 0, "planes": tmp_path / how / "p"}):
                assert counted(lake, **options) == [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]


def test_kept_planes_notice_rows_that_only_the_log_deletes(tmp_path: Path) -> None:
    for how in ("extension", "stand-in"):
        lake = delta(tmp_path / f"lake of {how}")
        options = {"memory_limit": 0, "planes": tmp_path / how / "p", "keep_planes": True}
        assert content_of(lake) is None  # its files do not say which of them count
        with readable(how, tmp_path / how) as found:
            if not found:
                continue
            first = counted(lake, **options)
            assert counted(lake, **options) == first
            delete(lake, "one")
            with pytest.raises(UnreadableSource, match="content changed since they were written"):
                counted(lake, **options)


def test_a_lake_that_cannot_be_read_does_not_blame_the_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_loaded", lambda *_: True)
    (tmp_path / "log" / "_delta_log").mkdir(parents=True)
    with pytest.raises(UnreadableSource, match=r"cannot read .* as a table in Delta format") as refusal:
        counted(tmp_path / "log")
    assert "INSTALL" not in str(refusal.value)
    (tmp_path / "ice" / "metadata").mkdir(parents=True)
    (tmp_path / "ice" / "metadata" / "v1.metadata.json").write_text("{}")
    with pytest.raises(UnreadableSource, match="does not say which of its versions is the current one"):
        counted(tmp_path / "ice")
    with pytest.raises(UnreadableSource, match=r"cannot read .* as a table in Iceberg format"):
        counted(tmp_path / "ice" / "metadata" / "v1.metadata.json")
