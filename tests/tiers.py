"""Tiers of tests: what is marked `thorough` takes long, and runs with `--thorough` or when its own name is given.

`thorough(fast=3)` leaves three cases of a test that has many in the fast tier, spread evenly over their order. There,
properties of Hypothesis are tried on a quarter of their examples.
Workers that share files take the longest first, as far as lengths are known, so that all end at about the same time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

LONGER = 50  # times: about what a thorough test takes in comparison with another
FEWER = 4  # times: examples of a property in the fast tier
LEFT_OUT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="also run the tests marked thorough")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out thorough tests, unless they were asked for; the longest files first, where workers share them."""
    _leave_out(config, items)
    if hasattr(config, "workerinput"):
        longest_first(items)


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--thorough") or any("::" in name for name in config.args):
        return
    left_out = {item.nodeid for cases in _marked(items).values() for item in slow_cases(cases)}
    config.stash[LEFT_OUT] = len(left_out)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]
    for item in items:
        if item.get_closest_marker("hypothesis"):
            _try_fewer_examples(getattr(item, "obj", None))


def _try_fewer_examples(test: Any) -> None:
    """A decorator cannot change settings that a test already has, so this uses the name under which they are kept."""
    full = getattr(test, "_hypothesis_internal_use_settings", None)
    if full is not None:
        fewer = settings(full, max_examples=-(-full.max_examples // FEWER))
        getattr(test, "__func__", test)._hypothesis_internal_use_settings = fewer


def _marked(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The cases of each test that is marked thorough."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thorough"):
            tests[item.nodeid.partition("[")[0]].append(item)
    return tests


def slow_cases(cases: list[pytest.Item]) -> list[pytest.Item]:
    """All cases but those the mark keeps: the first of each of `fast` equal parts."""
    mark = cases[0].get_closest_marker("thorough")
    fast = mark.kwargs.get("fast", 0) if mark else 0
    kept = {part * len(cases) // fast for part in range(fast)}
    return [case for place, case in enumerate(cases) if place not in kept]


def longest_first(items: list[pytest.Item]) -> None:
    """Sort the files; the tests of a file keep their order."""
    lengths = Counter[Path]()
    for item in items:
        lengths[item.path] += LONGER if item.get_closest_marker("thorough") else 1
    items.sort(key=lambda item: -lengths[item.path])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist tells its controller, which collects nothing itself."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker collects the same tests, so the last to tell is as good as any."""
    output = getattr(node, "workeroutput", None) or {}
    node.config.stash[LEFT_OUT] = output.get("left_out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(f"{left_out} thorough tests were left out; `make test-all` runs them too")
