"""Docstrings as Markdown: examples and drawings, which are laid out by hand, become code blocks; citations, links."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import citations  # loaded by hooks.py, which stands beside it
import griffe

FENCES = {"example": "```pycon", "drawing": "```text"}


def fenced(text: str) -> str:
    """Put a fence around every run of lines that is an interpreter session or a drawing; link what the rest cites."""
    return "\n".join(_fenced(text.splitlines()))


def _fenced(lines: list[str]) -> Iterator[str]:
    for kind, run in groupby(zip(_kinds(lines), lines, strict=True), key=lambda pair: pair[0]):
        content = [line for _, line in run]
        if kind == "text":
            yield from citations.linked("\n".join(content)).split("\n")
        else:
            yield from ("", FENCES[kind], *content, "```", "")


def _kinds(lines: list[str]) -> Iterator[str]:
    """What each line is. An example lasts from its prompt to the next empty line."""
    within = False
    for line in lines:
        within = line.startswith(">>> ") or (within and bool(line.strip()))
        yield "example" if within else "drawing" if "── " in line else "text"


class Doctests(griffe.Extension):
    """Rewrite docstrings as they are collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Once for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
