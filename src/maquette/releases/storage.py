"""Saved releases: what stands in the file (see `archive`), and how models and evidence are described and restored.

Publish the digest of the whole file (what `sha256sum` prints) beside it, and load with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Measurement
from maquette.errors import DataError, SchemaError, UnreadableSource
from maquette.estimates import DenseModel, MergedEvidence, MergedModel, Merging, NoEvidence, Residuals, Step, Tables
from maquette.hypothesis import GraphicalModel, WeightedRecords
from maquette.privacy import DiscreteGaussian, DiscreteLaplace, Loss, from_dict
from maquette.query import Marginal
from maquette.releases.archive import LIMIT, Arrays, digest_of, pack, unpack
from maquette.releases.artifact import Certificate, Release
from maquette.releases.classes.coefficients import ParityAnswers
from maquette.releases.classes.projection import ParityModel
from maquette.releases.soundness import sound
from maquette.schema import Schema, shown

FORMAT = "maquette release 1"


def save(release: Release, path: Path) -> str:
    """Write the release and return its digest."""
    arrays: Arrays = {}
    model, evidence = _describe("model", release.model, arrays), _describe("evidence", release.evidence, arrays)
    manifest = {
        "format": FORMAT,
        "schema": release.schema.dumps(),
        "certificate": asdict(release.certificate),
        "model": model,
        "evidence": evidence,
        "trace": [asdict(step) for step in release.trace],
    }
    sealed = pack(manifest, arrays)
    try:
        path.write_bytes(sealed)
    except OSError as error:
        raise DataError(
            f"{str(path)!r} could not be written ({error.strerror})",
            advice="the release is still there and paid for: save it to a folder that exists",
        ) from None
    return digest_of(sealed)


def load(path: Path, digest: str | None, limit: int = LIMIT) -> Release:
    """Read a release, refusing anything that is not exactly what `save` wrote, before memory is taken for it."""
    try:
        manifest, arrays = unpack(path, digest, limit)
        if manifest["format"] != FORMAT:
            raise DataError(
                f"{str(path)!r} has format {shown(manifest['format'])}", advice=f"this version reads {FORMAT!r}"
            )
        return sound(_rebuild(manifest, arrays))
    except FileNotFoundError:
        raise UnreadableSource(f"there is no file {str(path)!r}") from None
    except (DataError, SchemaError):
        raise
    except Exception as error:  # a crafted file can fail anywhere in zip, JSON or array parsing
        raise UnreadableSource(f"{str(path)!r} is not a saved release ({type(error).__name__})") from None


def _describe(role: str, thing: object, arrays: Arrays) -> dict[str, Any]:
    """A plain description of a model or evidence; its numbers go to `arrays`."""
    match thing:
        case DenseModel():
            arrays[f"{role}-cells"] = thing.probabilities
            return {"kind": "dense"}
        case GraphicalModel() | MergedModel() | MergedEvidence():
            return _describe_graph(role, thing, arrays)
        case WeightedRecords():
            arrays[f"{role}-records"], arrays[f"{role}-weights"] = thing.records, thing.weights
            return {"kind": "records"}
        case ParityModel():
            arrays[f"{role}-moments"] = thing.moments
            return {"kind": "parities", "columns": list(thing.columns)}
        case ParityAnswers():
            for i, level in enumerate(thing.levels):
                arrays[f"{role}-{i}"] = level
            facts = {"columns": list(thing.columns), "k": thing.k, "variances": list(thing.variances)}
            return {"kind": "parity-answers", "gaussian": thing.gaussian, **facts}
        case Residuals():
            entries = list(thing.stored())
            for i, (_, sums, precisions) in enumerate(entries):
                arrays[f"{role}-{i}-sums"], arrays[f"{role}-{i}-precisions"] = sums, precisions
            return {
                "kind": "residuals",
                "gaussian": thing.gaussian,
                "separate": thing.separate,
                "sets": [list(columns) for columns, _, _ in entries],
            }
        case NoEvidence():
            return {"kind": "none", "rows": thing.rows}
        case Tables():
            for i, table in enumerate(thing.measurements):
                arrays[f"{role}-{i}"] = table.values
            listed = [{"columns": list(t.marginal.names), "event": t.event.as_dict()} for t in thing.measurements]
            return {"kind": "tables", "tables": listed}
        case _:
            raise DataError(f"a {type(thing).__name__} cannot be saved", advice="sample rows from the release instead")


def _describe_graph(role: str, thing: GraphicalModel | MergedModel | MergedEvidence, arrays: Arrays) -> dict[str, Any]:
    match thing:
        case GraphicalModel():
            # With all nodes among the cliques the tree is found again as it was; without them it may be larger.
            cliques = list(thing.grown(thing.tree.nodes).potentials.items())
            for i, (_, potential) in enumerate(cliques):
                arrays[f"{role}-{i}"] = potential
            return {"kind": "graphical", "cliques": [list(clique) for clique, _ in cliques]}
        case MergedModel():
            for i, shares in enumerate(thing.shares.values()):
                arrays[f"{role}-shares-{i}"] = shares
            merging = _describe_merging(role, thing.merging, arrays)
            inner = _describe(f"{role}-merged", thing.model, arrays)
            return {"kind": "merged", "merging": merging, "shares": list(thing.shares), "model": inner}
        case MergedEvidence():
            merging = _describe_merging(role, thing.merging, arrays)
            fine = _describe(f"{role}-fine", thing.fine, arrays)
            coarse = _describe(f"{role}-coarse", thing.coarse, arrays)
            return {"kind": "merged", "merging": merging, "fine": fine, "coarse": coarse}


def _describe_merging(role: str, merging: Merging, arrays: Arrays) -> list[str]:
    """The merged columns; the groups of their levels go to `arrays`."""
    for i, name in enumerate(merging.changed):
        arrays[f"{role}-groups-{i}"] = merging.groups[name]
    return list(merging.changed)


def _restore_merging(role: str, names: Sequence[str], schema: Schema, arrays: Arrays) -> Merging:
    groups = {name: arrays[f"{role}-groups-{i}"].astype(np.int64) for i, name in enumerate(names)}
    sizes = {name: schema[name].size for name in groups}
    if any(found.shape != (sizes[n],) or not 0 <= found.min() <= found.max() < sizes[n] for n, found in groups.items()):
        raise DataError("the groups of a saved release do not fit the levels of its columns")
    return Merging(schema, groups)


def _rebuild(manifest: Mapping[str, Any], arrays: Arrays) -> Release:
    schema = Schema.loads(manifest["schema"])
    facts = dict(manifest["certificate"])
    certificate = Certificate(**{**facts, "charges": tuple(facts["charges"])})
    model, evidence = (
        _restore(role, manifest[role], schema, arrays, certificate.cost) for role in ("model", "evidence")
    )
    trace = [Step(**{**step, "columns": tuple(step["columns"])}) for step in manifest.get("trace", [])]
    return Release(schema, model, evidence, certificate, trace=trace)


def _restore(role: str, facts: Mapping[str, Any], schema: Schema, arrays: Arrays, cost: Loss) -> Any:
    match facts["kind"]:
        case "dense":
            return DenseModel(schema, _fitting(arrays[f"{role}-cells"], schema.shape(schema.names)))
        case "graphical" | "merged":
            return _restore_graph(role, facts, schema, arrays, cost)
        case "records":
            return WeightedRecords(schema, arrays[f"{role}-records"], weights=arrays[f"{role}-weights"], step="exact")
        case "parities":
            columns = tuple(facts["columns"])
            moments = _fitting(arrays[f"{role}-moments"], (len(columns) + 1, len(columns) + 1))
            return ParityModel(schema, columns, moments)
        case "parity-answers":
            columns, variances = tuple(facts["columns"]), tuple(facts["variances"])
            levels = tuple(
                _fitting(arrays[f"{role}-{i}"], (math.comb(len(columns), i),)) for i in range(len(variances))
            )
            return ParityAnswers(schema, columns, int(facts["k"]), levels, variances, bool(facts["gaussian"]))
        case "residuals":
            residuals = Residuals(schema)
            residuals.gaussian, residuals.separate = bool(facts["gaussian"]), bool(facts["separate"])
            for i, columns in enumerate(facts["sets"]):
                shape = tuple(size - 1 for size in schema.shape(columns))
                sums, precisions = (_fitting(arrays[f"{role}-{i}-{part}"], shape) for part in ("sums", "precisions"))
                residuals.restore(tuple(columns), sums, precisions)
            return residuals
        case "tables":
            return Tables(
                schema, [_table(schema, arrays[f"{role}-{i}"], t, cost) for i, t in enumerate(facts["tables"])]
            )
        case "none":
            return NoEvidence(float(facts["rows"]))
        case kind:
            raise DataError(f"unknown {role} {shown(kind)}", advice="it was saved by a newer version")


def _restore_graph(role: str, facts: Mapping[str, Any], schema: Schema, arrays: Arrays, cost: Loss) -> Any:
    if facts["kind"] == "graphical":
        cliques = [tuple(clique) for clique in facts["cliques"]]
        potentials = {clique: _fitting(arrays[f"{role}-{i}"], schema.shape(clique)) for i, clique in enumerate(cliques)}
        return GraphicalModel(schema, cliques, zeros=schema.zeros).with_potentials(potentials)
    merging = _restore_merging(role, facts["merging"], schema, arrays)
    if role == "model":
        inner = _restore(f"{role}-merged", facts["model"], merging.merged, arrays, cost)
        shares = {
            name: _fitting(arrays[f"{role}-shares-{i}"], schema.shape([name])) for i, name in enumerate(facts["shares"])
        }
        return MergedModel(merging, inner, shares)
    fine = _restore(f"{role}-fine", facts["fine"], schema, arrays, cost)
    return MergedEvidence(merging, fine, _restore(f"{role}-coarse", facts["coarse"], merging.merged, arrays, cost))


def _table(schema: Schema, values: NDArray[Any], facts: Mapping[str, Any], cost: Loss) -> Measurement:
    event = from_dict(facts["event"])
    if not isinstance(event, DiscreteLaplace | DiscreteGaussian):
        raise DataError("a saved table has noise of an unknown law")
    marginal = Marginal(schema, facts["columns"])
    return Measurement(marginal, _fitting(values, marginal.shape), event, cost)


def _fitting(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of the shape that the schema implies: others could become far larger when they are put together."""
    if array.shape != shape:
        raise DataError(f"an array of a saved release has shape {array.shape}", advice=f"its schema implies {shape}")
    return array
