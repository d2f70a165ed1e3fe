"""Checkpoint: what a session knows, in a file beside its ledger, so that opening it again takes no replay.

The ledger stays the only truth. A checkpoint holds released numbers and public notes alone, it covers the ledger up to
one event, and what came later is replayed. It is used only if all of this holds, and is otherwise ignored and written
anew:

* its index has the MAC of this ledger's key, so nobody without the key can make or change one;
* the ledger's chain holds the event that it covers, with the same MAC: not an older or another ledger;
* it was written by the same version of the program, for a session of the same name on the same schema.

Each piece of the file has its hash in the index and is compared when it is read (`maquette.session.shelf`). The file is
written under another name, forced to the disk and then renamed: a crash leaves the checkpoint before it, or none.
Privacy: no row and no exact number is read or written; post-processing of what the ledger released.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from maquette.curator import Measurement
from maquette.estimates import Columns
from maquette.privacy import DiscreteGaussian, DiscreteLaplace
from maquette.privacy.ledger import BookLedger
from maquette.session.ahead import Layered
from maquette.session.own import Direct, Guarded, Own, Rented
from maquette.session.precision.view import Component
from maquette.session.shelf import HASH, Damaged, Places, Shelf, ShelvedOwn, Stack, name_of
from maquette.session.transcript import State
from maquette.version import __version__

if TYPE_CHECKING:
    from maquette.session.record import Record

FORMAT = 3
MAGIC = b"maquette checkpoint\n"
MOST = 2**31  # bytes of an index
_END = Struct(">Q32s")  # length of the index, and its MAC
_COUNTERS = ("begun", "before", "directs", "guards", "cells", "requests")


def path_of(record: Record) -> Path | None:
    """Where the checkpoint of a session is; None if its ledger has no file."""
    ledger = record.curator.ledger
    beside = ledger.beside if isinstance(ledger, BookLedger) else None
    name = hashlib.sha256(record.name.encode()).hexdigest()[:12]
    return None if beside is None else beside.with_name(f"{beside.name}.{name}.checkpoint")


def write(record: Record) -> bool:
    """Write what the record holds now, with nothing in flight; False if it could not be written."""
    path, ledger = path_of(record), record.curator.ledger
    if path is None or not isinstance(ledger, BookLedger):
        return False
    seq, mac = ledger.head()
    made = path.with_name(f"{path.name}.new")
    try:
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(MAGIC)
            index = _Writer(file).index(record, [seq, mac.hex()])
            file.write(index)
            file.write(_END.pack(len(index), ledger.stamp(MAGIC + index)))
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    except (OSError, Damaged):
        return False
    return True


class _Writer:
    """Writes pieces, and keeps where they are."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._place = len(MAGIC)

    def index(self, record: Record, covers: list[Any]) -> bytes:
        """Write every piece, and return the index."""
        states, parts = [], list[Any]()
        for key, kept in record.transcript.every_state():
            shape = kept[0].sums.shape
            parts.append([list(key), list(shape), len(kept)])
            states += [(state, self._put(_numbers(state))) for state in kept]
        owned = sorted((name, self._put(data)) for name, data in _pieces(record.own))
        header = {
            **_facts(record),
            **{name: getattr(record, name) for name in _COUNTERS},
            "wholes": [[list(key), number] for key, number in record.wholes.items()],
            "covers": covers,
            "moment": record.transcript.moment,
            "next": record.following,
            "digest": record.transcript.digest,
            "parts": parts,
            "states": len(states),
            "own": len(owned),
        }
        arrays = [
            np.array([state.moment for state, _ in states], "<i8"),
            np.array([state.weight for state, _ in states], "<f8"),
            np.array([state.pieces for state, _ in states], "<i8"),
        ]
        text = json.dumps(header).encode()
        return b"".join(
            [
                len(text).to_bytes(8, "big"),
                text,
                *(array.tobytes() for array in arrays),
                _places([put for _, put in states]),
                b"".join(name for name, _ in owned),
                _places([put for _, put in owned]),
            ]
        )

    def _put(self, data: bytes) -> tuple[int, int, bytes]:
        self._file.write(data)
        self._place += len(data)
        return self._place - len(data), len(data), hashlib.sha256(data).digest()


def _places(put: list[tuple[int, int, bytes]]) -> bytes:
    offsets, lengths = (np.array([one[i] for one in put], "<i8").tobytes() for i in (0, 1))
    return offsets + lengths + b"".join(one[2] for one in put)


def _numbers(state: State) -> bytes:
    sums = np.asarray(state.sums, "<f8")
    return sums.tobytes() + np.broadcast_to(np.asarray(state.spreads, "<f8"), sums.shape).tobytes()


def _facts(record: Record) -> dict[str, Any]:
    """What must be the same for a checkpoint to be used."""
    return {"format": FORMAT, "version": __version__, "name": record.name, "schema": record.curator.schema.digest}


def restore(record: Record, again: Callable[[], Record]) -> int:
    """Give an empty record what its checkpoint holds, if it can be used; returns the event until which it does, or 0.

    `again` replays the session without a checkpoint.
    """
    path, ledger = path_of(record), record.curator.ledger
    if path is None or not isinstance(ledger, BookLedger):
        return 0
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    shelf = Shelf(descriptor, again)
    try:
        index = _verified(descriptor, ledger)
        return 0 if index is None else _taken(record, shelf, _Reader(index), ledger)
    except OSError:
        return 0


def _verified(descriptor: int, ledger: BookLedger) -> bytes | None:
    """The index of an open file, if this ledger's key made it."""
    size = os.fstat(descriptor).st_size
    end = os.pread(descriptor, _END.size, max(0, size - _END.size))
    if len(end) != _END.size:
        return None
    length, mac = _END.unpack(end)
    if not 8 <= length <= min(MOST, size - _END.size - len(MAGIC)):
        return None
    index = os.pread(descriptor, length, size - _END.size - length)
    return index if hmac.compare_digest(ledger.stamp(MAGIC + index), mac) else None


class _Reader:
    """Reads an index from its beginning."""

    def __init__(self, index: bytes) -> None:
        self._index, self._place = index, 0

    def take(self, length: int) -> bytes:
        """The next bytes."""
        self._place += length
        return self._index[self._place - length : self._place]

    def array(self, kind: str, count: int) -> Any:
        """The next numbers."""
        return np.frombuffer(self.take(8 * count), dtype=kind)

    def places(self, count: int) -> Places:
        """Where the next pieces are."""
        return Places(self.array("<i8", count), self.array("<i8", count), self.take(HASH * count))


def _taken(record: Record, shelf: Shelf, reader: _Reader, ledger: BookLedger) -> int:
    header = json.loads(reader.take(int.from_bytes(reader.take(8), "big")))
    seq, mac = header["covers"]
    same = {name: header.get(name) for name in _facts(record)} == _facts(record)
    if not same or not ledger.holds(seq, bytes.fromhex(mac)):
        return 0
    count = header["states"]
    moments, weights, pieces = (reader.array(kind, count).tolist() for kind in ("<i8", "<f8", "<i8"))
    places, first = reader.places(count), 0
    stacks: dict[Columns, list[State]] = {}
    for key, shape, number in header["parts"]:
        here = slice(first, first + number)
        hashes = places.hashes[HASH * first : HASH * (first + number)]
        own = Places(places.offsets[here], places.lengths[here], hashes)
        stacks[tuple(key)] = Stack(shelf, tuple(key), tuple(shape), own, (moments[here], weights[here], pieces[here]))
        first += number
    names = reader.take(16 * header["own"])
    kept = [names[16 * i : 16 * i + 16] for i in range(header["own"])]

    def parse(data: bytes) -> tuple[str, list[Own]]:
        return _own_from(record, data)

    record.transcript.resume(header["moment"], header["digest"], stacks)
    record.own = Layered(ShelvedOwn(shelf, kept, reader.places(header["own"]), parse))
    for name in _COUNTERS:
        setattr(record, name, header[name])
    record.wholes = {tuple(key): number for key, number in header["wholes"]}
    record.requests = {name: tuple(told) for name, told in header["requests"].items()}
    record.following = header["next"]
    return int(seq)


def _pieces(own: Mapping[str, list[Own]]) -> Iterator[tuple[bytes, bytes]]:
    """What was measured for single goals, by the short names of the goals; what is on a shelf is not parsed."""
    below, above = own.layers if isinstance(own, Layered) else ({}, own)
    names = {name_of(key) for key in above}
    if isinstance(below, ShelvedOwn):
        yield from below.raw(names)
    for key, kept in above.items():
        yield name_of(key), _own_bytes(key, kept)


def _own_bytes(key: str, kept: list[Own]) -> bytes:
    return json.dumps([key, [_told(own) for own in kept]]).encode()


def _told(own: Own) -> list[Any]:
    match own:
        case Guarded():
            return ["guarded", own.moment, own.values.tolist(), own.tolerance, own.beta, own.simultaneous]
        case Rented():
            components = [[list(part), one.value, one.variance] for part, one in own.components.items()]
            return ["rented", own.moment, components]
        case Direct():
            measured, event = own.measurement, own.measurement.event
            gaussian = isinstance(event, DiscreteGaussian)
            assert isinstance(event, DiscreteGaussian | DiscreteLaplace), "sessions measure with these two"
            law = (
                (event.variance, event.sensitivity_squared)
                if isinstance(event, DiscreteGaussian)
                else (event.scale, event.sensitivity)
            )
            numbers = [measured.values.tolist(), gaussian, [str(each) for each in law], measured.grid]
            centre = None if own.centre is None else [own.centre.value, own.centre.variance]
            return ["direct", own.moment, own.facts, own.signed, own.number, numbers, centre]


def _own_from(record: Record, data: bytes) -> tuple[str, list[Own]]:
    key, kept = json.loads(data)
    return key, [_heard(record, *one) for one in kept]


def _heard(record: Record, kind: str, moment: int, *told: Any) -> Own:
    if kind == "guarded":
        values, tolerance, beta, simultaneous = told
        return Guarded(moment, np.array(values), tolerance, beta, simultaneous)
    if kind == "rented":
        return Rented(moment, {tuple(part): Component(value, variance) for part, value, variance in told[0]})
    facts, signed, number, (values, gaussian, law, grid), centre = told
    one, two = map(Fraction, law)
    event = DiscreteGaussian(one, two) if gaussian else DiscreteLaplace(one, two)
    _, question = record.direct(facts)
    free = record.curator.cost_of([])
    measured = Measurement(question, np.array(values), event, free, grid)
    return Direct(moment, measured, signed, number, facts, None if centre is None else Component(*centre))
