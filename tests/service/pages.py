"""A signed-in page of the console in a real browser, and how tests use it."""

from __future__ import annotations

import json
from typing import Any

from firefox import Firefox
from firefox_page import FirefoxPage

PATIENCE = 60_000
CLICKS = """
addEventListener("click", (event) => event.isTrusted && (window.clicked = (window.clicked ?? 0) + 1), true)
"""
NOTED = """
window.noted = [];
addEventListener("error", (event) => window.noted.push(String(event.message)));
addEventListener("unhandledrejection", (event) => window.noted.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => window.noted.push(event.violatedDirective));
"""
FETCHED = "performance.getEntriesByType('resource').map((each) => each.name)"


class Tab:
    """A signed-in page that notes what goes wrong."""

    name: str
    page: Any

    def __init__(self, server: tuple[str, str]) -> None:
        self.address, self.token = server
        self.wrong: list[str] = []

    def sign_in(self, token: str | None) -> None:
        self.page.get_by_label("Your token").fill(token or self.token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_selector(".price .badge")

    def open(self, view: str) -> Any:
        self.page.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True).click()
        self.page.wait_for_selector(f"nav a[aria-current]:has-text('{view}')")
        self.page.wait_for_selector("main h1")
        return self.page

    def local(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(f"asked of elsewhere: {url}")

    def close(self) -> None:
        assert self.wrong == [], self.wrong


class ChromiumTab(Tab):
    """A page with a profile of its own."""

    name = "chromium"

    def __init__(
        self, browser: Any, server: tuple[str, str], *, width: int = 1280, scheme: str = "light", as_: str | None = None
    ) -> None:
        super().__init__(server)
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=self.address)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.local(request.url))
        self.page.add_init_script(CLICKS)
        self.page.goto(self.address)
        self.sign_in(as_)

    def _said(self, message: Any) -> None:
        refused = "status of 422" in message.text  # the browser notes a question that was refused
        if message.type in ("error", "warning") and not refused:
            self.wrong.append(message.text)

    def close(self) -> None:
        self.context.close()
        super().close()


class FirefoxTab(Tab):
    """The one window of a Firefox, as if nobody had used it."""

    name = "firefox"

    def __init__(
        self,
        browser: Firefox,
        server: tuple[str, str],
        *,
        width: int = 1280,
        scheme: str = "light",
        as_: str | None = None,
    ) -> None:
        super().__init__(server)
        browser.do("WebDriver:SetWindowRect", width=width, height=1000)
        browser.darken(scheme == "dark")
        self.page = FirefoxPage(browser)
        self._browser = browser
        self.page.goto(self.address)
        self.page.wait_for_selector("input[type=password], header.top")
        if self.page.locator("header.top").count():  # a test before this one did not come to its end
            self._forget()
            self.page.goto(self.address)
            self.page.get_by_label("Your token").wait_for()
        browser.run(CLICKS + NOTED)
        self.sign_in(as_)

    def close(self) -> None:
        self.wrong += self.page.evaluate("window.noted ?? []")
        for url in self.page.evaluate(FETCHED):
            self.local(url)
        self._forget()
        super().close()

    def _forget(self) -> None:
        self.page.evaluate("() => (localStorage.clear(), sessionStorage.clear())")
        self._browser.do("WebDriver:DeleteAllCookies")
        self.page.goto("about:blank")


def write(page: Any, sql: str) -> None:
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.type(sql)
    page.keyboard.press("Escape")


def until(page: Any, script: str) -> None:
    """Wait until a script of the page is true; it is not evaluated by the page, whose policy forbids that."""
    for _ in range(PATIENCE // 50):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"did not become true: {script}")


def shows(page: Any, sql: str) -> None:
    """Wait until the SQL that a page shows holds a text."""
    until(page, f"Boolean(document.querySelector('pre')?.innerText.includes({json.dumps(sql)}))")


def counted(page: Any, selector: str, number: int) -> None:
    """Wait until a selector finds so many elements."""
    until(page, f"document.querySelectorAll({json.dumps(selector)}).length === {number}")


def call(server: tuple[str, str], method: str, path: str, **body: Any) -> Any:
    """One request to the service, as the custodian."""
    import urllib.request

    address, token = server
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    sent = urllib.request.Request(f"{address}/v1/{path}", json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(sent) as reply:
        return json.loads(reply.read() or b"null")
