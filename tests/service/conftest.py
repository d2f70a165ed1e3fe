"""One service for the tests that only look at it; a browser and a served demonstration for those of the console."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from firefox import FIREFOX, Firefox
from pages import ChromiumTab, FirefoxTab, Tab
from rooms import House, house, settings

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(settings(tmp_path_factory.mktemp("service"))) as made:
        yield made


@pytest.fixture(scope="module")  # while it is open, nothing else in this process may run an event loop
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[bytes], str, str]]:
    """A running `maquette serve --demo`, its address, and the custodian's token."""
    home = tmp_path_factory.mktemp("console")
    with socket.socket() as probe, socket.socket() as second:
        probe.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        port, door = probe.getsockname()[1], second.getsockname()[1]
    command = [sys.executable, "-c", "from maquette.cli import main; main()", "serve", "--demo", "--port", str(port)]
    command += ["--pg-port", str(door)]
    command += ["--directory", str(home / "state"), "--token-file", str(home / "token")]
    with (home / "log").open("w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1_800):
            assert running.poll() is None, (home / "log").read_text()
            try:
                urllib.request.urlopen(f"{address}/v1/ready").close()
                break
            except OSError:
                time.sleep(0.1)
        yield running, address, (home / "token").read_text().strip()
    finally:
        running.terminate()
        running.wait(60)


@pytest.fixture(scope="module")
def server(serving: tuple[Any, str, str]) -> tuple[str, str]:
    """The address and the custodian's token of `maquette serve --demo`."""
    return serving[1:]


@pytest.fixture(scope="session")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    if FIREFOX is None:
        pytest.skip("there is no Firefox on this machine: apt-get install firefox-esr")
    opened = Firefox(tmp_path_factory.mktemp("firefox"))
    yield opened
    opened.close()


@pytest.fixture(scope="module", params=["chromium", pytest.param("firefox", marks=pytest.mark.thorough)])
def opening(request: pytest.FixtureRequest, server: tuple[str, str]) -> Callable[..., Tab]:
    """What opens a signed-in page, in each browser."""
    if request.param == "firefox":
        firefox = request.getfixturevalue("firefox")
        return lambda **given: FirefoxTab(firefox, server, **given)
    chromium = request.getfixturevalue("browser")
    return lambda **given: ChromiumTab(chromium, server, **given)


@pytest.fixture
def tab(opening: Callable[..., Tab]) -> Iterator[Tab]:
    opened = opening()
    yield opened
    opened.close()
