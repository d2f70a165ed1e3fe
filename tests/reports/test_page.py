"""The page: all its parts, nothing fetched, nothing executed that came from a schema, no row read."""

from __future__ import annotations

import builtins
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from report_checks import HOSTILE, SCHEMA, asked, curator, page, prose, released, rows, session_page, specs

import maquette as mq
from maquette.errors import DataError, MaquetteError, QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.releases import Release, archive, gaussian, graphical, iterative_construction, mwem
from maquette.reports import charts, evaluation, registry_entry, report, tables, test_data as declared
from maquette.reports.subject import subject_of
from maquette.session import online

SECTIONS = ["protection", "budget", "columns", "pairs", "doubt", "rounds", "synthetic", "evaluation", "certificate"]


def test_a_release_has_every_section() -> None:
    for name in SECTIONS:
        assert f'<section id="{name}">' in page()
        assert f'href="#{name}"' in page()
    assert 'id="questions"' not in page()
    assert "TEST DATA" not in page()


def test_a_session_tells_of_its_questions() -> None:
    assert '<section id="questions">' in session_page()
    assert "6 questions since the session was opened" in session_page()
    (values,) = [
        spec["data"]["values"]
        for spec in specs(session_page()).values()
        if "data" in spec and "route" in spec["data"].get("values", [{}])[0]
    ]
    assert [value["route"] for value in values].count("cache") == 2
    assert values[-1]["spent"] == pytest.approx(asked().curator.ledger.spent() / UNITS_PER_ONE)


def test_a_session_draws_no_guesses() -> None:
    """Its model knows only what was asked: of the rest a picture would show nothing but the prior."""
    text = prose(session_page())
    assert "<h3>region</h3>" in text
    assert "<h3>age</h3>" not in text
    assert "Columns whose levels nobody has asked about yet: age" in text
    assert "nobody has asked about yet" not in prose(page())


def test_peeking_charges_nothing_and_holds_the_answer() -> None:
    session = asked()
    before = session.curator.ledger.spent()
    given, known = session.peek("age >= 60"), session.ask("age >= 60")
    guess = session.peek("age >= 50 AND kids >= 3")
    assert session.curator.ledger.spent() == before
    assert (given.low, given.high) == (known.low, known.high)
    assert guess.guarantee is None


def test_nothing_is_fetched() -> None:
    """No address outside the copy of Vega but namespaces; no element that loads; a policy that forbids it all."""
    text = page()
    outside = text.replace(charts.vega(), "")
    assert re.findall(r"https?://", outside) == []
    assert not re.search(r"<(link|img|iframe|object|embed)\b|\bsrc=|@import|url\(", outside)
    assert "default-src 'none'" in text
    assert text.count(charts.vega()) == 1
    assert "$schema" not in str(specs(text))


@pytest.mark.thorough
@pytest.mark.parametrize("made", [page, session_page])
def test_every_chart_is_one_that_vega_lite_knows(made: Any) -> None:
    drawn = specs(made())
    assert len(drawn) > 3
    for spec in drawn.values():
        charts.altair().Chart.from_dict(spec)  # validated against its schema


def test_names_are_never_markup() -> None:
    outside = page().replace(charts.vega(), "")
    assert HOSTILE not in outside
    assert "<b>east" not in outside
    assert len(re.findall(r"<script", outside)) == 3
    assert "&lt;script&gt;" in prose(page())
    assert any(HOSTILE in str(spec) for spec in specs(page()).values())  # it is there, as data


def test_no_field_or_expression_holds_a_name() -> None:
    def expressions(part: Any) -> list[str]:
        if isinstance(part, dict):
            own = [str(part[key]) for key in ("field", "expr", "test", "calculate") if key in part]
            return own + [text for key, inner in part.items() if key != "values" for text in expressions(inner)]
        return [text for inner in part for text in expressions(inner)] if isinstance(part, list) else []

    found = [text for spec in specs(page()).values() for text in expressions(spec)]
    assert found
    assert not any(name in text for text in found for name in (HOSTILE, "region", "kids"))


@pytest.mark.thorough
def test_a_saved_release_gives_the_same_page(tmp_path: Path) -> None:
    released().save(tmp_path / "people.maq")
    again = Release.load(tmp_path / "people.maq")
    assert again.trace == released().trace
    assert len(again.trace) > 0
    out = report(again, tmp_path / "report.html", title=f"People {HOSTILE}")
    assert out == tmp_path / "report.html"
    assert out.read_text(encoding="utf-8") == page()


def test_files_from_before_traces_still_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        """JSON as it was written when manifests had no trace."""

        loads = staticmethod(json.loads)

        @staticmethod
        def dumps(value: dict[str, Any], **how: Any) -> str:
            return json.dumps({name: part for name, part in value.items() if name != "trace"}, **how)

    monkeypatch.setattr(archive, "json", Older)
    released().save(tmp_path / "old.maq")
    assert Release.load(tmp_path / "old.maq").trace == ()


def test_files_from_before_units_were_named_still_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        """JSON as it was written when certificates did not name the unit."""

        loads = staticmethod(json.loads)

        @staticmethod
        def dumps(value: dict[str, Any], **how: Any) -> str:
            kept = {name: fact for name, fact in value["certificate"].items() if name != "unit"}
            return json.dumps({**value, "certificate": kept}, **how)

    schema = mq.Schema([mq.Boolean("a")])
    rows = {"a": [True, False] * 50, "who": [i // 2 for i in range(100)]}
    table = mq.open_table(rows, schema, privacy_unit="who", max_contributions=2)
    made = mq.release(mq.Curator(table, mq.Budget(epsilon=1.0)), mq.marginals(schema, k=1))
    made.save(tmp_path / "new.maq")
    assert Release.load(tmp_path / "new.maq").certificate.unit == "who"
    monkeypatch.setattr(archive, "json", Older)
    made.save(tmp_path / "old.maq")
    older = Release.load(tmp_path / "old.maq")
    assert older.certificate.unit is None
    assert "<b>one unit of up to 2 rows</b>" in report(older)


def test_one_row_of_each_unit_is_still_a_unit() -> None:
    schema = mq.Schema([mq.Boolean("a")])
    table = mq.open_table({"a": [True, False] * 50, "who": list(range(100))}, schema, privacy_unit="who")
    made = mq.release(mq.Curator(table, mq.Budget(epsilon=1.0)), mq.marginals(schema, k=1))
    assert subject_of(made).unit == "one who (with one row)"
    assert {hazard.topic: hazard.status for hazard in evaluation(made)}["Unit of privacy"] == "met"
    assert '<th scope="row">unit<' in report(made)
    assert subject_of(released()).unit == "one row"


def test_pairs_show_their_intervals_on_the_page() -> None:
    text = prose(page())
    assert text.count("The numbers, with their intervals") == text.count("Noise intervals: half are within") > 0
    assert re.search(r'\d+\.\d\d%<br><span class="soft">\d+\.\d\d% to \d+\.\d\d%</span>', text)


def test_levels_measured_together_are_drawn_together() -> None:
    """A group that cuts across what was measured has an interval as wide as what it cuts."""
    rng = np.random.default_rng(2)
    schema = mq.Schema([mq.Integer("age", 0, 79), mq.Boolean("a"), mq.Category("region", ["n", "e", "s", "w"])])
    age = np.clip(rng.normal(40, 15, 20_000).astype(int), 0, 79)
    people = {"age": age, "a": rng.random(20_000) < age / 80, "region": rng.choice(["n", "e", "s", "w"], 20_000)}
    kept = mq.Curator(mq.open_table(people, schema), mq.Budget(epsilon=1.0, delta=1e-9))
    subject = subject_of(graphical(kept, mq.marginals(schema, k=2)))
    assert set(subject.groups) == {"age"}
    cells = tables.pair_cells(subject, ("age", "a"))
    plain = tables.pair_cells(replace(subject, groups={}), ("age", "a"))
    # A cell that moves into its own interval moves alone, by some of its noise (about ten rows of 20,000).
    assert sum(cell.seen.value for cell in cells) == pytest.approx(1.0, abs=0.01)
    assert max(c.seen.high - c.seen.low for c in cells) < 0.5 * max(c.seen.high - c.seen.low for c in plain)
    ends = [cell.labels[0].split(" to ") for cell in cells[::2]]
    assert [int(one[0]) for one in ends[1:]] == [int(other[-1]) + 1 for other in ends[:-1]]
    assert (int(ends[0][0]), int(ends[-1][-1])) == (0, 79)


@pytest.mark.parametrize("method", [mwem, iterative_construction, graphical])
def test_loops_leave_a_trace(method: Any) -> None:
    schema = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
    table = mq.open_table({"a": [True, False] * 20_000, "b": [True, True, False, True] * 10_000}, schema)
    settings = {"rounds": 3} if method is mwem else {}
    made = method(mq.Curator(table, mq.Budget(epsilon=4.0, delta=1e-9)), mq.marginals(schema, k=2), **settings)
    assert made.trace
    assert [step.round for step in made.trace] == list(range(1, len(made.trace) + 1))
    assert made.trace[0].distance > made.trace[0].noise  # uniform is far from this table
    assert all(step.noise > 0 for step in made.trace)


@pytest.mark.thorough
def test_separate_tables_have_a_page_too() -> None:
    made = gaussian(curator(), mq.queries(SCHEMA, [mq.where(SCHEMA, "age >= 50 AND kids >= 1")]), epsilon=0.5)
    text = report(made)
    assert 'id="budget"' in text
    assert 'id="synthetic"' not in text


@pytest.mark.thorough
def test_truth_is_told_only_of_declared_test_data() -> None:
    with pytest.raises(QueryError, match="never reads rows on its own"):
        report(released(), truth=rows())  # type: ignore[call-overload]
    with pytest.raises(QueryError, match="keeps private rows"):
        declared(mq.open_table(rows(), SCHEMA))
    with pytest.raises(QueryError, match="keeps private rows"):
        declared(curator())
    text = report(released(), truth=declared(rows()))
    assert text.count("<strong>TEST DATA</strong>") == 2
    assert '<section id="truth">' in text


def test_injected_noise_is_shown_as_not_private() -> None:
    class Still:
        def laplace(self, scale: object, size: int) -> Any:
            return np.zeros(size, dtype=np.int64)

        gaussian = laplace

    kept = mq.Curator(mq.open_table(rows(), SCHEMA), mq.Budget(epsilon=1.0), noise=Still())  # type: ignore[arg-type]
    made = mq.release(kept, mq.marginals(SCHEMA, k=1), method="everything")
    assert "<strong>NOT PRIVATE</strong>" in report(made)
    assert any(hazard.status == "not met" for hazard in evaluation(made))
    with pytest.raises(QueryError, match="not private"):
        registry_entry(made, organisation="Office", use="tests", data="made up")


def test_the_evaluation_answers_every_hazard() -> None:
    for thing in (released(), asked()):
        found = {hazard.topic: hazard for hazard in evaluation(thing)}
        assert {"Privacy parameters", "Unit of privacy", "Bounded contributions", "Multiple releases"} <= set(found)
        assert {"Algorithms", "Floating point", "Timing", "Randomness"} <= set(found)
        assert {"Security and access control", "Data collection exposure", "Trust model"} <= set(found)
    assert {h.topic: h.status for h in evaluation(asked())}["Timing"] == "not met"


def test_people_and_replacement_are_named() -> None:
    schema = mq.Schema([mq.Boolean("a")])
    table = mq.open_table(
        {"a": [True, False] * 50, "who": [i // 2 for i in range(100)]}, schema, privacy_unit="who", max_contributions=2
    )
    kept = mq.Curator(table, mq.Budget(epsilon=1.0), relation="replace")
    text = prose(report(mq.release(kept, mq.marginals(schema, k=1), method="everything")))
    assert "<b>one who (with up to 2 rows)</b>" in text
    assert "distinguish two possible values of one who" in text
    assert "its presence is public (relation: replace)" in text
    shown = subject_of(online(mq.Curator(table, mq.Budget(epsilon=50.0)), alpha=0.5))
    assert shown.unit == "one who (with up to 2 rows)"


def test_other_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="about dict; expected a Release or a Session"):
        report(rows())
    with pytest.raises(DataError, match="cannot be written"):
        report(released(), tmp_path / "nowhere" / "report.html")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "altair":
            raise ImportError("No module named 'altair'", name="altair")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MaquetteError, match=r"pip install 'maquette\[charts\]'"):
        report(released())


def test_ledger_and_schema_show_themselves_escaped() -> None:
    shown = curator().ledger._repr_html_()  # type: ignore[attr-defined]
    assert "add-remove, unit=row" in shown
    assert HOSTILE not in SCHEMA._repr_html_()


@pytest.mark.thorough
def test_the_command_writes_page_and_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    from maquette.cli import main

    monkeypatch.chdir(tmp_path)
    released().save("people.maq")

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["maquette", "report", "people.maq", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capsys.readouterr().out

    about = ("--organisation", "Office", "--use", "tests", "--data", "made up", "--date", "2026-01-02")
    code, told = run("--out", "report.html", "--title", "People", "--registry", "entry.yaml", *about)
    assert code == 0
    assert "report.html: open it in a browser" in told
    assert "<h1>People</h1>" in Path("report.html").read_text(encoding="utf-8")
    assert (
        yaml.safe_load(Path("entry.yaml").read_text(encoding="utf-8"))["deployment"]["basic"]["intended_use"] == "tests"
    )
    assert run("--out", "other.html", "--registry", "entry.yaml")[0] == 2
    assert not Path("other.html").exists()
    code, told = run("--out", "report.html", "--json")
    assert (code, '"registry": null' in told) == (0, True)


def test_levels_shown_together_are_named_by_their_outer_ends() -> None:
    from maquette.reports.tables import groups_of

    columns = {
        mq.Date("seen", "2024-01-01", "2024-12-31", unit="month"): ("2024-01 to 2024-06", "2024-01"),
        mq.Integer("age", 0, 119, width=10): ("0 to 59", "0 to 9"),
        mq.Integer("year", 1990, 2024, width=5): ("1990 to 2009", "1990 to 1994"),
        mq.Integer("change", -60_000, 59_999, width=10_000): ("-60,000 to -1", "-60,000 to -50,001"),
        mq.Number("cost", 0, 120_000, bins=12): ("0 to 60,000", "0 to 10,000"),
        mq.Category("town", [f"town {i}" for i in range(12)]): ("town 0", "town 0"),
    }
    for column, (both, single) in columns.items():
        shares = np.full(column.size, 1 / column.size)
        assert groups_of(column, shares, 2)[0].label == both
        assert groups_of(column, shares, 12)[0].label == single
    zero = mq.Number("gain", 0, 20_000, bins=2, atoms=[0])
    assert [group.label for group in groups_of(zero, np.ones(3) / 3, 12)][:2] == ["0", "over 0 to 10,000"]


def test_bought_sums_are_shown_under_their_column_and_named_in_the_account(tmp_path: Path) -> None:
    schema = mq.Schema([mq.Integer("gain", 0, 99_999, width=10_000, atoms=[0]), mq.Boolean("a")])
    table = mq.open_table({"gain": [0, 5, 70_000] * 900, "a": [True, False, True] * 900}, schema)
    with mq.Curator(table, mq.Budget(epsilon=5.0)) as curator:
        made = mq.release(curator, mq.marginals(schema, k=2, sums=["gain"]))
    text = report(made, tmp_path / "t.html").read_text()
    assert re.search(r"Average 2\d,\d{3} \(", text)
    assert "Measured from the values themselves." in text
    assert "add up values of gain" in text
