"""Power loss: whatever the disk kept of what was not yet synced, every answer that was told is there afterwards.

A recorder written in C, preloaded into a process, notes each write, truncation, creation, renaming and sync. From its
log we build the disks that a power cut could leave: all that was synced, any subset of the sectors that were not, and
any prefix of the directory changes that were not.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import pytest
from ledger_checks import TERMS

from maquette.errors import LedgerError
from maquette.privacy.ledger import SqliteLedger

HERE = Path(__file__).parent
SECTOR = 512
IMAGES = 150
_HEADER = Struct("=cIIQ")


class Record(NamedTuple):
    kind: bytes
    path: Path
    offset: int
    data: bytes


def parse(log: bytes) -> Iterator[Record]:
    position = 0
    while position < len(log):
        kind, path_size, size, offset = _HEADER.unpack_from(log, position)
        position += _HEADER.size
        path = Path(os.fsdecode(log[position : position + path_size]))
        data = log[position + path_size : position + path_size + size]
        position += path_size + size
        if not path.name.endswith("-shm"):
            yield Record(kind, path, offset, data)


@dataclass
class File:
    """What is surely on the disk, and what may be."""

    synced: bytes = b""
    pending: list[Record] = field(default_factory=list)

    def content(self, rng: random.Random, keep: float) -> bytes:
        content = bytearray(self.synced)
        for record in self.pending:
            if record.kind == b"T":
                if rng.random() < keep:
                    del content[record.offset :]
                continue
            for start in range(0, len(record.data), SECTOR):
                if rng.random() < keep:
                    place, piece = record.offset + start, record.data[start : start + SECTOR]
                    content.extend(bytes(max(0, place - len(content))))
                    content[place : place + len(piece)] = piece
        return bytes(content)


class Disk:
    """A directory on a disk that keeps only what it was told to sync."""

    def __init__(self) -> None:
        self.names: dict[Path, File] = {}
        self.synced_names: dict[Path, File] = {}
        self.histories: list[dict[Path, File]] = []

    def apply(self, record: Record) -> None:
        if record.kind in (b"C", b"R", b"U"):
            self._rename(record)
        elif record.kind == b"S" and record.path not in self.names:
            self.synced_names, self.histories = dict(self.names), []
        elif record.kind == b"S":
            file = self.names[record.path]
            file.synced, file.pending = file.content(random.Random(0), keep=2.0), []
        else:
            self.names[record.path].pending.append(record)

    def _rename(self, record: Record) -> None:
        if record.kind == b"C":
            if record.path in self.names:
                return
            self.names[record.path] = File()
        else:
            file = self.names.pop(record.path)
            if record.kind == b"R":
                self.names[Path(os.fsdecode(record.data))] = file
        self.histories.append(dict(self.names))

    def after_power_loss(self, directory: Path, rng: random.Random) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        keep = rng.choice([0.0, 0.5, 0.9, 1.0])
        for path, file in rng.choice([self.synced_names, *self.histories]).items():
            (directory / path.name).write_bytes(file.content(rng, keep))


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        assert not os.environ.get("MAQUETTE_REQUIRE_ALL"), "the power-loss tests need Linux and a C compiler"
        pytest.skip("needs Linux and a C compiler")
    library = tmp_path_factory.mktemp("recorder") / "recorder.so"
    source = HERE / "ledger_recorder.c"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl", "-lpthread"], check=True
    )
    return library


def lost_answers(recorder: Path, tmp_path: Path, synchronous: str) -> tuple[int, int]:
    """How many of the images lack a told answer or do not open, and how many answers were told in all."""
    live, log = tmp_path / "live", tmp_path / "log"
    live.mkdir()
    environment = {**os.environ, "LD_PRELOAD": str(recorder), "RECORD_DIRECTORY": str(live), "RECORD_LOG": str(log)}
    command = [sys.executable, str(HERE / "ledger_harness.py"), "work", str(live), synchronous]
    subprocess.run(command, check=True, env=environment, timeout=120, stdout=subprocess.DEVNULL)
    records = list(parse(log.read_bytes()))
    rng = random.Random(3)
    cuts = sorted(rng.randrange(len(records)) for _ in range(IMAGES))
    disk, told, done, bad = Disk(), set[tuple[str, str]](), 0, 0
    for cut in cuts:
        for record in records[done:cut]:
            if record.path.name == "told":
                told |= {(line.split()[0], line.split()[1]) for line in record.data.decode().splitlines()}
            else:
                disk.apply(record)
        done = cut
        disk.after_power_loss(tmp_path / "image", rng)
        bad += not holds(tmp_path / "image", told)
    return bad, len(told)


def holds(image: Path, told: set[tuple[str, str]]) -> bool:
    try:
        ledger = SqliteLedger(image / "ledger", TERMS, anchor=image / "anchor")
    except LedgerError:
        return False
    answers = {(key, recorded.answer.decode()) for key, _ in told if (recorded := ledger.lookup(key))}
    ledger.close()
    return told <= answers


def test_no_told_answer_is_lost_with_the_power(recorder: Path, tmp_path: Path) -> None:
    bad, told = lost_answers(recorder, tmp_path, "FULL")
    assert bad == 0
    assert told > 100


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_same_judgement_catches_missing_syncs(recorder: Path, tmp_path: Path, synchronous: str) -> None:
    bad, _ = lost_answers(recorder, tmp_path, synchronous)
    assert bad > IMAGES // 10
