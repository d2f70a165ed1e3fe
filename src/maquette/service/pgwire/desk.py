"""Desk: where the statements of one connection are understood and run.

What a statement is about follows from its tree: the relations it names. Relations of the system are answered by the
catalogue; a private table by its session, if the statement adds up, and by declared levels or synthetic rows if it
lists rows; a release by its model. Nothing is decided by words that occur in a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from maquette.schema import nearest
from maquette.service.pgwire import questions
from maquette.service.pgwire.binding import count_parameters, in_tree, types_of
from maquette.service.pgwire.catalogue import Facts, Translated, system_relations, type_named
from maquette.service.pgwire.commands import Cursor, Words, command
from maquette.service.pgwire.copying import read_format
from maquette.service.pgwire.house import House, View, bounds, column_oids, levels, synthetic, version_of
from maquette.service.pgwire.plans import CopyFormat, Plan, Result, notice
from maquette.service.pgwire.purse import Purse
from maquette.service.pgwire.script import Piece, parsed, pieces
from maquette.service.pgwire.settings import VERSION_TEXT, Settings
from maquette.service.pgwire.sqlstate import Problem
from maquette.service.pgwire.wiretypes import FLOAT8, TEXT, Column

if TYPE_CHECKING:
    from maquette.answers import Answered
    from maquette.service import Principal, ServedTable

SYNTHETIC = "rows are never shown: these are synthetic rows, drawn from the public model, free of charge"
LEVELS = "these are the declared levels of the schema, free of charge; not all of them need to occur"
BOUNDS = "these are the declared bounds of the schema, free of charge; the rows need not reach them"
_SYSTEM = frozenset((r.schema, r.name) for r in system_relations())
_SYSTEM_TYPES = {name: kind for r in system_relations() for name, kind in r.columns}


class Desk:
    """The state of one connection: settings, transaction, cursors, and the purse of its analyst."""

    def __init__(self, house: House, principal: Principal) -> None:
        self.house = house
        self.principal = principal
        self.settings = Settings()
        self.transaction = "I"
        self.cursors: dict[str, Cursor] = {}
        self.spent = Purse(house.service.state, principal)
        self.forget_statements: Callable[[str | None], None] = lambda name: None

    def plan_text(self, text: str, types: Sequence[int] = ()) -> Plan:
        """Plan the only statement of a text."""
        found = pieces(text)
        if len(found) != 1:
            raise Problem("42601", "cannot insert multiple commands into a prepared statement")
        return self.plan(found[0], types)

    def plan(self, piece: Piece, types: Sequence[int] = ()) -> Plan:
        """Understand one statement; nothing is charged."""
        known = command(self, piece)
        if known is not None:
            return known
        tree = parsed(piece)
        if not isinstance(tree, exp.Query | exp.Values):
            raise Problem("0A000", "only SELECT is supported", hint="EXPLAIN SELECT tells the price of a question")
        tables, views, system = self._relations(tree)
        columns_known = self._column_types(tables, views)
        numbers = types_of(tree, types, count_parameters(piece), columns_known)
        if (tables or views) and _adds_up(tree):
            return self._question(piece, tree, tables, views, numbers)
        if (tables or views) and system:
            raise Problem("0A000", "a table cannot be joined with the catalogue", hint="ask them one by one")
        return self._listing(piece, tree, tables, views, numbers)

    def close_cursors(self, name: str | None = None) -> None:
        """Close one cursor, or all."""
        if name is None:
            self.cursors.clear()
        else:
            self.cursors.pop(name, None)

    # What a statement is about

    def _relations(self, tree: Any) -> tuple[dict[str, ServedTable], dict[str, View], bool]:
        common = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
        every, published = self.house.tables(self.principal), self.house.views(self.principal)
        tables, views, system = dict[str, Any](), dict[str, View](), False
        for node in tree.find_all(exp.Table):
            if not isinstance(node.this, exp.Identifier):
                continue
            name = node.name if node.this.quoted else node.name.lower()
            schema = node.db.lower()
            if schema in ("", "public") and name in every:
                tables[name] = every[name]
            elif schema in ("", "public") and name in published:
                views[name] = published[name]
            elif (schema or "pg_catalog", name) in _SYSTEM:
                system = True
            elif schema or name not in common:
                raise _unknown(node, [*every, *published])
        return tables, views, system

    def _column_types(self, tables: dict[str, ServedTable], views: dict[str, View]) -> Callable[[str], int | None]:
        known: dict[str, int] = {}
        for schema in [*(t.schema for t in tables.values()), *(v.release.schema for v in views.values())]:
            known |= {name.lower(): oid for name, oid in column_oids(schema).items()}
        if known:
            return lambda name: known.get(name.lower())
        return lambda name: type_named(_SYSTEM_TYPES[name.lower()]) if name.lower() in _SYSTEM_TYPES else None

    # Questions

    def _question(
        self,
        piece: Piece,
        tree: Any,
        tables: dict[str, ServedTable],
        views: dict[str, View],
        types: tuple[int, ...],
    ) -> Plan:
        if len(tables) + len(views) != 1:
            raise Problem("0A000", "a question is about one table", hint="ask about each table by itself")
        name, release = next(((name, view.release) for name, view in views.items()), ("", None))
        (table,) = (*tables.values(), *(view.table for view in views.values()))
        self.principal.require("ask" if release is None else "look")
        intervals = self.settings.intervals
        told: list[tuple[Column, ...]] = []

        def answered(asked: questions.Question) -> Answered:
            return table.peek(self.principal, asked.text) if release is None else release.answer(asked.text, table=name)

        def columns() -> tuple[Column, ...]:
            plain = questions.outline(piece, tree, types)
            asked = questions.question(plain, parsed(plain), ())
            rowset = answered(asked).rowset
            told.append(questions.columns_of(questions.layout(asked, rowset, intervals=intervals), rowset))
            return told[0]

        def run(values: Sequence[Any]) -> Result:
            asked = questions.question(piece, tree, values)
            if release is None:
                answer = questions.ask(table, self.principal, asked, self.settings, self.spent)
            else:
                answer = answered(asked)
            before = told[0] if told else None
            return questions.result_of(asked, answer, intervals=intervals, columns=before, release=release)

        return Plan(piece.text, run, columns, types)

    def explain_plan(self, text: str, piece: Piece) -> Plan:
        """EXPLAIN: the price and the route of a question, free of charge."""
        inner = pieces(text)
        if len(inner) != 1:
            raise Problem("42601", "EXPLAIN takes one statement")
        tree = parsed(inner[0])
        if not isinstance(tree, exp.Query):
            raise Problem("0A000", "EXPLAIN is for SELECT")
        tables, views, _ = self._relations(tree)
        types = types_of(tree, (), count_parameters(inner[0]), self._column_types(tables, views))
        columns = (Column("QUERY PLAN", TEXT),)

        def run(values: Sequence[Any]) -> Result:
            if not tables or not _adds_up(tree):
                listed = "the schema" if _only_bounds(tree) else "declared levels or synthetic rows"
                kind = "a release" if views else "the catalogue" if not tables else listed
                return Result("EXPLAIN", columns, [(f"answered by {kind}, free",)])
            if len(tables) != 1:
                raise Problem("0A000", "a question is about one table", hint="ask about each table by itself")
            (table,) = tables.values()
            asked = questions.question(inner[0], tree, values)
            own = {"alpha": self.settings.alpha, "confidence": self.settings.confidence}
            told = table.explain(self.principal, asked.text, **own)
            left = self.spent.left(table, self.settings.max_cost)
            lines = [
                f"route: {told.route}",
                f"price: {told.cost if told.cost.units else 'free'}",
                *told.text.split("\n"),
            ]
            lines.append(f"half width of the widest interval: {told.half_width:.4g} of the rows")
            if left is not None and told.cost.units > left:
                lines.append("more than is left of your cap: SET maquette.max_cost")
            return Result("EXPLAIN", columns, [(line,) for line in lines])

        return Plan(piece.text, run, lambda: columns, types)

    def budget_plan(self, piece: Piece) -> Plan:
        """SHOW maquette.budget: one row for each table."""
        names = ("table", "epsilon", "delta", "spent", "remaining", "spent_by_you", "your_limit", "left_of_your_cap")
        columns = tuple(Column(name, TEXT if name == "table" else FLOAT8) for name in names)

        def run(values: Sequence[Any]) -> Result:
            rows = [self._budget(table) for table in self.house.tables(self.principal).values()]
            return Result("SHOW", columns, rows)

        return Plan(piece.text, run, lambda: columns)

    def _budget(self, table: ServedTable) -> tuple[Any, ...]:
        seen = table.budget(self.principal)
        budget = table.curator.budget
        left = self.spent.left(table, self.settings.max_cost)
        cap = None if left is None else budget.accountant.loss(left, budget.delta).epsilon
        limit = None if seen.own_limit is None else seen.own_limit.epsilon
        return (
            table.name,
            seen.epsilon,
            seen.delta,
            seen.spent.epsilon,
            seen.remaining.epsilon,
            seen.own_spent.epsilon,
            limit,
            cap,
        )

    # Listings: the catalogue, declared levels, synthetic rows

    def _listing(
        self, piece: Piece, tree: Any, tables: dict[str, ServedTable], views: dict[str, View], types: tuple[int, ...]
    ) -> Plan:
        self.principal.require("look")
        catalogue = self.house.catalogue(self.principal)
        names, said = self._held(tree, tables, views)
        facts = Facts(self.principal.name, catalogue.oids, VERSION_TEXT, self._setting, names)
        prepared = catalogue.prepare(in_tree(tree, None, types), facts)

        def run(values: Sequence[Any]) -> Result:
            found: Translated = prepared
            bound = in_tree(tree, values, types)
            changed = self._set_by_function(bound)
            if types or changed:
                found = catalogue.prepare(bound, facts)
            rows = catalogue.run(found)
            notices = [notice(said)] if said and rows else []
            return Result(f"SELECT {len(rows)}", prepared.columns, rows, notices=notices, changed=changed)

        return Plan(piece.text, run, lambda: prepared.columns, types)

    def _setting(self, name: str, missing: bool) -> str | None:
        return self.settings.show(name, missing=missing)

    def _set_by_function(self, tree: Any) -> list[tuple[str, str]]:
        """Do what set_config('name', 'value', local) in a statement says."""
        changed = []
        for node in tree.find_all(exp.Anonymous):
            given = node.expressions
            if node.name.lower() == "set_config" and len(given) == 3:
                name, value = (part.find(exp.Literal) for part in given[:2])
                if name is None or value is None:
                    raise Problem("0A000", "set_config() takes its name and value as texts")
                changed += self.settings.set(name.name, value.name)
        return changed

    def _held(self, tree: Any, tables: dict[str, ServedTable], views: dict[str, View]) -> tuple[dict[str, str], str]:
        """Where the rows are that stand for each table of a listing; and what to say about them."""
        catalogue, names, said = self.house.catalogue(self.principal), dict[str, str](), ""
        count = self.settings.sample_rows
        for name, table in tables.items():
            used = _columns_used(tree, table) if _only_groups(tree) and len(tables) == 1 else []
            listed = levels(table.schema, used) if used else None
            if _only_bounds(tree):
                place, said = f"bounds of {name}", BOUNDS
                catalogue.hold(place, "declared", bounds(table.schema))
            elif listed is not None:
                place = "levels of " + name + ": " + ", ".join(used)
                catalogue.hold(place, "declared", listed)
                said = LEVELS
            else:
                place, version = f"{name} {count}", version_of(table, count)
                if not catalogue.holds(place, version):
                    catalogue.hold(place, version, synthetic(table, count))
                said = SYNTHETIC
            names[name] = place
        for name, view in views.items():
            place = f"{name} {count}"
            if not catalogue.holds(place, id(view.release)):
                import numpy as np

                catalogue.hold(place, id(view.release), view.release.sample(count, rng=np.random.default_rng(0)))
            names[name], said = place, SYNTHETIC
        return names, said

    # COPY

    def copy_plan(self, words: Words, piece: Piece) -> Plan:
        """COPY (SELECT ...) TO STDOUT, or COPY table TO STDOUT."""
        if words.accept("("):
            begin, depth = words.at, 1
            while depth and words.at < len(words.words):
                word = words.next()
                depth += (word == "(") - (word == ")")
            if depth or begin == words.at - 1:
                raise Problem("42601", "syntax error: COPY (SELECT ...) TO STDOUT")
            text = piece.text[piece.tokens[begin].start : piece.tokens[words.at - 2].end + 1]
        else:
            begin = words.at
            words.name()
            named = piece.text[piece.tokens[begin].start : piece.tokens[words.at - 1].end + 1]
            listed = "*"
            if words.accept("("):
                first = words.at
                while words.peek() not in (")", ""):
                    words.next()
                listed = piece.text[piece.tokens[first].start : piece.tokens[words.at - 1].end + 1]
                words.accept(")")
            text = f"SELECT {listed} FROM {named}"
        if words.peek() == "FROM":
            raise Problem("25006", "COPY FROM is not possible here: nothing can be written")
        if not words.accept("TO", "STDOUT"):
            raise Problem("0A000", "COPY only goes TO STDOUT")
        return self._copied(piece, self.plan_text(text), read_format(words))

    def _copied(self, piece: Piece, inner: Plan, form: CopyFormat) -> Plan:
        if inner.columns is None:
            raise Problem("0A000", "COPY takes a SELECT")

        def run(values: Sequence[Any]) -> Result:
            result = inner.run(values)
            result.tag, result.copy = f"COPY {len(result.rows)}", form
            return result

        return Plan(piece.text, run, types=inner.types)


def _adds_up(tree: Any) -> bool:
    """Whether a statement has an aggregate, or the ends of one: a question. Otherwise it lists."""
    if _only_bounds(tree):
        return False
    return any(True for _ in tree.find_all(exp.AggFunc)) or any(
        node.name.lower() in ("low", "high") for node in tree.find_all(exp.Anonymous)
    )


def _only_bounds(tree: Any) -> bool:
    """Whether a statement asks for min(column) and max(column) of all rows alone, as the range filters of tools do.

    Their `HAVING count(1) > 0` says that the table is not empty; every other condition makes it a question.
    """
    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Select, exp.Join))) != 1:
        return False
    having = tree.args.get("having")
    some = having is None or having.this.unnest().sql("postgres").upper() in ("COUNT(1) > 0", "COUNT(*) > 0")
    items = [item.unalias() for item in tree.expressions]
    plain = all(isinstance(item, exp.Min | exp.Max) and isinstance(item.this, exp.Column) for item in items)
    others = ("where", "group", "distinct", "windows", "qualify")
    return some and plain and bool(items) and not any(tree.args.get(part) for part in others)


def _only_groups(tree: Any) -> bool:
    """Whether a listing asks for different values only: DISTINCT, or GROUP BY without numbers."""
    selects = list(tree.find_all(exp.Select))
    return len(selects) == 1 and bool(selects[0].args.get("distinct") or selects[0].args.get("group"))


def _columns_used(tree: Any, table: ServedTable) -> list[str]:
    """The columns of the table that a statement names, in the order of the schema; none if it says *."""
    if tree.find(exp.Star):
        return []
    named = {node.name.lower() for node in tree.find_all(exp.Column)}
    return [name for name in table.schema.names if name.lower() in named]


def _unknown(node: Any, known: Sequence[str]) -> Problem:
    close = nearest(node.name, known)
    hint = f"did you mean {' or '.join(close)}?" if close else f"tables are {', '.join(known) or 'none'}"
    shown = f"{node.db}.{node.name}" if node.db else node.name
    return Problem("42P01", f'relation "{shown[:120]}" does not exist', hint=hint)
