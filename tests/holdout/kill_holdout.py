"""A holdout that is asked until it is killed: `python kill_holdout.py state log seed` writes a line per answer."""

from __future__ import annotations

import json
import os
import random
import sys

import numpy as np

from maquette.holdout import Holdout


def main(state: str, log: str, seed: str) -> None:
    rows = np.random.default_rng(1).random((2_000, 30)) < 0.4
    dice = random.Random(int(seed))
    with open(log, "a", encoding="utf-8") as told, Holdout(rows[:1_000], train=rows[1_000:], state=state) as holdout:
        told.write(json.dumps({"asked": len(holdout.answers)}) + "\n")
        told.flush()
        while True:
            column, other = dice.randrange(30), dice.randrange(30)
            name = f"{column} {other}"
            guess = dice.choice([None, 0.9])
            answer = holdout.ask(lambda rows, a=column, b=other: rows[:, a] & rows[:, b], guess=guess, name=name)  # type: ignore[misc]
            # One write of a whole line, so that what is in the log was told.
            os.write(told.fileno(), (json.dumps({"name": name, **answer.as_dict()}) + "\n").encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
