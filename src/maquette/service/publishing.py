"""Publishing: releases of a served table, made as jobs, kept as files in the service's directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maquette.errors import DataError, QueryError
from maquette.query import marginals
from maquette.releases import Release, method_of, release
from maquette.service.errors import NotFound
from maquette.service.jobs import Job, Jobs
from maquette.service.principals import Principal
from maquette.service.served import ServedTable
from maquette.service.state import RETRY_SECONDS
from maquette.service.wire import loss_data

NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Publisher:
    """Makes and keeps the releases of all tables of a service."""

    def __init__(self, directory: Path, jobs: Jobs) -> None:
        self._directory = directory
        self._jobs = jobs

    def load(self, table: ServedTable) -> None:
        """Read the releases of a table from the directory, when the service starts."""
        for path in sorted(self._folder(table).glob("*.maq")):
            made = Release.load(path)
            if made.schema == table.schema:
                table.releases[path.stem] = made

    def make(
        self,
        principal: Principal,
        table: ServedTable,
        name: str,
        *,
        ways: int | None = None,
        epsilon: float | None = None,
        method: str = "auto",
        check: bool = True,
    ) -> Job:
        """Make a release of all tables of `ways` columns as a job.

        By default of two columns, or the only one, and for all that remains of the budget.
        """
        principal.require_table(table.name)
        principal.require("publish")
        if not NAME.fullmatch(name):
            raise QueryError(f"the release's name is {name[:80]!r}", expected="small letters, digits and _, at most 63")
        path = self._folder(table) / f"{name}.maq"
        ways = min(2, len(table.schema)) if ways is None else ways
        if not 1 <= ways <= len(table.schema):
            raise QueryError(f"ways is {ways}", expected=f"a number of columns from 1 to {len(table.schema)}")
        if method != "auto":
            method_of(method)
        workload = marginals(table.schema, k=ways)

        what = f"release {name}"

        def work() -> dict[str, Any]:
            _refuse_taken(table, name, path)  # by a job that came in between: those of a table run one by one
            made = release(table.curator, workload, method=method, epsilon=epsilon, check=check, table=table.name)
            digest = self._kept(made, path)
            table.releases[name] = made
            return {"release": name, "digest": digest, "cost": loss_data(made.cost)}

        _refuse_taken(table, name, path)
        if any(job.what == what and not job.over for job in self._jobs.of(table.name)):
            raise QueryError(f"the release {name!r} is being made", advice="nothing was charged. Wait for its job.")
        return self._jobs.submit(principal, table.name, what, work)

    def _kept(self, made: Release, path: Path) -> str:
        """Save a release; it is paid for, so where the disk is full it waits for room, as long as the service runs."""
        while True:
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                return made.save(path)
            except (DataError, OSError) as error:
                room = isinstance(error, OSError) or isinstance(error.__context__, OSError)
                if not room or self._jobs.closing.wait(RETRY_SECONDS):
                    raise

    def path(self, table: ServedTable, name: str) -> Path:
        """The file of a release."""
        find(table.releases, name)
        return self._folder(table) / f"{name}.maq"

    def _folder(self, table: ServedTable) -> Path:
        return self._directory / "releases" / table.name


def _refuse_taken(table: ServedTable, name: str, path: Path) -> None:
    if name in table.releases or path.exists():
        raise QueryError(f"there is a release {name!r} already", advice="nothing was charged. Choose another name.")


def find(releases: Mapping[str, Release], name: str) -> Release:
    """A release by its name."""
    found = releases.get(name)
    if found is None:
        raise NotFound(f"there is no release {name[:80]!r}", advice="list the table's releases")
    return found


def release_data(name: str, made: Release) -> dict[str, Any]:
    """What may be told of a release: everything, it is published."""
    certificate = made.certificate
    return {
        "name": name,
        "method": certificate.method,
        "relation": certificate.relation,
        "protects": certificate.protects,
        "cost": loss_data(made.cost),
        "checked": certificate.checked,
        "columns": list(made.schema.names),
        "explanation": list(made.explanation),
    }
