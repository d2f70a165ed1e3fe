"""Saved releases: the contents of the file (see `archive`); models and evidence describe and restore themselves.

Publish the digest of the whole file (what `sha256sum` prints) beside it, and load with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import DataError, SchemaError, UnreadableSource
from maquette.estimates import Check, Step
from maquette.hypothesis import Arrays
from maquette.hypothesis.saving import described, inside, prefixed
from maquette.releases.archive import LIMIT, digest_of, pack, unpack
from maquette.releases.artifact import Certificate, Release
from maquette.releases.kinds import restore_evidence, restore_model, savable
from maquette.releases.soundness import sound
from maquette.releases.sums import restore
from maquette.releases.whole import whole
from maquette.schema import Schema, shown

FORMAT = "maquette release 1"


def save(release: Release, path: Path) -> str:
    """Write the release and return its digest."""
    arrays: dict[str, NDArray[Any]] = {}
    model, evidence = _describe("model", release.model, arrays), _describe("evidence", release.evidence, arrays)
    manifest = {
        "format": FORMAT,
        "schema": release.schema.dumps(),
        "certificate": _certificate(release.certificate),
        "model": model,
        "evidence": evidence,
        "trace": [asdict(step) for step in release.trace],
    }
    if release.sums:
        manifest["sums"] = [table.facts() for table in release.sums]
        arrays.update(prefixed("sums", {str(i): table.values for i, table in enumerate(release.sums)}))
    if release.explanation:
        manifest["explanation"] = list(release.explanation)
    if release.check is not None:  # files without one keep the bytes of version 0.1
        manifest["check"] = _describe("check", release.check, arrays)
    try:
        sealed = pack(manifest, arrays)
    except (TypeError, ValueError) as error:  # facts of a model that JSON cannot represent
        raise DataError(f"a {type(release.model).__name__} cannot be saved ({error})") from None
    advice = "the release is still there and paid for: save it to a folder that exists and has room"
    with whole(path, advice) as unfinished, unfinished.open("wb") as file:
        file.write(sealed)
        file.flush()
        if unfinished is not path:
            os.fsync(file.fileno())
    return digest_of(sealed)


def load(path: Path, digest: str | None, limit: int = LIMIT, models: Iterable[type[Any]] = ()) -> Release:
    """Read a release, refusing anything that is not exactly what `save` wrote, before memory is taken for it."""
    try:
        manifest, arrays = unpack(path, digest, limit)
        if manifest["format"] != FORMAT:
            raise DataError(
                f"{str(path)!r} has format {shown(manifest['format'])}", advice=f"this version reads {FORMAT!r}"
            )
        return sound(_rebuild(manifest, arrays, models))
    except FileNotFoundError:
        raise UnreadableSource(f"there is no file {str(path)!r}") from None
    except (DataError, SchemaError):
        raise
    except Exception as error:  # a crafted file can fail anywhere in zip, JSON or array parsing
        raise UnreadableSource(f"{str(path)!r} is not a saved release ({type(error).__name__})") from None


def _certificate(certificate: Certificate) -> dict[str, Any]:
    """The fields; without a check and a start the same as in version 0.1, so that its files keep their bytes."""
    facts = asdict(certificate)
    newer = {"checked": None, "start": None, "drafted": False, "bound_from_rows": False, "cut": None, "table": None}
    unsaid = [name for name, value in newer.items() if facts[name] is value]
    return {name: value for name, value in facts.items() if name not in unsaid}


def _describe(role: str, thing: object, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """A plain description of a model or evidence; its numbers go to `arrays`."""
    part = savable(thing, role)
    for name, values in prefixed(role, part.arrays()).items():
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise DataError(f"the array {name!r} of a {type(part).__name__} holds values that are not finite numbers")
        arrays[name] = values
    return described(part)


def _rebuild(manifest: Mapping[str, Any], arrays: Arrays, models: Iterable[type[Any]]) -> Release:
    schema = Schema.loads(manifest["schema"])
    facts = dict(manifest["certificate"])
    certificate = Certificate(**{**facts, "charges": tuple(facts["charges"])})
    roles = {role: {**manifest[role], "cost": certificate.cost} for role in ("model", "evidence")}
    model = restore_model(roles["model"], schema, inside("model", arrays), models)
    evidence = restore_evidence(roles["evidence"], schema, inside("evidence", arrays))
    trace = [Step(**{**step, "columns": tuple(step["columns"])}) for step in manifest.get("trace", [])]
    check = Check.restore(schema, manifest["check"], inside("check", arrays)) if "check" in manifest else None
    said = tuple(map(str, manifest.get("explanation", ())))
    sums = restore(schema, manifest["sums"], inside("sums", arrays)) if "sums" in manifest else ()
    return Release(schema, model, evidence, certificate, trace=trace, check=check, explanation=said, sums=sums)
