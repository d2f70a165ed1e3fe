"""The documentation site builds without a warning, fetches nothing, and leads nowhere that is not there."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

import maquette

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ROOMS: tuple[str, ...] = (
    "schema",
    "query",
    "curator",
    "privacy",
    "privacy.ledger",
    "hypothesis",
    "distinguisher",
    "answers",
)
ROOMS += ("estimates", "releases", "session", "holdout", "theory", "reports", "audit", "audit.reference")
NAME = re.compile(r"`(maquette(?:\.\w+)+)`")
TEST = re.compile(r"`(tests/[\w/.]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINE = re.compile(r'<code>(maquette[\w.]+)</code>(?:</a>|</span>)* <a class="code"[^>]*title="([^",]+), line (\d+)"')
KINDS = ("definition", "theorem", "algorithm", "proposition", "lemma", "claim", "corollary")
STATEMENTS = {  # what the sources number, by the titles of the map
    "Book, chapter 5": {
        "definition": "5.1 5.2 5.3 5.4 5.5 5.6 5.7",
        "theorem": "5.3 5.4 5.5 5.6 5.7 5.8 5.9 5.10 5.11 5.12 5.13 5.14 5.15",
        "algorithm": "7 8 9 10 11",
        "proposition": "5.1 5.2 5.16",
    },
    "Lecture on adaptivity": {"definition": "1 3 4", "theorem": "2 4 5 7 8", "claim": "1 3 6"},
    "Lecture on many queries": {
        "definition": "1",
        "theorem": "2 4 5 8 9",
        "algorithm": "1 2",
        "lemma": "3 6",
        "corollary": "7",
    },
    "Lecture 8": {"definition": "1 2 3 8", "theorem": "4 5 6 7 9 10 11", "algorithm": "1 2"},
}
STYLED = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+(?:url\()?['\"]?((?:https?:)?//[^)'\";]+)")
ASSETS = {
    "script": "src",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "audio": "src",
    "video": "src",
    "embed": "src",
}
FETCHED = {"stylesheet", "preload", "prefetch", "preconnect", "dns-prefetch", "icon", "modulepreload", "manifest"}


class Page(HTMLParser):
    """What a page fetches, where its links lead, and which anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = {name: value or "" for name, value in attrs}
        self.anchors |= {facts[name] for name in ("id", "name") if name in facts}
        if tag in ASSETS and ASSETS[tag] in facts:
            self.fetched.append(facts[ASSETS[tag]])
        if tag == "link" and FETCHED & set(facts.get("rel", "").split()):
            self.fetched.append(facts["href"])
        if tag == "a" and "href" in facts:
            self.links.append(facts["href"])


pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for needed in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers.python"):
        try:
            importlib.import_module(needed)
        except ImportError:
            if os.environ.get("MAQUETTE_REQUIRE_ALL") == "1":
                raise
            pytest.skip(f"the site needs {needed}: pip install -e '.[docs]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run([*command, "-d", str(out)], cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-4000:]
    assert "WARNING" not in built.stderr
    return out


@cache
def read(path: Path) -> Page:
    return Page(path)


def pages(site: Path) -> Iterator[Path]:
    # 404.html is served from any address, so its links are absolute
    return (path for path in sorted(site.rglob("*.html")) if path.name != "404.html")


def is_elsewhere(address: str) -> bool:
    return address.startswith("//") or bool(urlsplit(address).scheme not in ("", "data", "mailto"))


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    outside = {
        f"{path.name}: {asset}" for path in site.rglob("*.html") for asset in read(path).fetched if is_elsewhere(asset)
    }
    for sheet in site.rglob("*.css"):
        outside |= {f"{sheet.name}: {found[0]}" for found in STYLED.finditer(sheet.read_text(encoding="utf-8"))}
    for picture in site.rglob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        outside |= {f"{picture.name}: {at}" for at in re.findall(r"(?:href|src)=\"((?:https?:)?//[^\"]+)", text)}
    assert not outside


def test_every_link_leads_somewhere(site: Path) -> None:
    broken = []
    for path in pages(site):
        page = read(path)
        for link in (*page.links, *page.fetched):
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {link} is not there")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
                broken.append(f"{path.relative_to(site)}: {link} has no such anchor")
    assert not broken


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    found = set().union(*(read(path).anchors for path in (site / "reference").glob("*.html")))
    missing = []
    for room in ROOMS:
        module = importlib.import_module(f"maquette.{room}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                written = f"{value.__module__}.{value.__qualname__}"
                missing += [] if {f"maquette.{room}.{name}", written} & found else [f"maquette.{room}.{name}"]
    assert missing == []
    index = (site / "reference" / "index.html").read_text(encoding="utf-8")
    assert [name for name in vars(maquette)["__all__"] if f"<code>{name}</code>" not in index and name[0] != "_"] == []


def test_command_line_help_is_inserted(site: Path) -> None:
    import typer

    from maquette.cli import app

    text = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"maquette {name}" in text
    assert "--epsilon" in text


def test_every_page_is_in_the_navigation() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def leaves(node: object) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict):
            for inner in node.values():
                yield from leaves(inner)
        elif isinstance(node, list):
            for inner in node:
                yield from leaves(inner)

    listed = list(leaves(settings["nav"]))
    assert len(listed) == len(set(listed))
    assert set(listed) == {str(path.relative_to(DOCS).as_posix()) for path in DOCS.rglob("*.md")}


@pytest.mark.parametrize("page", sorted((DOCS / "theory").rglob("*.md")), ids=lambda page: page.name)
def test_theory_names_what_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in set(NAME.findall(text)):
        resolve(name)
    missing = [path for path in TEST.findall(text) if not (ROOT / path).exists()]
    assert not missing


def test_theory_leads_to_lines_of_code(site: Path) -> None:
    """Every name in the theory is followed by a link to the line that defines it, and every test is a link."""
    lost, seen = [], 0
    for page in sorted((DOCS / "theory").rglob("*.md")):
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        built = (site / page.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
        links = LINE.findall(built)
        for name in NAME.findall(text):
            found = [(path, int(line)) for before, path, line in links if before == name]
            if not found or not defines(*found[0], name):
                lost.append(f"{page.name}: {name} {found[:1]}")
        files = [path for path in TEST.findall(text) if path.endswith(".py")]
        lost += [f"{page.name}: {path}" for path in files if f'title="{path}, line 1"' not in built]
        seen += len(links)
    assert not lost
    assert seen > 100


def defines(path: str, line: int, name: str) -> bool:
    """Whether this line begins the thing of this name; the first line stands for a whole file."""
    text = (ROOT / path).read_text(encoding="utf-8").splitlines()
    last = name.rpartition(".")[2]
    if line == 1:
        return Path(path).stem in (last, "__init__")
    # a decorator may stand before it
    return any(re.match(rf"(async def|def|class) {last}\b|{last}\b", each) for each in text[line - 1 : line + 4])


def test_every_statement_of_the_sources_is_on_the_map() -> None:
    sections = dict(
        re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", (DOCS / "theory" / "map.md").read_text(), re.M | re.S)
    )
    missing = []
    for source, wanted in STATEMENTS.items():
        found = statements(sections[source])
        missing += [
            f"{source}: {kind} {number}"
            for kind, numbers in wanted.items()
            for number in numbers.split()
            if (kind, number) not in found
        ]
    assert not missing


def statements(text: str) -> set[tuple[str, str]]:
    """The numbered statements that a text names: "theorems 5.3, 5.4", "definitions 1 to 3"."""
    found = set()
    for kind, listed in re.findall(rf"({'|'.join(KINDS)})s? ((?:\d[\d.]*(?:, | and | to )?)+)", text):
        for first, last in re.findall(r"(\d[\d.]*\d|\d)(?: to (\d+))?", listed):
            numbers = range(int(first), int(last) + 1) if last else [first]
            found |= {(kind, str(number)) for number in numbers}
    return found


def test_code_pages_hold_the_files_as_they_are(site: Path) -> None:
    for path in sorted((site / "code").rglob("*.html")):
        source = ROOT / path.relative_to(site / "code").with_suffix(".py")
        lines = source.read_text(encoding="utf-8").splitlines()
        assert {f"L{number}" for number in range(1, len(lines) + 1)} <= read(path).anchors


def resolve(name: str) -> object:
    parts = name.split(".")
    found: object = maquette
    for depth, part in enumerate(parts[1:], start=2):
        try:
            found = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            found = getattr(found, part)
    return found


def test_every_picture_is_shown() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    assert [path.name for path in (DOCS / "images").iterdir() if f"images/{path.name}" not in text] == []
