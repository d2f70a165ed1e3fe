"""Types on the wire: their numbers, and how values are written and read, as text and in binary.

A value of a result is a Python value: bool, int, float, str, date, datetime, list, None. NaN and NULL differ: a number
that is not defined (an average of nothing) is NULL.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 18, 19, 20, 21, 23, 25, 26
JSON, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR, DATE, TIME = 114, 700, 701, 705, 1042, 1043, 1082, 1083
TIMESTAMP, TIMESTAMPTZ, NUMERIC, JSONB, UUID = 1114, 1184, 1700, 3802, 2950
BOOLS, INT2S, INT4S, TEXTS, VARCHARS, INT8S, OIDS, FLOAT8S, NAMES = 1000, 1005, 1007, 1009, 1015, 1016, 1028, 1022, 1003

WIDTHS = {BOOL: 1, CHAR: 1, INT2: 2, INT4: 4, INT8: 8, OID: 4, FLOAT4: 4, FLOAT8: 8, NAME: 64, DATE: 4, TIMESTAMP: 8}
ELEMENTS = {
    BOOLS: BOOL,
    INT2S: INT2,
    INT4S: INT4,
    INT8S: INT8,
    OIDS: OID,
    FLOAT8S: FLOAT8,
    TEXTS: TEXT,
    VARCHARS: VARCHAR,
    NAMES: NAME,
}
_TEXTUAL = {TEXT, NAME, CHAR, UNKNOWN, BPCHAR, VARCHAR, JSON, UUID, 0}
_PACKED = {INT2: "!h", INT4: "!i", INT8: "!q", OID: "!I", FLOAT4: "!f", FLOAT8: "!d", BOOL: "!?"}
_DAY_ZERO = dt.date(2000, 1, 1)
_MOMENT_ZERO = dt.datetime(2000, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


class BadValue(Exception):
    """A parameter that its type cannot hold."""


@dataclass(frozen=True)
class Column:
    """A column of a result."""

    name: str
    oid: int

    @property
    def field(self) -> tuple[str, int, int]:
        """Name, type and width."""
        return self.name, self.oid, WIDTHS.get(self.oid, -1)


def encode(value: Any, oid: int, form: int) -> bytes | None:
    """A value as the bytes of its column; None is NULL."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return _binary(value, oid) if form else as_text(value, oid).encode("utf-8", "replace")


def as_text(value: Any, oid: int) -> str:
    """A value as PostgreSQL would write it."""
    if oid in ELEMENTS:
        return _array_text(value, ELEMENTS[oid])
    if isinstance(value, bool):
        return ("t" if value else "f") if oid == BOOL else ("true" if value else "false")
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, default=str)
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    return str(value)


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _array_text(values: Sequence[Any], element: int) -> str:
    parts = []
    for value in values:
        if value is None:
            parts.append("NULL")
            continue
        text = as_text(value, element)
        plain = text and not any(sign in text for sign in '{},"\\ \t\n') and text.upper() != "NULL"
        parts.append(text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    return "{" + ",".join(parts) + "}"


def _binary(value: Any, oid: int) -> bytes:
    if oid in ELEMENTS:
        element = ELEMENTS[oid]
        items = [None if item is None else _binary(item, element) for item in value]
        head = struct.pack("!iiI", 1 if items else 0, int(None in items), element)
        if items:
            head += struct.pack("!ii", len(items), 1)
        return head + b"".join(b"\xff\xff\xff\xff" if b is None else struct.pack("!i", len(b)) + b for b in items)
    if oid in _PACKED:
        return struct.pack(_PACKED[oid], value)
    if oid == DATE:
        return struct.pack("!i", (value - _DAY_ZERO).days)
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        return struct.pack("!q", (value.replace(tzinfo=None) - _MOMENT_ZERO) // _MICROSECOND)
    return as_text(value, oid).encode("utf-8", "replace")


def decode(data: bytes | None, oid: int, form: int) -> Any:
    """A parameter as a Python value."""
    if data is None:
        return None
    try:
        return _read_binary(data, oid) if form and oid not in _TEXTUAL else _read_text(data.decode(), oid)
    except BadValue:
        raise
    except (ValueError, struct.error, InvalidOperation, OverflowError, ArithmeticError):
        raise BadValue(f"a parameter cannot be read as type {oid}") from None


def _read_text(text: str, oid: int) -> Any:
    if "\0" in text:
        raise BadValue("a parameter holds a NUL")
    if oid in ELEMENTS:
        return [None if item is None else _read_text(item, ELEMENTS[oid]) for item in array_items(text)]
    reader = _READERS.get(oid)
    return text if reader is None else reader(text.strip())


def _bool(text: str) -> bool:
    word = text.lower()
    if word in ("t", "true", "y", "yes", "on", "1"):
        return True
    if word in ("f", "false", "n", "no", "off", "0"):
        return False
    raise BadValue(f"{text[:20]!r} is not true or false")


_READERS: dict[int, Callable[[str], Any]] = {
    **dict.fromkeys((INT2, INT4, INT8, OID), int),
    **dict.fromkeys((FLOAT4, FLOAT8), float),
    NUMERIC: Decimal,
    BOOL: _bool,
    DATE: lambda text: dt.date.fromisoformat(text[:10]),
    TIMESTAMP: dt.datetime.fromisoformat,
    TIMESTAMPTZ: dt.datetime.fromisoformat,
}


def _read_binary(data: bytes, oid: int) -> Any:
    if oid in ELEMENTS:
        return _read_array(data, ELEMENTS[oid])
    if oid in _PACKED:
        return struct.unpack(_PACKED[oid], data)[0]
    if oid == DATE:
        return _DAY_ZERO + dt.timedelta(days=struct.unpack("!i", data)[0])
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        return _MOMENT_ZERO + struct.unpack("!q", data)[0] * _MICROSECOND
    if oid == NUMERIC:
        return _read_numeric(data)
    raise BadValue(f"parameters of type {oid} cannot be read in binary")


def _read_numeric(data: bytes) -> Decimal:
    """NUMERIC in binary: digits to the base 10,000."""
    count, weight, sign, _ = struct.unpack("!hhHh", data[:8])
    digits = struct.unpack(f"!{count}h", data[8:])
    if sign not in (0, 0x4000) or count > 100 or abs(weight) > 100:
        raise BadValue("a parameter is not a number that can be compared")
    total = sum((Decimal(digit).scaleb(4 * (weight - i)) for i, digit in enumerate(digits)), Decimal(0))
    return -total if sign else total


def _read_array(data: bytes, element: int) -> list[Any]:
    dimensions, _, _ = struct.unpack("!iiI", data[:12])
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise BadValue("an array parameter has more than one dimension")
    count, at, items = struct.unpack("!i", data[12:16])[0], 20, list[Any]()
    if not 0 <= count <= len(data):
        raise BadValue("an array parameter announces more items than it holds")
    for _ in range(count):
        (length,) = struct.unpack("!i", data[at : at + 4])
        at += 4
        if length < 0:
            items.append(None)
            continue
        if at + length > len(data):
            raise BadValue("an array parameter is cut short")
        items.append(decode(data[at : at + length], element, 1))
        at += length
    return items


def array_items(text: str) -> list[str | None]:
    """The items of an array written as text, such as {a,"b c",NULL}."""
    body = text.strip()
    if len(body) < 2 or body[0] != "{" or body[-1] != "}":
        raise BadValue("an array is written {a,b}")
    items, at, end = list[str | None](), 1, len(body) - 1
    while at < end:
        item, at, quoted = _array_item(body, at, end)
        items.append(None if not quoted and item.upper() == "NULL" else item)
        if at < end and body[at] != ",":
            raise BadValue("an array is written {a,b}")
        at += 1
    return items


def _array_item(body: str, at: int, end: int) -> tuple[str, int, bool]:
    item, quoted = [], body[at] == '"'
    at += quoted
    while at < end and (body[at] != '"' if quoted else body[at] != ","):
        if body[at] in "{}" and not quoted:
            raise BadValue("an array parameter has more than one dimension")
        at += body[at] == "\\"
        item.append(body[at] if at < end else "")
        at += 1
    if quoted and at >= end:
        raise BadValue("a quote in an array is not closed")
    return "".join(item) if quoted else "".join(item).strip(), at + quoted, quoted
