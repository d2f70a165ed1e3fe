"""Whole mechanisms keep their promises in most of some runs, and a sabotage of each is noticed.

`benchmarks/theorems.py` runs each a thousand times; its figures are on a page that must be up to date. Here are 40 runs
from a seed: at beta 0.1 more than 16 failures have a chance below one in a million, and a mechanism that fails with
probability 0.7 is refused with probability 0.999.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import theorems
from theorem_runs import judge
from theorem_runs.comparisons import COMPARISONS, DEFAULT, winners
from theorem_runs.noise import Seeded
from theorem_runs.page import PAGE, page
from theorem_runs.toys import BETA, TOYS, Ran

RUNS = 40
QUICK = {"net", "small-db"}  # in the fast tier too


def failures(name: str, runs: int, factor: int = 1) -> int:
    ran = [TOYS[name].run(Seeded(seed, factor)) for seed in range(runs)]
    assert all(isinstance(each, Ran) and each.error >= -1e-12 for each in ran)
    return sum(each.error > each.promised for each in ran)


def cases() -> list[object]:
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.thorough) for name in TOYS]


@pytest.mark.parametrize("name", cases())
def test_a_promise_fails_no_more_often_than_beta(name: str) -> None:
    assert not judge.judged(failures(name, RUNS), RUNS, BETA).refuted


@pytest.mark.parametrize("name", cases())
def test_a_broken_mechanism_is_noticed(name: str) -> None:
    """The same test with louder noise, or with a broken part, refutes beta."""
    toy = TOYS[name]
    with toy.patch():
        assert judge.judged(failures(name, RUNS, toy.loud), RUNS, BETA).refuted, toy.broken


def test_what_the_page_says_is_recorded() -> None:
    figures = theorems.figures()
    assert PAGE.read_text(encoding="utf-8") == page(figures), "run python benchmarks/theorems.py --page"
    assert set(figures["toys"]) <= set(TOYS)
    assert set(figures["comparisons"]) <= set(COMPARISONS)
    for name, found in figures["toys"].items():
        assert found["runs"] >= 1000, name
        assert not judge.judged(found["failures"], found["runs"], BETA).refuted, name
        assert found["noticed"] != "nothing", name


# What pages say about the default release, and the comparison that must bear it out: methods that ever beat it.
BEATEN_BY = {
    "nets": {"net with last year's table"},
    "norms": set(),
    "lecture": set(),
    "boosting": set(),
    "projection": set(),
    "from-learners": set(),
}


@pytest.mark.parametrize("name", BEATEN_BY)
def test_verdicts_on_pages_are_those_of_the_figures(name: str) -> None:
    found = winners(theorems.figures()["comparisons"][name]["figures"])
    assert {method for methods in found.values() for method in methods} == BEATEN_BY[name]


def test_a_judgement_is_exact() -> None:
    assert judge.judged(0, 1000, 0.1).low == 0.0
    assert judge.judged(1000, 1000, 0.1) == judge.Judged(judge.judged(1000, 1000, 0.1).low, 1.0, True)
    allowed = judge.most(1000, 0.05)
    assert allowed == 86
    assert judge.judged(allowed + 1, 1000, 0.05).refuted
    assert not judge.judged(allowed, 1000, 0.05).refuted
    assert 0.1 < judge.power(1000, 0.1) < 0.21


def test_a_method_wins_only_beyond_the_noise() -> None:
    figures = {
        "small": {"one": {"mean": 0.1, "doubt": 0.01}, DEFAULT: {"mean": 0.2, "doubt": 0.01}},
        "large": {"one": {"mean": 0.18, "doubt": 0.01}, DEFAULT: {"mean": 0.2, "doubt": 0.01}},
    }
    assert winners(figures) == {"small": ["one"], "large": []}
