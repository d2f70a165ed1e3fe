"""Progress on long work: a bar with the time left on a terminal, silence in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

Listener = Callable[[str, int, int], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener of progress", default=None)


@contextmanager
def watch_progress(listener: Listener) -> Iterator[None]:
    """Call `listener(what, done, steps)` at every step of long work inside the block."""
    before = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(before)


class Progress:
    """A bar, with the residual if there is one; `show=None` shows it only where standard error is a terminal."""

    def __init__(self, what: str, steps: int, show: bool | None = None) -> None:
        self._shown = sys.stderr.isatty() if show is None else show
        self._what = what
        self._steps = steps

    def __enter__(self) -> Progress:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress as Bar, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, TextColumn("left"), console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._what, total=self._steps)
        return self

    def update(self, done: int, residual: float | None = None) -> None:
        """Show how many steps are done, and the present residual if there is one."""
        if (listener := _LISTENER.get()) is not None:
            listener(self._what, done, self._steps)
        if self._shown:
            shown = self._what if residual is None else f"{self._what} (residual {residual:.3g})"
            self._bar.update(self._task, completed=done, description=shown)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._bar.stop()
