"""Column kinds: each maps raw values to a small, public, ordered set of levels.

A column never looks at data. Its levels, bins and bounds are declared; a raw value is sent to a level by one SQL
expression (`code_sql`), which is the only definition of encoding: tables are encoded by running it in the engine, and
`encode` runs the same expression on values in memory. Encoding is total: numbers and dates are clamped to the
declared range, an undeclared category goes to `other` if there is one, a missing value (nothing, or one of the texts
declared as `missing`) to the null level if the column is nullable; every other value gets the code `INVALID`.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError, SchemaError
from maquette.schema.instance import connection
from maquette.schema.raw_values import (
    among_sql,
    arrow_array,
    cleaned_sql,
    identifier,
    quoted,
    text_sql,
    ungrouped_sql,
    whole_sql,
    without_fraction,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from maquette.schema.values import ValueGrid

INVALID = -1
NULL_LABEL = "NULL"
SAID = 'list texts that mean "no value", for example missing = ["NA"]'
ALSO = ', and missing = ["NA"] if a text such as NA means "no value"'
_COMPARED, _LETTERS = 2_000, 100  # maximum names compared with a misspelt one, and its length: more take seconds
_SHOWN = 300  # maximum characters of a value in a message
LISTED = 2**26  # maximum levels of one column that a condition can list
_LONG = 128  # up to this number of levels CASE is as fast as ENUM, and much faster on undeclared values

Comparison = Literal["=", "<>", "<", "<=", ">", ">="]
LevelMask = NDArray[np.bool_]


def shown(value: object) -> str:
    """A value for a message: its `repr`, shortened; a number too long to print is described in words."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a very long {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> list[str]:
    """The known words most similar to a misspelt one, best first; only the word itself if just the case differs."""
    import difflib

    folded = {name.casefold(): name for name in known}
    word = word.casefold()
    some = itertools.islice(folded, _COMPARED)
    close = [word] if word in folded else difflib.get_close_matches(word[:_LETTERS], some, n=3, cutoff=likeness)
    return [folded[match] for match in close]


@dataclass(frozen=True)
class Column(ABC):
    """One attribute of the public universe. Level codes run from 0; the null level, if any, is the last."""

    kind: ClassVar[str]
    name: str
    _: KW_ONLY
    nullable: bool = False
    missing: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or not writable(self.name):
            raise SchemaError(f"the name of a column is {shown(self.name)}", expected="non-empty text")
        if not isinstance(self.nullable, bool):
            raise SchemaError(f"column {self.name!r}: nullable is {shown(self.nullable)}", expected="true or false")
        self._check_missing()

    def _check_missing(self) -> None:
        listed = isinstance(self.missing, Sequence) and not isinstance(self.missing, str)
        if not listed or not all(isinstance(text, str) and writable(text) for text in self.missing):
            raise SchemaError(
                f"column {self.name!r}: missing is {shown(self.missing)}",
                expected='a list of texts that mean "no value", such as ["NA"]',
            )
        object.__setattr__(self, "missing", tuple(sorted({text.strip() for text in self.missing})))
        if self.missing and not self.nullable:
            raise SchemaError(f"column {self.name!r}: missing = {list(self.missing)} needs nullable = true as well")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The name of each level, in order."""
        return (*self._labels(), *([NULL_LABEL] if self.nullable else []))

    def first_labels(self, count: int) -> tuple[str, ...]:
        """The names of the first levels, without the others: a column can have more than memory holds."""
        return tuple(itertools.islice(itertools.chain(self._labels(), [NULL_LABEL] * self.nullable), count))

    @cached_property
    def size(self) -> int:
        """The number of levels, the null level included."""
        return self.known + self.nullable

    @property
    @abstractmethod
    def known(self) -> int:
        """The number of levels that are not the null level."""

    @abstractmethod
    def _labels(self) -> Iterable[str]: ...

    @property
    def midpoints(self) -> NDArray[np.float64] | None:
        """The number used for each known level in sums and averages; None if the column is not numeric."""
        return None

    @property
    def value_grid(self) -> ValueGrid | None:
        """The grid of the values that sums add up; None if every level has one value, or the column no numbers."""
        return None

    def value_sql(self, identifier: str) -> str:
        """A DuckDB expression for the value of any raw value on `value_grid`, clamped; NULL if it is missing."""
        if self.missing:
            absent = among_sql(identifier, self.missing)
            return f"CASE WHEN {absent} THEN NULL ELSE {self._value_sql(identifier)} END"
        return self._value_sql(identifier)

    def _value_sql(self, identifier: str) -> str:
        return "NULL"

    def code_sql(self, identifier: str) -> str:
        """A DuckDB expression that gives the code of any raw value, after `cleaned_sql`."""
        null, unknown = self.known if self.nullable else INVALID, self._unknown
        rest = str(unknown)
        if null != unknown:
            rest = f"CASE WHEN {self._missing_sql(identifier)} THEN {null} ELSE {unknown} END"
        # Most values are known, and coalesce stops at them: only the others are tested for missing values.
        code = f"coalesce({self._known_sql(identifier)}, {rest})"
        if not self.missing:
            return code
        absent = among_sql(identifier, self.missing)  # tested first: a number such as -1 may mean "missing"
        return f"CASE WHEN {absent} THEN {null} ELSE {code} END"

    def _missing_sql(self, identifier: str) -> str:
        return f"{identifier} IS NULL OR {text_sql(identifier)} = ''"

    @property
    def _unknown(self) -> int:
        """The code of a value that is present but fits no level."""
        return INVALID

    @property
    @abstractmethod
    def _accepted(self) -> str:
        """What raw values must be; shown to a custodian whose table holds other values."""

    @property
    def remedies(self) -> list[str]:
        """What a custodian can do about values that fit no level."""
        unfit = [self._accepted] if self._unknown == INVALID else []
        if not self.nullable:
            return [*unfit, "declare nullable = true if values are missing" + ALSO * bool(unfit)]
        return [*unfit, *([SAID] if unfit else [])]

    @abstractmethod
    def _known_sql(self, identifier: str) -> str:
        """The code of a value that fits a level, NULL for any other."""

    def encode(self, values: object) -> NDArray[np.int32]:
        """The code of each value (numpy, Arrow, or a sequence); `INVALID` where no level fits."""
        return encode_columns([self], [values])[0]

    def decode(self, codes: NDArray[np.integer[Any]]) -> pa.Array:
        """One representative raw value per code (the null level becomes null)."""
        import pyarrow as pa

        codes = np.asarray(codes)
        if codes.size and not (codes.min() >= 0 and codes.max() < self.size):
            raise SchemaError(f"column {self.name!r}: codes must lie in 0..{self.size - 1}")
        if not codes.size:  # asked for its type: a column can have more levels than memory holds
            return pa.array([], type=self._arrow_type())
        values = pa.array([*self.values, *([None] if self.nullable else [])], type=self._arrow_type())
        return values.take(pa.array(codes))

    def spread(self, codes: NDArray[np.integer[Any]], rng: np.random.Generator) -> pa.Array:
        """One raw value per code, drawn from the values of its level; a level without numbers has one value."""
        return self.decode(codes)

    @property
    @abstractmethod
    def values(self) -> Sequence[Any]:
        """A representative raw value of each known level."""

    @abstractmethod
    def _arrow_type(self) -> pa.DataType: ...

    @abstractmethod
    def compare(self, comparison: Comparison, literal: object) -> LevelMask:
        """The levels on which `column <comparison> literal` holds; the null level never does (SQL)."""

    @property
    def remark(self) -> str:
        """A surprising fact about the levels, for readers of the schema; usually empty."""
        return ""

    def is_null(self) -> LevelMask:
        """The null level, if there is one."""
        return self._all_levels() >= self.known

    def _all_levels(self) -> NDArray[np.int64]:
        """The codes of all levels; refused if there are too many to list."""
        if self.size > LISTED:
            raise self._refuse(
                f"has {self.size:,} levels, more than the {LISTED:,} that a condition can list", "declare wider bins"
            )
        return np.arange(self.size)

    def as_dict(self) -> dict[str, Any]:
        """A plain description: kind, name and every setting that differs from its default."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}
        defaults = {f.name: f.default for f in fields(self)}
        kept = {k: v for k, v in settings.items() if v is not None and (k == "name" or v != defaults[k])}
        return {"name": kept.pop("name"), "kind": self.kind, **kept}

    def _select(self, low: int, high: int) -> LevelMask:
        """Levels low <= level < high."""
        levels = self._all_levels()
        return (low <= levels) & (levels < min(high, self.known))

    @property
    def _written(self) -> str:
        """The name as written in a question."""
        return self.name if self.name.isidentifier() else identifier(self.name)

    def _refuse(self, problem: str, advice: str | None = None, *, expected: str | None = None) -> QueryError:
        return QueryError(f"column {self.name!r} ({self.kind}): {problem}", expected=expected, advice=advice)


def encode_columns(columns: Sequence[Column], values: Sequence[object]) -> list[NDArray[np.int32]]:
    """The codes of several columns of equal length, in one query."""
    import pyarrow as pa

    arrays = [v if isinstance(v, pa.Array | pa.ChunkedArray) else arrow_array(v) for v in values]
    codes = [f"CAST({column.code_sql(f'v{i}')} AS INTEGER) AS c{i}" for i, column in enumerate(columns)]
    with connection() as engine:
        given = engine.from_arrow(pa.table(arrays, names=[f"v{i}" for i in range(len(columns))]))
        relation = given.project(", ".join(f"{cleaned_sql(f'v{i}', t)} AS v{i}" for i, t in enumerate(given.types)))
        encoded = relation.project(", ".join(codes)).fetchnumpy()
    return [np.ascontiguousarray(encoded[f"c{i}"], dtype=np.int32) for i in range(len(columns))]


def writable(text: str) -> bool:
    """Whether files and SQL can hold the text: no NUL character, no half of a surrogate pair."""
    return "\x00" not in text and (text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text))


_WORDS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), 1),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), 0),
}


@dataclass(frozen=True)
class Boolean(Column):
    """False and true. `yes` and `no` list further words for them, such as ja and nein, in upper or lower case.

    >>> Boolean("smoker").encode([True, False, 1])
    array([1, 0, 1], dtype=int32)
    >>> Boolean("smoker", yes=["ja"], no=["nein"]).encode(["Ja", "nein"])
    array([1, 0], dtype=int32)
    """

    kind: ClassVar[str] = "boolean"
    yes: Sequence[str] = ()
    no: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("yes", "no"):
            words = getattr(self, what)
            listed = isinstance(words, Sequence) and not isinstance(words, str)
            if not listed or not all(isinstance(word, str) and word.strip() and writable(word) for word in words):
                raise SchemaError(
                    f"column {self.name!r}: {what} is {shown(words)}", expected='a list of words, such as ["ja"]'
                )
            object.__setattr__(self, what, tuple(sorted({word.strip().lower() for word in words})))
        if both := set(self.yes) & set(self.no):
            raise SchemaError(
                f"column {self.name!r}: {sorted(both)[0]!r} is listed under both yes and no",
                advice="remove it from one of them",
            )

    @property
    def _accepted(self) -> str:
        words = f", or {', '.join([*self.yes, *self.no])}" if self.yes or self.no else ""
        return f"values must be true or false, yes or no, 1 or 0{words}"

    @property
    def known(self) -> int:
        """Two levels."""
        return 2

    def _labels(self) -> Iterable[str]:
        return ("false", "true")

    @property
    def values(self) -> Sequence[bool]:
        """False, true."""
        return (False, True)

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """Zero and one, so that avg(column) is the fraction of true values."""
        return np.array([0.0, 1.0])

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.bool_()

    def _known_sql(self, identifier: str) -> str:
        text = text_sql(identifier)
        # Data frames turn booleans into floats when some values are missing.
        number = f"CASE TRY_CAST({text} AS DOUBLE) WHEN 0 THEN 0 WHEN 1 THEN 1 END"
        known = f"coalesce(CAST(TRY_CAST({text} AS BOOLEAN) AS INTEGER), {number})"
        if not (self.yes or self.no):
            # The type is a constant to the engine: booleans are then not read as text, which takes ten times as long.
            typed = f"CAST(TRY_CAST({identifier} AS BOOLEAN) AS INTEGER)"
            return f"CASE WHEN typeof({identifier}) = 'BOOLEAN' THEN {typed} ELSE {known} END"
        lists = [(code, ", ".join(map(quoted, words))) for code, words in ((0, self.no), (1, self.yes)) if words]
        words = " ".join(f"WHEN lower({text}) IN ({listed}) THEN {code}" for code, listed in lists)
        return f"CASE {words} ELSE {known} END"

    def compare(self, comparison: Comparison, literal: object) -> LevelMask:
        """Equality with true, false, 1 or 0, or a word for them: one of the column's own, or of PostgreSQL's."""
        if comparison not in ("=", "<>"):
            raise self._refuse(
                f"true and false have no order, so {comparison} makes no sense", "use = or <>, or the column alone"
            )
        if isinstance(literal, str):
            words = {**_WORDS, **dict.fromkeys(self.yes, 1), **dict.fromkeys(self.no, 0)}
            literal = words.get(literal.strip().lower(), literal)
        if not isinstance(literal, bool | int) or literal not in (0, 1):
            raise self._refuse(f"{literal!r} is not a truth value", expected="true or false")
        wanted = int(literal) if comparison == "=" else 1 - int(literal)
        return self._select(wanted, wanted + 1)


@dataclass(frozen=True)
class Category(Column):
    """A declared list of names, and optionally a level `other` for every name not in it.

    >>> Category("sex", ["female", "male"], other="other").encode(["male", "female", "x"])
    array([1, 0, 2], dtype=int32)
    """

    kind: ClassVar[str] = "category"
    _accepted = "add these values to levels, or declare an `other` level for them"
    levels: Sequence[str | int]
    _: KW_ONLY
    other: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.levels, str) or not self.levels:
            raise SchemaError(f"column {self.name!r}: a category needs a list of levels, got {shown(self.levels)}")
        object.__setattr__(self, "levels", tuple(str(level).strip() for level in self.levels))
        if self.other is not None:
            object.__setattr__(self, "other", str(self.other).strip())
        named = [*self.levels, *([] if self.other is None else [self.other])]
        repeated = sorted(str(level) for level, times in Counter(named).items() if times > 1)
        if repeated:
            raise SchemaError(
                f"column {self.name!r}: repeated levels: {', '.join(repeated)}", advice="list each level once"
            )
        if self.nullable and NULL_LABEL in named:
            raise SchemaError(
                f"column {self.name!r}: the level {NULL_LABEL!r} is reserved for missing values",
                advice="rename it",
            )
        absent = set(map(without_fraction, self.missing))
        if absent := {level for level in map(str, named) if without_fraction(level) in absent}:
            raise SchemaError(
                f"column {self.name!r}: listed both in levels and in missing: {', '.join(sorted(absent))}",
                advice="remove it from one of them",
            )
        if "" in named:
            raise SchemaError(
                f"column {self.name!r}: a level is empty",
                advice="remove it; for missing values, declare nullable = true",
            )
        if not all(writable(str(level)) for level in named):
            raise SchemaError(
                f"column {self.name!r}: a level contains a NUL character or half of a surrogate pair",
                advice="remove that character",
            )

    @property
    def known(self) -> int:
        """The declared levels, and `other` if declared."""
        return len(self.levels) + (self.other is not None)

    def _labels(self) -> Iterable[str]:
        return self.values

    @cached_property
    def values(self) -> Sequence[str]:
        """The level names."""
        return (*(str(level) for level in self.levels), *([] if self.other is None else [self.other]))

    def _arrow_type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.string()

    def _known_sql(self, identifier: str) -> str:
        levels = list(map(str, self.levels))
        wholes = list(map(without_fraction, levels))
        apart = len(set(wholes)) == len(wholes)
        if apart and (wholes != levels or all(level.lstrip("-").isdigit() for level in levels)):
            text, levels = whole_sql(identifier), wholes  # whole numbers that arrive as floats or decimals
        else:
            text = text_sql(identifier)
        text = ungrouped_sql(text, levels)
        names = list(map(quoted, levels))
        if len(names) > _LONG:
            return f"CAST(enum_code(TRY_CAST({text} AS ENUM({', '.join(names)}))) AS INTEGER)"
        return f"CASE {text} {' '.join(f'WHEN {name} THEN {code}' for code, name in enumerate(names))} END"

    @property
    def _unknown(self) -> int:
        return INVALID if self.other is None else len(self.levels)

    def compare(self, comparison: Comparison, literal: object) -> LevelMask:
        """Equality with a declared level."""
        if comparison not in ("=", "<>"):
            raise self._refuse(f"categories have no order, so {comparison} makes no sense", "use =, <> or IN")
        text = str(literal)
        if isinstance(literal, bool) or text not in self.values:
            close, more = nearest(text, self.values), ", ..." if len(self.values) > 5 else ""
            problem = f"{literal!r} is not a declared level"
            if close:
                raise self._refuse(problem, f"did you mean {' or '.join(map(quoted, close))}?")
            raise self._refuse(problem, expected=f"one of {', '.join(self.values[:5])}{more}")
        level = self.values.index(text)
        equal = self._select(level, level + 1)
        return equal if comparison == "=" else self._select(0, self.known) & ~equal
