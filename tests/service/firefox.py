"""Firefox, driven through Marionette: the protocol it has of its own, so nothing but Firefox is needed.

A message is its length, a colon and a JSON list: [0, number, command, parameters] and [1, number, error, result].
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
SETTINGS = {
    "app.update.auto": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "dom.events.testing.asyncClipboard": True,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}


class Firefox:
    """One window of a fresh Firefox."""

    def __init__(self, folder: Path, *, patience: float = 60.0) -> None:
        assert FIREFOX is not None, "there is a Firefox"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        chosen = {**SETTINGS, "marionette.port": port}
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in chosen.items()]
        (folder / "user.js").write_text("\n".join(lines))
        command = [
            FIREFOX,
            "--headless",
            "--marionette",
            "--remote-allow-system-access",
            "--no-remote",
            "--profile",
            str(folder),
        ]
        self._running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.patience, self._sent = patience, 0
        self._socket = self._connect(port)
        self._read()  # it greets
        self.do("WebDriver:NewSession", capabilities={"alwaysMatch": {"pageLoadStrategy": "normal"}})
        self.do("WebDriver:SetTimeouts", script=600_000)

    def _connect(self, port: int) -> socket.socket:
        end = time.monotonic() + self.patience
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=self.patience)
            except OSError:
                if self._running.poll() is not None or time.monotonic() > end:
                    self._running.kill()
                    raise
                time.sleep(0.2)

    def _read(self) -> Any:
        length = b""
        while (letter := self._socket.recv(1)) != b":":
            assert letter, "Firefox has closed the connection"
            length += letter
        body = b""
        while len(body) < int(length):
            body += self._socket.recv(int(length) - len(body))
        return json.loads(body)

    def do(self, command: str, **given: Any) -> Any:
        """Send a command and wait for what it returns."""
        self._sent += 1
        message = json.dumps([0, self._sent, command, given]).encode()
        self._socket.sendall(str(len(message)).encode() + b":" + message)
        _, _, error, result = self._read()
        if error:
            raise RuntimeError(f"{error['error']}: {error['message']}")
        return result.get("value") if isinstance(result, dict) else result

    def run(self, script: str, *given: Any) -> Any:
        """What a script of the page returns."""
        return self.do("WebDriver:ExecuteScript", script=script, args=list(given))

    def darken(self, dark: bool) -> None:
        """Prefer dark colours, as the system would; or light ones."""
        self.do("Marionette:SetContext", value="chrome")
        self.run(
            "Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', arguments[0])", int(not dark)
        )
        self.do("Marionette:SetContext", value="content")

    def picture(self, path: Path) -> None:
        """Keep a picture of the page."""
        path.write_bytes(base64.b64decode(self.do("WebDriver:TakeScreenshot", full=True)))

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError, RuntimeError, AssertionError):
            self.do("Marionette:Quit", flags=["eForceQuit"])
        self._socket.close()
        try:
            self._running.wait(20)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait(20)
