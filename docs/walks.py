"""Three walks through the rooms, drawn from a run: `python docs/walks.py` writes the pictures of the architecture page.

A *station* is a file that hands the question on to another room. The others are tools that a station uses.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import maquette as mq

DOCS = Path(__file__).parent
FIGURES = DOCS / "walks.json"
ROOT = Path(mq.__file__).parent.as_posix() + "/"
LANE, ROW, TOP, BOX = 152, 34, 44, 144
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222; } .room { font-weight: 600; } .wall { fill: #f6e7d4; }
rect.box { fill: #fff; stroke: #8d5a2b; rx: 5; } path { stroke: #8d5a2b; fill: none; opacity: .55; }
@media (prefers-color-scheme: dark) { text { fill: #eee; } rect.box { fill: #2b2b2b; } .wall { fill: #4a3a28; } }
"""


@dataclass
class Walk:
    """The files that ran, in the order of their first call, and who called whom first."""

    files: dict[str, None] = field(default_factory=dict)
    calls: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def stations(self) -> list[str]:
        """The files that hand on to another room."""
        handing = {caller for caller, called in self.calls if room_of(caller) != room_of(called)}
        return [file for file in self.files if file in handing]


def room_of(file: str) -> str:
    """The room at the top of the tree in which a file is."""
    return file.partition("/")[0]


def walked(work: Callable[[], Any]) -> Walk:
    """Run it and see which files it passes; the imports it causes are not part of the walk."""
    walk = Walk()
    stack: list[str | None] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and stack:
            stack.pop()
        elif event == "call":
            before = stack[-1] if stack else None
            name = frame.f_code.co_filename
            here = name.removeprefix(ROOT) if name.startswith(ROOT) and "/" in name.removeprefix(ROOT) else before
            stack.append(here)
            if here is not None:
                walk.files[here] = None
            if here is not None and before is not None and here != before:
                walk.calls[before, here] = None

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return walk


def walks() -> dict[str, Walk]:
    """An SQL count, a release and a question to a session on a small table; each done once before, to be warm."""
    schema = mq.Schema([mq.Integer("age", 0, 99), mq.Boolean("smoker"), mq.Integer("income", 0, 999, width=100)])
    rng, rows = np.random.default_rng(1), 20_000
    people = {"age": rng.integers(0, 100, rows), "smoker": rng.random(rows) < 0.3}
    table = mq.open_table({**people, "income": rng.integers(0, 1000, rows)}, schema)
    curator = mq.Curator(table, mq.Budget(epsilon=4.0, delta=1e-9))
    session = mq.online(curator, alpha=0.02)
    workload = mq.marginals(schema, k=2)

    def count(age: int) -> None:
        mq.answer(curator, f"SELECT count(*) FROM people WHERE age >= {age}", epsilon=0.1)

    def publish(_: int) -> None:
        mq.release(curator, workload, epsilon=0.5)

    def ask(age: int) -> None:
        session.ask(f"SELECT count(*) FROM people WHERE age = {age} AND smoker")

    found = {}
    for name, work in (("count", count), ("release", publish), ("ask", ask)):
        work(30)
        found[name] = walked(lambda work=work: work(65))  # type: ignore[misc]
    return found


def picture(walk: Walk) -> str:
    """Rooms from left to right, stations from top to bottom in the order in which they are first reached."""
    stations = walk.stations
    rooms = list(dict.fromkeys(room_of(file) for file in stations))
    place = {file: (rooms.index(room_of(file)) * LANE, TOP + row * ROW) for row, file in enumerate(stations)}
    width, height = len(rooms) * LANE, TOP + len(stations) * ROW
    wall = rooms.index("curator") * LANE
    parts = [f'<rect class="wall" x="{wall}" y="0" width="{LANE}" height="{height}"/>']
    for lane, room in enumerate(rooms):
        parts.append(f'<text class="room" x="{lane * LANE + 6}" y="24">{html.escape(room)}</text>')
    middles = [f"{x + LANE // 2} {y + ROW // 2}" for x, y in place.values()]
    parts.append(f'<path d="M{" L".join(middles)}"/>')
    for number, (file, (x, y)) in enumerate(place.items(), start=1):
        label = html.escape(file.partition("/")[2].removesuffix(".py"))
        parts.append(f'<rect class="box" x="{x + 4}" y="{y}" width="{BOX}" height="{ROW - 8}"/>')
        parts.append(f'<text x="{x + 10}" y="{y + 17}">{number} {label}</text>')
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
    return "\n".join([opening, f"<style>{STYLE}</style>", *parts, "</svg>\n"])


def figures(found: dict[str, Walk]) -> dict[str, dict[str, int]]:
    """How many stations and files each walk has."""
    return {name: {"stations": len(walk.stations), "files": len(walk.files)} for name, walk in found.items()}


def main() -> None:
    """Draw and write."""
    found = walks()
    for name, walk in found.items():
        (DOCS / "images" / f"walk-{name}.svg").write_text(picture(walk), encoding="utf-8")
    FIGURES.write_text(json.dumps(figures(found), indent=1) + "\n", encoding="utf-8")
    print(FIGURES.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
