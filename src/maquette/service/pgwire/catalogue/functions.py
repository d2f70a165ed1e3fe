"""Functions and views of PostgreSQL's catalogue, as DuckDB macros and views over its tables.

Macros read only the tables of the catalogue. What depends on the connection (its user, its settings) is written into
a statement as a literal before it is run (`translate`).
"""

from __future__ import annotations

from maquette.service.pgwire.catalogue.relations import DATABASE, OWNER, USER

_NULL_TEXT = "CAST(NULL AS VARCHAR)"


def _always(names: str, arguments: tuple[str, ...], value: str) -> list[str]:
    bodies = ", ".join(f"({given}) AS {value}" for given in arguments)
    return [f"CREATE MACRO {name} {bodies}" for name in names.split()]


def _json_objects() -> str:
    """json_build_object of one to eight pairs."""
    bodies = []
    for pairs in range(1, 9):
        names = [f"a{i}" for i in range(2 * pairs)]
        given = [name if i % 2 else f"CAST({name} AS VARCHAR)" for i, name in enumerate(names)]
        bodies.append(f"({', '.join(names)}) AS json_object({', '.join(given)})")
    return f"CREATE MACRO json_build_object {', '.join(bodies)}"


MACROS: tuple[str, ...] = (
    *_always(
        "pg_table_is_visible pg_type_is_visible pg_function_is_visible pg_collation_is_visible "
        "pg_conversion_is_visible pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible "
        "pg_statistics_obj_is_visible pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible "
        "pg_ts_template_is_visible",
        ("x",),
        "(x < 12000 OR x >= 16000)",
    ),
    *_always(
        "has_table_privilege has_schema_privilege has_database_privilege has_column_privilege "
        "has_any_column_privilege has_sequence_privilege has_function_privilege has_language_privilege "
        "has_tablespace_privilege has_type_privilege pg_has_role",
        ("a, b", "a, b, c", "a, b, c, d"),
        "true",
    ),
    *_always(
        "pg_get_constraintdef pg_get_indexdef pg_get_triggerdef pg_get_ruledef pg_get_serial_sequence "
        "pg_get_statisticsobjdef pg_get_partkeydef",
        ("a", "a, b", "a, b, c"),
        _NULL_TEXT,
    ),
    *_always(
        "pg_get_statisticsobjdef_columns pg_get_functiondef pg_get_function_arguments pg_get_function_result "
        "pg_get_function_identity_arguments pg_tablespace_location pg_get_function_sqlbody "
        "pg_get_partition_constraintdef",
        ("a",),
        _NULL_TEXT,
    ),
    "CREATE MACRO pg_get_expr (a, b) AS CAST(a AS VARCHAR), (a, b, c) AS CAST(a AS VARCHAR)",
    *_always("pg_relation_is_publishable pg_is_in_recovery pg_is_other_temp_schema", ("", "a"), "false"),
    *_always(
        "pg_table_size pg_relation_size pg_total_relation_size pg_database_size pg_indexes_size pg_tablespace_size",
        ("a", "a, b"),
        "CAST(0 AS BIGINT)",
    ),
    "CREATE MACRO pg_size_pretty(a) AS a || ' bytes'",
    "CREATE MACRO pg_encoding_to_char(a) AS CASE a WHEN 6 THEN 'UTF8' ELSE '' END",
    "CREATE MACRO pg_char_to_encoding(a) AS CASE upper(a) WHEN 'UTF8' THEN 6 WHEN 'UTF-8' THEN 6 ELSE -1 END",
    "CREATE MACRO any_setting(a) AS (SELECT min(s.setting) FROM pgc.settings s WHERE s.name = lower(a))",
    "CREATE MACRO getdatabaseencoding() AS 'UTF8'",
    "CREATE MACRO pg_client_encoding() AS 'UTF8'",
    "CREATE MACRO pg_get_userbyid(a) AS coalesce((SELECT r.rolname FROM pgc.pg_authid r WHERE r.oid = a), "
    "'unknown (OID=' || a || ')')",
    "CREATE MACRO format_type (a, b) AS (SELECT f.title FROM pgc.type_titles f WHERE f.oid = a), "
    "(a) AS (SELECT f.title FROM pgc.type_titles f WHERE f.oid = a)",
    "CREATE MACRO regclass_name(a) AS coalesce((SELECT r.relname FROM pgc.pg_class r WHERE r.oid = TRY_CAST(a AS "
    "UINTEGER)), CAST(a AS VARCHAR))",
    "CREATE MACRO regclass_oid(a) AS coalesce(TRY_CAST(a AS UINTEGER), (SELECT min(r.oid) FROM pgc.pg_class r WHERE "
    "r.relname = replace(regexp_replace(CAST(a AS VARCHAR), '^(pg_catalog|public)\\.', ''), '\"', '')))",
    "CREATE MACRO regnamespace_name(a) AS (SELECT r.nspname FROM pgc.pg_namespace r WHERE r.oid = a)",
    "CREATE MACRO regrole_name(a) AS (SELECT r.rolname FROM pgc.pg_authid r WHERE r.oid = a)",
    "CREATE MACRO to_regtype(a) AS (SELECT min(f.oid) FROM pgc.type_titles f WHERE lower(a) IN (f.title, f.typname))",
    "CREATE MACRO to_regclass(a) AS (SELECT min(r.oid) FROM pgc.pg_class r WHERE r.relname = "
    "replace(regexp_replace(a, '^(pg_catalog|public)\\.', ''), '\"', ''))",
    "CREATE MACRO to_regnamespace(a) AS (SELECT min(r.oid) FROM pgc.pg_namespace r WHERE r.nspname = a)",
    "CREATE MACRO pg_get_viewdef (a) AS (SELECT v.definition FROM pgc.view_texts v WHERE v.oid = a), "
    "(a, b) AS (SELECT v.definition FROM pgc.view_texts v WHERE v.oid = a)",
    "CREATE MACRO obj_description (a) AS (SELECT min(d.description) FROM pgc.pg_description d WHERE d.objoid = a AND "
    "d.objsubid = 0), (a, b) AS (SELECT min(d.description) FROM pgc.pg_description d WHERE d.objoid = a AND "
    "d.objsubid = 0 AND b = 'pg_class')",
    "CREATE MACRO col_description(a, b) AS (SELECT min(d.description) FROM pgc.pg_description d WHERE d.objoid = a AND "
    "d.objsubid = b AND b <> 0)",
    f"CREATE MACRO shobj_description(a, b) AS {_NULL_TEXT}",
    "CREATE MACRO array_upper(a, b) AS CASE WHEN len(a) = 0 THEN NULL ELSE len(a) END",
    "CREATE MACRO array_lower(a, b) AS CASE WHEN len(a) = 0 THEN NULL ELSE 1 END",
    "CREATE MACRO array_remove(a, b) AS list_filter(a, lambda x: x IS DISTINCT FROM b)",
    "CREATE MACRO array_positions_of(a, b) AS list_position(a, b)",
    "CREATE MACRO _pg_expandarray(a) AS unnest(list_transform(a, lambda x, i: {'x': x, 'n': i}))",
    "CREATE MACRO _pg_char_max_length(a, b) AS CAST(NULL AS INTEGER)",
    "CREATE MACRO _pg_truetypid(a, t) AS a.atttypid",
    "CREATE MACRO quote_ident(a) AS CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_$]*') THEN a "
    "ELSE '\"' || replace(a, '\"', '\"\"') || '\"' END",
    "CREATE MACRO quote_literal(a) AS '''' || replace(a, '''', '''''') || ''''",
    _json_objects(),
    "CREATE MACRO pg_backend_pid() AS 1",
    "CREATE MACRO txid_current() AS CAST(1 AS BIGINT)",
    "CREATE MACRO pg_my_temp_schema() AS CAST(0 AS UINTEGER)",
    "CREATE MACRO pg_postmaster_start_time() AS TIMESTAMP '2000-01-01 00:00:00'",
    f"CREATE MACRO inet_server_addr() AS {_NULL_TEXT}",
    f"CREATE MACRO inet_client_addr() AS {_NULL_TEXT}",
    "CREATE MACRO inet_server_port() AS CAST(NULL AS INTEGER)",
    "CREATE MACRO pg_stat_get_numscans(a) AS CAST(0 AS BIGINT)",
    "CREATE MACRO age (a) AS 0, (a, b) AS 0",
    "CREATE MACRO mxid_age(a) AS 0",
    "CREATE MACRO regexp_like_i(a, b) AS regexp_matches(a, b, 'i')",
    "CREATE MACRO aclexplode(a) AS unnest(list_transform(a, lambda x: {'grantor': CAST(10 AS UINTEGER), 'grantee': "
    "CAST(10 AS UINTEGER), 'privilege_type': 'SELECT', 'is_grantable': false}))",
    f"CREATE MACRO acldefault(a, b) AS ['{OWNER}=r/{OWNER}']",
    "CREATE MACRO pg_get_keywords() AS TABLE SELECT keyword_name AS word, upper(keyword_category[1:1]) AS catcode, "
    "false AS barelabel, keyword_category AS catdesc, 'unreserved' AS baredesc FROM pgc.keywords",
)

_TABLES = (
    "FROM pgc.pg_class c JOIN pgc.pg_namespace n ON n.oid = c.relnamespace JOIN pgc.pg_authid o ON o.oid = c.relowner"
)
_COLUMNS = (
    "FROM pgc.pg_attribute a JOIN pgc.pg_class c ON c.oid = a.attrelid JOIN pgc.pg_namespace n "
    "ON n.oid = c.relnamespace JOIN pgc.type_titles t ON t.oid = a.atttypid"
)
_NUMBERS = "t.typname IN ('int2', 'int4', 'int8', 'float4', 'float8', 'numeric')"
_PRIVILEGE = f"'{OWNER}' AS grantor, 'PUBLIC' AS grantee, '{DATABASE}' AS table_catalog, n.nspname AS table_schema, "

# What a view selects, by name; the columns that it leaves out are NULL.
VIEWS: dict[str, str] = {
    "pg_catalog.pg_authid": f"SELECT * REPLACE (CASE rolname WHEN '{USER}' THEN getvariable('me') ELSE rolname END AS "
    "rolname) FROM pgc.roles",
    "pg_catalog.pg_roles": "SELECT * FROM pgc.pg_authid",
    "pg_catalog.pg_user": "SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS "
    "usesuper, rolreplication AS userepl, rolbypassrls AS usebypassrls, '********' AS passwd FROM pgc.pg_authid",
    "pg_catalog.pg_tables": "SELECT n.nspname AS schemaname, c.relname AS tablename, o.rolname AS tableowner, false AS "
    f"hasindexes, false AS hasrules, false AS hastriggers, false AS rowsecurity {_TABLES} WHERE c.relkind = 'r'",
    "pg_catalog.pg_views": "SELECT n.nspname AS schemaname, c.relname AS viewname, o.rolname AS viewowner, "
    f"pg_get_viewdef(c.oid) AS definition {_TABLES} WHERE c.relkind = 'v'",
    "pg_catalog.pg_settings": "SELECT name, setting, 'Preset Options' AS category, description AS short_desc, 'user' "
    "AS context, 'string' AS vartype, 'default' AS source, setting AS boot_val, setting AS reset_val, false AS "
    "pending_restart FROM pgc.settings",
    "information_schema.information_schema_catalog_name": f"SELECT '{DATABASE}' AS catalog_name",
    "information_schema.schemata": f"SELECT '{DATABASE}' AS catalog_name, n.nspname AS schema_name, "
    f"'{OWNER}' AS schema_owner FROM pgc.pg_namespace n",
    "information_schema.tables": f"SELECT '{DATABASE}' AS table_catalog, n.nspname AS table_schema, c.relname AS "
    "table_name, CASE c.relkind WHEN 'r' THEN 'BASE TABLE' ELSE 'VIEW' END AS table_type, 'NO' AS is_insertable_into, "
    f"'NO' AS is_typed {_TABLES}",
    "information_schema.views": f"SELECT '{DATABASE}' AS table_catalog, n.nspname AS table_schema, c.relname AS "
    "table_name, pg_get_viewdef(c.oid) AS view_definition, 'NONE' AS check_option, 'NO' AS is_updatable, 'NO' AS "
    f"is_insertable_into {_TABLES} WHERE c.relkind = 'v'",
    "information_schema.columns": f"SELECT '{DATABASE}' AS table_catalog, n.nspname AS "
    f"table_schema, c.relname AS table_name, a.attname AS "
    f"column_name, CAST(a.attnum AS INTEGER) AS ordinal_position, CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' "
    f"END AS is_nullable, CASE WHEN t.typname LIKE '\\_%' ESCAPE '\\' THEN 'ARRAY' ELSE t.title END AS "
    f"data_type, CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN"
    f" 24 WHEN 'float8' THEN 53 END AS numeric_precision, CASE WHEN {_NUMBERS} THEN CASE WHEN t.typname = "
    f"'numeric' THEN 10 ELSE 2 END END AS numeric_precision_radix, CASE WHEN t.typname IN ('int2', 'int4', "
    f"'int8') THEN 0 END AS numeric_scale, CASE WHEN t.typname = 'date' THEN 0 WHEN t.typname LIKE 'time%' "
    f"THEN 6 END AS datetime_precision, CASE WHEN t.typname IN ('text', 'varchar', 'bpchar') THEN 1073741824 "
    f"END AS character_octet_length, '{DATABASE}' AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS "
    f"udt_name, CAST(a.attnum AS VARCHAR) AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity,"
    f" 'NO' AS identity_cycle, 'NEVER' AS is_generated, 'NO' AS is_updatable {_COLUMNS} WHERE a.attnum > 0",
    "information_schema.table_privileges": f"SELECT {_PRIVILEGE} c.relname AS table_name, 'SELECT' AS privilege_type, "
    f"'NO' AS is_grantable, 'YES' AS with_hierarchy {_TABLES} WHERE n.nspname = 'public'",
    "information_schema.role_table_grants": f"SELECT {_PRIVILEGE} c.relname AS table_name, 'SELECT' AS privilege_type, "
    f"'NO' AS is_grantable, 'YES' AS with_hierarchy {_TABLES} WHERE n.nspname = 'public'",
    "information_schema.column_privileges": f"SELECT {_PRIVILEGE} c.relname AS table_name, a.attname AS column_name, "
    f"'SELECT' AS privilege_type, 'NO' AS is_grantable {_COLUMNS} WHERE n.nspname = 'public'",
    "information_schema.enabled_roles": "SELECT rolname AS role_name FROM pgc.pg_authid",
    "information_schema.character_sets": "SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' "
    f"AS form_of_use, '{DATABASE}' AS default_collate_catalog, 'pg_catalog' AS default_collate_schema, 'C.UTF-8' AS "
    "default_collate_name",
}
