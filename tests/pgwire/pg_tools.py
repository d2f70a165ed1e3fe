"""How tools begin, and what they send in the background: statements like those that their versions are known to send.

The tools themselves do not run here. Every statement of `TOOLS` is answered and none is charged; those of `REFUSED`,
with which some tools ask what a database can do, are refused in a way that they understand.
"""

from __future__ import annotations

TOOLS: dict[str, list[str]] = {
    "DBeaver": [
        "SELECT current_database(), current_schema(),session_user",
        'SET search_path = "$user","public"',
        "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'server_version_num'",
        "SET extra_float_digits = 3",
        "SET application_name = 'DBeaver 24 - Main'",
        "SHOW search_path",
        "SELECT current_schema(), session_user",
        "SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate OR "
        "db.datname = 'maquette' ORDER BY db.datname",
        "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = "
        "'pg_namespace'::regclass ORDER BY nspname",
        "SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name, "
        "d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem "
        "LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d "
        "ON t.oid = d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND "
        "(et.typcategory IS NULL OR et.typcategory <> 'C')",
        "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr, "
        "pg_catalog.pg_get_partkeydef(c.oid) AS partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = "
        "'pg_class'::regclass WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')",
        "SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, "
        "dsc.description, dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON "
        "a.attrelid = c.oid LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON a.attrelid = ad.adrelid AND a.attnum = "
        "ad.adnum LEFT OUTER JOIN pg_catalog.pg_description dsc ON c.oid = dsc.objoid AND a.attnum = "
        "dsc.objsubid LEFT OUTER JOIN pg_catalog.pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = "
        "'i' AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.oid "
        "= 16384 ORDER BY a.attnum",
        "SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description, CASE WHEN "
        "c.contype = 'c' THEN substring(pg_get_constraintdef(c.oid), 7) ELSE null END consrc_copy FROM "
        "pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid LEFT OUTER JOIN "
        "pg_catalog.pg_class rt ON rt.oid = c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid "
        "= c.oid WHERE c.conrelid = 16384",
        "SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, tc.relname AS tabrelname, "
        "pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr FROM pg_catalog.pg_index i INNER JOIN "
        "pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid "
        "WHERE i.indrelid = 16384 ORDER BY tabrelname, c.relname",
        "SELECT oid, * FROM pg_catalog.pg_roles ORDER BY rolname",
        "SELECT * FROM pg_catalog.pg_settings",
        "SELECT * FROM pg_catalog.pg_enum WHERE enumtypid = 1",
        "SELECT x.* FROM public.people x LIMIT 200",
        "SELECT typcategory FROM pg_catalog.pg_type WHERE 1 <> 1 LIMIT 1",
        "SELECT 1 FROM pg_catalog.pg_class WHERE relkind = 'm' LIMIT 1",
        "SELECT * FROM pg_catalog.pg_get_keywords()",
        "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs,add}'::text[])",
        "SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description "
        "d ON d.objoid=n.oid AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass WHERE nspname='public'",
        "select c.oid,pg_catalog.pg_total_relation_size(c.oid) as "
        "total_rel_size,pg_catalog.pg_relation_size(c.oid) as rel_size FROM pg_class c WHERE c.relnamespace=2200",
        "SELECT p.oid as poid,p.*,pg_catalog.pg_get_expr(p.proargdefaults, 0) as arg_defaults,d.description FROM "
        "pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=p.oid WHERE "
        "p.pronamespace=2200 ORDER BY p.proname",
        "SELECT a.oid,a.* FROM pg_catalog.pg_roles a ORDER BY a.rolname",
        "SELECT t.oid,t.*,pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid",
        "SELECT l.oid,l.* FROM pg_catalog.pg_language l ORDER BY l.oid",
        "SELECT x.oid,x.* FROM pg_catalog.pg_event_trigger x",
        "SELECT e.oid,e.*,n.nspname as schema_name FROM pg_catalog.pg_extension e JOIN pg_namespace n ON n.oid = "
        "e.extnamespace ORDER BY e.oid",
        "SELECT DISTINCT dep.deptype, dep.classid, dep.objid, cl.relkind FROM pg_depend dep LEFT JOIN pg_class "
        "cl ON dep.objid = cl.oid WHERE dep.refobjid = 16384",
        "SELECT count(*) FROM people LIMIT 1",
        "SELECT x.ctid, x.* FROM public.people x LIMIT 10",
        "SELECT x.* FROM public.people x WHERE x.region = 'north' LIMIT 10",
        "select sa.* from pg_catalog.pg_stat_activity sa",
        "SELECT i.*,c.relnamespace FROM pg_catalog.pg_inherits i,pg_catalog.pg_class c WHERE i.inhrelid=16384 "
        "AND c.oid=i.inhparent ORDER BY i.inhseqno",
        "SELECT t.oid, t.*, p.proname AS func_name FROM pg_catalog.pg_trigger t, pg_catalog.pg_proc p WHERE "
        "t.tgrelid = 16384 AND p.oid = t.tgfoid",
    ],
    "Metabase": [
        "SET SESSION TIMEZONE TO 'UTC'",
        "SHOW TIMEZONE",
        'SELECT NULL AS "role", t.schemaname AS "schema", t.objectname AS "table", '
        "pg_catalog.has_table_privilege(current_user, '\"' || t.schemaname || '\".\"' || t.objectname || '\"', "
        "'SELECT') AS \"select\" FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION "
        "SELECT schemaname, viewname AS objectname FROM pg_catalog.pg_views UNION SELECT schemaname, matviewname "
        "AS objectname FROM pg_catalog.pg_matviews) t WHERE t.schemaname !~ '^pg_' AND t.schemaname <> "
        "'information_schema' AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'USAGE')",
        "SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s', "
        'c.udt_name) ELSE format(\'"%s"."%s"\', c.udt_schema, c.udt_name) END AS "database-type", '
        'c.ordinal_position - 1 AS "database-position", c.table_schema, c.table_name, pk.column_name IS NOT NULL '
        "AS \"pk?\", col_description(CAST(CAST(format('%I.%I', c.table_schema, c.table_name) AS regclass) AS oid), "
        'c.ordinal_position) AS "field-comment" FROM information_schema.columns c LEFT JOIN (SELECT '
        "tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints tc INNER JOIN "
        "information_schema.key_column_usage kc ON tc.constraint_name = kc.constraint_name AND tc.table_schema = "
        "kc.table_schema WHERE tc.constraint_type = 'PRIMARY KEY') pk ON c.table_schema = pk.table_schema AND "
        "c.table_name = pk.table_name AND c.column_name = pk.column_name WHERE c.table_schema !~ "
        "'^information_schema|catalog_history|pg_' ORDER BY table_schema, table_name, \"database-position\"",
        'SELECT TRUE AS "_" FROM "public"."people" WHERE 1 <> 1 LIMIT 0',
        'SELECT "public"."people"."age" AS "age", SUBSTRING("public"."people"."region", 1, 1234) AS '
        '"substring42" FROM "public"."people" LIMIT 10000',
        'SELECT "public"."people"."region" AS "region" FROM "public"."people" GROUP BY '
        '"public"."people"."region" ORDER BY "public"."people"."region" ASC LIMIT 1000',
        "SELECT pg_type.typname, pg_enum.enumlabel FROM pg_enum JOIN pg_type ON pg_enum.enumtypid = pg_type.oid",
        'SELECT "n"."nspname" AS "schema", "c"."relname" AS "name", CASE "c"."relkind" WHEN \'r\' THEN \'TABLE\' '
        "WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN "
        '\'MATERIALIZED VIEW\' ELSE NULL END AS "type", "d"."description" AS "description", "stat"."n_live_tup" AS '
        '"estimated_row_count" FROM "pg_catalog"."pg_class" AS "c" INNER JOIN "pg_catalog"."pg_namespace" AS "n" '
        'ON "c"."relnamespace" = "n"."oid" LEFT JOIN "pg_catalog"."pg_description" AS "d" ON ("c"."oid" = '
        '"d"."objoid") AND ("d"."objsubid" = 0) AND ("d"."classoid" = \'pg_class\'::regclass) LEFT JOIN '
        '"pg_stat_user_tables" AS "stat" ON ("n"."nspname" = "stat"."schemaname") AND ("c"."relname" = '
        '"stat"."relname") WHERE ("c"."relnamespace" = "n"."oid") AND ("n"."nspname" !~ \'^pg_\') AND '
        "(\"n\".\"nspname\" <> 'information_schema') AND c.relkind in ('r', 'p', 'v', 'f', 'm') AND (\"n\".\"nspname\" "
        'IN (\'public\')) ORDER BY "type" ASC, "schema" ASC, "name" ASC',
        "SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE t.oid IN "
        "(SELECT DISTINCT enumtypid FROM pg_enum e)",
        'SELECT "c"."column_name" AS "name", CASE WHEN "c"."udt_schema" IN (\'public\', \'pg_catalog\') THEN '
        'FORMAT(\'%s\', "c"."udt_name") ELSE FORMAT(\'"%s"."%s"\', "c"."udt_schema", "c"."udt_name") END AS '
        '"database-type", "c"."ordinal_position" - 1 AS "database-position", "c"."table_schema" AS '
        '"table-schema", "c"."table_name" AS "table-name", "pk"."column_name" IS NOT NULL AS "pk?", '
        'COL_DESCRIPTION(CAST(CAST(FORMAT(\'%I.%I\', CAST("c"."table_schema" AS TEXT), CAST("c"."table_name" AS '
        'TEXT)) AS REGCLASS) AS OID), "c"."ordinal_position") AS "field-comment", (("column_default" IS NULL) OR '
        '(LOWER("column_default") = \'null\')) AND ("is_nullable" = \'NO\') AND NOT ((("column_default" IS NOT NULL) '
        'AND ("column_default" LIKE \'%nextval(%\')) OR ("is_identity" <> \'NO\')) AS "database-required", '
        '(("column_default" IS NOT NULL) AND ("column_default" LIKE \'%nextval(%\')) OR ("is_identity" <> \'NO\') AS '
        '"database-is-auto-increment" FROM "information_schema"."columns" AS "c" LEFT JOIN (SELECT '
        '"tc"."table_schema", "tc"."table_name", "kc"."column_name" FROM '
        '"information_schema"."table_constraints" AS "tc" INNER JOIN "information_schema"."key_column_usage" AS '
        '"kc" ON ("tc"."constraint_name" = "kc"."constraint_name") AND ("tc"."table_schema" = '
        '"kc"."table_schema") AND ("tc"."table_name" = "kc"."table_name") WHERE "tc"."constraint_type" = '
        '\'PRIMARY KEY\') AS "pk" ON ("c"."table_schema" = "pk"."table_schema") AND ("c"."table_name" = '
        '"pk"."table_name") AND ("c"."column_name" = "pk"."column_name") WHERE c.table_schema !~ '
        "'^information_schema|catalog_history|pg_' AND (\"c\".\"table_schema\" IN ('public')) UNION ALL SELECT "
        '"pa"."attname" AS "name", CASE WHEN "ptn"."nspname" IN (\'public\', \'pg_catalog\') THEN FORMAT(\'%s\', '
        '"pt"."typname") ELSE FORMAT(\'"%s"."%s"\', "ptn"."nspname", "pt"."typname") END AS "database-type", '
        '"pa"."attnum" - 1 AS "database-position", "pn"."nspname" AS "table-schema", "pc"."relname" AS '
        '"table-name", FALSE AS "pk?", NULL AS "field-comment", FALSE AS "database-required", FALSE AS '
        '"database-is-auto-increment" FROM "pg_catalog"."pg_class" AS "pc" INNER JOIN '
        '"pg_catalog"."pg_namespace" AS "pn" ON "pn"."oid" = "pc"."relnamespace" INNER JOIN '
        '"pg_catalog"."pg_attribute" AS "pa" ON "pa"."attrelid" = "pc"."oid" INNER JOIN "pg_catalog"."pg_type" '
        'AS "pt" ON "pt"."oid" = "pa"."atttypid" INNER JOIN "pg_catalog"."pg_namespace" AS "ptn" ON "ptn"."oid" '
        '= "pt"."typnamespace" WHERE ("pc"."relkind" = \'m\') AND ("pa"."attnum" >= 1) ORDER BY "table-schema" '
        'ASC, "table-name" ASC, "database-position" ASC',
        'SELECT "fk_ns"."nspname" AS "fk-table-schema", "fk_table"."relname" AS "fk-table-name", '
        '"fk_column"."attname" AS "fk-column-name", "pk_ns"."nspname" AS "pk-table-schema", "pk_table"."relname" '
        'AS "pk-table-name", "pk_column"."attname" AS "pk-column-name" FROM "pg_constraint" AS "c" INNER JOIN '
        '"pg_class" AS "fk_table" ON "c"."conrelid" = "fk_table"."oid" INNER JOIN "pg_namespace" AS "fk_ns" ON '
        '"c"."connamespace" = "fk_ns"."oid" INNER JOIN "pg_attribute" AS "fk_column" ON "c"."conrelid" = '
        '"fk_column"."attrelid" INNER JOIN "pg_class" AS "pk_table" ON "c"."confrelid" = "pk_table"."oid" INNER '
        'JOIN "pg_namespace" AS "pk_ns" ON "pk_table"."relnamespace" = "pk_ns"."oid" INNER JOIN "pg_attribute" '
        'AS "pk_column" ON "c"."confrelid" = "pk_column"."attrelid" WHERE fk_ns.nspname !~ '
        '\'^information_schema|catalog_history|pg_\' AND ("c"."contype" = \'f\'::char) AND ("fk_column"."attnum" = '
        'ANY(c.conkey)) AND ("pk_column"."attnum" = ANY(c.confkey)) ORDER BY "fk-table-schema" ASC, '
        '"fk-table-name" ASC',
        'SELECT "tmp"."table-schema", "tmp"."table-name", TRIM(BOTH \'"\' FROM '
        '"pg_catalog"."pg_get_indexdef"("tmp"."ci_oid", "tmp"."pos", FALSE)) AS "field-name" FROM (SELECT '
        '"n"."nspname" AS "table-schema", "ct"."relname" AS "table-name", "ci"."oid" AS "ci_oid", '
        '(information_schema._pg_expandarray("i"."indkey")).n AS "pos" FROM "pg_catalog"."pg_class" AS "ct" '
        'INNER JOIN "pg_catalog"."pg_namespace" AS "n" ON "ct"."relnamespace" = "n"."oid" INNER JOIN '
        '"pg_catalog"."pg_index" AS "i" ON "ct"."oid" = "i"."indrelid" INNER JOIN "pg_catalog"."pg_class" AS '
        '"ci" ON "ci"."oid" = "i"."indexrelid" WHERE ("pg_catalog"."pg_get_expr"("i"."indpred", "i"."indrelid") '
        'IS NULL) AND n.nspname !~ \'^information_schema|catalog_history|pg_\') AS "tmp" WHERE "tmp"."pos" = 1',
        "show timezone",
        '-- Metabase\nSELECT SUBSTRING("public"."people"."region", 1, 1234) AS "substring1", '
        '"public"."people"."age" AS "age", "public"."people"."born" AS "born" FROM "public"."people" LIMIT 10000',
        'SELECT "public"."people"."smoker" AS "smoker" FROM "public"."people" GROUP BY '
        '"public"."people"."smoker" ORDER BY "public"."people"."smoker" ASC LIMIT 1000',
        'SELECT "public"."people"."age" AS "age", "public"."people"."region" AS "region", '
        '"public"."people"."smoker" AS "smoker" FROM "public"."people" LIMIT 2000',
    ],
    "Superset": [
        "SELECT pg_catalog.version()",
        "SHOW standard_conforming_strings",
        "SELECT CAST('test plain returns' AS VARCHAR(60)) AS anon_1",
        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' ORDER BY nspname",
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = "
        "'public' AND c.relkind IN ('r', 'p')",
        "SELECT t.oid, typarray FROM pg_type t JOIN pg_namespace ns ON typnamespace = ns.oid WHERE typname = 'hstore'",
        "SELECT age AS age, region AS region FROM public.people LIMIT 100",
        "SELECT DISTINCT region AS region FROM public.people LIMIT 1000",
        "SELECT * FROM public.people LIMIT 101",
        "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON "
        "pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY "
        "(ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND "
        "pg_catalog.pg_namespace.nspname != 'pg_catalog'",
        "SELECT datname FROM pg_database WHERE datistemplate = false",
        "select pg_get_functiondef(1)",
        'SELECT min(age) AS "MIN(age)", max(age) AS "MAX(age)" FROM public.people',
        "SELECT DATE_TRUNC('month', born) AS __timestamp FROM public.people LIMIT 10",
        "SELECT region AS region FROM public.people GROUP BY region LIMIT 10000",
        'SELECT DISTINCT "region" FROM "public"."people" ORDER BY "region" ASC LIMIT 10000',
        "SELECT * FROM (SELECT * FROM people) AS virtual_table LIMIT 0",
    ],
    "Power BI (Npgsql)": [
        "SELECT version()",
        "SELECT ns.nspname, t.oid, t.typname, t.typtype, t.typnotnull, t.elemtypoid FROM (SELECT typ.oid, "
        "typ.typnamespace, typ.typname, typ.typtype, typ.typrelid, typ.typnotnull, typ.relkind, elemtyp.oid AS "
        "elemtypoid, elemtyp.typname AS elemtypname, elemcls.relkind AS elemrelkind, CASE WHEN "
        "elemproc.proname='array_recv' THEN 'a' ELSE elemtyp.typtype END AS elemtyptype FROM (SELECT typ.oid, "
        "typnamespace, typname, typrelid, typnotnull, relkind, typelem AS elemoid, CASE WHEN "
        "proc.proname='array_recv' THEN 'a' ELSE typ.typtype END AS typtype, CASE WHEN proc.proname='array_recv' "
        "THEN typ.typelem WHEN typ.typtype='r' THEN rngsubtype WHEN typ.typtype='m' THEN (SELECT rngtypid FROM "
        "pg_range WHERE rngmultitypid = typ.oid) WHEN typ.typtype='d' THEN typ.typbasetype END AS elemtypoid "
        "FROM pg_type AS typ LEFT JOIN pg_class AS cls ON (cls.oid = typ.typrelid) LEFT JOIN pg_proc AS proc ON "
        "proc.oid = typ.typreceive LEFT JOIN pg_range ON (pg_range.rngtypid = typ.oid)) AS typ LEFT JOIN pg_type "
        "AS elemtyp ON elemtyp.oid = elemtypoid LEFT JOIN pg_class AS elemcls ON (elemcls.oid = "
        "elemtyp.typrelid) LEFT JOIN pg_proc AS elemproc ON elemproc.oid = elemtyp.typreceive) AS t JOIN "
        "pg_namespace AS ns ON (ns.oid = typnamespace) WHERE typtype IN ('b', 'r', 'm', 'e', 'd') OR (typtype = "
        "'c' AND relkind='c') OR (typtype = 'p' AND typname IN ('record', 'void', 'unknown')) OR (typtype = 'a' "
        "AND (elemtyptype IN ('b', 'r', 'm', 'e', 'd') OR (elemtyptype = 'p' AND elemtypname IN ('record', "
        "'void')) OR (elemtyptype = 'c' AND elemrelkind='c'))) ORDER BY CASE WHEN typtype IN ('b', 'e', 'p') "
        "THEN 0 WHEN typtype = 'c' THEN 1 WHEN typtype = 'r' THEN 2 ELSE 3 END",
        "SELECT typ.oid, att.attname, att.atttypid FROM pg_type AS typ JOIN pg_namespace AS ns ON (ns.oid = "
        "typ.typnamespace) JOIN pg_class AS cls ON (cls.oid = typ.typrelid) JOIN pg_attribute AS att ON "
        "(att.attrelid = typ.typrelid) WHERE (typ.typtype = 'c' AND cls.relkind='c') AND attnum > 0 AND NOT "
        "attisdropped ORDER BY typ.oid, att.attnum",
        "SELECT pg_type.oid, enumlabel FROM pg_enum JOIN pg_type ON pg_type.oid=enumtypid ORDER BY oid, enumsortorder",
        "select character_set_name from INFORMATION_SCHEMA.character_sets",
        "select TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA not in "
        "('information_schema', 'pg_catalog') order by TABLE_SCHEMA, TABLE_NAME",
        "select COLUMN_NAME, ORDINAL_POSITION, IS_NULLABLE, case when (data_type like '%unsigned%') then "
        "DATA_TYPE || ' unsigned' else DATA_TYPE end as DATA_TYPE from INFORMATION_SCHEMA.columns where "
        "TABLE_SCHEMA = 'public' and TABLE_NAME = 'people' order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION",
        "select pkcol.COLUMN_NAME as PK_COLUMN_NAME, fkcol.TABLE_SCHEMA AS FK_TABLE_SCHEMA, fkcol.TABLE_NAME AS "
        "FK_TABLE_NAME, fkcol.COLUMN_NAME as FK_COLUMN_NAME, fkcol.ORDINAL_POSITION as ORDINAL, "
        "fkcon.CONSTRAINT_SCHEMA || '_' || fkcol.TABLE_NAME || '_' || 'people' || '_' || fkcon.CONSTRAINT_NAME "
        "as FK_NAME from (select distinct constraint_catalog, constraint_schema, unique_constraint_schema, "
        "constraint_name, unique_constraint_name from INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) fkcon inner "
        "join INFORMATION_SCHEMA.KEY_COLUMN_USAGE fkcol on fkcon.CONSTRAINT_SCHEMA = fkcol.CONSTRAINT_SCHEMA and "
        "fkcon.CONSTRAINT_NAME = fkcol.CONSTRAINT_NAME inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE pkcol on "
        "fkcon.UNIQUE_CONSTRAINT_SCHEMA = pkcol.CONSTRAINT_SCHEMA and fkcon.UNIQUE_CONSTRAINT_NAME = "
        "pkcol.CONSTRAINT_NAME where pkcol.TABLE_SCHEMA = 'public' and pkcol.TABLE_NAME = 'people' and "
        "pkcol.ORDINAL_POSITION = fkcol.ORDINAL_POSITION order by FK_NAME, fkcol.ORDINAL_POSITION",
        "select i.CONSTRAINT_SCHEMA || '_' || i.CONSTRAINT_NAME as INDEX_NAME, ii.COLUMN_NAME, "
        "ii.ORDINAL_POSITION, case when i.CONSTRAINT_TYPE = 'PRIMARY KEY' then 'Y' else 'N' end as PRIMARY_KEY "
        "from INFORMATION_SCHEMA.table_constraints i inner join INFORMATION_SCHEMA.key_column_usage ii on "
        "i.CONSTRAINT_SCHEMA = ii.CONSTRAINT_SCHEMA and i.CONSTRAINT_NAME = ii.CONSTRAINT_NAME and "
        "i.TABLE_SCHEMA = ii.TABLE_SCHEMA and i.TABLE_NAME = ii.TABLE_NAME where i.TABLE_SCHEMA = 'public' and "
        "i.TABLE_NAME = 'people' and i.CONSTRAINT_TYPE in ('PRIMARY KEY', 'UNIQUE') order by i.CONSTRAINT_SCHEMA "
        "|| '_' || i.CONSTRAINT_NAME, ii.TABLE_SCHEMA, ii.TABLE_NAME, ii.ORDINAL_POSITION",
        'select "$Table"."age" as "age", "$Table"."region" as "region", "$Table"."smoker" as "smoker" from '
        '"public"."people" "$Table" limit 1000',
        'select "_"."region" from (select "region" from "public"."people" "$Table") "_" group by "_"."region" '
        'order by "_"."region" limit 1001',
    ],
    "Tableau": [
        "SELECT 1",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        'SELECT "people"."age" AS "age", "people"."region" AS "region" FROM "public"."people" "people" LIMIT 100',
        'SELECT * FROM "public"."people" "people" WHERE (1 = 0)',
        'SELECT "people"."region" AS "region" FROM "public"."people" "people" GROUP BY 1',
        'SELECT "people"."region" AS "region" FROM "public"."people" "people" GROUP BY "people"."region"',
        'SELECT * FROM (SELECT * FROM "public"."people" LIMIT 1000) "TableauSQL" LIMIT 0',
        "BEGIN",
        'declare "SQL_CUR0x7f" cursor with hold for SELECT "people"."age" AS "age" FROM "public"."people" '
        '"people" LIMIT 50',
        'fetch 100 in "SQL_CUR0x7f"',
        'close "SQL_CUR0x7f"',
        "COMMIT",
        'SELECT MIN("people"."age") AS "a", MAX("people"."age") AS "b" FROM "public"."people" "people"',
        'SELECT MIN("people"."born") AS "a", MAX("people"."born") AS "b" FROM "public"."people" "people" HAVING '
        "(COUNT(1) > 0)",
        'SELECT SUM(1) AS "COL" FROM "public"."people" "people" LIMIT 1',
    ],
    "psycopg2, ODBC and others": [
        "SELECT to_regtype('hstore')",
        "SELECT pg_catalog.set_config('search_path', '', false)",
        "SELECT current_setting('server_version_num')::int",
        "SELECT oid, typbasetype FROM pg_type WHERE typname = 'lo'",
        "SELECT ta.attname, ia.attnum FROM pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, "
        "pg_catalog.pg_class tc, pg_catalog.pg_index i WHERE tc.oid = i.indrelid AND ta.attrelid = i.indrelid "
        "AND ia.attrelid = i.indexrelid",
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a WHERE a.attrelid = "
        "'public.people'::regclass AND a.attnum > 0",
        "SELECT table_name FROM information_schema.tables WHERE table_schema = ANY (current_schemas(false))",
        "SELECT pg_is_in_recovery(), pg_backend_pid() > 0, inet_server_addr()",
        "SELECT count(*) FROM pg_catalog.pg_stat_activity",
        "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace",
        "VALUES (1, 'a'), (2, 'b')",
        "WITH x AS (SELECT 1 AS a UNION ALL SELECT 2) SELECT max(a), string_agg(a::text, ',') FROM x",
    ],
}
REFUSED = {
    'CREATE LOCAL TEMPORARY TABLE "#Tableau_1" ("COL" INTEGER) ON COMMIT PRESERVE ROWS': "25006",
    'SELECT "COL" FROM (SELECT 1 AS "COL") AS "CHECKTEMP" INTO "#Tableau_2"': "42601",
    "SELECT COUNT(*) AS rowcount FROM (SELECT * FROM people LIMIT 100) AS rowcount_qry": "0A000",
    "SELECT min(age) FROM people WHERE smoker": "0A000",
}
