"""Every page and state of the console, under axe and against its width; and what it takes to paint the first."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from looking import WIDTHS, Looker
from pages import ChromiumTab, call, until, write

from maquette.reports.style import CSS
from maquette.service import console

SIZES = "Object.fromEntries(performance.getEntriesByType('resource').map((each) => [each.name, each.transferSize]))"
LATER = ("ask.js", "editor.js", "names.js", "codemirror.js")  # what comes while a token is typed
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


@pytest.mark.thorough
def test_the_first_page_is_painted_within_a_second(browser: Any, server: tuple[str, str]) -> None:
    """With an empty cache, in a browser that runs already: the fastest of five, since other tests run beside it."""
    painted: list[float] = []
    fetched: dict[str, int] = {}
    for _ in range(5):
        context = browser.new_context()
        page = context.new_page()
        page.goto(server[0])
        page.get_by_label("Your token").wait_for()
        painted.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        fetched |= page.evaluate(SIZES)
        context.close()
    assert min(painted) < 1_000, f"milliseconds to the first paint: {painted}"
    before = {name: size for name, size in fetched.items() if not name.endswith(LATER)}
    assert sum(before.values()) < 40_000, f"bytes of the first page: {before}"


@pytest.fixture(params=WIDTHS, ids=["wide", "narrow"])
def looked(request: pytest.FixtureRequest, browser: Any, server: tuple[str, str]) -> Any:
    """A signed-in page of a width, what looks at it in light and dark, and a name of its own."""
    tab = ChromiumTab(browser, server, width=request.param)
    yield tab, Looker(request.param), f"wide_{request.param}"
    tab.close()


def sign_in(page: Any, token: str, seen: str) -> None:
    page.get_by_label("Your token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector(seen)


@pytest.mark.thorough
def test_asking_is_accessible(looked: Any) -> None:
    """Each form of chart, a refusal, what helps writing; a service that does not answer; exploring, budget, model."""
    tab, look, _ = looked
    page = tab.page
    for sql, shape in QUESTIONS:
        write(page, sql)
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(shape)
        page.wait_for_selector(".price .badge")
        look(page, f"ask {shape}")
    page.get_by_role("button", name="Save question").click()
    page.get_by_text("Precision and limits of this question").click()
    write(page, "SELECT count(*) FROM survey WHERE ")
    page.keyboard.type("re")
    page.wait_for_selector(".cm-tooltip-autocomplete")
    look(page, "ask completed")
    page.keyboard.press("Escape")
    tab.context.set_offline(True)
    page.keyboard.press("Control+Enter")
    page.get_by_text("The service does not answer").first.wait_for()
    look(page, "ask without a service")
    tab.context.set_offline(False)
    tab.wrong.clear()  # the browser notes what failed
    page = tab.open("Explore")
    page.wait_for_selector(".price .badge")
    page.locator(".chip[aria-pressed=true]").click()
    page.locator(".chip.known").first.click()
    page.wait_for_selector("#answer-title")
    look(page, "explore known")
    page.get_by_label("Column", exact=True).select_option("age")
    page.get_by_label("Value").fill("44")
    page.get_by_role("button", name="Add filter").click()
    page.get_by_role("heading", name="Not known yet").wait_for()
    look(page, "explore not paid for")
    page = tab.open("Budget")
    page.get_by_role("meter").first.wait_for()
    look(page, "budget")
    page = tab.open("Model")
    page.wait_for_selector(".chart")
    look(page, "model of a column")
    page.get_by_label("Column", exact=True).select_option("region")
    page.get_by_label("By", exact=True).select_option("sex")
    page.wait_for_selector(".chart .shade")
    look(page, "model of a pair")


@pytest.mark.thorough
def test_every_role_is_accessible(looked: Any, server: tuple[str, str]) -> None:
    """Signing in and its refusal; an analyst with little, one without a table, an auditor."""
    tab, look, name = looked
    page = tab.page

    def enter(role: str, seen: str, **given: Any) -> None:
        page.get_by_role("button", name="Sign out").click()
        sign_in(page, call(server, "POST", "tokens", name=f"{role}_{name}", role=role, **given)["token"], seen)

    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Your token").wait_for()
    look(page, "signing in")
    sign_in(page, "mqt_wrong", ".problem")
    page.get_by_text("This token is unknown").wait_for()
    look(page, "a wrong token")
    tab.wrong.clear()  # the browser notes the refusal
    tab.sign_in(None)
    call(server, "PUT", f"tables/survey/limits/analyst_{name}", epsilon=0.001)
    enter("analyst", ".price .badge")
    write(page, "SELECT bmi, count(*) FROM survey GROUP BY bmi")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".chart .guess")
    look(page, "ask a guess")
    page = tab.open("Budget")
    page.get_by_role("meter").last.wait_for()
    look(page, "budget of an analyst")
    page = tab.open("Holdout")
    look(page, "holdout of an analyst")
    enter("auditor", "h1:has-text('Audit')")
    look(page, "audit")
    assert page.get_by_role("link", name="Ask", exact=True).count() == 0
    page = tab.open("Budget")
    page.get_by_role("meter").first.wait_for()
    look(page, "budget of an auditor")


@contextmanager
def halted(running: Any) -> Iterator[None]:
    """The service holds its breath, so that what is under way can be looked at for as long as it takes."""
    os.kill(running.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(running.pid, signal.SIGCONT)


@pytest.mark.thorough
def test_governing_is_accessible(looked: Any, tmp_path: Path, serving: Any) -> None:
    """The custodian's page with a token just made and one about to be revoked, and with a release under way."""
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
    look(page, "custodian")
    form = page.locator("form:has-text('epsilon to spend')")
    form.get_by_label("epsilon").fill("0.1")
    form.get_by_label("Name").fill(name)
    form.get_by_role("button", name="Make a release").click()
    until(page, "document.querySelector('progress:not([hidden])')?.position > 0")
    with halted(serving[0]):
        look(page, "custodian with a release under way")
        assert page.locator("progress").is_visible()
    page.locator(f"tr:has-text('{name}'):has-text('download')").wait_for()
    form.get_by_label("epsilon").fill("100")
    form.get_by_role("button", name="Make a release").click()
    page.wait_for_selector(".problem")
    look(page, "custodian refused")
    page = tab.open("Model")
    page.get_by_role("button", name="Look at 20 rows").first.click()
    page.get_by_text("Twenty invented rows").wait_for()
    look(page, "model with a release")


def sheet(folder: Path, name: str, *, rows: int) -> str:
    """A file of invented patients, other ones for every name."""
    made = random.Random(name)
    words = ("yes", "no")
    lines = [f"{i // 2},{made.randrange(18, 90)},d{i % 120:03},{made.choice(words)}" for i in range(rows)]
    (folder / f"{name}.csv").write_text("\n".join(["patient,age,district,churned", *lines]))
    return str(folder / f"{name}.csv")


@pytest.mark.thorough
def test_holding_out_is_accessible(looked: Any, tmp_path: Path) -> None:
    """No holdout yet (the first time), registering one, asking it, scored predictions and their refusal."""
    tab, look, name = looked
    page = tab.open("Holdout")
    look(page, "holdout before any")
    page.get_by_label("A CSV or Parquet file").set_input_files(sheet(tmp_path, f"visit_{name}", rows=800))
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("Conditions may be asked too", exact=False).check()
    page.get_by_text("Columns, as drafted").click()
    look(page, "holdout registering")
    page.get_by_role("button", name="Register").click()
    page.locator(f"option:checked:has-text('visit_{name}')").wait_for(state="attached")
    page.get_by_label("Condition", exact=True).fill("age >= 40")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_text("a share of", exact=False).wait_for()
    look(page, "holdout asked")
    page.get_by_label("Name of the entry").fill("too short")
    page.get_by_label("Predictions of churned", exact=False).fill("no, no, no")
    page.get_by_role("button", name="Score").click()
    page.wait_for_selector(".problem")
    look(page, "holdout refused")
    for entry, word in (("nobody leaves", "no"), ("everybody leaves", "yes")):
        page.get_by_label("Name of the entry").fill(entry)
        page.get_by_label("Predictions of churned", exact=False).fill("\n".join([word] * 800))
        page.get_by_role("button", name="Score").click()
        page.locator(f"td:has-text('{entry}')").wait_for()
    look(page, "holdout with a leaderboard")


@pytest.mark.thorough
def test_publishing_is_accessible(looked: Any, tmp_path: Path, serving: Any) -> None:
    """Each step from a file to a release, a refused one, the release under way, and what comes of it."""
    tab, look, name = looked
    page = tab.open("Custodian")
    page.get_by_role("link", name="Publish a table").click()
    page.get_by_label("A CSV, Parquet or Excel file").set_input_files(sheet(tmp_path, f"ward_{name}", rows=900))
    look(page, "publish 1 upload")
    page.get_by_role("button", name="Upload and draft").click()
    page.get_by_text("district (text with more than 50").wait_for()
    page.get_by_label("I have reviewed every column", exact=False).check()
    look(page, "publish 2 columns")
    page.get_by_label("high").first.fill("old")
    page.get_by_role("button", name="Check against the rows").click()
    page.wait_for_selector(".problem")
    look(page, "publish 2 columns refused")
    page.get_by_label("high").first.fill("1000")
    page.get_by_role("button", name="Check against the rows").click()
    page.get_by_label("Protected").select_option("patient")
    look(page, "publish 3 who is protected")
    page.get_by_role("button", name="Next").click()
    page.get_by_label("epsilon", exact=True).fill("20")
    page.get_by_label("alpha: largest error").fill("0.3")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Next: open the table").wait_for()
    look(page, "publish 4 plan")
    page.get_by_role("button", name="Next: open the table").click()
    page.get_by_label("Then").select_option("release")
    look(page, "publish 5 open")
    page.get_by_label("Answers").select_option("3")
    page.get_by_role("button", name="Open the table").click()
    until(page, "document.querySelector('progress:not([hidden])')?.position > 0")
    with halted(serving[0]):
        look(page, "publish 6 release under way")
        assert page.locator("progress").is_visible()
    page.wait_for_selector(f"h1:has-text('What is publicly known of ward_{name}')")
    page.wait_for_selector(".chart")
    look(page, "model of a release")
    page = tab.open("Explore")
    page.get_by_label("Column", exact=True).select_option("patient")
    page.get_by_label("Value").fill("999")
    look(page, "explore many levels")
