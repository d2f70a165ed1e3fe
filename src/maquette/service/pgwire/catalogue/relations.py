"""The rows of the system tables: what PostgreSQL 15 would hold about the tables that one analyst may see.

`pg15.json` lists the system relations of PostgreSQL 15 with their columns, and its built-in types; it holds names and
numbers that the protocol's clients rely on, and nothing else. A test compares it with a real server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

DATABASE = "maquette"
OWNER = "maquette"
OWNER_OID = 10
USER, USER_OID = "$user", 16_382  # stands for whoever is connected: nobody sees the name of another
CATALOG_OID, PUBLIC_OID, INFORMATION_OID, DATABASE_OID = 11, 2200, 13207, 16383
FIRST_OID = 16_384  # of the tables of the service
NAMESPACES = {"pg_catalog": CATALOG_OID, "public": PUBLIC_OID, "information_schema": INFORMATION_OID}

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class PublicColumn:
    """A column as tools see it: its type, and what is declared about it."""

    name: str
    oid: int
    nullable: bool
    comment: str


@dataclass(frozen=True)
class Relation:
    """A table (r) or a view (v) of the schema `public`."""

    name: str
    kind: str
    columns: tuple[PublicColumn, ...]
    comment: str
    definition: str = ""


@dataclass(frozen=True)
class SystemRelation:
    """A table or view of PostgreSQL itself."""

    schema: str
    name: str
    kind: str
    oid: int
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Type:
    """A built-in type."""

    oid: int
    name: str
    length: int
    by_value: bool
    category: str
    align: str
    storage: str
    collation: int
    title: str
    facts: Mapping[str, Any]


_TYPE_FIELDS = (
    *("oid", "typname", "typlen", "typbyval", "typtype", "typcategory", "typispreferred", "typdelim", "typelem"),
    *("typarray", "typinput", "typoutput", "typreceive", "typsend", "typalign", "typstorage", "typcollation"),
)


@cache
def _stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files(__package__).joinpath("pg15.json").read_text())
    return found


@cache
def system_relations() -> tuple[SystemRelation, ...]:
    """Every relation of pg_catalog, and the common ones of information_schema."""
    return tuple(
        SystemRelation(schema, name, kind, oid, tuple(_pair(column) for column in columns))
        for schema, relations in _stored()["relations"].items()
        for name, (kind, oid, *columns) in relations.items()
    )


@cache
def types() -> dict[int, Type]:
    """The built-in types by their numbers."""
    found = {}
    for *fields, title in _stored()["types"]:
        f = dict(zip(_TYPE_FIELDS, fields, strict=True))
        found[f["oid"]] = Type(
            f["oid"],
            f["typname"],
            f["typlen"],
            f["typbyval"],
            f["typcategory"],
            f["typalign"],
            f["typstorage"],
            f["typcollation"],
            title,
            f,
        )
    return found


@cache
def type_named(name: str) -> int | None:
    """The number of a type by any of its names: int4, integer, pg_catalog.int4, "char"."""
    wanted = name.removeprefix("pg_catalog.").strip().lower().replace('"', "")
    wanted = {"int": "int4", "varchar": "character varying", "decimal": "numeric", "float": "float8"}.get(
        wanted, wanted
    )
    return next((t.oid for t in types().values() if wanted in (t.name, t.title)), None)


def oids_of(relations: Sequence[Relation]) -> dict[str, int]:
    """The numbers of all relations: system ones by name and with their schema, those of the service by name."""
    found = {f"{r.schema}.{r.name}": r.oid for r in system_relations()}
    found |= {r.name: r.oid for r in system_relations() if r.schema == "pg_catalog"}
    for i, relation in enumerate(sorted(relations, key=lambda r: r.name)):
        found[relation.name] = found[f"public.{relation.name}"] = FIRST_OID + 2 * i
    return found


def rows_of(relations: Sequence[Relation]) -> dict[str, Rows]:
    """The rows of every system table that is not empty."""
    oids = oids_of(relations)
    return {
        "pg_class": [*_system_classes(), *(_class(r, oids[f"public.{r.name}"]) for r in relations)],
        "pg_attribute": [
            *_system_attributes(),
            *(row for r in relations for row in _attributes(r, oids[f"public.{r.name}"])),
        ],
        "pg_type": [_type(t) for t in types().values()],
        "pg_namespace": [{"oid": oid, "nspname": n, "nspowner": OWNER_OID} for n, oid in NAMESPACES.items()],
        "pg_description": [row for r in relations for row in _descriptions(r, oids[f"public.{r.name}"])],
        "pg_database": [_database()],
        "roles": [_role(OWNER_OID, OWNER), _role(USER_OID, USER)],
        "pg_am": [{"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}],
        "pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER_OID}],
        "pg_language": [{"oid": 14, "lanname": "sql", "lanowner": OWNER_OID, "lanispl": False, "lanpltrusted": True}],
        "pg_collation": [_collation(100, "default", "d"), _collation(950, "C", "c")],
    }


def _pair(column: str) -> tuple[str, str]:
    name, _, kind = column.partition(" ")
    return name, kind


def _class(relation: Relation, oid: int) -> dict[str, Any]:
    return _class_row(oid, relation.name, PUBLIC_OID, relation.kind, len(relation.columns))


def _system_classes() -> Iterator[dict[str, Any]]:
    for r in system_relations():
        yield _class_row(r.oid, r.name, NAMESPACES[r.schema], r.kind, len(r.columns))


def _class_row(oid: int, name: str, namespace: int, kind: str, columns: int) -> dict[str, Any]:
    return {
        **dict.fromkeys(("reltype", "reloftype", "relfilenode", "reltablespace", "relpages", "reltoastrelid"), 0),
        **dict.fromkeys(("relallvisible", "relchecks", "relrewrite", "relfrozenxid", "relminmxid"), 0),
        **dict.fromkeys(("relhasindex", "relisshared", "relhastriggers", "relhassubclass", "relrowsecurity"), False),
        **dict.fromkeys(("relforcerowsecurity", "relispartition"), False),
        "oid": oid,
        "relname": name,
        "relnamespace": namespace,
        "relowner": OWNER_OID,
        "relam": 2 if kind == "r" else 0,
        "reltuples": -1.0,
        "relpersistence": "p",
        "relkind": kind,
        "relnatts": columns,
        "relhasrules": kind == "v",
        "relispopulated": True,
        "relreplident": "d" if kind == "r" else "n",
        "relacl": [f"{OWNER}=r/{OWNER}", f"=r/{OWNER}"],
    }


def _attributes(relation: Relation, oid: int) -> Iterator[dict[str, Any]]:
    for number, column in enumerate(relation.columns, 1):
        yield _attribute(oid, number, column.name, column.oid, required=not column.nullable)


def _system_attributes() -> Iterator[dict[str, Any]]:
    for r in system_relations():
        for number, (name, kind) in enumerate(r.columns, 1):
            yield _attribute(r.oid, number, name, type_named(kind) or 25, required=False)


def _attribute(relation: int, number: int, name: str, oid: int, *, required: bool) -> dict[str, Any]:
    kind = types()[oid]
    return {
        **dict.fromkeys(("atthasdef", "atthasmissing", "attisdropped"), False),
        **dict.fromkeys(("attidentity", "attgenerated", "attcompression"), ""),
        **dict.fromkeys(("attstattarget", "attcacheoff", "atttypmod"), -1),
        "attrelid": relation,
        "attname": name,
        "atttypid": oid,
        "attlen": kind.length,
        "attnum": number,
        "attndims": int(kind.category == "A"),
        "attbyval": kind.by_value,
        "attalign": kind.align,
        "attstorage": kind.storage,
        "attnotnull": required,
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": kind.collation,
    }


def _type(kind: Type) -> dict[str, Any]:
    return {
        **kind.facts,
        **dict.fromkeys(("typrelid", "typbasetype", "typndims"), 0),
        "typnamespace": CATALOG_OID,
        "typowner": OWNER_OID,
        "typisdefined": True,
        "typnotnull": False,
        "typtypmod": -1,
        "typsubscript": "array_subscript_handler" if kind.category == "A" else "-",
        "typmodin": "-",
        "typmodout": "-",
        "typanalyze": "-",
    }


def _descriptions(relation: Relation, oid: int) -> Iterator[dict[str, Any]]:
    about = {"objoid": oid, "classoid": 1259}
    yield {**about, "objsubid": 0, "description": relation.comment}
    for number, column in enumerate(relation.columns, 1):
        if column.comment:
            yield {**about, "objsubid": number, "description": column.comment}


def _database() -> dict[str, Any]:
    return {
        "oid": DATABASE_OID,
        "datname": DATABASE,
        "datdba": OWNER_OID,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": False,
        "datallowconn": True,
        "datconnlimit": -1,
        "datfrozenxid": 0,
        "datminmxid": 0,
        "dattablespace": 1663,
        "datcollate": "C.UTF-8",
        "datctype": "C.UTF-8",
    }


def _role(oid: int, name: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"), False),
        "oid": oid,
        "rolname": name,
        "rolinherit": True,
        "rolcanlogin": True,
        "rolconnlimit": -1,
    }


def _collation(oid: int, name: str, provider: str) -> dict[str, Any]:
    return {
        "oid": oid,
        "collname": name,
        "collnamespace": CATALOG_OID,
        "collowner": OWNER_OID,
        "collprovider": provider,
        "collisdeterministic": True,
        "collencoding": -1,
    }
