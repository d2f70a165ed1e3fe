"""The page: one HTML file that opens from disk, fetches nothing, and says what was published and at what price."""

from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import Path
from typing import overload

import numpy as np

from maquette.errors import DataError, QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.reports import charts
from maquette.reports.account import CURRENCIES, grouped, numbered
from maquette.reports.hazards import evaluation
from maquette.reports.histograms import drawn_column
from maquette.reports.markup import (
    ABSENT,
    FACTS,
    by_error,
    by_round,
    document,
    escaped,
    heads,
    matrix,
    numbers,
    place,
    scrolled,
    sentence,
    spread,
    stacked,
)
from maquette.reports.quality import shares_of, similarity
from maquette.reports.risk import chance, in_words, number, odds_factor, percent, told, true_positive_rate
from maquette.reports.short import in_short
from maquette.reports.subject import Subject, subject_of, without_evidence
from maquette.reports.sums import bought_sums
from maquette.reports.tables import (
    Cell,
    column_cells,
    columns_shown,
    coverage,
    least_certain,
    pair_cells,
    pairs_shown,
    widest,
)
from maquette.reports.truth import TestRows, check_truth

MOST_DISTANCES = 20
SYNTHETIC = 5_000


@overload
def report(thing: object, path: None = None, *, truth: TestRows | None = None, title: str | None = None) -> str: ...
@overload
def report(thing: object, path: str | Path, *, truth: TestRows | None = None, title: str | None = None) -> Path: ...
def report(
    thing: object, path: str | Path | None = None, *, truth: TestRows | None = None, title: str | None = None
) -> str | Path:
    """A report on a release or a session: one HTML page, written to `path` (returned) or returned as text.

    It shows who is protected and from what, where the budget went, the marginals with their noise intervals, where the
    model is least certain, how its rounds went, the quality of its synthetic rows, an evaluation of every hazard, and
    the certificate. Needs the extra "charts"; the page itself needs nothing, not even a network.

    Privacy: post-processing of released numbers; free. With `truth=test_data(rows)` it also prints exact distances to
    those rows, under a banner: these are not private, so the rows must be invented or public.
    """
    checked = check_truth(truth)
    charts.altair()
    if path is not None and not Path(path).parent.is_dir():
        raise DataError(f"the report cannot be written to {str(path)!r}: there is no folder {str(Path(path).parent)!r}")
    subject = subject_of(thing)
    text = _Page(subject, checked, title).html()
    if path is None:
        return text
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"the report cannot be written to {str(path)!r}: {error.strerror}") from None
    return Path(path)


class _Page:
    """The sections of one page, and the charts they hold."""

    def __init__(self, subject: Subject, truth: TestRows | None, title: str | None) -> None:
        self.subject = subject
        self.truth = truth
        self.title = title or ("A private release" if subject.kind == "release" else "A private session")
        self.specs: dict[str, charts.Spec] = {}
        self.cells: dict[tuple[str, ...], list[Cell]] = {}

    def html(self) -> str:
        sections = [
            ("short", "In short", in_short(self.subject)),
            ("protection", "Who is protected", self.protection()),
            ("budget", "Where the budget went", self.budget()),
            ("columns", "Columns", self.columns()),
            ("pairs", "Pairs of columns", self.pairs()),
            ("doubt", "Where it is least certain", self.doubt()),
            ("rounds", "How the model was built", self.rounds()),
            ("questions", "Questions", self.questions()),
            ("synthetic", "Synthetic rows", self.synthetic()),
            ("truth", "Compared with the truth", self.accuracy()),
            ("evaluation", "Evaluation", self.hazards()),
            ("certificate", "Certificate", self.certificate()),
        ]
        kept = [(name, heading, body) for name, heading, body in sections if body]
        header = f"<header><h1>{escape(self.title)}</h1>{self.summary()}</header>{self.banners()}"
        return document(self.title, header, kept, self.specs)

    def chart(self, spec: charts.Spec, label: str, *, heading: str = "", caption: str = "") -> str:
        """A place for a chart, drawn when the page opens."""
        name = f"chart-{len(self.specs) + 1}"
        self.specs[name] = spec
        return place(name, label, heading=heading, caption=caption)

    def summary(self) -> str:
        subject = self.subject
        check = None if subject.release is None else subject.release.check
        checked = "" if check is None else f"<p>{escaped(sentence(check.statement(subject.confidence)))}</p>"
        return (
            f'<p class="soft">{escape(subject.method)} &middot; {len(subject.schema)} columns &middot; about '
            f"{subject.rows:,.0f} rows (estimated) &middot; maquette {escape(str(subject.facts['version']))}</p>"
            f"{checked}"
        )

    def banners(self) -> str:
        found = []
        if not self.subject.private:
            found.append(("NOT PRIVATE", "The noise was injected for a test. Do not publish this about real people."))
        if self.truth is not None:
            found.append(
                (
                    "TEST DATA",
                    "This page compares with exact counts of rows declared as test data. It is not private.",
                )
            )
        return "".join(f'<div class="banner"><strong>{name}</strong>{text}</div>' for name, text in found)

    def protection(self) -> str:
        subject = self.subject
        epsilon, delta = told(subject.loss)
        facts = {
            "epsilon": f"{epsilon:.4g}",
            "delta: probability of an exception": chance(delta) if delta else "none",
            "odds change at most by a factor of": f"{number(odds_factor(epsilon))}",
            "detected at most by the best attack, at 5% false positives": percent(
                true_positive_rate(subject.loss, 0.05)
            ),
        }
        shown = "".join(f'<div class="fact"><b>{escape(v)}</b><span>{escape(k)}</span></div>' for k, v in facts.items())
        hidden = (
            "whether it is in the table" if subject.relation == "add-remove" else "its values; its presence is public"
        )
        said = "".join(
            f"<p>{escape(sentence)}</p>" for sentence in in_words(subject.loss, subject.someone, subject.relation)
        )
        whole = ""
        if subject.total.units != subject.loss.units:
            before = told(subject.total)[0]
            whole = f"<p><b>With all charges to this table up to this publication, epsilon is {before:.4g}.</b></p>"
        curve = self.chart(
            charts.trade_off(subject.loss),
            "Best attack for each false positive rate",
            caption="No attack can be above the line.",
        )
        return (
            f"<p>Protected: <b>{escaped(subject.unit)}</b>; hidden: {hidden} "
            f"(relation: {escaped(subject.relation)}).</p>"
            f'<div class="facts">{shown}</div><div class="two"><div>{said}{whole}</div>{curve}</div>'
        )

    def budget(self) -> str:
        subject = self.subject
        lines = grouped(subject.lines)
        if not lines:
            return "<p>Nothing has been charged.</p>"
        delta, word = subject.loss.delta, CURRENCIES[subject.currency.partition(" ")[0]]
        free = len(subject.lines) - sum(line.charges for line in lines)
        told_free = f" {free:,} access{'es' * (free > 1)} under a guard cost nothing more." if free else ""
        limit = "" if subject.limit is None else f" The table's whole budget is {escaped(repr(subject.limit))}."
        body = "".join(
            f'<tr><td>{escaped(what)}</td><td class="number">{line.units / UNITS_PER_ONE:.4g}</td>'
            f'<td class="number">{line.units / max(1, subject.total.units):.1%}</td></tr>'
            for line, what in zip(lines, numbered(lines), strict=True)
        )
        total = sum(line.units for line in lines)
        return (
            f"<p>{word[0].upper() + word[1:]} adds up from charge to charge. Total: "
            f"{escaped(repr(subject.total))}.{limit}{told_free}</p>"
            + self.chart(charts.waterfall(lines, subject.currency, delta), "The budget, charge by charge")
            + f'<details><summary>As a table</summary><div class="scroll" tabindex="0"><table>'
            f"{heads('charge', word, 'share')}{body}"
            f'<tr><th scope="row">all</th><td class="number" id="spent" '
            f'data-units="{total}">{total / UNITS_PER_ONE:.4g}</td><td class="number">100%</td></tr></table></div>'
            "</details>"
        )

    def columns(self) -> str:
        subject, found, guessed = self.subject, list[str](), list[str]()
        for name in columns_shown(subject):
            try:
                cells = column_cells(subject, name)
            except QueryError:
                continue  # a release without information on this column
            if subject.kind == "session" and not any(cell.seen.known for cell in cells):
                guessed.append(name)  # a session's model knows only what was asked: its guess would mislead
                continue
            self.cells[(name,)] = cells
            spec, caption = drawn_column(subject.schema[name], cells)
            drawn = self.chart(spec, f"Shares of {name}; the numbers follow", heading=name, caption=caption)
            found.append(f"<div>{drawn}{bought_sums(subject, name)}{numbers(name, cells)}</div>")
        known = any(cell.seen.known for cells in self.cells.values() for cell in cells)
        how = (
            f"Lines and dark bands across the bars are noise intervals at {subject.confidence:.0%}: how far noise can "
            "have moved the share."
            if known
            else "Shares of rows according to the model. No measurements are kept with it, so there are no intervals."
        )
        drawn = f'<p>{how}</p><div class="grid">{"".join(found)}</div>' if found else ""
        rest = len(subject.schema) - len(found) - len(guessed)
        left = f'<p class="soft">{rest:,} more columns are not drawn.</p>' if rest > 0 else ""
        names = escaped(", ".join(guessed))
        unknown = f"<p>Columns whose levels nobody has asked about yet: {names}.</p>" if guessed else ""
        return drawn + unknown + (left if drawn else "")

    def pairs(self) -> str:
        subject, found = self.subject, []
        for one, other in pairs_shown(subject):
            cells = self.cells[(one, other)] = pair_cells(subject, (one, other))
            drawn = self.chart(
                charts.pair(cells, (one, other)),
                f"{one} and {other}",
                heading=f"{one} and {other}",
                caption=spread(cells),
            )
            found.append(f"<div>{drawn}{matrix(cells)}</div>")
        if not found:
            return ""
        together = " Levels that were measured together are shown together." if subject.groups else ""
        sure = any(cell.seen.known for pair in self.cells if len(pair) == 2 for cell in self.cells[pair])
        under = " Below each are the noise intervals of its squares." if sure else ""
        which = f"{len(found)} pairs" if len(found) > 1 else "one pair"
        how = (
            f"The {which} with the strongest dependence according to the model; a stronger colour means a larger "
            f"share.{under}{together}"
        )
        return f'<p>{how}</p><div class="two">{"".join(found)}</div>'

    def doubt(self) -> str:
        subject, parts = self.subject, []
        if without_evidence(subject):
            text = "This method keeps no measurements besides its model, so no answer has a measured interval."
            theorem = f" The guarantee is a theorem: {subject.promise}." if subject.promise else ""
            return f"<p>{escaped(text + theorem)}</p>"
        parts += [self.covered(size) for size in (2, 3) if sum(column.size > 1 for column in subject.schema) >= size]
        parts.append(by_error(least_certain(self.cells)))
        named = list(widest(self.cells))
        if named:
            shown = self.chart(
                charts.widest(named),
                "The widest intervals",
                caption="Dot: the released share, also printed after the name. Bar: its interval.",
            )
            parts.append(f"<p>Of all shares drawn above, these have the widest intervals.</p>{shown}")
        return "".join(parts)

    def covered(self, size: int) -> str:
        """Which sets of `size` columns are covered by measurements, and which by the model alone."""
        there, tried, missing = coverage(self.subject, size)
        sets = f"{tried:,} set{'s' * (tried > 1)}" if tried == there else f"the first {tried:,} of {there:,} sets"
        if not missing:
            return f"<p>Of {sets} of {size} columns, all are covered by measurements.</p>"
        names, shown = "", 0
        while shown < min(8, len(missing)) and len(names) < 160:
            names, shown = f"{names}{'; ' * bool(shown)}{' x '.join(missing[shown])}", shown + 1
        more = f" and {len(missing) - shown:,} more" if len(missing) > shown else ""
        lack = (
            "no measurement covers"
            if self.subject.kind == "release"
            else "single combinations are not known within the guarantee (ranges or sums of them may be) for"
        )
        return (
            f"<p>Of {sets} of {size} columns, {lack} <b>{len(missing):,}</b>; answers there "
            f"come from the model, {self._instead()}: {escaped(names)}{more}.</p>"
        )

    def _instead(self) -> str:
        """What bounds an answer that no measurement covers."""
        if self.subject.release is None:
            return "without an interval"
        bounds = "bounded by measurements of fewer columns"
        return bounds if self.subject.release.check is None else f"{bounds} and by the check of the model"

    def rounds(self) -> str:
        steps = self.subject.trace
        if not steps:
            return ""
        rounds = steps[-1].round
        intro = (
            f"<p>{len(steps)} tables or numbers were measured in {rounds} round{'s' * (rounds > 1)}, each where the "
            "model seemed most wrong. The chart shows how far the model was from each before it was fitted to it.</p>"
        )
        if len(steps) > rounds:  # several in one round
            intro += by_round(steps)
            worst = sorted(steps, key=lambda step: -step.distance)[:MOST_DISTANCES]
            named = [(stacked(step.columns, f"{step.round}: "), step.distance, step.noise) for step in worst]
            drawn = charts.distances(named, "the model was off by")
            only = f"The {len(worst)} largest, each with its round. " if len(steps) > len(worst) else ""
            caption = f"{only}Orange mark: the distance expected from noise alone."
        else:
            drawn = charts.convergence(steps)
            caption = (
                "Far above the grey line, noise alone does not explain the distance; near it, little was left to learn."
            )
        return intro + self.chart(drawn, "Distance of the model from what was measured, by round", caption=caption)

    def questions(self) -> str:
        history = self.subject.history
        if self.subject.kind != "session":
            return ""
        if not history:
            return "<p>No question was asked since this session was opened here.</p>"
        counts = Counter[str](asking.route for asking in history)
        facts = "".join(
            f'<div class="fact"><b>{counts.get(route, 0):,}</b><span>{word}</span></div>'
            for route, word in charts.WAYS.items()
        )
        lost = sum(not asking.promised for asking in history)
        short = (
            f"<p><b>{lost:,} answers came without a guarantee</b>: the budget could not pay for them.</p>"
            if lost
            else ""
        )
        return (
            f"<p>{len(history):,} questions since the session was opened here; only the hard ones cost something.</p>"
            f'<div class="facts">{facts}</div>{short}'
            + self.chart(charts.timeline(history, self.subject.currency), "Spent by question")
        )

    def synthetic(self) -> str:
        release = self.subject.release
        if release is None or without_evidence(self.subject):
            return ""
        try:
            found = similarity(release, SYNTHETIC, k=3, rng=np.random.default_rng(0))
        except QueryError:  # a model of separate tables cannot draw rows
            return ""
        if not found:
            return ""
        sizes = sorted({len(one.columns) for one in found})
        body = ""
        for size in sizes:
            of = [one for one in found if len(one.columns) == size]
            mean = [sum(getattr(one, name) for one in of) / len(of) for name in ("distance", "noise", "ratio")]
            body += (
                f'<tr><td>{size} column{"s" * (size > 1)}</td><td class="number">{len(of)}</td>'
                f'<td class="number">{mean[0]:.2%}</td><td class="number">{mean[1]:.2%}</td>'
                f'<td class="number">{mean[2]:.2f}</td></tr>'
            )
        named = [(stacked(one.columns), one.distance, one.noise) for one in found[:12]]
        caption = "Bar: share of rows that would have to change. Orange mark: the distance expected from noise alone."
        return (
            f"<p>{SYNTHETIC:,} rows drawn from the model, compared with the paid measurements; no row "
            "was read for this. A ratio up to about 1 means that no measurement taken can distinguish them. The model "
            "was fitted to these "
            "measurements: this shows fit, not accuracy for tables that were not measured.</p>"
            + scrolled(heads("tables of", "compared", "distance", "noise alone", "ratio") + body)
            + "<h3>Largest distances</h3>"
            + self.chart(charts.distances(named, "distance"), "Distance of synthetic rows", caption=caption)
        )

    def accuracy(self) -> str:
        if self.truth is None:
            return ""
        subject, schema = self.subject, self.subject.schema
        codes = self.truth.encoded(schema)
        if not len(codes):
            raise QueryError("the test data holds no rows", advice="give some, or leave truth out")
        found: list[tuple[str, float, float | None]] = []
        held = drawn = 0
        for columns, cells in self.cells.items():
            exact = shares_of(schema, codes, columns)
            found.append((stacked(columns), 0.5 * float(np.abs(subject.marginal(columns) - exact).sum()), None))
            if len(columns) == 1 and len(cells) == exact.size:
                known = [(cell.seen, share) for cell, share in zip(cells, exact, strict=True) if cell.seen.known]
                held += sum(seen.low - 1e-12 <= share <= seen.high + 1e-12 for seen, share in known)
                drawn += len(known)
        found.sort(key=lambda one: -one[1])
        intervals = f" Of {drawn:,} intervals drawn for columns, {held:,} contain the exact share." if drawn else ""
        return (
            '<div class="banner"><strong>TEST DATA</strong>'
            "Exact distances to rows that were declared as test data.</div>"
            f"<p>Total variation distance between the model and {len(codes):,} test rows.{intervals}</p>"
            + self.chart(charts.distances(found[:MOST_DISTANCES], "distance to the truth"), "Distance to the test data")
        )

    def hazards(self) -> str:
        words = {"met": "met", "partly": "partly", "yours": "for the custodian", "not met": "not met"}
        body, part = "", ""
        for hazard in evaluation(self.subject):
            if hazard.part != part:
                part = hazard.part
                body += f"<h3>{part}</h3>"
            body += (
                f'<div class="hazard"><div><b>{hazard.topic}</b><span class="status {hazard.status.partition(" ")[0]}">'
                f"{words[hazard.status]}</span></div><p>{escaped(hazard.answer)}</p></div>"
            )
        return (
            "<p>Each hazard to a guarantee of differential privacy, in the order of NIST SP 800-226, and its status "
            f"here.</p>{body}"
        )

    def certificate(self) -> str:
        subject = self.subject
        facts = "".join(
            f'<tr><th scope="row">{escaped(name)}<span class="soft">{escaped(FACTS.get(name, ""))}</span></th>'
            f"<td><code>{escaped(ABSENT.get(name, '-') if value is None else str(value))}</code></td></tr>"
            for name, value in subject.facts.items()
        )
        charges = escaped("\n".join(subject.charges))
        return (
            f"{scrolled(facts)}<details><summary>{len(subject.charges):,} charges, as the ledger holds them</summary>"
            f"<pre>{charges}</pre></details><details><summary>The schema</summary>"
            f"<pre>{escaped(subject.schema.dumps())}</pre></details>"
        )
