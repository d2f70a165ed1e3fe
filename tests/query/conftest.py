"""The engine of the checks is closed before the interpreter ends, which DuckDB otherwise reports as a leak."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from query_checks import engine


@pytest.fixture(scope="session", autouse=True)
def closed_engine() -> Iterator[None]:
    yield
    if engine.cache_info().currsize:
        engine().close()
        engine.cache_clear()
