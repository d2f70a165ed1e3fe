"""Histograms: numeric columns on the line of numbers, each bin with the band of its noise interval."""

from __future__ import annotations

from collections.abc import Sequence

from maquette.reports.charts import ACCENT, Spec, altair, column as bars, finished, interval
from maquette.reports.tables import Cell
from maquette.schema import Column, Date, Ordered

EVEN = 1.5  # bins whose widths differ by more than this factor are not drawn on a line: heights would mislead
FEWEST = 4  # bins of a histogram


def drawn_column(column: Column, cells: Sequence[Cell]) -> tuple[Spec, str]:
    """The chart of one column, and what must be said under it."""
    unsure = [] if all(cell.seen.known for cell in cells) else ["Pale bars: from the model, without an interval."]
    on_line = [cell for cell in cells if cell.ends is not None]
    if isinstance(column, Ordered) and not isinstance(column, Date) and _even(on_line):
        rest = [cell for cell in cells if cell.ends is None]
        missing = [f"Missing: {cell.seen.value:.1%}." for cell in rest]
        return histogram(on_line), " ".join([*unsure, *missing])
    uneven = (
        ["Bins of different widths, drawn side by side."]
        if len(on_line) >= FEWEST and not isinstance(column, Date)
        else []
    )
    return bars(cells, ordered=isinstance(column, Ordered)), " ".join([*unsure, *uneven])


def _even(cells: Sequence[Cell]) -> bool:
    """Whether bins have about the same width; the last may be narrower, and a single value has no width."""
    widths = [cell.ends[1] - cell.ends[0] for cell in cells if cell.ends is not None]
    whole = sum(widths)
    wide = [width for width in widths if width > 1e-9 * whole]
    inner = wide[:-1] if len(wide) > FEWEST else wide
    return len(wide) >= FEWEST and max(wide) <= EVEN * min(inner)


def histogram(cells: Sequence[Cell]) -> Spec:
    """Bars from edge to edge, whose height is the share of rows, and over each the band of its interval."""
    alt = altair()
    ends = [cell.ends for cell in cells if cell.ends is not None]
    thin = 0.012 * (ends[-1][1] - ends[0][0])  # a single value is drawn this wide
    records = [
        {
            "label": cell.labels[0],
            "from": low if high - low > thin else (low + high - thin) / 2,
            "to": high if high - low > thin else (low + high + thin) / 2,
            "value": cell.seen.value,
            "none": 0.0,
            "low": cell.seen.low if cell.seen.known else None,
            "high": cell.seen.high if cell.seen.known else None,
            "sure": cell.seen.known,
        }
        for cell, (low, high) in zip(cells, ends, strict=True)
    ]
    base = alt.Chart(alt.Data(values=records))
    tips = [alt.Tooltip("label:N", title="bin"), *interval(alt)]
    scale = alt.Scale(domain=[records[0]["from"], records[-1]["to"]], nice=False)
    across = alt.X("from:Q", title=None, scale=scale, axis=alt.Axis(tickCount=5, format="~s", grid=False))
    shares = alt.Axis(format="~%", tickCount=4)
    rects = base.mark_rect(color=ACCENT, stroke="transparent").encode(
        x=across,
        x2="to:Q",
        y=alt.Y("none:Q", title=None, axis=shares),
        y2="value:Q",
        opacity=alt.condition("datum.sure", alt.value(0.7), alt.value(0.3)),
        tooltip=tips,
    )
    if not any(cell.seen.known for cell in cells):
        return finished(rects, 170)
    bands = base.mark_rect(color="currentColor", opacity=0.45).encode(
        x=across, x2="to:Q", y=alt.Y("low:Q", title=None, axis=shares), y2="high:Q", tooltip=tips
    )
    return finished(rects + bands, 170)
