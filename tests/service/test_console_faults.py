"""The console on slow and broken connections: nothing that a person typed or chose is lost, and nothing is made up."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import ChromiumTab, write

pytestmark = pytest.mark.thorough
FOCUSED = "document.activeElement.matches('{}')"


@pytest.fixture
def tab(browser: Any, server: tuple[str, str]) -> Iterator[ChromiumTab]:
    opened = ChromiumTab(browser, server)
    yield opened
    opened.close()


class Held:
    """Requests that wait until the test lets them go on."""

    def __init__(self, page: Any, pattern: str) -> None:
        self._page, self._pattern = page, pattern
        self._waiting: list[Any] = []
        page.route(pattern, self._hold)

    def _hold(self, route: Any) -> None:
        self._waiting.append(route)

    def let_go(self) -> None:
        for route in self._waiting:
            route.continue_()
        self._page.unroute(self._pattern)


def test_what_is_typed_into_a_holdouts_form_outlives_its_leaderboard(tab: ChromiumTab, tmp_path: Path) -> None:
    made = random.Random(7)
    lines = [f"{made.randrange(18, 90)},{made.choice(('yes', 'no'))}" for _ in range(700)]
    (tmp_path / "slow.csv").write_text("\n".join(["age,churned", *lines]))
    page = tab.open("Holdout")
    waiting = Held(page, "**/leaderboard")
    page.get_by_label("A CSV or Parquet file").set_input_files(str(tmp_path / "slow.csv"))
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("Conditions may be asked too", exact=False).check()
    page.get_by_role("button", name="Register").click()
    condition = page.get_by_label("Condition", exact=True)
    condition.fill("age >= 40")
    waiting.let_go()
    page.get_by_text("No entry yet.").wait_for()
    assert condition.input_value() == "age >= 40"
    assert page.evaluate(FOCUSED.format("input")), "the field that is in use keeps the focus"
    condition.press("Enter")
    page.get_by_text("a share of", exact=False).wait_for()


def test_a_view_in_use_keeps_its_focus_while_the_rest_of_it_loads(tab: ChromiumTab) -> None:
    page = tab.page
    waiting = Held(page, "**/transcript*")
    page.reload()
    write(page, "SELECT smoker, count(*) FROM survey GROUP BY smoker")
    waiting.let_go()
    page.get_by_text("Nothing yet.").wait_for()
    page.wait_for_timeout(100)
    assert page.evaluate(FOCUSED.format(".editor"))
    page.keyboard.type(" ORDER BY 2")
    page.wait_for_selector(".cm-content:has-text('smoker ORDER BY 2')")


def test_the_last_choice_is_drawn_however_late_the_others_arrive(tab: ChromiumTab) -> None:
    page = tab.open("Model")
    page.wait_for_selector(".chart, section p")
    pattern = "**/model?column=region"
    waiting = Held(page, pattern)
    page.get_by_label("Column", exact=True).select_option("region")
    page.get_by_label("Column", exact=True).select_option("sex")
    page.locator("main section").first.get_by_text("female", exact=True).wait_for()
    drawn = page.locator("main section").first.inner_text()
    with page.expect_response(pattern):
        waiting.let_go()
    page.wait_for_timeout(100)
    assert page.locator("main section").first.inner_text() == drawn


def test_progress_goes_on_where_its_connection_broke(tab: ChromiumTab) -> None:
    page = tab.open("Custodian")
    broken: list[str] = []

    def once(route: Any) -> None:
        if broken:
            route.continue_()
        else:
            broken.append(route.request.headers["last-event-id"])
            route.abort()

    page.route("**/events", once)
    form = page.locator("form:has-text('epsilon to spend')")
    form.get_by_label("epsilon").fill("0.05")
    form.get_by_label("Name").fill("resumed")
    form.get_by_label("Answers").select_option("1")
    form.get_by_role("button", name="Make a release").click()
    page.locator("tr:has-text('resumed'):has-text('download')").wait_for()
    page.get_by_text("The release is ready.").first.wait_for()
    assert broken == ["0"]
    tab.wrong.clear()  # the browser notes the connection that broke
