"""A server whose disk can be made full and whose clock can jump, while it runs.

Run as a program, with `failing.c` preloaded, it serves a settings file and takes orders from its standard input. The
disk fails below one folder: writes are refused with "no space left", as by a full one. `Troubled` starts it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maquette.privacy.ledger import LedgerSource

WRITE = 1


class Troubled:
    """One server of a table of flags, with a ledger in a file; `Clients` and `judge` of `kill_servers` know it."""

    def __init__(self, library: Path, folder: Path, *, table: str = "people", more: str = "") -> None:
        from kill_servers import settings, write_table

        write_table(folder, table)
        for name in ("ledger", "state"):
            (folder / name).mkdir()
        self.folder, self.table = folder, table
        self.ledger: LedgerSource = str(folder / "ledger" / f"{table}.ledger")
        config = folder / "maquette.toml"
        state = f'state = "sqlite:///{folder}/state/state.db"\n'
        config.write_text(settings(table, f'ledger = "{self.ledger}"\n', state) + more)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(config)],
            env={**os.environ, "LD_PRELOAD": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self.urls, self.token = [told["url"]], told["token"]

    def fill(self, place: str, *, after: int = 0) -> None:
        """From now on, after so many more writes, the disk below a folder is full."""
        self._order(fill=str(self.folder / place), after=after)

    def make_room(self) -> None:
        """The disk has room again."""
        self._order(fill="")

    def jump(self, seconds: int) -> None:
        """Set the clock to so many seconds from the true time."""
        self._order(clock=seconds)

    def stop(self) -> None:
        """End the server, in order."""
        self._process.terminate()
        assert self._process.wait(60) == 0

    def end(self) -> None:
        """Leave nothing behind."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _order(self, **order: Any) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        self._process.stdout.readline()


def main() -> None:
    """Serve, and obey orders."""
    from maquette.service import load_config, run

    def tell(running: Any) -> None:
        print(json.dumps({"url": running.url, "token": running.token}), flush=True)
        threading.Thread(target=_obey, daemon=True).start()

    run(load_config(Path(sys.argv[1])), tell)


def _obey() -> None:
    shim = ctypes.CDLL(None)
    for line in sys.stdin:
        order = json.loads(line)
        if "clock" in order:
            shim.shift_clock(ctypes.c_long(order["clock"]))
        elif order["fill"]:
            shim.fail_after(os.fsencode(order["fill"]), WRITE, order["after"], errno.ENOSPC, 1)
        else:
            shim.fail_after(b"", 0, 0, 0, 0)
        print("done", flush=True)


if __name__ == "__main__":
    main()
