"""Shared test settings: tiers of tests, and under MAQUETTE_REQUIRE_ALL=1 a skipped test is a failure."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from maquette.errors import MaquetteError

pytest_plugins = ["tiers", "postgres_server"]

settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if report.skipped and os.environ.get("MAQUETTE_REQUIRE_ALL") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although everything is required: {item.nodeid}"
    return report
