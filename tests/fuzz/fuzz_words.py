"""Mutations that all targets share: of bytes, of text and of lists of words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

NUMBERS = (
    *("0", "-0", "1", "-1", "0.0", "-0.0", "1e-320", "5e-324", "1e308", "1e309", "-1e400", "inf", "nan", "1e", "0x1f"),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" * 60, "1" * 5000),
    *("1_000", "1__0", "٣", "³", "½", "1.", ".5", "1.2.3", "00", "007", "+1"),
)
LETTERS = (
    *("\x00", "\x01", "\x1b", "\x7f", "\x85", "\xa0", "\u200b", "\u2028", "\u202e", "\ufeff", "\ufffd", "\ud800"),
    *(
        "ß",
        "İ",
        "ı",
        "ſ",
        "é",
        "e\u0301",
        "漢",
        "🎲",
        "٣",
        "'",
        '"',
        "`",
        "\\",
        "/*",
        "*/",
        "--",
        "#",
        ";",
        "$$",
        "@",
        "?",
    ),
    *(":", "(", ")", "[", "]", "{", "}", ",", ".", "%", "&", "|", "^", "~", "!", "=", "<", ">", "\n", "\r", "\t", " "),
)


def text(rng: random.Random, given: str, others: Sequence[str], words: Sequence[str]) -> str:
    """A few small changes to a text: cut, repeat, insert, swap, splice with another."""
    for _ in range(1 + int(rng.expovariate(0.8))):
        at = rng.randrange(len(given) + 1)
        to = min(len(given), at + int(rng.expovariate(0.15)))
        match rng.randrange(8):
            case 0:
                given = given[:at] + given[to:]
            case 1:
                given = given[:to] + given[at:to] * rng.choice((1, 2, 3, 30)) + given[to:]
            case 2:
                given = given[:at] + rng.choice(LETTERS) + given[at:]
            case 3 | 4:
                given = given[:at] + " " + rng.choice(words) + " " + given[to:]
            case 5:
                given = given[:at] + rng.choice(NUMBERS) + given[to:]
            case 6:
                other = rng.choice(others)
                cut = rng.randrange(len(other) + 1)
                given = given[:at] + other[cut:]
            case _:
                other = rng.choice(others)
                start = rng.randrange(len(other) + 1)
                given = given[:at] + other[start : start + int(rng.expovariate(0.08))] + given[to:]
    return given


def bites(rng: random.Random, given: bytes) -> bytes:
    """A few small changes to bytes: flips, edges of integers, cuts, copies, swaps of blocks."""
    data = bytearray(given)
    for _ in range(1 + int(rng.expovariate(0.5))):
        if not data:
            return bytes(rng.randbytes(rng.randrange(64)))
        at = rng.randrange(len(data))
        size = min(len(data) - at, 1 + int(rng.expovariate(0.05)))
        match rng.randrange(8):
            case 0 | 1 | 2:
                data[at] ^= 1 << rng.randrange(8)
            case 3:
                data[at] = rng.randrange(256)
            case 4:
                width = rng.choice((1, 2, 4, 8))
                number = rng.choice((0, 1, -1, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)), rng.randrange(256)))
                edge = (number % 2 ** (8 * width)).to_bytes(width, rng.choice(("big", "little")))
                data[at : at + width] = edge[: len(data) - at]
            case 5:
                del data[at : at + size]
            case 6:
                data[at:at] = data[at : at + size]
            case _:
                to = rng.randrange(len(data))
                data[to : to + size] = data[at : at + size]
    if rng.random() < 0.03:
        data = data[: rng.randrange(len(data) + 1)]
    return bytes(data)


def value(rng: random.Random, depth: int = 0) -> Any:
    """An odd value of JSON or TOML."""
    match rng.randrange(12 if depth < 2 else 10):
        case 0:
            return None
        case 1:
            return rng.random() < 0.5
        case 2 | 3:
            return rng.choice((0, 1, -1, 2, 7, 2**31, -(2**31), 2**53, 2**63, -(2**63), 2**64, 10**30, 10**400))
        case 4 | 5:
            return rng.choice((0.0, -0.0, 0.5, 1.5, -2.25, 5e-324, 1e308, float("inf"), -float("inf"), float("nan")))
        case 6 | 7 | 8:
            return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(4)))
        case 9:
            return rng.choice(("age", "smoker", "NULL", "true", "2024-01-01", "-1", "x" * 3000))
        case 10:
            return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(("kind", "name", "a", "", "columns")): value(rng, depth + 1) for _ in range(rng.randrange(3))}
