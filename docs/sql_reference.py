"""Write docs/reference/sql.md: the SQL that is answered, from the source of `.help select`, and the list of statements
that the tests compare with DuckDB.

`python docs/sql_reference.py` writes it; `tests/sql/test_reference.py` fails if it is out of date.
"""

from __future__ import annotations

from pathlib import Path

from maquette.query.sql.reference import REFUSED, SECTIONS

DOCS = Path(__file__).parent
PAGE = DOCS / "reference" / "sql.md"
LIST = DOCS.parent / "tests" / "sql" / "ordinary.sql"
HEAD = """# SQL

What a `SELECT` may say, with examples; `.help select` at the prompt of `maquette online` prints the same. A condition
alone (`age >= 65 AND smoker`) is answered by the fraction of rows on which it holds. Whatever is not listed is refused
before anything is charged, with its place in the text and what to type instead. Why it is so:
[decision 17](../decisions/017-sql.md).

The examples are about this table:

```python
import datetime as dt

import numpy as np
import maquette as mq
from maquette.query import PublicTable

rng = np.random.default_rng(1)
n = 5_000
schema = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=10),
        mq.Category("region", ["north", "south", "east", "west"]),
        mq.Boolean("smoker"),
        mq.Category("sex", ["f", "m"], nullable=True),
        mq.Integer("visits", 0, 9),
        mq.Date("seen", "2024-01-01", "2024-12-31", unit="month"),
    ]
)
rows = {
    "person": rng.integers(0, 3_000, n),
    "age": rng.integers(0, 100, n),
    "region": rng.choice(["north", "south", "east", "west"], n),
    "smoker": rng.random(n) < 0.3,
    "sex": rng.choice(["f", "m"], n),
    "visits": rng.integers(0, 10, n),
    "seen": [dt.date(2024, 1 + int(month), 1) for month in rng.integers(0, 12, n)],
}
regions = PublicTable(
    {"code": ["north", "south", "east", "west"], "name": ["up", "down", "right", "left"], "weight": [1, 0.5, 0.2, 9]},
    key="code",
    bounds={"weight": (0.0, 1.0)},
)
table = mq.open_table(rows, schema, privacy_unit="person", max_contributions=2)
curator = mq.Curator(table, mq.Budget(epsilon=1e4, delta=1e-9))
session = mq.online(curator, alpha=0.1, simultaneous=False, rows=n, table="people", public={"regions": regions})
```
"""
RUN = """
Every example on this page is asked here:

```python
from maquette.query.sql.reference import REFUSED, SECTIONS

for section in SECTIONS:
    for text in section.examples:
        print(session.ask(text))
for text, why in REFUSED:
    try:
        session.ask(text)
        raise AssertionError(text)
    except mq.QueryError as refused:
        print(why, "-", refused)
```
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for section in SECTIONS:
        examples = "\n".join(f"{example};" for example in section.examples)
        parts.append(f"## {section.title}\n\n{section.words}\n\n```sql\n{examples}\n```\n")
    refused = "\n".join(f"| `{text}` | {why} |" for text, why in REFUSED)
    parts.append(f"## Refused\n\n| statement | why |\n|---|---|\n{refused}\n{RUN}")
    parts.append(f"## Statements of ordinary analysis\n\n{_listed()}")
    return "\n".join(parts)


def _listed() -> str:
    """The statements of the tests, by kind."""
    rows, works, refused = [], 0, 0
    kind, into = "", ""
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("--"):
            into, _, kind = line[2:].strip().partition(":")
        elif line.strip():
            works, refused = works + (into == "works"), refused + (into != "works")
            told = "works" if into == "works" else "refused, with what to type"
            shown = line.replace("|", "\\|")
            rows.append(f"| {kind.strip().lstrip('0123456789 ') or 'other'} | `{shown}` | {told} |")
    intro = (
        f"{works + refused} statements like those that analysts write: {works} work, {refused} are refused with what "
        "to type instead. `tests/sql/test_ordinary.py` compares each that works with DuckDB on the same rows: equal "
        "with noise off; with noise on, `tests/sql/test_sql_coverage.py` checks that intervals cover DuckDB's.\n\n"
        "| kind | statement | |\n|---|---|---|\n"
    )
    return intro + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
