"""Registering: a holdout from an uploaded file, without a restart; it is there again after one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.errors import QueryError
from maquette.service.config import HoldoutConfig
from maquette.service.principals import Principal

if TYPE_CHECKING:
    from maquette.service.engine import Service


class Registrar:
    """The holdouts that were registered from drafts.

    A file is one table or one holdout, under one name: the same rows under a second name would begin a second account
    of how often they were used, and no interval would be valid.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folder = service.config.directory / "held"

    def register(
        self,
        principal: Principal,
        id_: str,
        name: str,
        *,
        target: str | None = None,
        conditions: bool = False,
        confidence: float = 0.95,
    ) -> str:
        """Register the file of a draft. `conditions` lets analysts ask conditions: its columns were then reviewed."""
        principal.require("publish")
        principal.require_all()
        folder, facts, _ = self._service.drafts.read(id_)
        if conditions and facts["guessed"]:
            raise QueryError("this draft was not reviewed", advice="review its columns first, or offer no conditions")
        place = self._folder / name
        settings = {"name": name, "source": facts["source"], "target": target, "confidence": confidence}
        settings["schema"] = "schema.toml" if conditions else None
        config = self._config(folder, settings)
        for problem in [*config.problems(), *self._service.shared(config)]:
            raise QueryError(problem.replace(str(folder / facts["source"]), facts["source"]))
        if name in self._service.holdouts or name in self._service.tables or place.exists():
            raise QueryError(f"there is a table or a holdout {name!r} already", advice="choose another name")
        claims, source = self._service.drafts.claims, folder / facts["source"]
        account = self._service.config.directory / f"{name}.holdout"
        claims.take(source, name, fresh=not account.exists())
        self._folder.mkdir(exist_ok=True, mode=0o700)
        shutil.move(folder, place)
        (place / "holdout.json").write_text(json.dumps(settings), encoding="utf-8")
        try:
            self._service.hold(self._config(place, settings))
        except BaseException:
            (place / "holdout.json").unlink()
            shutil.move(place, folder)
            if not account.exists():
                claims.drop(source)
            raise
        self._service.note(principal, "holdout registered", table=name)
        return name

    def registered(self) -> list[HoldoutConfig]:
        """The holdouts that were registered before, for the next start."""
        found = sorted(self._folder.glob("*/holdout.json"))
        return [self._config(path.parent, json.loads(path.read_text(encoding="utf-8"))) for path in found]

    def _config(self, place: Path, settings: Mapping[str, Any]) -> HoldoutConfig:
        schema = None if settings["schema"] is None else str(place / settings["schema"])
        return HoldoutConfig(**{**settings, "source": str(place / settings["source"]), "schema": schema})
