"""What the site says about the code, written from the code: command line help, lists of names, links to the reference.

A page asks for it with a marker on a line of its own: `<!-- commands -->`, `<!-- names of maquette.query -->`,
`<!-- namesakes in maquette.query -->`, `<!-- decisions -->`. Names such as `maquette.theory.net` in inline code become
links wherever the reference has them.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
MARKER = re.compile(
    r"^<!-- (?P<wanted>commands|decisions|names of|namesakes in)(?: (?P<module>[\w.]+))? -->$", re.MULTILINE
)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TERMINAL = {"COLUMNS": "88", "TERM": "dumb", "NO_COLOR": "1"}
NAME = re.compile(r"(?<!\[)`(maquette(?:\.\w+)+)`(?!\])")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in what a page asks for, then link names."""
    return linked(MARKER.sub(_filled, markdown))


def _filled(marker: re.Match[str]) -> str:
    match marker["wanted"]:
        case "commands":
            return commands()
        case "decisions":
            return decisions()
        case "names of":
            return names(marker["module"])
        case _:
            return namesakes(marker["module"])


def linked(markdown: str) -> str:
    """Every dotted name in inline code, outside code blocks, as a reference that may stay plain."""
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [NAME.sub(_reference, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, NAME.sub(_reference, markdown[end:])])


def _reference(name: re.Match[str]) -> str:
    """A room's own name for a thing is its anchor, unless a file has that name too."""
    written = home(name[1])  # imports the room, and so the file
    anchor = written if name[1] in sys.modules else name[1]
    return f'<autoref optional identifier="{anchor}"><code>{name[1]}</code></autoref>'


def home(name: str) -> str:
    """Where the class or function of this name is written; the name itself for anything else."""
    module, _, last = name.rpartition(".")
    try:
        value = getattr(importlib.import_module(module), last, None)
    except ModuleNotFoundError:
        return name
    return f"{value.__module__}.{value.__qualname__}" if inspect.isclass(value) or inspect.isfunction(value) else name


def namesakes(module: str) -> str:
    """Functions that share their name with the file they are in: a static reader of the room finds the file instead."""
    room = importlib.import_module(module)
    files = {Path(path).stem for folder in room.__path__ for path in Path(folder).glob("*.py")}
    options = "    options:\n      show_root_heading: true\n      show_root_full_path: false"
    shared = (f"{module}.{name}" for name in sorted(files & set(room.__all__)))
    return "\n\n".join(f"::: {home(name)}\n{options}" for name in shared if home(name) != name)


def names(module: str) -> str:
    """The public names of a module, each with the first line of its docstring."""
    room = importlib.import_module(module)
    lines = ["| name | what it is |", "|---|---|"]
    for name in sorted(room.__all__, key=str.lower):
        link = f'<autoref optional identifier="{home(f"{module}.{name}")}"><code>{name}</code></autoref>'
        lines.append(f"| {link} | {_first_line(getattr(room, name))} |")
    return "\n".join(lines)


def _first_line(value: object) -> str:
    own = inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value)
    text = (inspect.getdoc(value) or "") if own else f"constant, {value!r}"
    return text.partition("\n")[0].replace("|", "\\|")


def decisions() -> str:
    """The records of docs/decisions, by number, with their titles."""
    records = sorted(DOCS.glob("decisions/[0-9]*.md"))
    titles = (record.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") for record in records)
    return "\n".join(f"* [{title}](../decisions/{record.name})" for title, record in zip(titles, records, strict=True))


def commands() -> str:
    """The help of every command, as a terminal shows it."""
    import typer
    from typer.testing import CliRunner

    from maquette.cli import app

    runner = CliRunner()
    sections = []
    for path in _paths(typer.main.get_command(app)):
        shown = runner.invoke(app, [*path, "--help"], prog_name="maquette", env=TERMINAL)
        if shown.exit_code != 0:
            raise RuntimeError(f"maquette {' '.join(path)} --help failed: {shown.output}")
        lines = [line.rstrip() for line in shown.output.strip("\n ").splitlines()]
        sections.append("\n".join([f"## maquette {' '.join(path)}", "", "```text", *lines, "```"]))
    return "\n\n".join(sections)


def _paths(command: Any) -> Iterator[tuple[str, ...]]:
    """Every command that has none below it, as the words that name it."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield ()
        return
    for name, below in inner.items():
        yield from ((name, *rest) for rest in _paths(below))
