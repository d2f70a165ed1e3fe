"""Raw values: what sources hold, as SQL for their texts and as Arrow arrays.

One rule holds everywhere: how a value is read follows from that value and the declared type of its column alone, never
from the other rows. Types that a library infers from all values of a column must therefore not matter: a whole number
has one text whether its column holds integers or floats, and values without a declared type are read one by one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_EXACT = 2**53  # whole numbers below it are the same as floats
_FRACTION = re.compile(r"^(-?[0-9]+)\.0+$")
_GROUPED = r"-?[0-9]{1,3}\.[0-9]{3}"  # a number that reads as another where points group digits
_AMBIGUOUS = re.compile(_GROUPED)


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


_SPACE = r"[\s\v\x1c-\x1f\x{85}\pZ]"  # white space, to the engine's regular expressions
_SPACES = quoted("".join(filter(str.isspace, map(chr, range(0x3001)))))  # all white space: U+3000 is the last

_NUMBER_TYPES = "U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*|BOOLEAN"
_FRACTIONS = "FLOAT|DOUBLE|DECIMAL.*"


def cleaned_sql(identifier: str, kind: object) -> str:
    """SQL for a raw value of a DuckDB type: a text or bytes without white space around it, others as is."""
    texts = ("VARCHAR", "BLOB", "ENUM")
    return text_sql(identifier) if str(kind).startswith(texts) else identifier


def text_sql(identifier: str) -> str:
    """SQL for a raw value as text without surrounding white space: the same as `str.strip`, for all of Unicode.

    A whole number is written without a fraction, whatever type its column has: data frames turn a column of whole
    numbers into floats as soon as one row has no value, and that row must not change how the others are read.
    """
    text = f"CAST({identifier} AS VARCHAR)"
    whole = rf"regexp_replace(regexp_replace({text}, '\.0+$', ''), '^-0$', '0')"
    # Trimming takes ten times as long as testing whether there is anything to trim.
    return (
        f"CASE WHEN regexp_full_match(typeof({identifier}), '{_FRACTIONS}') THEN {whole} "
        f"WHEN regexp_matches({text}, '^{_SPACE}|{_SPACE}$') THEN trim({text}, {_SPACES}) ELSE {text} END"
    )


def among_sql(identifier: str, texts: Sequence[str]) -> str:
    """SQL for whether a raw value is one of these texts; 99 is the same as 99.0, if that is listed."""
    wholes = list(map(without_fraction, texts))
    text = text_sql(identifier) if wholes == list(texts) else whole_sql(identifier)
    listed = [*wholes, *(f"{each}0" for each in wholes if _AMBIGUOUS.fullmatch(each))]  # as `text_of` writes them
    return f"{text} IN ({', '.join(map(quoted, listed))})"


def ungrouped_sql(text: str, levels: Sequence[str]) -> str:
    """SQL for a text that is compared with these levels: 1.234 is a level also where `text_of` wrote it as 1.2340."""
    if not any(map(_AMBIGUOUS.fullmatch, levels)) or any(_AMBIGUOUS.fullmatch(level[:-1]) for level in levels):
        return text
    return rf"regexp_replace({text}, '^({_GROUPED})0$', '\1')"


def untyped_sql(identifier: str) -> str:
    """SQL for the text that a raw value has without a declared type: of a number, the one that `text_of` writes."""
    text = text_sql(identifier)
    grouped = f"regexp_full_match(typeof({identifier}), '{_FRACTIONS}') AND regexp_full_match({text}, '{_GROUPED}')"
    return f"CASE WHEN {grouped} THEN concat({text}, '0') ELSE {text} END"


def whole_sql(identifier: str) -> str:
    """SQL for the text of a raw value, without zeros after the point of a whole number: `without_fraction`."""
    return rf"regexp_replace({text_sql(identifier)}, '^(-?\d+)\.0+$', '\1')"


def number_type_sql(identifier: str) -> str:
    """SQL for whether raw values are numbers by their type; a constant to the engine, which then drops a branch."""
    return f"regexp_full_match(typeof({identifier}), '{_NUMBER_TYPES}')"


def identifier(name: str) -> str:
    """A SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def without_fraction(text: str) -> str:
    """The text of a whole number without zeros after its point; any other text as it is.

    >>> without_fraction("99.0"), without_fraction("1.50")
    ('99', '1.50')
    """
    return _FRACTION.sub(r"\1", text)


def arrow_array(values: Any) -> pa.Array | pa.ChunkedArray:
    """An Arrow array of a sequence, numpy array or frame column; mixed types become text."""
    import pyarrow as pa

    try:
        return values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if v is None or v != v else str(v) for v in values], type=pa.string())  # noqa: PLR0124


def row_array(values: Any) -> pa.Array | pa.ChunkedArray:
    """An Arrow array of raw values of private rows: by their declared type or, without one, each by itself.

    Python sequences and columns of objects have no type. One of their values must not decide how the others are read,
    so they become texts. Only whole columns of numbers, or of truth values, stay what they are: they read the same.
    """
    import pyarrow as pa

    native = values.to_native() if hasattr(values, "to_native") else values
    if _typed(native):
        return arrow_array(values)
    native = native if hasattr(native, "dtype") else list(native)
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, UnicodeError):
        return pa.array(native, pa.string(), from_pandas=True)  # texts and nothing else: as below, but faster
    if set(map(type, native)) - {type(None)} in ({int}, {float}, {bool}):
        with suppress(OverflowError):
            return pa.array(native, from_pandas=True)  # as below, but faster
    items = list(map(_plain, native))
    kinds = set(map(type, items)) - {type(None)}
    with suppress(
        pa.ArrowInvalid, OverflowError
    ):  # whole numbers that no type holds exactly, alone or beside fractions
        if kinds == {bool} or kinds <= {int, float}:
            return pa.array(items, pa.bool_() if kinds == {bool} else None)
    return pa.array(list(map(text_of, items)), pa.string())


def _plain(item: Any) -> Any:
    """A value in the one type that stands for it: libraries read numbers of several widths together by the widest."""
    if _absent(item):
        return None
    if isinstance(item, np.timedelta64 | Decimal):  # a span of time counts as a whole number to numpy
        return item
    if isinstance(item, bool | np.bool_):
        return bool(item)
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, float | np.floating):
        return float(item)
    return bytes(item) if isinstance(item, bytearray | memoryview) else item


def _typed(native: Any) -> bool:
    """Whether a column declares the type of its values: Arrow, polars, numpy and pandas, but for objects."""
    dtype = getattr(getattr(getattr(native, "dtype", None), "categories", native), "dtype", None)
    return hasattr(native, "type") if dtype is None else getattr(dtype, "kind", "") != "O" or hasattr(dtype, "na_value")


def _absent(item: Any) -> bool:
    """Whether a value is one of those that data frames use for nothing."""
    if isinstance(item, Decimal):
        return item.is_nan()
    if isinstance(item, float | np.floating | np.datetime64):
        return bool(item != item)  # noqa: PLR0124
    return item is None or type(item).__name__ in ("NAType", "NaTType")


def text_of(item: Any) -> str | None:
    """The text of a value without a declared type, such as a cell of a spreadsheet; None if it is empty.

    >>> text_of(99.0), text_of(True), text_of(dt.datetime(2024, 3, 5))
    ('99', 'true', '2024-03-05')
    """
    if item is None or (isinstance(item, str) and not item):
        return None
    if isinstance(item, bool | np.bool_):
        return "true" if item else "false"
    if isinstance(item, float | np.floating | Decimal):
        whole = -_EXACT < item < _EXACT and item == int(item)
        text = str(int(item)) if whole else without_fraction(str(item))
        return text + "0" * bool(_AMBIGUOUS.fullmatch(text))  # 1.234 is not 1234, even where points group digits
    if isinstance(item, dt.datetime):
        day = item.astimezone(dt.UTC).replace(tzinfo=None) if item.tzinfo is not None else item
        return day.isoformat(sep=" ") if day.time() != dt.time() else day.date().isoformat()
    if isinstance(item, dt.date):
        return item.isoformat()
    text = item.decode(errors="replace") if isinstance(item, bytes) else str(item)
    return text.encode(errors="replace").decode()
