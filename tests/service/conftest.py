"""One service for the tests that only look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rooms import House, house, settings


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(settings(tmp_path_factory.mktemp("service"))) as made:
        yield made
