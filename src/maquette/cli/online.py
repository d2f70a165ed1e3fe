"""`maquette online`: a prompt that answers an unbounded stream of questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import options
from maquette.cli.showing import answer_facts, loss_facts, print_json
from maquette.cli.telling import tell_error
from maquette.errors import MaquetteError, QueryError

if TYPE_CHECKING:
    from maquette.answers import Answered
    from maquette.schema import Column
    from maquette.session import Session

HISTORY = Path.home() / ".maquette_history"
WORDS = ["SELECT", "count(*)", "avg(", "sum(", "FROM", "WHERE", "GROUP BY", "AND", "OR", "NOT", "BETWEEN", "IN"]
WORDS += [".explain", ".columns", ".budget", ".outlook", ".set", ".help", ".quit"]
DELIMITERS = " \t\n,()=<>!'\""
# Names of these commands in other prompts; accepted unless a column has that name.
ALIASES = {"quit": ".quit", "exit": ".quit", "\\q": ".quit", ".exit": ".quit"}
ALIASES |= {"help": ".help", "?": ".help", "\\?": ".help", "\\d": ".columns", "\\h": ".help"}
ALIASES |= {f"{word} select": ".help select" for word in ("\\help", "\\h", "help")} | {"\\help": ".help"}
NO_PROMISE = "; without a guarantee, because the budget cannot pay for one"
WIDER = "; wider than asked for, because the budget cannot pay for more"
SHOWN, LISTED = 8, 10_000  # levels shown per column in the list of all columns, and in the list of one
HELP = """Ask SQL (SELECT count(*) FROM t WHERE age >= 65 GROUP BY sex) or a condition (age >= 65 AND smoker).
SQL is answered with numbers, a condition with a fraction of rows, each with an interval that contains the exact value.
Conditions on numbers and dates must cut at their declared bins, which .columns shows.
  .explain QUESTION   the route and the price, without paying
  .columns            what can be asked about; .columns NAME lists all levels or bins of one
  .budget             what was spent and what remains
  .outlook            what the rest of the budget can still buy
  .set alpha 0.01     for later questions: alpha, confidence, max_cost or cuts; the value `default` resets it.
                      For one question alone: /* alpha = 0.01 */ SELECT ...
  .help select        the SQL that is answered, with examples
  .quit               leave; the session continues next time"""


def online(
    source: options.Source,
    *,
    schema: options.SchemaFile,
    epsilon: options.Epsilon,
    delta: options.Delta = 0.0,
    alpha: Annotated[float, typer.Option(help="Maximum error of an answer, as a fraction of rows.")] = 0.02,
    beta: Annotated[float, typer.Option(help="Probability that some answer exceeds that error.")] = 0.05,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Approximate number of rows, if public: rejects an unreachable alpha without spending budget.",
        ),
    ] = None,
    accounting: options.Books = "auto",
    relation: options.Neighbours = "add-remove",
    unit: options.Unit = None,
    max_contributions: options.Most = 1,
    ledger: options.LedgerFile = None,
    missing: options.Missing = None,
    delimiter: options.Delimiter = None,
    analyst: Annotated[str, typer.Option(help="Analyst to charge.")] = "custodian",
    deadline: options.Seconds = None,
    start: options.StartFile = None,
    table: options.TableName = None,
    public: options.Lookups = None,
    cuts: options.CutsRule = "refuse",
    bins_epsilon: options.BinsEpsilon = None,
    trust_draft: options.Trust = False,
    json: options.Json = False,
) -> None:
    """Answer any number of questions and pay only for what the session does not know yet. It resumes where it stopped.

    Example: maquette online people.csv --schema people.schema.toml --epsilon 1 --delta 1e-9 --alpha 0.02
    """
    import maquette as mq
    from maquette.query import named_table

    with options.opened(
        source,
        schema,
        epsilon=epsilon,
        delta=delta,
        accounting=accounting,
        relation=relation,
        unit=unit,
        max_contributions=max_contributions,
        ledger=ledger,
        missing=missing,
        delimiter=delimiter,
        trust_draft=trust_draft,
        bins_epsilon=bins_epsilon,
    ) as curator:
        lookups = dict(map(named_table, public or ()))
        session = mq.online(
            curator,
            alpha=alpha,
            beta=beta,
            rows=rows,
            deadline=deadline,
            start=start,
            table=options.called(source, table, curator),
            public=lookups,
            cuts=cuts,
        )
        asker = Asker(session, analyst, json)
        if sys.stdin.isatty() and not json:
            typer.echo(f"{session!r}\nAsk, or .help; .quit to leave.")
        failed = False
        for line in _lines(session):
            if line == ".quit":
                break
            try:
                asker.reply(line)
            except MaquetteError as error:
                failed = True
                tell_error(error, json)
    if failed and not sys.stdin.isatty():
        raise typer.Exit(1)


class Asker:
    """One prompt: its session, and the settings of the questions to come."""

    def __init__(self, session: Session, analyst: str, json: bool) -> None:
        from maquette.query import Settings

        self.session, self.analyst, self.json = session, analyst, json
        self.settings = Settings()

    def reply(self, line: str) -> None:
        """Answer one line: a command, a setting or a question."""
        command, _, rest = line.partition(" ")
        if command == ".set" or (command.lower() == "set" and ";" not in line.rstrip("; ")):
            self._set(rest.rstrip("; "))
            return
        if self.json and (facts := _facts(self.session, command, rest)) is not None:
            print_json(facts, lines=False)
            return
        match command:
            case ".help":
                typer.echo(_help(rest))
            case ".explain":
                own = self.settings
                told = self.session.explain(_question(rest), alpha=own.alpha, confidence=own.confidence)
                typer.echo(str(told))
            case ".columns":
                for column in _columns(self.session, rest):
                    typer.echo(_described(column, every=bool(rest)))
            case ".budget":
                session = self.session
                typer.echo(f"spent {session.spent}; remaining {session.remaining}, {_left(session)} of the budget")
            case ".outlook":
                typer.echo(self.session.outlook())
            case _ if command.startswith("."):
                typer.echo(f"there is no {command}; .help lists all commands", err=True)
            case _:
                self._ask(line)

    def _ask(self, line: str) -> None:
        session = self.session
        answer = session.ask(line, analyst=self.analyst, **vars(self.settings))
        if self.json:
            facts = {"question": line, **answer_facts(answer), "remaining": loss_facts(session.remaining)}
            print_json(facts, lines=False)
            return
        price = f"cost {answer.cost}; {_left(session)} of the budget remains" if answer.cost.units else "free"
        typer.echo(f"{answer}\n   {answer.source} {price}{_told(answer)}")

    def _set(self, rest: str) -> None:
        """`SET alpha = 0.01`: for the questions to come; `default` takes a setting back."""
        from maquette.query import Settings, settings_of

        name, _, value = (part.strip() for part in rest.replace("=", " ", 1).strip().partition(" "))
        if not name:
            told = {word: value for word, value in vars(self.settings).items() if value is not None}
        else:
            known = vars(self.settings)
            if value.lower() == "default" and name.lower() in known:
                self.settings = Settings(**{**known, name.lower(): None})
            else:
                self.settings = settings_of(f"SET {name} = {value};").over(self.settings)
            told = {word: value for word, value in vars(self.settings).items() if value is not None}
        if self.json:
            print_json({"settings": told}, lines=False)
        else:
            typer.echo("   " + (", ".join(f"{word} = {value}" for word, value in told.items()) or "no settings"))


def _told(answer: Answered) -> str:
    """What to say of an answer that is not within the tolerance."""
    if answer.guarantee is not None:
        return ""
    return WIDER if any(one.wider for one in answer.numbers) else NO_PROMISE


def _help(rest: str) -> str:
    """The commands, or after `.help select` the SQL that is answered."""
    if rest.strip().lower().rstrip(";") in ("select", "sql"):
        from maquette.query import sql_reference

        return sql_reference()
    return HELP


def _question(rest: str) -> str:
    if not rest.strip():
        raise QueryError("nothing to explain", expected="a question, as in .explain SELECT count(*) FROM t")
    return rest


def _columns(session: Session, rest: str) -> list[Column]:
    """The column named after `.columns`, or all of them."""
    schema = session.curator.schema
    return [schema[rest.strip().strip('"')]] if rest.strip() else list(schema)


def _described(column: Column, *, every: bool) -> str:
    """A column and its levels, or the first few of them."""
    shown = f"  {column.name} ({column.kind}, {column.size} levels)"
    if column.size > LISTED:
        return shown
    cut = not every and column.size > SHOWN
    labels = [*column.labels[: SHOWN - 2], "...", column.labels[-1]] if cut else column.labels
    return f"{shown}: {', '.join(labels)}"


def _left(session: Session) -> str:
    """The share of the budget that remains: unlike epsilon, shares add up."""
    budget = session.curator.budget
    return f"{session.remaining.units / budget.limit:.1%}"


def _facts(session: Session, command: str, rest: str) -> dict[str, Any] | None:
    """The result of a dot command, for a program; None for all other lines."""
    match command:
        case ".help":
            return {"help": _help(rest)}
        case ".explain":
            return {"question": rest, "explained": str(session.explain(_question(rest)))}
        case ".columns":
            columns: list[dict[str, Any]] = [
                {
                    "name": c.name,
                    "kind": c.kind,
                    "levels": c.size,
                    **({"labels": c.labels} if rest and c.size <= LISTED else {}),
                }
                for c in _columns(session, rest)
            ]
            return {"columns": columns}
        case ".budget":
            return {"spent": loss_facts(session.spent), "remaining": loss_facts(session.remaining)}
        case ".outlook":
            return {"outlook": session.outlook()}
    return None


def _lines(session: Session) -> Iterator[str]:
    """Questions, one per line: from a prompt with history and completion, or from a pipe."""
    if not sys.stdin.isatty():
        yield from (_meant(session, line) for line in sys.stdin if line.strip())
        return
    keep = _prompt(session)
    try:
        while True:
            try:
                line = _meant(session, input("> "))
            except KeyboardInterrupt:  # as in other prompts, drops the line
                typer.echo("\n(.quit to leave)")
                continue
            if line:
                yield line
    except EOFError:
        typer.echo()
    finally:
        keep()


def _meant(session: Session, line: str) -> str:
    """A line without surrounding spaces; command names of other prompts are translated."""
    line = line.strip()
    word = line.rstrip("; ").lower()
    return line if word in session.curator.schema else ALIASES.get(word, line)


def _prompt(session: Session) -> Callable[[], None]:
    """Completion of column names and levels, and history; returns the function that saves the history."""
    try:
        import readline
    except ImportError:  # Windows
        return lambda: None
    from maquette.query import written

    schema = session.curator.schema
    listed = [column for column in schema if column.size <= LISTED and isinstance(column.values[0], str)]
    levels = {label for column in listed for label in column.labels[: column.known]}
    # After a quote: its possible values; elsewhere: names, quoted where necessary.
    after = {'"': sorted(schema.names), "'": sorted(levels)}
    words = sorted({*map(written, schema.names), *WORDS})

    def complete(text: str, state: int) -> str | None:
        begin = readline.get_begidx()
        known = after.get(readline.get_line_buffer()[:begin][-1:], words)
        found = [word for word in known if word.lower().lstrip('"').startswith(text.lower())]
        return found[state] if state < len(found) else None

    def keep() -> None:
        with suppress(OSError):  # no history if the home folder is not writable
            readline.write_history_file(HISTORY)

    readline.set_completer(complete)
    readline.set_completer_delims(DELIMITERS)
    on_libedit = "libedit" in (readline.__doc__ or "")  # macOS
    readline.parse_and_bind("bind ^I rl_complete" if on_libedit else "tab: complete")
    with suppress(OSError):
        readline.read_history_file(HISTORY)
    return keep
