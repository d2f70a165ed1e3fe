"""Code planes on disk: they count what memory counts, and nothing partial, altered or stale is trusted."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import maquette as mq
from maquette.curator.engines import planes as planes_module, shelf
from maquette.curator.engines.api import Amount
from maquette.curator.engines.planes import PlanesEngine
from maquette.curator.table import PrivateTable, engine_of
from maquette.errors import DataError, OutOfDomain, RequestLost, UnreadableSource

LETTERS = mq.Category("d", ["x", "y", "z"])
SCHEMA = mq.Schema([mq.Boolean("a"), mq.Integer("b", 0, 299), mq.Integer("c", 0, 99, width=10), LETTERS])


def rows(count: int = 5_000, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({
        "a": rng.integers(0, 2, count),
        "b": rng.integers(0, 300, count),
        "c": rng.integers(0, 100, count),
        "d": [("x", "y", "z")[i] for i in rng.integers(0, 3, count)],
        "who": rng.integers(0, count // 3, count),
    })  # fmt: skip


def opened(source: Any, folder: Path, **options: Any) -> PrivateTable:
    return mq.open_table(source, SCHEMA, memory_limit=0, planes=folder / "planes", **options)


def csv(folder: Path, table: pa.Table) -> Path:
    pyarrow.csv.write_csv(table, folder / "t.csv")
    return folder / "t.csv"


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("unit", [{}, {"privacy_unit": "who", "max_contributions": 2}], ids=["rows", "units"])
@pytest.mark.parametrize("keep", [False, True], ids=["deleted", "kept"])
def test_planes_count_and_add_what_memory_does(
    unit: dict[str, Any], keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planes_module, "_READ", 700)  # several pieces of a chunk
    table = opened(rows(), tmp_path, keep_planes=keep, **unit)
    held = mq.open_table(rows(), SCHEMA, **unit)
    planes, memory = engine_of(table), engine_of(held)
    assert isinstance(planes, PlanesEngine)
    assert planes.fingerprint == memory.fingerprint
    assert planes.rows == memory.rows
    for names in [(), *combinations(SCHEMA.names, 2), SCHEMA.names]:
        assert np.array_equal(planes.counts(names), memory.counts(names))
    amount = Amount("c", 5, 60, 7)
    assert np.array_equal(planes.sums(["a", "d"], amount), memory.sums(["a", "d"], amount))  # type: ignore[attr-defined]
    one, other = (sorted(map(tuple, np.concatenate(list(each.blocks())).tolist())) for each in (planes, memory))
    assert one == other


def test_planes_that_are_not_kept_leave_no_name_behind(tmp_path: Path) -> None:
    table = opened(rows(), tmp_path)
    assert os.listdir(tmp_path / "planes") == []
    assert engine_of(table).counts(["a"]).sum() == 5_000


def test_kept_planes_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    opened(rows(), tmp_path, keep_planes=True)
    assert (tmp_path / "planes").stat().st_mode & 0o777 == 0o700
    files = list((tmp_path / "planes").iterdir())
    assert len(files) == 2
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(DataError, match="other users may read the directory"):
        mq.open_table(rows(), SCHEMA, planes=tmp_path / "open")


def test_kept_planes_replace_encoding_while_the_files_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = csv(tmp_path, rows())
    first = engine_of(table := opened(path, tmp_path, keep_planes=True)).fingerprint
    monkeypatch.setattr("maquette.curator.open.read_source", None)  # it must not be needed
    again = opened(path, tmp_path, keep_planes=True)
    alone = mq.open_table(tmp_path / "planes", SCHEMA)
    assert [engine_of(each).fingerprint for each in (again, alone)] == [first, first], table
    with pytest.raises(DataError, match="written with another privacy_unit"):
        mq.open_table(tmp_path / "planes", SCHEMA, privacy_unit="who")


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_a_changed_source_is_refused_by_content(kind: str, tmp_path: Path) -> None:
    """One cell of another row is exchanged for it: the totals are the same."""
    table = rows()
    changed = table.set_column(0, "a", pa.array(table["a"].to_pylist()[::-1]))
    source = [csv(tmp_path, table) if kind == "files" else table]
    kept = opened(source[0], tmp_path, keep_planes=True)
    source[0] = csv(tmp_path, changed) if kind == "files" else changed
    with pytest.raises(UnreadableSource, match="content changed since they were written"):
        opened(source[0], tmp_path, keep_planes=True)
    assert engine_of(kept).rows == 5_000
    with pytest.raises(UnreadableSource, match="written with another schema"):
        mq.open_table(table, mq.Schema([mq.Boolean("a")]), planes=tmp_path / "planes", keep_planes=True)


def test_rows_in_place_are_refused_by_content_although_all_totals_agree(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,d\n" + "true,x\nfalse,y\n" * 50)
    table = mq.open_table(path, mq.Schema([mq.Boolean("a"), LETTERS]), memory_limit=0)
    assert engine_of(table).counts(["a"]).tolist() == [50, 50]
    path.write_text("a,d\n" + "true,y\nfalse,x\n" * 50)
    with pytest.raises(UnreadableSource, match="no longer holds the rows"):
        engine_of(table).counts(["d"])


def test_a_source_that_changes_between_two_asks_is_an_error_that_was_charged(tmp_path: Path) -> None:
    path, schema = tmp_path / "t.csv", mq.Schema([mq.Boolean("a"), LETTERS])
    first, other = "a,d\n" + "true,x\nfalse,y\n" * 50, "a,d\n" + "true,y\nfalse,x\n" * 50
    path.write_text(first)
    table = mq.open_table(path, schema, memory_limit=0)
    budget, ledger = mq.Budget(epsilon=1.0), tmp_path / "ledger"
    with mq.Curator(table, budget, ledger=ledger) as curator:
        mq.answer(curator, "SELECT count(*) FROM t WHERE a", epsilon=0.25)
        path.write_text(other)
        with pytest.raises(UnreadableSource, match="no longer holds the rows"):
            mq.answer(curator, "SELECT count(*) FROM t WHERE d = 'x'", epsilon=0.25)
        assert curator.spent.epsilon == pytest.approx(0.5)  # charged before rows are read, as ever
    path.write_text(first)
    with mq.Curator(mq.open_table(path, schema, memory_limit=0), budget, ledger=ledger) as again:
        assert again.spent.epsilon == pytest.approx(0.5)  # no charge is lost
        with pytest.raises(RequestLost, match="never evaluated again"):
            mq.answer(again, "SELECT count(*) FROM t WHERE d = 'x'", epsilon=0.25)
        mq.answer(again, "SELECT count(*) FROM t WHERE d = 'y'", epsilon=0.25)  # the right rows can be asked
        assert again.spent.epsilon == pytest.approx(0.75)


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("fault", ["altered", "cut off", "longer"])
@pytest.mark.parametrize("when", ["before opening", "between two asks"])
def test_altered_planes_are_refused(fault: str, when: str, tmp_path: Path) -> None:
    path = csv(tmp_path, rows())
    table = opened(path, tmp_path, keep_planes=True)
    (file,) = (tmp_path / "planes").glob("planes-*")
    with mq.Curator(table, mq.Budget(epsilon=10.0)) as curator:
        mq.answer(curator, "SELECT count(*) FROM t WHERE a", epsilon=1.0)
        with open(file, "r+b") as stream:
            if fault == "altered":
                stream.seek(1234)
                byte = stream.read(1)[0]
                stream.seek(1234)
                stream.write(bytes([byte ^ 1]))
            else:
                stream.truncate(file.stat().st_size + (1 if fault == "longer" else -1))
        if when == "before opening":
            for again in (lambda: opened(path, tmp_path, keep_planes=True), lambda: mq.open_table(file.parent, SCHEMA)):
                with pytest.raises(UnreadableSource, match="altered or cut off"):
                    again()
        else:
            spent = curator.spent.epsilon
            with pytest.raises(UnreadableSource, match="altered or cut off"):
                mq.answer(curator, "SELECT count(*) FROM t WHERE d = 'x'", epsilon=1.0)
            assert curator.spent.epsilon == pytest.approx(spent + 1.0)  # charged before rows are read, as ever


def test_a_manifest_is_checked_too(tmp_path: Path) -> None:
    path = csv(tmp_path, rows())
    opened(path, tmp_path, keep_planes=True)
    manifest = tmp_path / "planes" / shelf.MANIFEST
    for text in (manifest.read_text().replace("5000", "5001"), "{", ""):
        manifest.write_text(text)
        with pytest.raises(UnreadableSource, match="altered or cut off"):
            opened(path, tmp_path, keep_planes=True)


@pytest.mark.parametrize("keep", [False, True])
def test_a_full_disk_leaves_nothing(keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = os.write, [9_000]

    def full(file: int, data: Any) -> int:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "SECRET")
        return write(file, data)

    monkeypatch.setattr(shelf.os, "write", full)
    with pytest.raises(DataError, match="no space left on device") as caught:
        opened(rows(), tmp_path, keep_planes=keep)
    assert "SECRET" not in str(caught.value)
    assert os.listdir(tmp_path / "planes") == []


def test_planes_of_an_opening_that_was_killed_are_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "planes"
    folder.mkdir(mode=0o700)
    (folder / "planes-killed").write_bytes(b"half of them")
    table = opened(rows(), tmp_path, keep_planes=True)
    assert engine_of(table).rows == 5_000
    assert len(os.listdir(folder)) == 2


def test_refused_rows_leave_no_planes(tmp_path: Path) -> None:
    with pytest.raises(OutOfDomain):
        opened({"a": [7], "b": [1], "c": [1], "d": ["x"]}, tmp_path, keep_planes=True)
    assert os.listdir(tmp_path / "planes") == []


def test_a_stream_larger_than_memory_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"read only once; name a directory"):
        mq.open_table(rows().to_reader(), SCHEMA, memory_limit=0)
    table = opened(rows().to_reader(), tmp_path, privacy_unit="who")
    held = mq.open_table(rows(), SCHEMA, privacy_unit="who")
    assert engine_of(table).fingerprint == engine_of(held).fingerprint
    with pytest.raises(DataError, match="no directory was given for code planes"):
        mq.open_table(rows(), SCHEMA, keep_planes=True)


@pytest.mark.thorough
def test_a_table_larger_than_memory_is_opened_and_counted(tmp_path: Path) -> None:
    """Planes of 480 MB, written and counted with less memory than they take."""
    script = """
import sys, resource, numpy as np, pyarrow as pa, maquette as mq
from maquette.curator.engines import kernels
from maquette.curator.table import engine_of
names = [f"c{i}" for i in range(40)]
schema = mq.Schema([mq.Integer(name, 0, 9) for name in names])
mq.open_table({name: [1] for name in names}, schema); kernels.load()
part = pa.record_batch({name: np.arange(100_000, dtype=np.int8) % 10 for name in names})
stream = pa.RecordBatchReader.from_batches(part.schema, (part for _ in range(120)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
table = mq.open_table(stream, schema, planes=sys.argv[1], memory_limit=2**24)
counts = engine_of(table).counts(["c0", "c39"])
assert int(counts.sum()) == 12_000_000, counts.sum()
assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 400_000_000
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "planes")], check=True)
