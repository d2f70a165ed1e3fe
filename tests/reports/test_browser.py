"""The page in a real browser, opened from disk: every chart is drawn, nothing is asked of any network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_checks import busy_page, page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRAWN = "document.querySelectorAll('.chart').length === document.querySelectorAll('.chart[data-drawn]').length"
MARKS = """() => [...document.querySelectorAll('.chart')].map(place => {
  const shape = place.querySelector('svg');
  const marks = 'g.mark-rect path, g.mark-symbol path, g.mark-line path, g.mark-rule line';
  return shape ? shape.querySelectorAll(marks).length : 0;
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        opened = started.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield opened
        opened.close()


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("which", ["release", "session"])
def test_it_opens_from_disk(browser: Any, which: str, width: int, scheme: str, tmp_path: Path) -> None:
    home = tmp_path / "report.html"
    home.write_text(page() if which == "release" else busy_page(), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked: list[str] = []
    said: list[str] = []
    context.route("**/*", lambda route: route.continue_() if route.request.url == home.as_uri() else route.abort())
    tab = context.new_page()
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("dialog", lambda dialog: said.append(dialog.message))
    tab.goto(home.as_uri())
    tab.wait_for_function(DRAWN, timeout=120_000)
    marks = tab.evaluate(MARKS)
    assert len(marks) >= 8
    assert min(marks) > 0
    assert asked == [home.as_uri()]
    assert said == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    sizes = tab.evaluate("[...document.querySelectorAll('.chart svg')].map(s => s.getBoundingClientRect().right)")
    assert max(sizes) <= width
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    assert axe.run(tab).response["violations"] == [], "not accessible"
    context.close()
