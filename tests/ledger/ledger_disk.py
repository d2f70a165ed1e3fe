"""Disks after a power cut, and what else may happen to a ledger's files before it is opened again.

A recorder written in C, preloaded into a process, notes each write, truncation, creation, renaming and sync. From its
log we build the disks that a power cut could leave: all that was synced, any subset of the sectors that were not, and
any prefix of the directory changes that were not. Such an image may then suffer a loss: of its log, of its head file,
or of its newest database. A loss must be noticed unless it loses nothing; the bare power cut must lose nothing.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from ledger_checks import TERMS, quick_directory

from maquette.errors import LedgerCorrupted, LedgerError, PrivacyWarning
from maquette.privacy.ledger import SqliteLedger

HERE = Path(__file__).parent
RECORDER = HERE / "ledger_recorder.c"
SECTOR = 512
_HEADER = Struct("=cIIQ")

Image = dict[str, bytes]
Told = set[tuple[str, str]]


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

    def after_power_loss(self, rng: random.Random) -> Image:
        """The files that a power cut could leave now."""
        keep = rng.choice([0.0, 0.5, 0.9, 1.0])
        names = rng.choice([self.synced_names, *self.histories])
        return {path.name: file.content(rng, keep) for path, file in names.items()}

    def as_it_is(self) -> Image:
        """The files as a program sees them now."""
        return {path.name: file.content(random.Random(0), keep=2.0) for path, file in self.names.items()}


def _lose_log(image: Image, older: Image, rng: random.Random) -> Image:
    return {name: data for name, data in image.items() if name != "ledger-wal"}


def _older_copy(image: Image, older: Image, rng: random.Random) -> Image:
    """The database and its log as they were one commit ago, or the database alone."""
    others = {name: data for name, data in image.items() if name not in ("ledger", "ledger-wal")}
    names = ("ledger",) if rng.random() < 0.3 else ("ledger", "ledger-wal")
    return others | {name: older[name] for name in names if name in older}


def _lose_head(image: Image, older: Image, rng: random.Random) -> Image:
    """Without its log, and its head file gone, cut, or with a changed byte in each record."""
    rest, head = _lose_log(image, older, rng), bytearray(image.get("ledger.head", b""))
    rest.pop("ledger.head", None)
    way = rng.randrange(3)
    if way == 0 or not head:
        return rest
    if way == 1:
        return rest | {"ledger.head": bytes(head[: rng.randrange(180)])}
    for place in range(0, len(head), SECTOR):
        head[place + rng.randrange(180)] ^= rng.randrange(1, 256)
    return rest | {"ledger.head": bytes(head)}


LOSSES: dict[str, Callable[[Image, Image, random.Random], Image]] = {
    "log lost": _lose_log,
    "older copy": _older_copy,
    "log and head lost": _lose_head,
}


def record(
    recorder: Path, directory: Path, *, synchronous: str = "FULL", head: str = "kept", start: str = "new"
) -> list[Record]:
    """Run the harness's work under the recorder and return what it did to its files."""
    live, log = directory / "live", directory / "log"
    live.mkdir(parents=True)
    environment = {**os.environ, "LD_PRELOAD": str(recorder), "RECORD_DIRECTORY": str(live), "RECORD_LOG": str(log)}
    command = [sys.executable, str(HERE / "ledger_harness.py"), "work", str(live), synchronous, head, start]
    subprocess.run(command, check=True, env=environment, timeout=300, stdout=subprocess.DEVNULL)
    return list(parse(log.read_bytes()))


class Judgement(NamedTuple):
    """Of so many images: how many lack a told answer (or, after a power cut alone, do not open), and are refused."""

    images: Counter[str]
    bad: Counter[str]
    refused: Counter[str]
    told: int


def judge(records: list[Record], count: int, seed: int) -> Judgement:
    """Cut the power at so many moments; open what is left, as it is and after a loss.

    Half of the moments are anywhere after the harness's first mark in what is told, when an older ledger is laid out;
    half are right after something was told, when all of it must be safe.
    """
    rng = random.Random(seed)
    tellings = [place for place, step in enumerate(records) if step.path.name == "told" and step.data]
    anywhere = range(tellings[0], len(records))
    cuts = sorted(rng.choice(anywhere) if number % 2 else rng.choice(tellings) + 1 for number in range(count))
    disk, done = Disk(), 0
    older, newer = Image(), Image()  # the files at the last commit but one, and at the last one
    told: Told = set()
    judgement = Judgement(Counter(), Counter(), Counter(), 0)
    with quick_directory() as place:
        for cut in cuts:
            for step in records[done:cut]:
                if step.path.name == "told":
                    told |= {(line.split()[0], line.split()[1]) for line in step.data.decode().splitlines() if line}
                else:
                    disk.apply(step)
                if step.kind == b"S" and step.path.name == "ledger-wal":
                    older, newer = newer, disk.as_it_is()
            done = cut
            image = disk.after_power_loss(rng)
            _open(judgement, "power cut", image, told, place)
            if "ledger" in image and older:
                loss = rng.choice(list(LOSSES))
                _open(judgement, loss, LOSSES[loss](image, older, rng), told, place)
    return judgement._replace(told=len(told))


def _open(judgement: Judgement, kind: str, image: Image, told: Told, place: Path) -> None:
    directory = place / "image"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, data in image.items():
        (directory / name).write_bytes(data)
    judgement.images[kind] += 1
    anchor = directory / "anchor" if kind == "power cut" else None
    try:
        with warnings.catch_warnings():  # a ledger of version 0.1 says that it gets a head file
            warnings.simplefilter("ignore", PrivacyWarning)
            ledger = SqliteLedger(directory / "ledger", TERMS, anchor=anchor)
    except LedgerCorrupted:
        judgement.refused[kind] += 1
        judgement.bad[kind] += kind == "power cut"
    except LedgerError:
        judgement.bad[kind] += 1
    else:
        answers = {(key, recorded.answer.decode()) for key, _ in told if (recorded := ledger.lookup(key))}
        ledger.close()
        judgement.bad[kind] += not told <= answers
