"""Which encoding a text file has: for drafts, which read the data; a table is opened with a declared encoding only.

Bytes that are valid UTF-8 and hold more than ASCII are UTF-8: other text is valid UTF-8 by chance almost never. What is
neither that nor marked as UTF-16 is one of the old encodings of Latin letters. They differ in what bytes from 128 on
mean, so the one is chosen whose reading looks most like words: accented letters inside or at the edge of words, and
signs of money and typography; not stray symbols or capitals inside a word of small letters.
"""

from __future__ import annotations

import codecs
import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from maquette.schema.file_format import UTF8

CANDIDATES = ("cp1252", "cp1250", "mac_roman", "cp850")
SPOKEN = {
    UTF8: "UTF-8",
    "utf-16": "UTF-16",
    "cp1252": "Windows, Western European",
    "cp1250": "Windows, Central European",
    "mac_roman": "old Macintosh",
    "cp850": "DOS, Western European",
}
_BLOCK = 2**20
_PIECES = 20_000  # maximum stretches of unusual bytes that are looked at
_LETTERS = 24  # maximum unusual letters told
_USUAL = frozenset("€£§°²³µ«»„“”‚‘’–—…·äöüßéèêàâçñôîïûåøæœáíóúãõÄÖÜÉÈÀÇÑÅØÆ\u00a0")
_CENTRAL = frozenset("ąćęłńóśźżĄĆĘŁŃÓŚŹŻáčďéěíňřšťúůýžÁČĎÉĚÍŇŘŠŤÚŮÝŽőűŐŰăâîșşțţ")


@dataclass(frozen=True)
class Detected:
    """The encoding of files, and the letters outside ASCII that were seen when they are read with it."""

    encoding: str
    letters: str

    @property
    def usual(self) -> bool:
        """Whether nothing needs to be declared."""
        return self.encoding == UTF8


def spoken(encoding: str) -> str:
    """An encoding by its name and in words."""
    return f"{encoding} ({SPOKEN[encoding]})" if encoding in SPOKEN else encoding


def opened(path: str) -> IO[bytes]:
    """A file's bytes, unpacked if its name says gzip."""
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def detect(paths: Sequence[str]) -> Detected:
    """The encoding of files that were written by one program."""
    marked = {mark for path in paths if (mark := _marked(path)) is not None}
    if marked == {"utf-16"}:
        return Detected("utf-16", "")
    if all(_is_utf8(path) for path in paths):
        return Detected(UTF8, "")
    pieces = [piece for path in paths for piece in _pieces(path)][:_PIECES]
    best = max(CANDIDATES, key=lambda encoding: _looks_right(pieces, encoding))
    seen = {letter for piece in pieces for letter in piece.decode(best, errors="replace") if ord(letter) > 127}
    return Detected(best, "".join(sorted(letter for letter in seen if letter.isprintable()))[:_LETTERS])


def _marked(path: str) -> str | None:
    """The encoding that the first bytes name."""
    with opened(path) as file:
        first = file.read(4)
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and len(first) == 4 and first[2:] != b"\0\0":
        return "utf-16"
    return UTF8 if first.startswith(codecs.BOM_UTF8) else None


def _blocks(path: str) -> Iterator[bytes]:
    with opened(path) as file:
        while block := file.read(_BLOCK):
            yield block


def _is_utf8(path: str) -> bool:
    decoder = codecs.getincrementaldecoder(UTF8)()
    try:
        for block in _blocks(path):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _pieces(path: str) -> Iterator[bytes]:
    """Stretches of bytes around those that ASCII does not know."""
    for block in _blocks(path):
        yield from re.findall(rb"[A-Za-z]{0,8}[\x80-\xff][A-Za-z\x80-\xff]{0,8}", block)


def _looks_right(pieces: Sequence[bytes], encoding: str) -> float:
    """How many letters look as they should in this encoding, less those that do not."""
    score = 0.0
    for piece in pieces:
        try:
            text = piece.decode(encoding)
        except UnicodeDecodeError:
            return -float("inf")
        for before, letter in zip(" " + text, text, strict=False):
            if ord(letter) < 128:
                continue
            odd = before.islower() and letter.isupper()  # a capital inside a word of small letters
            if letter in _USUAL or (encoding == "cp1250" and letter in _CENTRAL):
                score += -0.5 if odd else 1.0
            else:
                score -= 0.2 if letter.isalpha() and not odd else 1.0
    return score
