"""Drafts: an uploaded file on its way to becoming a table: drafted, reviewed, planned on invented rows, opened.

Everything here is the custodian's. A draft is a folder of the service's directory that only its owner can read. Nothing
is charged before a table is opened; what a draft says about rows (a drafted schema, values that fit no level) is
computed from them and goes to the custodian alone.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maquette.errors import PrivacyWarning, QueryError, SchemaError
from maquette.schema import Schema, quoted
from maquette.service.claims import Claims
from maquette.service.config import NAME, TableConfig
from maquette.service.errors import NotFound
from maquette.service.principals import Principal
from maquette.service.unpacking import refuse_large

if TYPE_CHECKING:
    from maquette.service.engine import Service

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".xlsx")
ID = re.compile(r"[0-9a-f]{16}")
PREVIEWED = 3  # questions of a preview
MOST_VALUES = 2**25  # invented for a preview
MOST_LEVELS = 2**17  # of a column that a preview asks about


class Drafts:
    """The drafts of a service, and the tables that were opened from them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folder = service.config.directory / "drafts"
        self._opened = service.config.directory / "opened"
        self.claims = Claims(service.config.directory / "claims")

    def upload(self, principal: Principal, filename: str, chunks: Iterable[bytes]) -> dict[str, Any]:
        """Keep a file and draft a schema by reading it."""
        _check(principal)
        suffix = next((each for each in SUFFIXES if filename.lower().endswith(each)), None)
        if suffix is None:
            raise QueryError(
                f"the file's name is {filename[-80:]!r}", expected=f"one that ends in {', '.join(SUFFIXES)}"
            )
        id_ = secrets.token_hex(8)
        folder = self._folder / id_
        folder.mkdir(parents=True, mode=0o700)
        try:
            source = folder / f"source{suffix}"
            with os.fdopen(os.open(source, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
            refuse_large(source, self._service.config.limits.unpacked_bytes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)  # the page says that it is a draft
                drafted = Schema.guess(str(source))
            facts = {"name": _table_name(filename), "guessed": True, "source": source.name}
            self._keep(folder, drafted.dumps(), {**facts, "notes": drafted.notes, "skipped": drafted.skipped})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return self.show(principal, id_)

    def show(self, principal: Principal, id_: str) -> dict[str, Any]:
        """The draft: its columns with their settings as the schema file writes them, and what was seen in them."""
        _check(principal)
        folder, facts, text = self.read(id_)
        return {
            "id": id_,
            "name": facts["name"],
            "guessed": facts["guessed"],
            "columns": _blocks(text),
            "notes": facts.get("notes", {}),
            "skipped": facts.get("skipped", []),
            "source_columns": _source_columns(folder / facts["source"]),
        }

    def revise(
        self, principal: Principal, id_: str, columns: Sequence[Mapping[str, Any]], *, reviewed: bool
    ) -> dict[str, Any]:
        """Take the custodian's settings, and check that every row fits them."""
        from maquette.curator import open_table

        _check(principal)
        folder, facts, text = self.read(id_)
        kept = [column for column in columns if column.get("keep", True)]
        if not kept:
            raise SchemaError("no column is kept", expected="at least one")
        schema = Schema.loads("\n\n".join(_block(column) for column in kept))
        schema = Schema(schema.columns, file=Schema.loads(text).file)
        open_table(str(folder / facts["source"]), schema)
        self._keep(folder, schema.dumps(), {**facts, "guessed": not reviewed})
        return self.show(principal, id_)

    def plan(self, principal: Principal, id_: str, *, rows: int, epsilon: float, delta: float, alpha: float) -> Any:
        """What analysts will get, tried on invented rows that are drawn from the schema alone."""
        from maquette.curator import Curator, open_table
        from maquette.privacy import Budget
        from maquette.query import LinearQuery
        from maquette.session import online

        _check(principal)
        schema = Schema.loads(self.read(id_)[2]).evenly_cut()
        rng = np.random.default_rng(0)
        count = max(1, min(rows, 1_000_000, MOST_VALUES // len(schema)))
        asked = [place for place, column in enumerate(schema) if column.size <= MOST_LEVELS][:PREVIEWED]
        records = np.stack([rng.integers(0, column.size, count) for column in schema], axis=1)
        invented = open_table(schema.decode(records), schema)
        shown = []
        with Curator(invented, Budget(epsilon=epsilon, delta=delta)) as curator:
            session = online(curator, alpha=alpha)
            for place in asked:
                column = schema.columns[place]
                first = [float(level == 0) for level in range(column.size)]
                answer = session.ask(LinearQuery.product(schema, {column.name: first}))
                truth = int((records[:, place] == 0).sum())
                low, value, high = (max(0.0, part * count) for part in (answer.low, answer.value, answer.high))
                title = f"rows with {column.name} = {column.labels[0]}"
                shown.append([title, f"{value:,.0f}", f"{low:,.0f} to {high:,.0f}", f"{truth:,}"])
            spent, outlook = session.spent.epsilon, session.outlook()
        words = [
            f"Counts are within ±{alpha * count:,.0f} of {count:,} rows (alpha {alpha:g}), all answers together.",
            f"These {len(shown)} questions cost epsilon {spent:.3g} of {epsilon:g}.",
            f"After them: {outlook}.",
        ]
        return {"words": words, "preview": shown}

    def publish(self, principal: Principal, id_: str, name: str, **settings: Any) -> str:
        """Open a table from the draft; its budget is for its life. The name of the table."""
        _check(principal)
        folder, facts, _ = self.read(id_)
        if not NAME.fullmatch(name):
            raise QueryError(f"the table's name is {name[:80]!r}", expected="small letters, digits and _, at most 63")
        if facts["guessed"]:
            raise QueryError("this draft was not reviewed", advice="review its columns first. Nothing was charged.")
        place = self._opened / name
        if name in self._service.tables or place.exists():
            raise QueryError(f"there is a table {name!r} already", advice="nothing was charged. Choose another name.")
        config = self._config(place, {**settings, "name": name, "source": facts["source"]})
        ledger = self._service.ledger_file(config)
        self.claims.take(folder / facts["source"], name, fresh=not ledger.exists())
        self._opened.mkdir(exist_ok=True, mode=0o700)
        shutil.move(folder, place)
        _write(place / "table.json", json.dumps({**settings, "name": name, "source": facts["source"]}))
        try:
            if problems := [*config.problems(), *self._service.shared(config)]:
                raise QueryError(problems[0], advice="nothing was charged")
            self._service.open(config)
        except BaseException:
            (place / "table.json").unlink()
            shutil.move(place, folder)
            if not ledger.exists():
                self.claims.drop(folder / facts["source"])
            raise
        self._service.note(principal, "table opened", table=name)
        return name

    def opened(self) -> list[TableConfig]:
        """The tables that were opened from drafts, for the next start."""
        found = sorted(self._opened.glob("*/table.json"))
        return [self._config(path.parent, json.loads(path.read_text(encoding="utf-8"))) for path in found]

    def discard(self, principal: Principal, id_: str) -> None:
        """Delete a draft with its file."""
        _check(principal)
        shutil.rmtree(self.read(id_)[0])

    def erase(self, oldest: float) -> None:
        """Delete drafts that nobody touched since a moment; tables that were opened keep their files."""
        for kept in self._folder.glob("*/draft.json"):
            with suppress(FileNotFoundError):  # opened or discarded meanwhile
                if kept.stat().st_mtime < oldest:
                    shutil.rmtree(kept.parent)

    def _config(self, place: Path, settings: Mapping[str, Any]) -> TableConfig:
        return TableConfig(**{**settings, "source": str(place / settings["source"])}, schema=str(place / "schema.toml"))

    def _keep(self, folder: Path, schema: str, facts: Mapping[str, Any]) -> None:
        _write(folder / "schema.toml", schema)
        _write(folder / "draft.json", json.dumps(facts))

    def read(self, id_: str) -> tuple[Path, dict[str, Any], str]:
        """The folder of a draft, its facts and its schema file."""
        folder = self._folder / id_
        if not ID.fullmatch(id_) or not (folder / "draft.json").is_file():
            raise NotFound("there is no such draft", advice="upload the file again")
        facts = json.loads((folder / "draft.json").read_text(encoding="utf-8"))
        return folder, facts, (folder / "schema.toml").read_text(encoding="utf-8")


def _check(principal: Principal) -> None:
    """Refuse whoever may not publish, or may see some tables only: a draft is a table that is not theirs yet."""
    principal.require("publish")
    principal.require_all()


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _table_name(filename: str) -> str:
    stem = re.sub(r"[^a-z0-9_]+", "_", Path(filename).name.lower().split(".")[0]).strip("_")
    return stem[:63] if NAME.fullmatch(stem[:63]) else f"table_{stem}"[:63]


def _blocks(text: str) -> list[dict[str, Any]]:
    """The columns of a schema file: name, kind, and the other settings as the file writes them."""
    blocks: list[dict[str, Any]] = []
    for part in re.split(r"^\[\[column\]\]$", text, flags=re.MULTILINE)[1:]:
        lines = [
            line.partition(" = ") for line in part.split("\n") if " = " in line and not line.startswith(("#", "["))
        ]
        settings = {key.strip(): value.strip() for key, _, value in lines}
        name, kind = (tomllib.loads(f"it = {settings.pop(key)}")["it"] for key in ("name", "kind"))
        blocks.append({"name": name, "kind": kind, "settings": settings})
    return blocks


def _block(column: Mapping[str, Any]) -> str:
    """One column as the schema file writes it; a setting left empty is left out."""
    for key, value in column["settings"].items():
        if not re.fullmatch(r"[a-z_]+", key) or "\n" in value:
            raise SchemaError(f"column {column['name']!r}: setting {key[:40]!r} is not one line")
        try:
            tomllib.loads(f"it = {value.strip() or 0}")
        except tomllib.TOMLDecodeError:
            raise SchemaError(
                f"column {column['name']!r}: {key} is {value[:40]}",
                expected='a number, true, false, a text or a date in double quotes ("north"), or a list in brackets',
            ) from None
    given = [f"{key} = {value}" for key, value in column["settings"].items() if value.strip()]
    named = [f"name = {json.dumps(column['name'])}", f"kind = {json.dumps(column['kind'])}"]
    return "\n".join(["[[column]]", *named, *given])


def _source_columns(source: Path) -> list[str]:
    import duckdb

    try:
        return list(duckdb.connect().query(f"SELECT * FROM {quoted(str(source))} LIMIT 0").columns)
    except duckdb.Error:  # a format that the engine reads only with help: no column is offered as the unit
        return []
