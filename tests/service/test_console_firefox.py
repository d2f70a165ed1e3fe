"""The main path through the console in Firefox: sign in, ask, chart, drill, budget, model."""

from __future__ import annotations

from pathlib import Path

import pytest
from firefox import FIREFOX, Firefox

NOTED = """
window.noted = [];
addEventListener("error", (event) => window.noted.push(String(event.message)));
addEventListener("unhandledrejection", (event) => window.noted.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => window.noted.push(event.violatedDirective));
"""
FETCHED = "return performance.getEntriesByType('resource').map((each) => each.name)"


@pytest.mark.thorough
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_main_path_in_firefox(server: tuple[str, str], tmp_path: Path, width: int, dark: bool) -> None:
    if FIREFOX is None:
        pytest.skip("there is no Firefox on this machine: apt-get install firefox-esr")
    address, token = server
    browser = Firefox(tmp_path, dark=dark)
    try:
        browser.do("WebDriver:SetWindowRect", width=width, height=1000)
        browser.do("WebDriver:Navigate", url=address)
        browser.find("input[type=password]")
        browser.run(NOTED)
        browser.write("input[type=password]", token)
        browser.click("button.primary", "Sign in")
        browser.wait(".price .badge")
        browser.click("button.primary", "Ask")
        browser.wait("#answer-title")
        assert browser.run("return document.querySelectorAll('.chart .whisker').length") >= 2
        assert browser.run("return document.querySelector('.editor').shadowRoot.querySelector('.cm-content') !== null")
        browser.run("document.querySelector('.chart .drill').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
        browser.wait("h1", "Explore")
        browser.wait("pre", "WHERE")
        for view in ("Budget", "Model", "Holdout", "Custodian"):
            browser.click("nav a", view)
            browser.wait("nav a[aria-current]", view)
            browser.wait("main h1")
            wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, view
        page = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert page == ("rgb(18, 24, 28)" if dark else "rgb(247, 248, 248)")
        assert browser.run("return window.noted") == []
        assert [each for each in browser.run(FETCHED) if not each.startswith(address)] == []
    finally:
        browser.close()
