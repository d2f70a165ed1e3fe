"""A page in Firefox with the part of Playwright's interface that tests of the console use, so that each flow is written
once and runs in both browsers. Elements are found anew for every act, in the page, by roles, labels, texts and CSS.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from firefox import ELEMENT, Firefox

FIND = (Path(__file__).parent / "find.js").read_text()
KEYS = {"Enter": "\ue007", "Tab": "\ue004", "Escape": "\ue00c", "Delete": "\ue017", "Space": " ", "Control": "\ue009"}
STALE = 5  # tries
# The middle of a mark of a chart: Firefox's own click is for elements of HTML.
PLACE = """
const mark = found.find(seen);
if (!(mark instanceof SVGElement)) return null;
mark.scrollIntoView({ block: "center" });
const box = mark.getBoundingClientRect();
return [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)];
"""
SELECT = """
const element = found[0];
element.value = [...element.options].find((each) => each.value === given[0] || each.label === given[0]).value;
element.dispatchEvent(new Event("input", { bubbles: true }));
element.dispatchEvent(new Event("change", { bubbles: true }));
"""


class Locator:
    """Elements of a page, by the path that leads to them."""

    def __init__(self, browser: Firefox, path: tuple[tuple[Any, ...], ...] = ()) -> None:
        self._browser, self._path = browser, path

    def _then(self, *step: Any) -> Locator:
        return Locator(self._browser, (*self._path, step))

    def locator(self, css: str, *, has_text: str = "") -> Locator:
        return self._then("css", css + (f":has-text('{has_text}')" if has_text else ""))

    def get_by_role(self, role: str, *, name: str | None = None, exact: bool = False) -> Locator:
        return self._then("role", role, name, exact)

    def get_by_label(self, text: str, *, exact: bool = False) -> Locator:
        return self._then("label", text, exact)

    def get_by_text(self, text: str, *, exact: bool = False) -> Locator:
        return self._then("text", text, exact)

    def nth(self, place: int) -> Locator:
        return self._then("nth", place)

    @property
    def first(self) -> Locator:
        return self.nth(0)

    @property
    def last(self) -> Locator:
        return self.nth(-1)

    def _do(self, script: str, *given: Any) -> Any:
        return self._browser.run(FIND + script, self._path, *given)

    def _until(self, script: str) -> None:
        end = time.monotonic() + self._browser.patience
        while not self._do(script):
            if time.monotonic() > end:
                page = self._browser.run("return document.body.innerText")
                raise AssertionError(f"{self._path} did not become so: {script}: {page}")
            time.sleep(0.03)

    def wait_for(self, *, state: str = "visible", timeout: float = 0) -> None:
        self._until("return !found.some(seen)" if state == "detached" else "return found.some(seen)")

    def _one(self) -> str:
        self._until("return found.some((each) => (seen(each) || each.type === 'file') && !each.disabled)")
        element: str = self._do("return found.find((each) => seen(each) || each.type === 'file')")[ELEMENT]
        return element

    def _act(self, command: str, **given: Any) -> None:
        """Do something to the element; a page that was drawn anew meanwhile has another one."""
        for left in reversed(range(STALE)):
            try:
                self._browser.do(command, id=self._one(), **given)
                return
            except RuntimeError as error:
                if not left or "stale element" not in str(error):
                    raise

    def click(self, *, timeout: float = 0) -> None:
        self._one()
        place = self._do(PLACE)
        if place is None:
            self._act("WebDriver:ElementClick")
        else:
            acts = [{"type": "pointerMove", "x": place[0], "y": place[1]}]
            acts += [{"type": act, "button": 0} for act in ("pointerDown", "pointerUp")]
            self._browser.do("WebDriver:PerformActions", actions=[{"type": "pointer", "id": "mouse", "actions": acts}])

    def fill(self, text: str) -> None:
        self._act("WebDriver:ElementClear")
        self._act("WebDriver:ElementSendKeys", text=text)

    def set_input_files(self, path: str) -> None:
        self._act("WebDriver:ElementSendKeys", text=path)

    def select_option(self, value: str) -> None:
        self._one()
        self._do(SELECT, value)

    def check(self) -> None:
        self._set(True)

    def uncheck(self) -> None:
        self._set(False)

    def _set(self, checked: bool) -> None:
        if self.evaluate("(each) => each.checked") is not checked:
            self.click()

    def evaluate(self, function: str) -> Any:
        self._one()
        return self._do(f"return ({function})(found[0])")

    def count(self) -> int:
        return int(self._do("return found.length"))

    def inner_text(self) -> str:
        return str(self.evaluate("(each) => each.innerText ?? each.textContent"))

    def all_inner_texts(self) -> list[str]:
        return list(self._do("return found.map((each) => each.innerText)"))

    def get_attribute(self, name: str) -> str | None:
        self._one()
        found: str | None = self._do("return found[0].getAttribute(given[0])", name)
        return found


class Keyboard:
    """Keys pressed one by one, wherever the focus is."""

    def __init__(self, browser: Firefox) -> None:
        self._browser = browser

    def press(self, keys: str) -> None:
        pressed = [KEYS.get(key, key) for key in keys.split("+")]
        self._send([("keyDown", key) for key in pressed] + [("keyUp", key) for key in reversed(pressed)])

    def type(self, text: str) -> None:
        self._send([(act, letter) for letter in text for act in ("keyDown", "keyUp")])

    def _send(self, acts: list[tuple[str, str]]) -> None:
        keys = {"type": "key", "id": "keys", "actions": [{"type": act, "value": key} for act, key in acts]}
        self._browser.do("WebDriver:PerformActions", actions=[keys])


class FirefoxPage(Locator):
    """The one window of a Firefox."""

    def __init__(self, browser: Firefox) -> None:
        super().__init__(browser)
        self.keyboard = Keyboard(browser)

    def goto(self, address: str) -> None:
        self._browser.do("WebDriver:Navigate", url=address)

    def reload(self) -> None:
        self._browser.do("WebDriver:Refresh")

    def wait_for_selector(self, css: str, *, timeout: float = 0) -> Locator:
        found = self.locator(css)
        found.wait_for()
        return found

    def wait_for_timeout(self, milliseconds: float) -> None:
        time.sleep(milliseconds / 1000)

    def evaluate(self, script: str, *given: Any) -> Any:
        run = f"const made = ({script.strip()}); return typeof made === 'function' ? made(...arguments) : made;"
        return self._browser.run(run, *given)
