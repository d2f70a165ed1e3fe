"""A signed-in page of the console in a real browser, and how tests use it."""

from __future__ import annotations

from typing import Any

PATIENCE = 60_000
CLICKS = """
addEventListener("click", (event) => event.isTrusted && (window.clicked = (window.clicked ?? 0) + 1), true)
"""


class Tab:
    """A signed-in page that notes what goes wrong."""

    def __init__(
        self, browser: Any, server: tuple[str, str], *, width: int = 1280, scheme: str = "light", as_: str | None = None
    ) -> None:
        self.address, self.token = server
        token = as_ or self.token
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.wrong: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self._local(request.url))
        self.page.add_init_script(CLICKS)
        self.page.goto(self.address)
        self.page.get_by_label("Your token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_selector(".price .badge")

    def _said(self, message: Any) -> None:
        refused = "status of 422" in message.text  # the browser notes a question that was refused
        if message.type in ("error", "warning") and not refused:
            self.wrong.append(message.text)

    def _local(self, url: str) -> None:
        if not url.startswith((self.address, "data:", "blob:")):
            self.wrong.append(f"asked of elsewhere: {url}")

    def open(self, view: str) -> Any:
        self.page.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True).click()
        self.page.wait_for_selector(f"nav a[aria-current]:has-text('{view}')")
        self.page.wait_for_selector("main h1")
        return self.page

    def close(self) -> None:
        self.context.close()
        assert self.wrong == []


def write(page: Any, sql: str) -> None:
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.type(sql)
    page.keyboard.press("Escape")


def call(server: tuple[str, str], method: str, path: str, **body: Any) -> Any:
    """One request to the service, as the custodian."""
    import json
    import urllib.request

    address, token = server
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    sent = urllib.request.Request(f"{address}/v1/{path}", json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(sent) as reply:
        return json.loads(reply.read() or b"null")
