"""Phases: how far a combined release has come, as a part of the work that is predicted for it.

Work is counted in CPU seconds of an ordinary core, from public numbers alone: questions, columns, cells, components.
What the fits will take is predicted again when the measurements are there. Limits are limits of work, never of time: a
busy machine takes longer, and gives the same release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maquette.releases.progress import Progress

STEPS = 1000  # of the bar
QUESTION = 5e-4  # CPU seconds of asking one question of many
GRADIENT = 1e-8  # of a tree's gradient, for each cell
LINKED = 4e-5  # the same, for each column and table
TAKEN = 2e-4  # of laying out one measured table for a fit
STEP = 1.5e-10  # of a step of a mixture, for each product of two features in a component

Told = Callable[[float, float | None], None]


@dataclass
class Phases:
    """A bar on which every phase takes the part that was predicted for it; a phase that ends early is skipped."""

    shown: Progress
    work: list[float]  # predicted for each phase
    begun: float = 0.0  # part of the bar at which these phases begin
    phase: int = 0

    def told(self, part: float, residual: float | None = None) -> None:
        """Show which part of the present phase is done."""
        done = (sum(self.work[: self.phase]) + min(part, 1.0) * self.work[self.phase]) / max(sum(self.work), 1e-9)
        self.shown.update(round(STEPS * (self.begun + (1.0 - self.begun) * done)), residual)

    def end(self) -> None:
        """Go on to the next phase."""
        self.told(1.0)
        self.phase += 1

    def predict(self, work: list[float]) -> None:
        """Predict the phases that are left anew; the bar stays where it is."""
        done = sum(self.work[: self.phase]) / max(sum(self.work), 1e-9)
        self.begun += (1.0 - self.begun) * done
        self.work, self.phase = work, 0


def asking(questions: int) -> float:
    """The work of asking this many questions in a few charges."""
    return QUESTION * questions


def laying_out(tables: int) -> float:
    """The work of laying out `tables` measured tables for a fit."""
    return TAKEN * tables


def growing(cells: int, linked: int, gradients: int) -> float:
    """The work of fitting a tree of `cells` cells with `linked` columns and tables in all."""
    return gradients * (GRADIENT * cells + LINKED * linked)


def mixing(width: int, components: int, steps: int) -> float:
    """The work of fitting a mixture of `components` components to products of `width` features."""
    return STEP * steps * components * width**2
