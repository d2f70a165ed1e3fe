"""Every page and state of the console, under axe and against its width; and what it takes to paint the first."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from pages import ChromiumTab, call, write

from maquette.reports.style import CSS
from maquette.service import console

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]}
QUESTIONS = [
    ("SELECT region, count(*) FROM survey GROUP BY region", ".chart .bar"),
    ("SELECT visit, count(*) FROM survey GROUP BY visit", ".chart .band"),
    ("SELECT region, sex, count(*) FROM survey GROUP BY region, sex", ".chart .shade"),
    ("SELECT count(*) FROM survey", ".single"),
    ("SELECT nothing FROM survey", ".problem"),
]


def colours(css: str) -> list[dict[str, str]]:
    """The named colours of a style sheet: those for light pages, and those for dark ones."""
    return [
        dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]+)", block)) for block in re.findall(r":root[^{]*{([^}]*)}", css)[:2]
    ]


def test_the_console_and_the_report_have_the_same_colours() -> None:
    sheet = (Path(console.__file__).parent / "static" / "app.css").read_text()
    for own, report in zip(colours(sheet), colours(CSS), strict=True):
        assert len(report) >= 10
        assert {name: own[name] for name in report} == report


def test_the_first_page_is_painted_within_a_second(browser: Any, server: tuple[str, str]) -> None:
    """With an empty cache, in a browser that runs already; the best of five, as others use this machine too."""
    took = []
    for _ in range(5):
        context = browser.new_context()
        page = context.new_page()
        page.goto(server[0])
        page.get_by_label("Your token").wait_for()
        took.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        context.close()
        if took[-1] < 1_000:
            return
    raise AssertionError(f"milliseconds to the first paint: {took}")


class Looker:
    """Looks at a page in one width and one scheme."""

    def __init__(self, width: int) -> None:
        axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
        self._axe, self._width = axe.Axe(), width

    def __call__(self, page: Any, what: str) -> None:
        found = self._axe.run(page, options=RULES).response["violations"]
        assert [(each["id"], each["nodes"][0]["html"][:160]) for each in found] == [], what
        assert page.evaluate("document.documentElement.scrollWidth") <= self._width, what


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["wide-light", "narrow-dark"])
def looked(request: pytest.FixtureRequest, browser: Any, server: tuple[str, str]) -> Any:
    """A signed-in page, and what looks at it."""
    width, scheme = request.param
    tab = ChromiumTab(browser, server, width=width, scheme=scheme)
    yield tab, Looker(width), f"{scheme}_{width}"
    tab.close()


@pytest.mark.thorough(fast=1)
def test_asking_is_accessible(looked: Any, browser: Any, server: tuple[str, str]) -> None:
    """Signing in and its refusal, each form of chart, a refusal, a guess, exploring, budget, model."""
    tab, look, name = looked
    page = tab.page
    for sql, shape in QUESTIONS:
        write(page, sql)
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(shape)
        page.wait_for_selector(".price .badge")
        look(page, sql)
    page = tab.open("Explore")
    page.wait_for_selector(".price .badge")
    page.locator(".chip:not(.known)").last.click()
    page.get_by_role("heading", name="Not known yet").wait_for()
    look(page, "a view that is not paid for")
    page = tab.open("Budget")
    page.get_by_role("meter").first.wait_for()
    look(page, "Budget")
    page = tab.open("Model")
    page.get_by_label("Column", exact=True).select_option("region")
    page.get_by_label("By", exact=True).select_option("sex")
    page.wait_for_selector(".chart .shade")
    look(page, "Model")
    poor = f"poor_{name}"
    token = call(server, "POST", "tokens", name=poor, role="analyst")["token"]
    call(server, "PUT", f"tables/survey/limits/{poor}", epsilon=0.001)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Your token").fill("mqt_wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("This token is unknown").wait_for()
    look(page, "a wrong token")
    tab.wrong.clear()  # the browser notes the refusal
    tab.sign_in(token)
    write(page, "SELECT bmi, count(*) FROM survey GROUP BY bmi")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".chart .guess")
    look(page, "a guess")


def ask_holdout(page: Any, condition: str) -> None:
    """Ask until the answer is there: a form that was just opened may be drawn anew, and the same question is free."""
    from playwright.sync_api import TimeoutError as TooLong

    for left in reversed(range(6)):
        page.get_by_label("Condition", exact=True).fill(condition)
        page.get_by_role("button", name="Ask", exact=True).click()
        try:
            page.get_by_text("a share of", exact=False).wait_for(timeout=10_000)
            return
        except TooLong:
            if not left:
                raise


@pytest.mark.thorough
def test_governing_is_accessible(looked: Any, tmp_path: Path) -> None:
    """The custodian's page with a token just made and one about to be revoked, holdouts, each step of publishing."""
    tab, look, name = looked
    page = tab.open("Custodian")
    form = page.locator("form:has-text('Role')")
    form.get_by_label("Name").fill(name)
    form.get_by_role("button", name="Make a token").click()
    page.get_by_text("shown this once").wait_for()
    page.get_by_role("button", name=f"Revoke the token of {name}", exact=True).click()
    page.get_by_role("button", name="Really revoke").wait_for()
    page.get_by_role("button", name="Verify the ledger").click()
    page.get_by_text("The whole ledger was verified").wait_for()
    look(page, "Custodian")
    made = random.Random(name)
    rows = [f"{i // 2},{made.randrange(18, 90)},{made.choice(('yes', 'no'))}" for i in range(900)]
    for file in ("ward", "visit"):
        (tmp_path / f"{file}_{name}.csv").write_text("\n".join(["patient,age,churned", *rows]))
        made.shuffle(rows)
        rows = rows[:-100]
    page = tab.open("Holdout")
    page.get_by_label("A CSV or Parquet file").set_input_files(str(tmp_path / f"visit_{name}.csv"))
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("Conditions may be asked too", exact=False).check()
    page.get_by_text("Columns, as drafted").click()
    look(page, "registering a holdout")
    page.get_by_role("button", name="Register").click()
    page.locator(f"option:checked:has-text('visit_{name}')").wait_for(state="attached")
    ask_holdout(page, "age >= 40")
    look(page, "a holdout that was asked")
    tab.open("Custodian")
    page.get_by_role("link", name="Publish a table").click()
    page.get_by_label("A CSV, Parquet or Excel file").set_input_files(str(tmp_path / f"ward_{name}.csv"))
    look(page, "publishing: upload")
    page.get_by_role("button", name="Upload and draft").click()
    page.get_by_label("I have reviewed every column", exact=False).check()
    look(page, "publishing: columns")
    page.get_by_role("button", name="Check against the rows").click()
    page.get_by_label("Protected").select_option("patient")
    look(page, "publishing: who is protected")
    page.get_by_role("button", name="Next").click()
    page.get_by_label("alpha: largest error").fill("0.3")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Next: open the table").wait_for()
    look(page, "publishing: plan")
    page.get_by_role("button", name="Next: open the table").click()
    page.get_by_label("Then").select_option("release")
    look(page, "publishing: open")
