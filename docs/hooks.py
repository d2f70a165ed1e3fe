"""What the site says about the code, written from the code: command line help, lists of names, links to the reference.

A page asks for it with a marker on a line of its own: `<!-- commands -->`, `<!-- names of maquette.query -->`,
`<!-- members of maquette.query -->`, `<!-- decisions -->`, `<!-- walks -->`. Names such as `maquette.theory.net` in
inline code become links wherever the reference has them; in the theory each is followed by a link to the line of code
it stands for, and names of tests are links too. Those lines are in pages of the site's own, under code/, so that
nothing is fetched.
"""

from __future__ import annotations

import html
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
MARKER = re.compile(
    r"^<!-- (?P<wanted>commands|decisions|walks|names of|members of)(?: (?P<module>[\w.]+))? -->$", re.MULTILINE
)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TERMINAL = {"COLUMNS": "88", "TERM": "dumb", "NO_COLOR": "1"}
NAME = re.compile(r"(?<!\[)`(maquette(?:\.\w+)+)`(?!\])")
TEST = re.compile(r"(?<!\[)`(tests/[\w/]+\.py)`(?!\])")
ROOT = DOCS.parent
CODE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0 auto; max-width: 62rem; padding: 1rem; font-family: system-ui, sans-serif; overflow-wrap: anywhere; }}
pre {{ overflow-x: auto; font-size: .82rem; line-height: 1.45; }}
a.line {{ display: inline-block; width: 3.2em; padding-right: 1em; text-align: right; color: #888; user-select: none;
  text-decoration: none; scroll-margin-top: 30vh; }}
a.line:target {{ background: #d9822b; color: #fff; }}
{style}
@media (prefers-color-scheme: dark) {{ {dark} }}
</style></head><body><p><a href="{up}index.html">Maquette</a>: <code>{title}</code></p>
<pre class="highlight">{body}</pre></body></html>
"""
_shown: set[str] = set()  # files that a page links to


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Fill in what a page asks for, then link names."""
    filled = MARKER.sub(_filled, markdown)
    return linked(filled, up="../" if page.file.src_uri.startswith("theory/") else None)


def on_post_build(*, config: Any, **_: Any) -> None:
    """Write the code that pages link to, a line to an anchor."""
    for path in sorted(_shown):
        out = Path(config["site_dir"], "code", path).with_suffix(".html")
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(code(path), encoding="utf-8")


def code(path: str) -> str:
    """A file of ours as a page: L7 is the anchor of its seventh line."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    formatter, dark = HtmlFormatter(nowrap=True), HtmlFormatter(style="monokai")
    lines = highlight((ROOT / path).read_text(encoding="utf-8"), PythonLexer(stripnl=False), formatter).splitlines()
    body = "\n".join(f'<a class="line" id="L{n}" href="#L{n}">{n}</a>{line}' for n, line in enumerate(lines, 1))
    return CODE.format(
        title=html.escape(path),
        style=formatter.get_style_defs(".highlight"),
        dark=dark.get_style_defs(".highlight"),
        up="../" * (path.count("/") + 1),
        body=body,
    )


def place(name: str) -> tuple[str, int]:
    """The file and the line in which the thing of this name is written."""
    parts = name.split(".")
    found: Any = importlib.import_module(parts[0])
    for depth, part in enumerate(parts[1:], start=2):
        try:
            above, found = found, importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            above, found = found, getattr(found, part)
    if inspect.ismodule(found):
        return _within(found.__file__), 1
    if inspect.isclass(found) or inspect.isroutine(found):
        thing = inspect.unwrap(found)
        return _within(inspect.getsourcefile(thing)), inspect.getsourcelines(thing)[1]
    text = Path(above.__file__).read_text(encoding="utf-8")
    line = re.search(rf"^{parts[-1]}\b", text, re.MULTILINE)
    return _within(above.__file__), 1 if line is None else text.count("\n", 0, line.start()) + 1


def _within(path: str | None) -> str:
    return Path(path or "").resolve().relative_to(ROOT.resolve()).as_posix()


def _code_link(path: str, line: int, up: str, text: str) -> str:
    _shown.add(path)
    address = Path("code", path).with_suffix(".html").as_posix()
    return f'<a class="code" href="{up}{address}#L{line}" title="{path}, line {line}">{text}</a>'


def _filled(marker: re.Match[str]) -> str:
    match marker["wanted"]:
        case "commands":
            return commands()
        case "decisions":
            return decisions()
        case "walks":
            return walks()
        case "names of":
            return names(marker["module"])
        case _:
            return members(marker["module"])


def linked(markdown: str, up: str | None = None) -> str:
    """Every dotted name in inline code, outside code blocks, as a reference that may stay plain.

    With `up`, the way from the page to the top of the site, links to lines of code are added.
    """
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [_named(markdown[end : fence.start()], up), fence[0]]
        end = fence.end()
    return "".join([*parts, _named(markdown[end:], up)])


def _named(text: str, up: str | None) -> str:
    if up is None:
        return NAME.sub(_reference, text)
    text = NAME.sub(lambda name: f"{_reference(name)} {_code_link(*place(name[1]), up, 'code')}", text)
    return TEST.sub(lambda path: _code_link(path[1], 1, up, f"<code>{path[1]}</code>"), text)


def _reference(name: re.Match[str]) -> str:
    """The anchor of a thing is the place where it is written."""
    return f'<autoref optional identifier="{home(name[1])}"><code>{name[1]}</code></autoref>'


def home(name: str) -> str:
    """Where the class or function of this name is written; the name itself for anything else."""
    module, _, last = name.rpartition(".")
    try:
        value = getattr(importlib.import_module(module), last, None)
    except ModuleNotFoundError:
        return name
    return f"{value.__module__}.{value.__qualname__}" if inspect.isclass(value) or inspect.isfunction(value) else name


def members(module: str) -> str:
    """The docstring of a room, then its classes and functions, each from the file in which it is written."""
    room = importlib.import_module(module)
    written = dict.fromkeys(home(f"{module}.{name}") for name in sorted(room.__all__, key=str.lower))
    options = "    options:\n      show_root_heading: true\n      show_root_full_path: false"
    own = [f"::: {name}\n{options}" for name in written if name.rpartition(".")[0] != module]
    return "\n\n".join([f"::: {module}\n    options:\n      members: false", *own])


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


def walks() -> str:
    """How many files the walks of the architecture page pass, as `walks.py` counted them."""
    known = json.loads((DOCS / "walks.json").read_text(encoding="utf-8"))
    titles = {"count": "a count in SQL", "release": "a release", "ask": "a question to a session"}
    lines = [f"| {title} | {known[name]['stations']} | {known[name]['files']} |" for name, title in titles.items()]
    return "\n".join(["| walk | stations | all files, tools included |", "|---|---|---|", *lines])


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
