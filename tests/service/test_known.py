"""What is kept of known answers is bounded, whatever the order of threads."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path

from rooms import house, settings

from maquette.answers import Answered
from maquette.service.known import KnownAnswers


def _answers(folder: Path, texts: list[str]) -> list[Answered]:
    with house(settings(folder)) as made:
        table = made.service.tables["people"]
        return table.ask_many(made.service.authenticate(made.tokens["ada"]), texts)


def test_the_reply_of_a_dropped_answer_is_not_kept(tmp_path: Path) -> None:
    """Its answer was looked up before it was dropped, and its JSON is written afterwards."""
    one, two, table = _answers(tmp_path, ["smoker", "a", "SELECT city, count(*) FROM people GROUP BY city"])
    known = KnownAnswers(numbers=1)
    known.keep("smoker", one)
    found = known.get("smoker")
    assert found is not None
    known.keep("a", two)
    assert json.loads(known.reply("smoker", found))["value"] == one.numbers[0].value
    assert (len(known), known.numbers, known.reply_bytes) == (1, 1, 0)
    written = known.reply("a", two)
    assert known.reply("a", two) is written
    assert known.reply_bytes == len(written)
    known.keep("table", table)  # three numbers: more than there is room for
    assert "table" not in known
    known.keep("b", one)
    assert (list(known._kept), known.reply_bytes) == (["b"], 0)


def test_json_is_bounded_in_bytes(tmp_path: Path) -> None:
    one, two = _answers(tmp_path, ["smoker", "a"])
    known = KnownAnswers(reply_bytes=1_000)
    for text, answer in (("smoker", one), ("a", two)):
        known.keep(text, answer)
        assert known.reply(text, answer)
    assert 0 < known.reply_bytes <= 1_000
    assert len(known) == 2


def test_sums_hold_under_threads(tmp_path: Path) -> None:
    answers = _answers(tmp_path, ["smoker", "a", "SELECT city, count(*) FROM people GROUP BY city"])
    known = KnownAnswers(numbers=20, reply_bytes=5_000)

    def work(seed: int) -> None:
        drawn = random.Random(seed)
        for _ in range(300):
            text = str(drawn.randrange(40))
            known.keep(text, answers[int(text) % 3])
            if (found := known.get(str(drawn.randrange(40)))) is not None:
                known.reply(text, found)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = known._kept.values()
    assert known.numbers == sum(len(one.answer.numbers) for one in kept) <= 20
    assert known.reply_bytes == sum(len(one.reply or b"") for one in kept) <= 5_000
