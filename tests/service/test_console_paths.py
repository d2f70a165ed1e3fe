"""Paths through the console: a first analyst's in six clicks, the keyboard's, a holdout's, a release's from a file."""

from __future__ import annotations

import random
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import PATIENCE, Tab, call, counted, shows, until, write

REACHED = """(found) => {
  const active = document.activeElement;
  return (active?.shadowRoot?.activeElement ?? active)?.matches(found);
}"""
REFUSED = "window.refused?.includes('script-src-elem') && window.refused?.includes('connect-src')"
INLINE = """() => {
  window.refused = [];
  addEventListener("securitypolicyviolation", (event) => window.refused.push(event.effectiveDirective));
  const made = document.createElement("script");
  made.textContent = "window.stolen = 1";
  document.head.append(made);
}"""
pytestmark = pytest.mark.thorough  # the fast tier opens the pages of test_console.py only


def clipboard(page: Any, before: str | None) -> str:
    """What was copied: the page says so also while it still says so of something else."""
    for _ in range(PATIENCE // 50):
        text: str = page.evaluate("navigator.clipboard.readText()")
        if text != before:
            return text
        page.wait_for_timeout(50)
    raise AssertionError(f"nothing else was copied than {before!r}")


def test_a_first_analyst_needs_at_most_six_clicks(opening: Callable[..., Tab], server: tuple[str, str]) -> None:
    """Open, ask, chart, drill, budget; as an analyst who has a token and nothing else."""
    tab = opening(as_=call(server, "POST", "tokens", name="newcomer", role="analyst")["token"])
    page = tab.page
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_selector(".chart .whisker")
    page.locator(".chart .drill").first.click()
    page.wait_for_selector("h1:has-text('Explore')")
    page.wait_for_selector(".price .badge")
    if page.locator("#answer-title").count() == 0:
        page.get_by_role("button", name="Show", exact=True).click()
        page.wait_for_selector("#answer-title")
    shows(page, "WHERE")
    page.get_by_role("link", name="Budget", exact=True).click()
    page.get_by_role("meter").first.wait_for()
    page.get_by_text("What the rest buys").wait_for()
    page.get_by_role("heading", name="What you spent, on which").wait_for()
    assert page.get_by_text("Who spent what").count() == 0
    assert 3 <= page.evaluate("window.clicked") <= 6
    assert page.get_by_role("link", name="Custodian").count() == 0
    tab.close()


def test_the_keyboard_alone_asks_and_drills(tab: Tab) -> None:
    page = tab.page
    page.reload()
    page.wait_for_selector(".price .badge")
    page.evaluate("window.clicked = 0")

    def tab_to(found: str) -> None:
        for _ in range(80):
            page.keyboard.press("Tab")
            if page.evaluate(REACHED, found):
                return
        raise AssertionError(f"{found} is not reached by Tab")

    tab_to(".cm-content")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#answer-title")
    page.keyboard.press("Escape")  # the editor lets go
    tab_to(".chart .drill")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Explore')")
    page.wait_for_selector(".price .badge")
    tab_to("button.chip")
    page.keyboard.press("Space")
    page.wait_for_selector("button.chip:focus")  # it stays where it was
    assert (page.evaluate("window.clicked") or 0) <= 1, "a key press on a button is a click; no mouse was used"


def test_answers_are_copied_saved_found_and_linked(tab: Tab) -> None:
    page = tab.page
    asked = "SELECT smoker, count(*) FROM survey GROUP BY smoker"
    write(page, asked)
    page.get_by_role("button", name="Save question").click()
    page.get_by_role("button", name=asked).first.wait_for()
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_selector("#answer-title")
    copied: dict[str, str] = {}
    for form in ("CSV", "pandas", "SQL", "link"):
        page.get_by_role("button", name=f"Copy {form}").click()
        page.get_by_text("Copied").last.wait_for()
        copied[form] = clipboard(page, list(copied.values())[-1] if copied else None)
    assert copied["CSV"].splitlines()[0] == "smoker,count(*),count(*) low,count(*) high,known as"
    assert len(copied["CSV"].splitlines()) == 3
    assert asked in copied["pandas"]
    assert copied["SQL"] == asked
    page.goto(copied["link"])
    page.reload()
    page.wait_for_selector(".badge.free")
    page.wait_for_selector(".cm-content:has-text('smoker')")
    page.get_by_label("Search").fill("no such question")
    page.get_by_text("Nothing yet.").wait_for()
    page.get_by_label("Search").fill("by SMOKER")
    page.locator(".history button", has_text="GROUP BY smoker").first.wait_for()
    page.get_by_role("button", name="forget").first.click()
    page.get_by_text("None saved.").wait_for()


def test_the_chart_follows_the_shape_and_every_mark_looks_inside(tab: Tab) -> None:
    page = tab.page
    write(page, "SELECT visit, count(*) FROM survey WHERE smoker GROUP BY visit")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".chart .band")
    page.locator(".chart .dot.drill").nth(3).click()
    page.wait_for_selector("h1:has-text('Explore')")
    page.wait_for_selector(".price .badge:not(.refused)")
    shows(page, "(smoker) AND visit >= '2023-04-01' AND visit < '2023-05-01'")
    tab.open("Ask")
    write(page, "SELECT region, sex, count(*) FROM survey GROUP BY region, sex")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".chart .shade")
    counted(page, ".chart .cell .error", 10)  # every cell has its interval
    page.locator(".chart .cell.drill").first.click()
    page.wait_for_selector("h1:has-text('Explore')")
    page.wait_for_selector(".price .badge:not(.refused)")
    tab.open("Ask")
    write(page, "SELECT count(*) FROM survey WHERE diabetes")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".single strong")
    counted(page, ".chart .whisker", 1)


@pytest.mark.parametrize(
    ("column", "relation", "level", "written"),
    [
        ("income", "=", "[10000, 20000)", "income >= 10000 AND income < 20000"),
        ("income", "<>", "NULL", "income IS NOT NULL"),
        ("bmi", "=", "[35, 50]", "bmi >= 35 AND bmi <= 50"),
        ("visit", "<=", "2024-12", "visit <= '2024-12-31'"),
        ("age", ">=", "65", "age >= 65"),
        ("region", "<>", "islands", "region <> 'islands'"),
    ],
)
def test_filters_are_conditions(tab: Tab, column: str, relation: str, level: str, written: str) -> None:
    page = tab.open("Explore")
    page.wait_for_selector(".price .badge")
    page.get_by_label("Column", exact=True).select_option(column)
    page.get_by_label("Condition").select_option(relation)
    value = page.get_by_label("Value")
    if column == "age":  # it has 80 levels: they are found by typing
        value.fill(level)
    else:
        value.select_option(level)
    page.get_by_role("button", name="Add filter").click()
    page.get_by_role("button", name="Remove filter", exact=False).wait_for()
    page.wait_for_selector(".price .badge")
    shows(page, f"WHERE {written}\n")
    assert page.locator(".problem").count() == 0


def test_one_of_many_levels_is_found_by_the_keyboard(tab: Tab) -> None:
    """A level is typed, wholly or until it is the only one that fits; what is no level is not taken."""
    page = tab.open("Explore")
    page.wait_for_selector(".price .badge")
    page.get_by_label("Column", exact=True).select_option("age")
    value = page.get_by_label("Value")
    value.fill("1000")
    page.keyboard.press("Enter")
    assert not value.evaluate("(each) => each.checkValidity()")
    assert page.get_by_role("button", name="Remove filter", exact=False).count() == 0
    page.locator("button.chip", has_text="education").click()  # what is half chosen stays
    assert value.evaluate("(each) => each.value") == "1000"
    value.fill("44")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Remove filter age is 44").wait_for()
    shows(page, "WHERE age = 44")


def test_known_and_paid_differ_before_anything_is_paid(tab: Tab) -> None:
    before = call((tab.address, tab.token), "GET", "tables/survey/budget")["spent"]["units"]
    page = tab.open("Explore")
    page.wait_for_selector(".price .badge")
    chip = page.locator(".chip:not(.known)").last
    chip.click()
    page.wait_for_selector(".badge.costs")
    page.get_by_role("heading", name="Not known yet").wait_for()
    assert call((tab.address, tab.token), "GET", "tables/survey/budget")["spent"]["units"] == before


def test_a_custodian_governs(tab: Tab) -> None:
    page = tab.open("Custodian")
    page.get_by_label("Analyst", exact=True).fill("grace")
    page.get_by_label("Most epsilon on this table").fill("0.125")
    page.get_by_role("button", name="Set the limit").click()
    page.locator("tr:has-text('grace'):has-text('epsilon 0.125')").wait_for()
    form = page.locator("form:has-text('Role')")
    form.get_by_label("Name").fill("grace")
    form.get_by_label("May see").select_option("survey")
    form.get_by_label("Days").fill("7")
    form.get_by_role("button", name="Make a token").click()
    page.get_by_text("shown this once").wait_for()
    page.get_by_role("button", name="Revoke the token of grace", exact=True).click()
    page.get_by_role("button", name="Really revoke the token of grace").click()
    page.locator("tr:has-text('grace'):has-text('revoked')").wait_for()
    report = page.get_by_role("link", name="Report of the session")
    assert page.evaluate("async (address) => (await fetch(address)).status", report.get_attribute("href")) == 200
    page.get_by_label("Search the log").fill("token revoked")
    page.locator("tr:has-text('signed in')").first.wait_for(state="detached")
    page.locator("tr:has-text('token revoked')").first.wait_for()


def test_a_holdout_is_registered_asked_and_ranked(tab: Tab, tmp_path: Path) -> None:
    made = random.Random(tab.name)  # the same rows are not registered twice
    churned = [made.random() < 0.3 for _ in range(1500)]
    lines = [f"{18 + 7 * i % 70},{'yes' if left else 'no'}" for i, left in enumerate(churned)]
    (tmp_path / f"churn_{tab.name}.csv").write_text("\n".join(["age,churned", *lines]))
    (tmp_path / "none.txt").write_text("\n".join(["no"] * 1500))
    page = tab.open("Holdout")
    page.get_by_label("A CSV or Parquet file").set_input_files(str(tmp_path / f"churn_{tab.name}.csv"))
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("Conditions may be asked too", exact=False).check()
    page.get_by_role("button", name="Register").click()
    until(page, f"[...document.querySelectorAll('select')].some((each) => each.value === 'churn_{tab.name}')")
    page.get_by_label("Name of the entry").fill("nobody leaves")
    page.get_by_label("or a file").set_input_files(str(tmp_path / "none.txt"))
    page.wait_for_selector("textarea:valid")
    page.get_by_role("button", name="Score").click()
    page.locator("p", has_text="nobody leaves: 0.").wait_for()
    page.locator("tr:has-text('nobody leaves')").wait_for()
    page.get_by_label("Condition", exact=True).fill("churned AND age >= 40")
    page.get_by_label("Your guess", exact=False).fill("0.2")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.get_by_text("a share of", exact=False).wait_for()


def test_a_file_becomes_a_release(tab: Tab, tmp_path: Path) -> None:
    people = (f"{i // 2},{len(tab.name) + 12 + i % 60},{'north' if i % 4 else 'south'}" for i in range(1600))
    lines = ["patient,age,ward", *people]
    (tmp_path / f"ward_{tab.name}.csv").write_text("\n".join(lines))
    page = tab.open("Custodian")
    page.get_by_role("link", name="Publish a table").click()
    page.get_by_label("A CSV, Parquet or Excel file").set_input_files(str(tmp_path / f"ward_{tab.name}.csv"))
    page.get_by_role("button", name="Upload and draft").click()
    page.get_by_label("keep patient as a column").uncheck()
    page.get_by_label("I have reviewed every column", exact=False).check()
    page.get_by_role("button", name="Check against the rows").click()
    page.get_by_label("Protected").select_option("patient")
    page.get_by_label("Maximum rows per person").fill("2")
    page.get_by_role("button", name="Next").click()
    page.get_by_label("epsilon", exact=True).fill("20")
    page.get_by_label("Rows, about (public)").fill("1600")
    page.get_by_label("alpha: largest error").fill("0.3")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Next: open the table").click(timeout=2 * PATIENCE)
    page.get_by_label("Then").select_option("release")
    page.get_by_label("epsilon of the release").fill("1")
    page.get_by_role("button", name="Open the table").click()
    page.wait_for_selector(f"h1:has-text('What is publicly known of ward_{tab.name}'), .problem", timeout=2 * PATIENCE)
    assert page.locator(".problem").all_inner_texts() == []
    page.get_by_role("button", name="Look at 20 rows").click()
    page.get_by_text("Twenty invented rows").wait_for()


def test_pages_may_run_nothing_but_the_services_own_files(tab: Tab) -> None:
    with urllib.request.urlopen(tab.address) as reply:
        policy = reply.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    tab.page.evaluate(INLINE)
    tab.page.evaluate("() => fetch('https://example.org/').catch(() => null)")
    assert tab.page.evaluate("window.stolen ?? null") is None
    until(tab.page, REFUSED)
    tab.page.evaluate("() => (window.noted = [])")
    tab.wrong.clear()
