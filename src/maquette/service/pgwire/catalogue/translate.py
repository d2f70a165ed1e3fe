"""From PostgreSQL's SQL to DuckDB's: the same statement over the catalogue's tables.

The tree of a statement is rewritten, node by node; its text is never searched. Names of relations point into the
catalogue's schemas, casts to PostgreSQL's own types become look-ups, what depends on the connection becomes a literal,
and functions outside a closed list are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from maquette.service.pgwire.catalogue.database import SCHEMAS, kind_of
from maquette.service.pgwire.catalogue.functions import MACROS
from maquette.service.pgwire.catalogue.naming import bare_type as _bare, name_columns
from maquette.service.pgwire.catalogue.relations import DATABASE, NAMESPACES, OWNER_OID, type_named, types
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import BadValue, array_items

_OWN = frozenset(macro.split()[2].split("(")[0] for macro in MACROS)
_PLAIN_WORDS = (
    "abs array_length array_position array_to_string array_cat array_append btrim ceil ceiling char_length chr "
    "concat_ws date_part date_trunc div every floor format generate_series generate_subscripts greatest "
    "json_object least left length lower lpad ltrim md5 mod now nullif power random regexp_replace repeat replace "
    "reverse right round rpad rtrim sign split_part sqrt starts_with strpos substr substring translate trim trunc "
    "unnest upper all any row"
)
_TYPED_WORDS = (
    "Abs AggFunc And AnyValue Any All Array ArrayAgg ArrayAppend ArrayConcat ArrayContains ArraySize "
    "ArrayToString Avg Between Case Cast Ceil Coalesce Concat ConcatWs Count CountIf CumeDist CurrentDate "
    "CurrentTime CurrentTimestamp Date DateTrunc DenseRank Exists Explode ExplodingGenerateSeries Extract "
    "FirstValue Floor GenerateSeries Greatest GroupConcat If Initcap JSONObject Lag LastValue Lead Least Left "
    "Length Ln Log LogicalAnd LogicalOr Lower LTrim MD5 Max Median Min Mod NthValue Ntile Nullif Or Pad "
    "PercentRank Pow Quantile Rank RegexpILike RegexpLike RegexpReplace Repeat Replace Reverse Right Round "
    "RowNumber SafeDivide Sign SplitPart Sqrt StartsWith Stddev StddevPop StddevSamp StrPosition Substring Sum "
    "TimestampTrunc Trim Trunc TryCast Unnest Upper Variance VariancePop Xor"
)
_PLAIN = frozenset(_PLAIN_WORDS.split())
_NOW = {"now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "localtimestamp"}
_FUNCTIONS = frozenset(_TYPED_WORDS.split())
_LIKE_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "~": lambda a, b: exp.RegexpLike(this=a, expression=b),
    "!~": lambda a, b: exp.Not(this=exp.RegexpLike(this=a, expression=b)),
    "~*": lambda a, b: exp.RegexpILike(this=a, expression=b),
    "!~*": lambda a, b: exp.Not(this=exp.RegexpILike(this=a, expression=b)),
    "~~": lambda a, b: exp.Like(this=a, expression=b),
    "!~~": lambda a, b: exp.Not(this=exp.Like(this=a, expression=b)),
    "~~*": lambda a, b: exp.ILike(this=a, expression=b),
    "=": lambda a, b: exp.EQ(this=a, expression=b),
    "<>": lambda a, b: exp.NEQ(this=a, expression=b),
    "<": lambda a, b: exp.LT(this=a, expression=b),
    ">": lambda a, b: exp.GT(this=a, expression=b),
    "<=": lambda a, b: exp.LTE(this=a, expression=b),
    ">=": lambda a, b: exp.GTE(this=a, expression=b),
    "||": lambda a, b: exp.DPipe(this=a, expression=b),
}
_SYSTEM_COLUMNS = {"ctid": "'(0,0)'", "xmin": "0", "xmax": "0", "cmin": "0", "cmax": "0"}
_READ_AS_NAMES = {"regclass": "regclass_name", "regnamespace": "regnamespace_name", "regrole": "regrole_name"}
_READ_AS_NAMES |= {"regtype": "format_type"}
_TEXTS = {"regproc", "regprocedure", "regoper", "regoperator", "regconfig", "regdictionary"}
_QUALIFIERS = ("pg_catalog", "information_schema", "public")


@dataclass(frozen=True)
class Facts:
    """What a statement may depend on besides the tables."""

    user: str
    oids: Mapping[str, int]
    version: str
    setting: Callable[[str, bool], str | None]
    names: Mapping[str, str]  # relations that are not of the system: where their rows are


def translate(tree: exp.Expression, facts: Facts) -> str:
    """The statement as DuckDB reads it; the tree is consumed."""
    name_columns(tree)
    common = set[str]()
    for cte in tree.find_all(exp.CTE):
        common.add(name := _folded(cte.args["alias"].this))
        cte.args["alias"].set("this", _common(name))
    places = _places(tree)
    for node in list(tree.walk()):
        if isinstance(node, exp.Table):
            _table(node, facts, common)
    for node in reversed(list(tree.walk(bfs=False))):  # what is inside comes before what is around it
        new = _rewritten(node, facts, places)
        if new is None:
            node.pop()
        elif new is not node:
            tree = new if node is tree else tree
            node.replace(new)
    return tree.sql(dialect="duckdb", comments=False)


def _places(tree: exp.Expression) -> dict[int, dict[str, str]]:
    """For every SELECT, the system relation behind each of its names (for `tableoid`)."""
    found: dict[int, dict[str, str]] = {}
    for select in tree.find_all(exp.Select):
        source, names = select.args.get("from_"), dict[str, str]()
        tables = [source.this] if source is not None else []
        tables += [join.this for join in select.args.get("joins") or []]
        for table in tables:
            if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
                names[table.alias_or_name.lower()] = f"{table.db or 'pg_catalog'}.{table.name}".lower()
        found[id(select)] = names
    return found


def _table(node: exp.Table, facts: Facts, common: set[str]) -> None:
    if not isinstance(node.this, exp.Identifier):  # a function
        node.set("db", None)
        node.set("catalog", None)
        return
    name, schema, alias = _folded(node.this), node.db.lower(), node.alias_or_name
    home: str | None
    if not schema and name in common:
        place, home = _common(name).name, None
    elif f"{schema or 'pg_catalog'}.{name}" in facts.oids and schema != "public":
        place, home = name, SCHEMAS[schema or "pg_catalog"]
    elif name in facts.names and schema in ("", "public"):
        place, home = facts.names[name], "rows"
    else:
        raise Problem("42P01", f'relation "{name}" does not exist')
    node.set("this", exp.to_identifier(place, quoted=True))
    node.set("db", None if home is None else exp.to_identifier(home))
    node.set("catalog", None)
    if not node.args.get("alias"):
        node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _folded(name: exp.Identifier) -> str:
    return str(name.name if name.quoted else name.name.lower())


def _common(name: str) -> exp.Identifier:
    """The name of a common table expression: out of its scope it is not that of a table or file known to DuckDB."""
    return exp.to_identifier(f"{name} (common)", quoted=True)


def _rewritten(node: Any, facts: Facts, places: Mapping[int, Mapping[str, str]]) -> Any:
    match node:
        case exp.Column():
            return _column(node, facts, places)
        case exp.Dot(this=exp.Identifier()) if node.this.name.lower() in _QUALIFIERS:
            return node.expression
        case exp.Operator():
            return _operator(node)
        case exp.Collate():
            return node.this
        case exp.Cast():
            return _cast(node, facts)
        case exp.Any():
            return _array_operand(node)
        case exp.ByteString():
            return exp.Literal.string(_escaped(str(node.this)))
        case exp.Lock():
            return None
        case exp.CurrentDate():  # CURRENT_DATE AS "current_date" would mean itself
            return exp.Anonymous(this="today")
        case exp.CurrentTimestamp() | exp.Localtimestamp():
            return _moment()
        case exp.Anonymous() if str(node.this).lower() in _NOW and not node.expressions:
            return _moment()
    if isinstance(node, exp.Func):
        return _function(node, facts)
    return node


def _moment() -> Any:
    """The time without its zone, UTC: DuckDB hands over zones only with a library that is not needed otherwise."""
    return exp.Cast(this=exp.Anonymous(this="now"), to=exp.DataType.build("TIMESTAMP"))


def _column(node: exp.Column, facts: Facts, places: Mapping[int, Mapping[str, str]]) -> Any:
    if not node.table and not node.this.quoted and node.name.lower() in ("user", "current_role"):
        return exp.Literal.string(facts.user)
    node.set("db", None)
    node.set("catalog", None)
    name = node.name.lower()
    if name == "tableoid":
        select = node.find_ancestor(exp.Select)
        while select is not None:
            home = places.get(id(select), {}).get(node.table.lower())
            if home is not None:
                return exp.Literal.number(facts.oids.get(home, 0))
            select = select.find_ancestor(exp.Select)
    if name in _SYSTEM_COLUMNS:
        return exp.maybe_parse(_SYSTEM_COLUMNS[name])
    return node


def _operator(node: exp.Operator) -> Any:
    sign = str(node.args["operator"]).removeprefix("pg_catalog.").strip()
    if sign not in _LIKE_OPERATORS:
        raise Problem("42883", f"the operator {sign} does not exist")
    return exp.paren(_LIKE_OPERATORS[sign](node.this, node.expression), copy=False)


def _array_operand(node: exp.Any) -> Any:
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        node.set("this", exp.paren(_array_literal(inner.name, "text"), copy=False))
    return node


def _cast(node: exp.Cast, facts: Facts) -> Any:
    kind, inner = _bare(node.to), node.this.unnest()
    array = kind.endswith("[]") or kind.startswith("array<")
    if array and isinstance(inner, exp.Literal):
        return _array_literal(inner.name, kind.removesuffix("[]"))
    literal = inner.name if isinstance(inner, exp.Literal) and inner.is_string else None
    if kind in _READ_AS_NAMES:
        if literal is not None and not literal.isdigit():
            return exp.Cast(this=exp.Literal.number(_looked_up(kind, literal, facts)), to=_type("UINTEGER"))
        if literal is not None or isinstance(inner, exp.Literal):
            inner = exp.Literal.number(inner.name)
        return exp.Anonymous(this=_READ_AS_NAMES[kind], expressions=[inner])
    if kind == "oid" and isinstance(inner, exp.Anonymous) and inner.name == "regclass_name":
        return exp.Anonymous(this="regclass_oid", expressions=inner.expressions)
    if kind in _TEXTS:
        return exp.Literal.string(literal.removeprefix("pg_catalog.")) if literal is not None else node.this
    if array:
        node.set("to", _type(f"{_duck(kind.removesuffix('[]'))}[]"))
    elif isinstance(node.to, exp.DataType) and (node.to.this == exp.DataType.Type.USERDEFINED or _known(kind)):
        node.set("to", _type(_duck(kind)))
    return node


def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="duckdb")


def _known(kind: str) -> bool:
    return type_named(kind) is not None and kind_of(types()[type_named(kind) or 25].name) != "VARCHAR"


def _duck(kind: str) -> str:
    oid = type_named(kind.split("(", maxsplit=1)[0].strip())
    if oid is None:
        domain = {"cardinal_number": "INTEGER", "sql_identifier": "VARCHAR", "character_data": "VARCHAR"}
        if kind.rsplit(".", maxsplit=1)[-1] in (*domain, "yes_or_no"):
            return domain.get(kind.rsplit(".", maxsplit=1)[-1], "VARCHAR")
        raise Problem("42704", f'type "{kind}" does not exist')
    name = types()[oid].name
    return {"date": "DATE", "timestamp": "TIMESTAMP", "time": "TIME", "json": "VARCHAR"}.get(name, kind_of(name))


def _looked_up(kind: str, name: str, facts: Facts) -> int:
    bare = name.replace('"', "")
    found: int | None
    if kind == "regclass":
        found = facts.oids.get(bare.removeprefix(f"{DATABASE}."), facts.oids.get(bare.lower()))
        what = "relation"
    elif kind == "regtype":
        found, what = type_named(bare), "type"
    elif kind == "regnamespace":
        found, what = NAMESPACES.get(bare), "schema"
    else:
        found, what = OWNER_OID, "role"
    if found is None:
        raise Problem("42P01" if what == "relation" else "42704", f'{what} "{name}" does not exist')
    return found


def _array_literal(text: str, element: str) -> Any:
    try:
        items = array_items(text)
    except BadValue as error:
        raise Problem("22P02", str(error)) from None
    kind = _duck("text" if element == "char" else element.removeprefix("array<").removesuffix(">"))
    cells = [exp.Null() if item is None else exp.Literal.string(item) for item in items]
    return exp.Cast(this=exp.Array(expressions=cells), to=_type(f"{kind}[]"))


def _function(node: Any, facts: Facts) -> Any:
    name = str(node.name).lower() if isinstance(node, exp.Anonymous) else str(node.sql_name()).lower()
    said = _about_connection(name, node, facts)
    if said is not None:
        return said
    if name == "format" and isinstance(node, exp.Anonymous | exp.Format):
        return _formatted(node)
    allowed = name in _OWN or name in _PLAIN if isinstance(node, exp.Anonymous) else type(node).__name__ in _FUNCTIONS
    if not allowed:
        raise Problem(
            "42883",
            f"function {name}() does not exist",
            hint="only functions that describe tables, and common ones of texts and numbers, can be called here",
        )
    return node


def _about_connection(name: str, node: Any, facts: Facts) -> Any | None:
    arguments = [item for item in node.args.values() if item is not None]
    match name:
        case "current_user" | "session_user":
            return exp.Literal.string(facts.user)
        case "current_database" | "current_catalog":
            return exp.Literal.string(DATABASE)
        case "current_schema":
            return exp.Literal.string("public")
        case "version" | "current_version":
            return exp.Literal.string(facts.version)
        case "current_schemas":
            flag = arguments[0][0] if arguments and isinstance(arguments[0], list) else (arguments or [None])[0]
            implicit = isinstance(flag, exp.Boolean) and bool(flag.this)
            names = ["pg_catalog", "public"] if implicit else ["public"]
            return exp.Array(expressions=[exp.Literal.string(n) for n in names])
        case "current_setting" | "set_config":
            return _setting(node, facts, name == "set_config")
    return None


def _setting(node: Any, facts: Facts, changes: bool) -> Any:
    given = [_uncast(one) for one in node.expressions]
    if not given:
        raise Problem("42883", "a function of settings has no arguments")
    if not isinstance(given[0], exp.Literal):
        if changes:
            raise Problem("0A000", "set_config() takes its name and value as texts")
        return exp.Anonymous(this="any_setting", expressions=[given[0]])
    if changes:
        value = given[1] if len(given) > 1 else None
        return value if isinstance(value, exp.Literal) else exp.Literal.string("")
    missing = len(given) > 1 and isinstance(given[1], exp.Boolean) and bool(given[1].this)
    value = facts.setting(given[0].name, missing)
    return exp.Null() if value is None else exp.Literal.string(value)


def _uncast(node: Any) -> Any:
    while isinstance(node, exp.Cast | exp.Paren):
        node = node.this
    return node


def _formatted(node: Any) -> Any:
    """format('%I.%I', a, b) as a concatenation; only %s, %I, %L and %% are known."""
    given = list(node.expressions) if isinstance(node, exp.Anonymous) else [node.this, *node.expressions]
    if not given or not isinstance(given[0], exp.Literal):
        raise Problem("0A000", "format() needs its pattern as a text")
    pieces, rest, text, at = list[Any](), given[1:], given[0].name, 0
    while at < len(text):
        if text[at] == "%" and at + 1 < len(text):
            sign, at = text[at + 1], at + 2
            if sign == "%":
                pieces.append(exp.Literal.string("%"))
            elif sign in "sIL" and rest:
                inner = rest.pop(0)
                wrap = {"I": "quote_ident", "L": "quote_literal"}.get(sign)
                plain = exp.Cast(this=inner.copy(), to=_type("VARCHAR"))
                pieces.append(plain if wrap is None else exp.Anonymous(this=wrap, expressions=[plain]))
            else:
                raise Problem("22023", "format() has a sign that is not known, or too few values")
        else:
            end = text.find("%", at)
            end = len(text) if end < 0 else end
            pieces.append(exp.Literal.string(text[at:end]))
            at = end if end > at else at + 1
    return exp.Concat(expressions=pieces or [exp.Literal.string("")])


def _escaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\").replace("\\'", "'")
