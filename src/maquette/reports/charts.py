"""Charts: Vega-Lite descriptions made with altair, drawn by the copy of Vega inside the page.

Lines and letters take the colour of the text around them, so one chart works on light pages, dark pages and paper.
Names from a schema are data or titles only: no chart has them in an expression or a field name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from maquette.errors import QueryError
from maquette.estimates import Step
from maquette.privacy import UNITS_PER_ONE, Loss
from maquette.reports.account import CURRENCIES, Line, accountant_of, numbered
from maquette.reports.risk import true_positive_rate
from maquette.reports.tables import Cell
from maquette.session import Asking

Spec = dict[str, Any]

ACCENT, SECOND, PALE = "#2a8f9e", "#d9822b", "#8a9ba8"
ROUTES = {"measured": SECOND, "derived": ACCENT, "hypothesis": "#7a68c7", "cache": PALE}
WAYS = {
    "measured": "hard: measured on the rows, paid for",
    "derived": "easy: derived from known answers",
    "hypothesis": "easy: the model was close enough",
    "cache": "asked before",
}
SPLIT = "split(datum.label, '\\n')"  # labels of two lines
UPRIGHT = 12  # ordered columns with more bars than this are drawn upright
TIMELINE = 1_500  # points


def altair() -> ModuleType:
    """The chart library, or an error that says how to install it."""
    try:
        import altair as library
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise QueryError(
            f"a report needs the extra 'charts' ({error.name} is missing)", advice="pip install 'maquette[charts]'"
        ) from None
    return library  # type: ignore[no-any-return]


@cache
def vega() -> str:
    """One copy of Vega, Vega-Lite and Vega-Embed as JavaScript, from the package on this machine."""
    import vl_convert

    known = vl_convert.get_vegalite_versions()
    wanted = ".".join(altair().SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    found = wanted if wanted in known else known[-1]
    bundle: Any = vl_convert.javascript_bundle  # its stub omits that the snippet is optional
    return str(bundle(vl_version=found))


def finished(chart: Any, height: int | None) -> Spec:
    """The description of a chart in the style of the page."""
    sized = chart.properties(
        width="container", background="transparent", **({} if height is None else {"height": height})
    )
    quiet = {"labelColor": "currentColor", "titleColor": "currentColor", "labelFontSize": 12, "titleFontSize": 12}
    lines = {"domainColor": "currentColor", "tickColor": "currentColor", "domainOpacity": 0.4, "tickOpacity": 0.4}
    styled = (
        sized.configure_view(stroke=None)
        .configure_axis(
            **quiet, **lines, gridColor="currentColor", gridOpacity=0.12, titleFontWeight="normal", labelLimit=190
        )
        .configure_axisXQuantitative(labelBound=True, labelOverlap=True)
        .configure_legend(**quiet, titleFontWeight="normal", orient="top", symbolStrokeWidth=2)
        .configure_text(color="currentColor")
    )
    spec: Spec = styled.to_dict(validate=False)  # validation would take longer than drawing; the tests validate
    spec.pop("$schema", None)  # nothing is fetched, so the address is not needed
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec


def _percent(alt: ModuleType, field: str, title: str, **more: Any) -> Any:
    return alt.X(f"{field}:Q", title=title, axis=alt.Axis(format="~%", tickCount=5), **more)


def trade_off(loss: Loss) -> Spec:
    """True positive rate of the best attack, for every false positive rate."""
    alt = altair()
    rates = [0.0, *(10 ** (k / 10 - 3) for k in range(0, 21)), *(0.1 + 0.9 * k / 30 for k in range(1, 31))]
    curve = [{"a": a, "b": true_positive_rate(loss, a), "who": "best attack, at most"} for a in rates]
    chance = [{"a": a, "b": a, "who": "random guessing"} for a in (0.0, 1.0)]
    who = alt.Scale(domain=["best attack, at most", "random guessing"], range=[SECOND, PALE])
    chart = (
        alt.Chart(alt.Data(values=curve + chance))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=_percent(alt, "a", "false positive rate"),
            y=alt.Y("b:Q", title="true positive rate", axis=alt.Axis(format="~%", tickCount=5)),
            color=alt.Color("who:N", title=None, scale=who),
            tooltip=[
                alt.Tooltip("a:Q", title="false positive rate", format=".1%"),
                alt.Tooltip("b:Q", title="true positive rate, at most", format=".1%"),
            ],
        )
    )
    return finished(chart, 230)


def waterfall(lines: Sequence[Line], currency: str, delta: float) -> Spec:
    """A waterfall: every charge starts where the previous one ended; the tooltip shows cumulative epsilon."""
    alt, accountant, bars, spent = altair(), accountant_of(currency), [], 0
    for line, what in zip(lines, numbered(lines), strict=True):
        start, spent = spent, spent + line.units
        bars.append(
            {
                "what": what,
                "start": start / UNITS_PER_ONE,
                "end": spent / UNITS_PER_ONE,
                "price": line.units / UNITS_PER_ONE,
                "epsilon": _finite(accountant.loss(spent, delta).epsilon),
                "whose": "this publication" if line.own else "the rest of the ledger",
            }
        )
    word = CURRENCIES[currency.partition(" ")[0]]
    whose = alt.Scale(domain=["this publication", "the rest of the ledger"], range=[ACCENT, PALE])
    legend = None if all(line.own for line in lines) else alt.Legend()
    chart = (
        alt.Chart(alt.Data(values=bars))
        .mark_bar(cornerRadius=2, minBandSize=2)
        .encode(
            y=alt.Y("what:N", sort=None, title=None),
            x=alt.X("start:Q", title=f"cumulative {word}", axis=alt.Axis(tickCount=5, format="~g")),
            x2="end:Q",
            color=alt.Color("whose:N", title=None, scale=whose, legend=legend),
            tooltip=[
                alt.Tooltip("what:N", title="charge"),
                alt.Tooltip("price:Q", title=word, format=".4~g"),
                alt.Tooltip("epsilon:Q", title="cumulative epsilon", format=".4~g"),
            ],
        )
    )
    return finished(chart, 24 * len(bars) + 10)


def _records(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    return [
        {
            "label": cell.labels[0],
            "other": cell.labels[-1],
            "value": cell.seen.value,
            "low": cell.seen.low if cell.seen.known else None,
            "high": cell.seen.high if cell.seen.known else None,
            "sure": cell.seen.known,
        }
        for cell in cells
    ]


def interval(alt: ModuleType) -> list[Any]:
    """Tooltips for a share and its interval."""
    return [
        alt.Tooltip("value:Q", title="share of rows", format=".2%"),
        alt.Tooltip("low:Q", title="at least", format=".2%"),
        alt.Tooltip("high:Q", title="at most", format=".2%"),
    ]


def column(cells: Sequence[Cell], *, ordered: bool) -> Spec:
    """The shares of one column's levels, each with its noise interval."""
    alt = altair()
    upright = ordered and len(cells) > UPRIGHT
    label = {"sort": None, "title": None}
    share = alt.Axis(format="~%", tickCount=4)
    level: Any = alt.X("label:O", axis=alt.Axis(labelOverlap=True), **label) if upright else alt.Y("label:O", **label)
    value: Any = alt.Y("value:Q", title=None, axis=share) if upright else alt.X("value:Q", title=None, axis=share)
    base = alt.Chart(alt.Data(values=_records(cells)))
    tips = [alt.Tooltip("label:N", title="level"), *interval(alt)]
    side, far = ("y", "y2") if upright else ("x", "x2")
    bars = base.mark_bar(color=ACCENT, cornerRadius=1).encode(
        **{"x" if upright else "y": level, side: value},
        opacity=alt.condition("datum.sure", alt.value(0.85), alt.value(0.35)),
        tooltip=tips,
    )
    height = 170 if upright else 22 * len(cells) + 8
    if not any(cell.seen.known for cell in cells):
        return finished(bars, height)
    ends = {side: alt.Y("low:Q") if upright else alt.X("low:Q"), far: "high:Q"}
    whiskers = base.mark_rule(color="currentColor", strokeWidth=1.5, opacity=0.85).encode(
        **{"x" if upright else "y": level, **ends}, tooltip=tips
    )
    return finished(bars + whiskers, height)


def pair(cells: Sequence[Cell], names: tuple[str, str]) -> Spec:
    """The joint shares of two columns: a stronger colour is a larger share."""
    alt = altair()
    rows = len({cell.labels[0] for cell in cells})
    angle = 0 if max(len(cell.labels[1]) for cell in cells) <= 5 else -40
    chart = (
        alt.Chart(alt.Data(values=_records(cells)))
        .mark_rect(color=ACCENT)
        .encode(
            x=alt.X(
                "other:O",
                sort=None,
                title=names[1],
                axis=alt.Axis(labelOverlap=False, labelAngle=angle, labelLimit=130),
            ),
            y=alt.Y("label:O", sort=None, title=names[0], axis=alt.Axis(labelLimit=130)),
            opacity=alt.Opacity(
                "value:Q",
                title="share of rows",
                scale=alt.Scale(type="sqrt", domainMin=0, range=[0.02, 1.0]),
                legend=alt.Legend(format="~%", tickCount=3, symbolType="square", symbolFillColor=ACCENT),
            ),
            tooltip=[alt.Tooltip("label:N", title="first"), alt.Tooltip("other:N", title="second"), *interval(alt)],
        )
    )
    return finished(chart, max(120, 20 * rows))


def widest(named: Sequence[tuple[str, Cell]]) -> Spec:
    """The widest intervals: how far each exact share may be below or above the released one."""
    alt = altair()
    values = [
        {
            **record,
            "label": f"{name}: {cell.seen.value:.1%}",
            "down": cell.seen.low - cell.seen.value,
            "up": cell.seen.high - cell.seen.value,
        }
        for (name, cell), record in zip(named, _records([c for _, c in named]), strict=True)
    ]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelExpr=SPLIT)),
        tooltip=[alt.Tooltip("label:N", title="question"), *interval(alt)],
    )
    share = alt.Axis(format="+~%", tickCount=5)
    rules = base.mark_rule(strokeWidth=7, color=ACCENT, opacity=0.7).encode(
        x=alt.X("down:Q", title="the exact share may differ by", axis=share), x2="up:Q"
    )
    points = base.mark_point(filled=True, size=40, color=SECOND, opacity=1).encode(x=alt.datum(0))
    return finished(rules + points, (36 if _tall(values) else 24) * len(values) + 10)


def convergence(steps: Sequence[Step]) -> Spec:
    """Distance of the model from each measurement before it was fitted, and the distance that noise alone causes."""
    alt = altair()
    found = [
        {
            "round": s.round,
            "what": " x ".join(s.columns) or "rows",
            "y": max(0.0, s.distance),
            "kind": "the model was off by",
        }
        for s in steps
    ]
    noise = [
        {"round": s.round, "what": "noise alone", "y": s.noise, "kind": "expected from noise alone"} for s in steps
    ]
    kind = alt.Scale(domain=["the model was off by", "expected from noise alone"], range=[SECOND, PALE])
    encoded = {
        "x": alt.X(
            "round:Q", title="round", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(nice=False, padding=12)
        ),
        "y": alt.Y("y:Q", title="share of rows", axis=alt.Axis(format="~%", tickCount=5)),
        "color": alt.Color("kind:N", title=None, scale=kind),
    }
    tips = [
        alt.Tooltip("round:Q"),
        alt.Tooltip("what:N", title="measured"),
        alt.Tooltip("y:Q", title="distance", format=".2%"),
    ]
    dots = (
        alt.Chart(alt.Data(values=found)).mark_point(filled=True, size=55, opacity=0.85).encode(**encoded, tooltip=tips)
    )
    under = alt.Chart(alt.Data(values=noise)).mark_line(strokeDash=[5, 4], point={"size": 25})
    return finished(under.encode(**encoded) + dots, 240)


def timeline(history: Sequence[Asking], currency: str) -> Spec:
    """Questions in order: cumulative spending, and how each was answered."""
    alt = altair()
    keep = max(1, -(-len(history) // TIMELINE))
    values = [
        {
            "n": i + 1,
            "spent": one.spent / UNITS_PER_ONE,
            "route": one.route,
            "way": WAYS[one.route],
            "kept": "yes" if one.promised else "no",
        }
        for i, one in enumerate(history)
        if i % keep == 0 or i == len(history) - 1
    ]
    word = CURRENCIES[currency.partition(" ")[0]]
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "n:Q", title="question", scale=alt.Scale(nice=False, padding=10), axis=alt.Axis(tickMinStep=1, format="~d")
        ),
        y=alt.Y("spent:Q", title=f"cumulative {word}", axis=alt.Axis(tickCount=5, format="~g")),
    )
    met = [route for route in ROUTES if any(value["route"] == route for value in values)]
    ways, colours = [WAYS[route] for route in met], [ROUTES[route] for route in met]
    legend = alt.Legend(columns=1, labelLimit=300)  # side by side they are too wide for a narrow screen
    line = base.mark_line(interpolate="step-after", color="currentColor", opacity=0.35)
    dots = base.mark_point(filled=True, size=45, opacity=0.9).encode(
        color=alt.Color("way:N", title=None, scale=alt.Scale(domain=ways, range=colours), legend=legend),
        tooltip=[
            alt.Tooltip("n:Q", title="question"),
            alt.Tooltip("way:N", title="answered"),
            alt.Tooltip("spent:Q", title=f"cumulative {word}", format=".4~g"),
            alt.Tooltip("kept:N", title="within the guarantee"),
        ],
    )
    return finished(line + dots, 250)


def distances(named: Sequence[tuple[str, float, float | None]], title: str) -> Spec:
    """Distances of tables, with a tick at the expected distance where it is known."""
    alt = altair()
    values = [{"label": label, "distance": distance, "expected": expected} for label, distance, expected in named]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelExpr=SPLIT)),
        tooltip=[
            alt.Tooltip("label:N", title="table"),
            alt.Tooltip("distance:Q", format=".2%"),
            alt.Tooltip("expected:Q", title="expected from noise alone", format=".2%"),
        ],
    )
    bars = base.mark_bar(color=ACCENT, opacity=0.6).encode(
        x=alt.X("distance:Q", title=title, axis=alt.Axis(format="~%", tickCount=5))
    )
    if any(expected is not None for _, _, expected in named):
        bars += base.mark_tick(color=SECOND, thickness=3).encode(x="expected:Q")
    return finished(bars, (34 if _tall(values) else 22) * len(values) + 10)


def _tall(values: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any label has two lines."""
    return any("\n" in str(value["label"]) for value in values)


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None
