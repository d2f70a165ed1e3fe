"""Loops and releases: everything here is public and speaks to rows only through the curator's doors."""

from maquette.release.answer import Answer, AnswerTable
from maquette.release.artifact import Certificate, Release
from maquette.release.direct import answer
from maquette.release.offline import release

__all__ = ["Answer", "AnswerTable", "Certificate", "Release", "answer", "release"]
