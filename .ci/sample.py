"""Of the tests that would run, one case of each: `pytest -p sample --sample 1/2` takes it of every second test.

`--sample 2/2` takes it of the others, so that two interpreters share the tests. The tests that import every module run
whole in each part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator

import pytest

WHOLE = "test_rooms.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The part of the tests, of how many parts."""
    parser.addoption("--sample", default="1/1", metavar="PART/PARTS", help="one case of each test of this part")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """After the tiers left out what takes long."""
    yield
    part, parts = map(int, config.getoption("--sample").split("/"))
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.name != WHOLE:
            tests[item.nodeid.partition("[")[0]].append(item)
    # Not always the first case, which is often the plainest.
    kept = {cases[place % len(cases)] for place, cases in enumerate(tests.values()) if place % parts == part - 1}
    kept.update(item for item in items if item.path.name == WHOLE)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
