"""The console in Chromium and Firefox, against a real server with real rows: every flow, two widths, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pages import Tab, shows, until, write

HEADINGS = {"Model": "publicly known"} | {each: each for each in ("Ask", "Explore", "Budget", "Holdout", "Custodian")}
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_first_question_takes_two_clicks_after_signing_in(tab: Tab) -> None:
    page = tab.page
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_selector("#answer-title")
    until(page, "document.querySelectorAll('.chart .whisker').length >= 2")
    assert page.locator("td .badge").first.inner_text() in ("Promised", "Recorded")
    page.get_by_text("answered before").wait_for()


def test_the_price_is_shown_before_asking_and_mistakes_are_explained(tab: Tab) -> None:
    page = tab.page
    write(page, "SELECT education, count(*) FROM survey WHERE smoker GROUP BY education")
    page.wait_for_selector(".badge.costs, .badge.free")
    write(page, "SELECT wages, count(*) FROM survey GROUP BY wages")
    page.wait_for_selector(".badge.refused")
    page.keyboard.press("Control+Enter")
    refusal = page.wait_for_selector(".problem").inner_text()
    assert "wages" in refusal


def test_columns_and_levels_are_completed(tab: Tab) -> None:
    page = tab.page
    write(page, "SELECT count(*) FROM survey WHERE ")
    page.keyboard.type("hyp")
    page.wait_for_selector(".cm-tooltip-autocomplete:has-text('hypertension')")
    page.keyboard.press("Escape")
    write(page, "SELECT count(*) FROM survey WHERE ")
    page.keyboard.type("region = ")
    page.keyboard.press("Control+Space")
    page.wait_for_selector(".cm-tooltip-autocomplete:has-text('islands')")


def test_explore_draws_drills_and_shows_its_sql(tab: Tab) -> None:
    page = tab.open("Explore")
    page.get_by_role("button", name="region", exact=False).first.wait_for()
    page.get_by_role("button", name="Show", exact=True).click()
    page.wait_for_selector("#answer-title")
    page.locator(".chart .drill").first.click()
    page.get_by_role("button", name="Remove filter", exact=False).wait_for()
    shows(page, "WHERE")


def test_budget_model_and_holdout_open(tab: Tab) -> None:
    page = tab.open("Budget")
    page.get_by_role("meter").first.wait_for()
    page.get_by_text("Price list").wait_for()
    page = tab.open("Model")
    page.wait_for_selector(".chart")
    page.get_by_label("Column", exact=True).select_option("region")
    page.get_by_label("By", exact=True).select_option("sex")
    page.wait_for_selector(".chart .shade")


def test_a_custodian_makes_tokens_and_releases_and_verifies(tab: Tab) -> None:
    page = tab.open("Custodian")
    page.get_by_role("button", name="Verify the ledger").click()
    page.get_by_text("The whole ledger was verified").wait_for()
    page.locator("form:has-text('Role')").get_by_label("Name").fill("ada")
    page.get_by_role("button", name="Make a token").click()
    page.get_by_text("shown this once").wait_for()
    page.locator("form:has-text('epsilon to spend')").get_by_label("epsilon").fill("0.1")
    page.locator("form:has-text('epsilon to spend')").get_by_label("Name").fill(tab.name)
    page.get_by_label("Answers").select_option("1")
    page.get_by_role("button", name="Make a release").click()
    page.locator(f"tr:has-text('{tab.name}'):has-text('download')").wait_for()
    page = tab.open("Model")
    page.get_by_role("button", name="Look at 20 rows").first.click()
    page.get_by_text("Twenty invented rows").wait_for()


def test_a_table_is_published_from_a_file(tab: Tab, tmp_path: Path) -> None:
    youngest = len(tab.name) + 12  # the same rows are not published twice
    people = (f"{youngest + i % 60},{'f' if i % 2 else 'm'},{'yes' if i % 3 else 'no'}" for i in range(900))
    lines = ["age,sex,smoker", *people]
    source = tmp_path / f"Clinic visits {tab.name}.csv"
    source.write_text("\n".join(lines))
    page = tab.open("Custodian")
    page.get_by_role("link", name="Publish a table").click()
    page.get_by_label("A CSV, Parquet or Excel file").set_input_files(str(source))
    page.get_by_role("button", name="Upload and draft").click()
    page.get_by_label("I have reviewed every column", exact=False).check()
    page.get_by_role("button", name="Check against the rows").click()
    page.get_by_role("button", name="Next").click()
    page.get_by_label("epsilon", exact=True).fill("10")  # so that noise cannot put alpha out of reach
    page.get_by_label("Rows, about (public)").fill("1000")
    page.get_by_label("alpha: largest error").fill("0.3")
    page.get_by_role("button", name="Show the plan").click()
    page.wait_for_selector("h3:has-text('Preview on invented rows'), .problem")
    assert page.locator(".problem").all_inner_texts() == []
    page.get_by_role("button", name="Next: open the table").click()
    page.get_by_role("button", name="Open the table").click()
    page.wait_for_selector("h1:has-text('Ask'), .problem")
    assert page.locator(".problem").all_inner_texts() == []
    page.get_by_role("heading", name=f"Ask clinic_visits_{tab.name}").wait_for()


@pytest.mark.thorough
def test_every_view_fits_a_narrow_screen_in_the_dark(opening: Callable[..., Tab]) -> None:
    tab = opening(width=390, scheme="dark")
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 24, 28)"
    for view in ("Ask", "Explore", "Budget", "Model", "Holdout", "Custodian"):
        page = tab.open(view)
        page.wait_for_selector(f"h1:has-text('{HEADINGS[view]}')")
        assert page.evaluate(TOO_WIDE) <= 0, view
    tab.close()
