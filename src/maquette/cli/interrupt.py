"""Ctrl-C during paid work: the command stops cleanly and exits 130."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType, TracebackType

from maquette.cli.telling import tell_interrupt, wants_json


class Interruptible:
    """Notices an interrupt even if the work itself stopped early and returned what it had.

    If the interrupt ends the work, it prints where the charges are listed, and the interrupt continues.
    """

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self.happened = False

    def __enter__(self) -> Interruptible:
        self._before = signal.signal(signal.SIGINT, self._notice)
        return self

    def _notice(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        if isinstance(error, KeyboardInterrupt):
            charged = f"see what was charged with: maquette budget {self._ledger}"
            kept = charged if self._ledger.exists() else "nothing was charged"
            tell_interrupt("; ".join(["nothing was written", *getattr(error, "__notes__", []), kept]), wants_json())
