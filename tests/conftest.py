"""Shared test settings: tiers of tests, and under MAQUETTE_REQUIRE_ALL=1 a skipped test is a failure."""

from __future__ import annotations

import atexit
import fcntl
import gc
import os
import re
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from maquette.errors import MaquetteError

pytest_plugins = ["tiers", "postgres_server"]

settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """What is collected lives to the end: no garbage collection need walk through its million objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # so that what is left at the end can be freed in order


@pytest.fixture(scope="session", autouse=True)
def _parts_of_messages() -> Generator[None]:
    """Whatever error a test meets: what was expected is a field of it, not a part of what happened."""
    make = MaquetteError.__init__

    def checked(self: MaquetteError, happened: str, *, expected: str | None = None, advice: str | None = None) -> None:
        assert not re.search(r"(^|[;:.] )expected ", happened), f"pass expected= instead: {happened}"
        assert not re.match(r"(expected|got) ", advice or ""), f"not an advice: {advice}"
        make(self, happened, expected=expected, advice=advice)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MaquetteError, "__init__", checked)
        yield


@pytest.fixture(scope="session", autouse=True)
def _charts_bundled_once(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Making the script of charts takes seconds: one worker of a run makes it, the others read it."""
    if find_spec("vl_convert") is None:
        yield
        return
    import vl_convert

    make: Any = vl_convert.javascript_bundle
    workers = "PYTEST_XDIST_WORKER" in os.environ
    folder = tmp_path_factory.getbasetemp().parent if workers else tmp_path_factory.getbasetemp()

    def bundle(**given: str) -> str:
        kept = folder / f"charts {'-'.join(f'{name} {value}' for name, value in sorted(given.items()))}.js"
        with (folder / "charts.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                made = str(make(**given))
                kept.write_bytes(made.encode())
                return made
        return kept.read_bytes().decode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "javascript_bundle", bundle)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.skipped and os.environ.get("MAQUETTE_REQUIRE_ALL") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although everything is required: {item.nodeid}"
    return report
