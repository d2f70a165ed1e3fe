"""The command line in real processes: at a terminal, in a pipe, interrupted."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cli_checks import BUDGET, people
from maquette.demo import SCHEMA, survey

if sys.platform == "win32":
    pytest.skip("pseudo-terminals are a POSIX thing", allow_module_level=True)

import pty

COMMAND = [sys.executable, "-c", "from maquette.cli import main; main()"]
OWN_TERMINAL = (
    "import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "  # so that Ctrl-C is a signal,
    "signal.signal(signal.SIGINT, signal.default_int_handler); "  # which whoever runs the tests may ignore
)
PATIENCE = 120.0  # seconds, on a machine that has other things to do
SIMPLE = {"TERM": "dumb", "COLUMNS": "200", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Terminal:
    """A command with a pseudo-terminal for everything it reads and writes."""

    def __init__(self, *arguments: str, folder: Path, term: str = "dumb") -> None:
        master, slave = pty.openpty()
        env = {**os.environ, **SIMPLE, "TERM": term, "HOME": str(folder), "PYTHONIOENCODING": "utf-8"}
        self._master = master
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL + COMMAND[-1], *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(slave)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt_until(self, text: str) -> None:
        """Press Ctrl-C, again if it comes before Python's prompt listens for it."""
        for patience in (5.0, 15.0, PATIENCE):
            self.type("\x03")
            with suppress(AssertionError):
                self.until(text, patience)
                return
        raise AssertionError(f"no {text!r}: {self.seen}")

    def until(self, text: str, patience: float = PATIENCE) -> str:
        """Everything printed since the last call, up to and with a text."""
        ends = time.monotonic() + patience
        while text not in self.seen:
            assert time.monotonic() < ends, self.seen
            if select.select([self._master], [], [], 1.0)[0]:
                try:
                    self.seen += os.read(self._master, 65_536).decode(errors="replace")
                except OSError:  # the other side has closed
                    raise AssertionError(f"ended before {text!r}: {self.seen}") from None
        told, _, self.seen = self.seen.partition(text)
        return told + text

    def drain(self) -> None:
        """Read to the end, so that nothing waits for a reader."""
        with suppress(OSError):
            while told := os.read(self._master, 65_536):
                self.seen += told.decode(errors="replace")

    def ends(self) -> int:
        code = self.process.wait(PATIENCE)
        os.close(self._master)
        return code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    people(tmp_path)
    return tmp_path


def run(*arguments: str, folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **SIMPLE, **(env or {})},
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.thorough
def test_a_prompt_has_completion_history_and_help(folder: Path) -> None:
    session = ("online", "people.csv", "--schema", "people.toml", *BUDGET, "--alpha", "0.05")
    terminal = Terminal(*session, folder=folder)
    terminal.until("Ask, or .help")
    terminal.until("> ")
    terminal.type(".help\n")
    assert ".explain QUESTION" in terminal.until("the session continues next time")
    terminal.until("> ")
    terminal.type(".exp\t smo\t\n")  # completed: .explain smoker
    assert ".explain smoker" in terminal.until("\n")
    terminal.until("> ")
    terminal.type("nonsense = 1\n")
    terminal.until("there is no column 'nonsense'")
    terminal.until("> ")
    terminal.type("age >= 4")
    terminal.until("4")
    terminal.interrupt_until("(.quit to leave)")  # Ctrl-C drops the line, and the session goes on
    terminal.until("> ")
    terminal.type("smoker AND cit\t = 'Oslo'\n")
    assert "city" in terminal.until("measured cost")
    terminal.until("> ")
    terminal.type(".budget\n")
    assert "spent epsilon" in terminal.until("remaining epsilon")
    terminal.until("> ")
    terminal.type(".quit\n")
    assert terminal.ends() == 0
    kept = (folder / ".maquette_history").read_text()
    assert "smoker AND city = 'Oslo'" in kept

    again = Terminal(*session, folder=folder)
    again.until("> ")
    again.type("\x1b[A\x1b[A\x1b[A\n")  # up to the question of the last time
    assert "free" in again.until("free")
    again.until("> ")
    again.type("\x04")
    assert again.ends() == 0


@pytest.mark.thorough
def test_an_interrupted_release_leaves_a_ledger_that_verifies(folder: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(survey(20_000), folder / "survey.parquet")
    SCHEMA.save(folder / "survey.toml")
    publish = ("release", "survey.parquet", "--schema", "survey.toml", "--ways", "2", "--method", "graphical", *BUDGET)
    terminal = Terminal(*publish, "--out", "survey.maq", folder=folder, term="xterm")
    assert "fitting" in terminal.until("left")  # the bar says the time left
    terminal.until("residual")
    terminal.type("\x03")
    terminal.drain()
    assert terminal.ends() == 130
    assert "interrupted: " in terminal.seen
    made = (folder / "survey.maq").exists()  # what was paid for is released where there is a model already
    said = "holds a model of what had been measured" if made else "nothing was written"
    assert said in terminal.seen
    verified = run("verify", "survey.ledger", folder=folder)
    assert (verified.returncode, "the chain, every sum" in verified.stdout) == (0, True), verified.stderr
    account = json.loads(run("budget", "survey.ledger", "--json", folder=folder).stdout)
    assert 0 < account["spent"]["rho"] <= account["limit"]["rho"]
    assert sum(charge["rho"] for charge in account["charges"]) == pytest.approx(account["spent"]["rho"])
    if made:
        assert run("verify", "survey.maq", "--ledger", "survey.ledger", folder=folder).returncode == 0


@pytest.mark.thorough
def test_a_pipe_sees_no_bar_and_no_colour(folder: Path) -> None:
    made = run("release", "people.csv", "--schema", "people.toml", *BUDGET, "--out", "people.maq", folder=folder)
    assert (made.returncode, made.stderr) == (0, "")
    assert "\x1b" not in made.stdout
    shell = f"{sys.executable} -c 'from maquette.cli import main; main()' sample people.maq --rows 200000 | head -n 1"
    cut = subprocess.run(shell, shell=True, capture_output=True, text=True, cwd=folder, timeout=PATIENCE, check=False)
    assert cut.stdout == '"age","smoker","city"\n'
    assert "Traceback" not in cut.stderr


SHELLS = {
    "bash": ("complete -o default -F _maquette_completion maquette", {"COMP_WORDS": "maquette re", "COMP_CWORD": "1"}),
    "zsh": ("#compdef maquette", {"_TYPER_COMPLETE_ARGS": "maquette re"}),
    "fish": (
        "complete --command maquette",
        {"_TYPER_COMPLETE_ARGS": "maquette re", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    ),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete_commands(shell: str, folder: Path) -> None:
    registers, words = SHELLS[shell]
    named = "import sys; sys.argv[0] = 'maquette'; from maquette.cli import main; main()"

    def typed(*arguments: str, **env: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-c", named, *arguments],
            capture_output=True,
            text=True,
            cwd=folder,
            env={**os.environ, **SIMPLE, **env},
            timeout=PATIENCE,
            check=False,
        )
        assert "Traceback" not in ended.stderr
        return ended.stdout

    script = typed("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert registers in script
    assert "_MAQUETTE_COMPLETE=complete_" + shell in script  # the words below are what the script passes on
    found = typed(_MAQUETTE_COMPLETE=f"complete_{shell}", **words)
    assert {"release", "report"} <= set(re.findall(r"\w+", found))
    assert "verify" not in found
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr
